/* SPDX-License-Identifier: ISC */
/* Activities that write nothing: simple and extended queries, notices, errors, cancels. */
#include <stdio.h>

#include "activity.h"
#include "statement.h"

#define SLEEP_SECONDS "0.4"
#define CANCEL_MSEC_MAX 40

enum step_result read_simple(struct client *client, unsigned int step)
{
	if (step == 1)
		return STEP_DONE;
	statement_rows(client, load_random(client->load, 20), 10);
	return STEP_SENT;
}

enum step_result read_extended(struct client *client, unsigned int step)
{
	if (step == 1)
		return STEP_DONE;
	statement_rows_extended(client, load_random(client->load, 20), 10);
	return STEP_SENT;
}

/* Three statements and an empty one in one Query message, then an empty Query. */
enum step_result read_several(struct client *client, unsigned int step)
{
	char text[3][256];

	if (step == 2)
		return STEP_DONE;
	if (step == 1) {
		statement_send(client, " ");
		answers_expect(&client->answers, DUE_EMPTY);
		answers_expect(&client->answers, DUE_END);
		return STEP_SENT;
	}
	for (unsigned int i = 0; i < 3; i++)
		statement_rows_text(statement_expect_rows(client, i + 1, i), text[i],
		                    sizeof(text[i]));
	answers_expect(&client->answers, DUE_END);
	statement_send(client, "%s; %s; ; %s", text[0], text[1], text[2]);
	return STEP_SENT;
}

/* About a megabyte. */
enum step_result read_large(struct client *client, unsigned int step)
{
	if (step == 1)
		return STEP_DONE;
	if (load_random(client->load, 2))
		statement_rows(client, 2000, 500);
	else
		statement_rows_extended(client, 20, 50000);
	return STEP_SENT;
}

enum step_result read_row_by_row(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		statement_rows_extended(client, 200, 100);
		PQsetSingleRowMode(client->conn);
		return STEP_SENT;
	case 1:
		/* libpq 15 stays in that mode if a pipeline follows, so run something else.
		 */
		statement_rows(client, 1, 1);
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}

/* A parameter of the startup packet belongs to the client, on any server. */
enum step_result read_own_name(struct client *client, unsigned int step)
{
	char name[WORDS_SIZE];

	if (step == 1)
		return STEP_DONE;
	snprintf(name, sizeof(name), "load-%u", client->id);
	statement_value(client, name, "SELECT current_setting('application_name')");
	return STEP_SENT;
}

enum step_result be_noticed(struct client *client, unsigned int step)
{
	if (step == 1)
		return STEP_DONE;
	client_tag(client, client->answers.notice);
	statement_command(client, "DO", "DO $$ BEGIN RAISE NOTICE '%s'; END $$",
	                  client->answers.notice);
	return STEP_SENT;
}

enum step_result fail_and_go_on(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		statement_error(client);
		return STEP_SENT;
	case 1:
		statement_rows_extended(client, 1, 1);
		return STEP_SENT;
	case 2:
		statement_error_extended(client);
		return STEP_SENT;
	case 3:
		statement_rows(client, 1, 1);
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}

static void sleep_and_cancel(struct client *client)
{
	struct due *due = answers_expect(&client->answers, DUE_VALUE);

	due->may_be_cancelled = true;
	answers_expect(&client->answers, DUE_END);
	statement_send(client, "SELECT pg_sleep(" SLEEP_SECONDS ")");
	client_cancel_after(client, load_random(client->load, CANCEL_MSEC_MAX));
}

/*
 * The cancel request may arrive while the statement waits, runs, or is over. Once it has been
 * delivered, it must not affect later statements.
 */
enum step_result cancel_alone(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		sleep_and_cancel(client);
		return STEP_SENT;
	case 1:
		statement_rows(client, 5, 5);
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}

enum step_result cancel_in_transaction(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		statement_command(client, "BEGIN", "BEGIN");
		return STEP_SENT;
	case 1:
		client->answers.was_cancelled = false;
		sleep_and_cancel(client);
		return STEP_SENT;
	case 2:
		if (client->answers.was_cancelled)
			statement_command(client, "ROLLBACK", "COMMIT");
		else
			statement_command(client, "COMMIT", "COMMIT");
		return STEP_SENT;
	case 3:
		statement_rows_extended(client, 5, 5);
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}
