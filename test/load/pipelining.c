/* SPDX-License-Identifier: ISC */
/*
 * Activities in libpq's pipeline mode: several Syncs in flight, errors inside, implicit and
 * explicit transactions. Step 0 sends everything; step 1 leaves the mode.
 */
#include "activity.h"
#include "statement.h"

static void sync_here(struct client *client)
{
	PQpipelineSync(client->conn);
	answers_expect(&client->answers, DUE_SYNC);
}

/* libpq refuses to leave the mode if it expects further results. */
static enum step_result leave_pipeline_mode(struct client *client)
{
	if (!PQexitPipelineMode(client->conn))
		tally_wrong(&client->load->tally, "client %u: %s", client->id,
		            PQerrorMessage(client->conn));
	return STEP_DONE;
}

static void expect_aborted(struct client *client)
{
	answers_expect(&client->answers, DUE_ABORTED);
	answers_expect(&client->answers, DUE_END);
}

/* Sends a query which must be skipped since an error came before it. */
static void send_skipped(struct client *client)
{
	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendQueryParams(client->conn, "SELECT 'never'", 0, NULL, NULL, NULL, NULL, 0);
	expect_aborted(client);
}

/* A command without rows, in the extended protocol. */
static void send_command(struct client *client, const char *text, const char *words)
{
	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendQueryParams(client->conn, text, 0, NULL, NULL, NULL, NULL, 0);
	answers_expect_words(&client->answers, DUE_COMMAND, words);
	answers_expect(&client->answers, DUE_END);
}

enum step_result pipeline_reads(struct client *client, unsigned int step)
{
	unsigned int count = 1 + load_random(client->load, 8);

	if (step == 1)
		return leave_pipeline_mode(client);
	PQenterPipelineMode(client->conn);
	for (unsigned int i = 0; i < count; i++) {
		statement_rows_extended(client, i, 20);
		if (load_random(client->load, 3) == 0)
			sync_here(client);
	}
	sync_here(client);
	return STEP_SENT;
}

/* Statements between two Syncs are a transaction; all of them commit. */
enum step_result pipeline_writes(struct client *client, unsigned int step)
{
	unsigned int count = 1 + load_random(client->load, 6);

	if (step == 1) {
		client_commit_writes(client);
		return leave_pipeline_mode(client);
	}
	PQenterPipelineMode(client->conn);
	client_take_writes(client, count, WRITE_IN_DOUBT);
	for (unsigned int i = 0; i < count; i++) {
		statement_write_extended(client, client->write_first + i);
		if (load_random(client->load, 2))
			sync_here(client);
		statement_rows_extended(client, 1, 1);
	}
	sync_here(client);
	return STEP_SENT;
}

/* An error rolls back the statements since the last Sync and skips those up to the next one. */
enum step_result pipeline_with_errors(struct client *client, unsigned int step)
{
	size_t lost;

	if (step == 1) {
		client_commit_writes(client);
		return leave_pipeline_mode(client);
	}
	PQenterPipelineMode(client->conn);
	lost = ledger_take(&client->writes, 1, WRITE_ABSENT);
	client_take_writes(client, 2, WRITE_IN_DOUBT);

	statement_write_extended(client, client->write_first);
	sync_here(client);

	statement_write_extended(client, lost);
	statement_error_extended(client);
	send_skipped(client);
	send_skipped(client);
	sync_here(client);

	statement_rows_extended(client, 2, 2);
	statement_write_extended(client, client->write_first + 1);
	sync_here(client);
	return STEP_SENT;
}

/* An explicit transaction over two Syncs, then something outside of it. */
enum step_result pipeline_transaction(struct client *client, unsigned int step)
{
	if (step == 1) {
		client_commit_writes(client);
		return leave_pipeline_mode(client);
	}
	PQenterPipelineMode(client->conn);
	client_take_writes(client, 2, WRITE_IN_DOUBT);
	send_command(client, "BEGIN", "BEGIN");
	statement_write_extended(client, client->write_first);
	sync_here(client);
	statement_rows_extended(client, 2, 2);
	statement_write_extended(client, client->write_first + 1);
	send_command(client, "COMMIT", "COMMIT");
	sync_here(client);
	statement_rows_extended(client, 3, 3);
	sync_here(client);
	return STEP_SENT;
}

/* Flush returns the results without a Sync; the client keeps its server. */
enum step_result pipeline_with_flush(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		PQenterPipelineMode(client->conn);
		client_take_writes(client, 1, WRITE_IN_DOUBT);
		statement_rows_extended(client, 4, 4);
		statement_write_extended(client, client->write_first);
		PQsendFlushRequest(client->conn);
		return STEP_SENT;
	case 1:
		statement_rows_extended(client, 5, 5);
		PQsendFlushRequest(client->conn);
		return STEP_SENT;
	case 2:
		statement_rows_extended(client, 6, 6);
		sync_here(client);
		return STEP_SENT;
	default:
		client_commit_writes(client);
		return leave_pipeline_mode(client);
	}
}
