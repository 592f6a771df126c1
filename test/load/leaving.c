/* SPDX-License-Identifier: ISC */
/*
 * Activities that end the connection, at the worst moments. A running statement is in doubt, or
 * must not be found if its COMMIT was never sent; and no other client may notice anything.
 */
#include <sys/socket.h>

#include "activity.h"
#include "statement.h"

static enum step_result vanish(struct client *client)
{
	PQflush(client->conn);
	client_vanish(client, load_random(client->load, 2) ? VANISH_FIN : VANISH_RESET);
	return STEP_GONE;
}

enum step_result reconnect_politely(struct client *client, unsigned int step)
{
	(void)step;
	client_vanish(client, VANISH_POLITELY);
	return STEP_GONE;
}

enum step_result leave_idle(struct client *client, unsigned int step)
{
	(void)step;
	return vanish(client);
}

/* With many clients on few servers, the statement usually waits in the pooler. */
enum step_result leave_waiting(struct client *client, unsigned int step)
{
	(void)step;
	client_take_writes(client, 1, WRITE_IN_DOUBT);
	handover_write_statement(client, client->write_first);
	return vanish(client);
}

enum step_result leave_transaction(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		client_take_writes(client, 1, WRITE_ABSENT);
		statement_command(client, "BEGIN", "BEGIN");
		return STEP_SENT;
	case 1:
		handover_write_statement(client, client->write_first);
		return STEP_SENT;
	default:
		if (load_random(client->load, 2))
			statement_rows(client, 2000, 500);
		return vanish(client);
	}
}

enum step_result leave_copy_out(struct client *client, unsigned int step)
{
	if (step == 1)
		return vanish(client);
	statement_send(client, "COPY (SELECT repeat('x', 500) FROM generate_series(1, 5000))"
	                       " TO STDOUT");
	answers_expect(&client->answers, DUE_COPY_OUT_BEGUN);
	return STEP_SENT;
}

enum step_result leave_copy_in(struct client *client, unsigned int step)
{
	static const char line[] = "0\t0\tnobody's\t\n";

	if (step == 0) {
		statement_send(client, "COPY load_write FROM STDIN");
		answers_expect(&client->answers, DUE_COPY_IN_BEGUN);
		return STEP_SENT;
	}
	for (unsigned int i = 0; i < 100; i++)
		PQputCopyData(client->conn, line, (int)sizeof(line) - 1);
	return vanish(client);
}

enum step_result leave_pipeline(struct client *client, unsigned int step)
{
	(void)step;
	PQenterPipelineMode(client->conn);
	client_take_writes(client, 4, WRITE_IN_DOUBT);
	for (unsigned int i = 0; i < 4; i++) {
		statement_write_extended(client, client->write_first + i);
		if (load_random(client->load, 2))
			PQpipelineSync(client->conn);
		statement_rows_extended(client, 20, 200);
	}
	return vanish(client);
}

/*
 * Reads the result up to the first of three Syncs, and disconnects: the server has sent one
 * ReadyForQuery, and still owes two results, which no other client may get.
 */
enum step_result leave_between_syncs(struct client *client, unsigned int step)
{
	if (step == 1)
		return vanish(client);
	PQenterPipelineMode(client->conn);
	statement_rows_extended(client, 1, 1);
	PQpipelineSync(client->conn);
	answers_expect(&client->answers, DUE_SYNC);
	PQsendQueryParams(client->conn, "SELECT 'a dead client''s', pg_sleep(0.02)", 0, NULL, NULL,
	                  NULL, NULL, 0);
	PQpipelineSync(client->conn);
	PQsendQueryParams(client->conn, "SELECT 'a dead client''s'::int", 0, NULL, NULL, NULL, NULL,
	                  0);
	PQpipelineSync(client->conn);
	return STEP_SENT;
}

/* A Query message that is never completed. */
enum step_result leave_half_message(struct client *client, unsigned int step)
{
	static const char half[] =
	    "Q\0\0\1\0INSERT INTO load_write VALUES (0, 0, 'nobody''s', '');";

	if (step == 0 && load_random(client->load, 2)) {
		statement_command(client, "BEGIN", "BEGIN");
		return STEP_SENT;
	}
	send(PQsocket(client->conn), half,
	     1 + load_random(client->load, (unsigned int)sizeof(half) - 1), MSG_NOSIGNAL);
	return vanish(client);
}
