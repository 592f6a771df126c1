/* SPDX-License-Identifier: ISC */
/* Activities that write: alone, in transactions, in one message; committed and rolled back. */
#include "activity.h"
#include "statement.h"

/* A single statement, simple or extended. */
enum step_result write_one(struct client *client, unsigned int step)
{
	if (step == 1) {
		client_commit_writes(client);
		return STEP_DONE;
	}
	client_take_writes(client, 1, WRITE_IN_DOUBT);
	if (load_random(client->load, 2))
		handover_write_statement(client, client->write_first);
	else
		statement_write_extended(client, client->write_first);
	return STEP_SENT;
}

/* The whole transaction runs on one server, and SET LOCAL stays within it. */
enum step_result write_transaction(struct client *client, unsigned int step)
{
	char own[TAG_SIZE];

	switch (step) {
	case 0:
		client_take_writes(client, 2, WRITE_IN_DOUBT);
		statement_command(client, "BEGIN", "BEGIN");
		return STEP_SENT;
	case 1:
		statement_send(client, "SELECT pg_backend_pid()");
		answers_expect(&client->answers, DUE_KEEP);
		answers_expect(&client->answers, DUE_END);
		return STEP_SENT;
	case 2:
		handover_write_statement(client, client->write_first);
		return STEP_SENT;
	case 3:
		client_tag(client, own);
		statement_command(client, "SET", "SET LOCAL load.own = '%s.%s'", own,
		                  client->answers.kept);
		return STEP_SENT;
	case 4:
		statement_write_extended(client, client->write_first + 1);
		return STEP_SENT;
	case 5:
		statement_value(client, "2",
		                "SELECT count(*) FROM load_write"
		                " WHERE client = %u AND number BETWEEN %zu AND %zu",
		                client->id, client->write_first, client->write_first + 1);
		return STEP_SENT;
	case 6:
		statement_value(
		    client, client->answers.kept,
		    "SELECT split_part(current_setting('load.own'), '.', 3)"
		    " WHERE current_setting('load.own') LIKE 'c%u.%%.' || pg_backend_pid()",
		    client->id);
		return STEP_SENT;
	case 7:
		statement_command(client, "COMMIT", "COMMIT");
		return STEP_SENT;
	default:
		client_commit_writes(client);
		return STEP_DONE;
	}
}

enum step_result write_and_roll_back(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		client_take_writes(client, 1, WRITE_ABSENT);
		statement_command(client, "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ");
		return STEP_SENT;
	case 1:
		handover_write_statement(client, client->write_first);
		return STEP_SENT;
	case 2:
		statement_rows(client, 3, 3);
		return STEP_SENT;
	case 3:
		statement_command(client, "ROLLBACK", "ROLLBACK");
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}

/* An error, one more statement that is refused, and COMMIT that rolls back. */
enum step_result write_and_fail(struct client *client, unsigned int step)
{
	switch (step) {
	case 0:
		client_take_writes(client, 1, WRITE_ABSENT);
		statement_command(client, "BEGIN", "BEGIN");
		return STEP_SENT;
	case 1:
		handover_write_statement(client, client->write_first);
		return STEP_SENT;
	case 2:
		statement_error(client);
		return STEP_SENT;
	case 3:
		answers_expect_words(&client->answers, DUE_ERROR, "25P02");
		answers_expect(&client->answers, DUE_END);
		statement_send(client, "SELECT 1");
		return STEP_SENT;
	case 4:
		statement_command(client, "ROLLBACK", "COMMIT");
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}

enum step_result write_in_one_message(struct client *client, unsigned int step)
{
	static const char *const tags[] = { "BEGIN", "INSERT 0 1", "INSERT 0 1", "COMMIT" };
	unsigned int id = client->id;
	size_t number;

	if (step == 1) {
		client_commit_writes(client);
		return STEP_DONE;
	}
	client_take_writes(client, 2, WRITE_IN_DOUBT);
	number = client->write_first;
	for (unsigned int i = 0; i < 4; i++)
		answers_expect_words(&client->answers, DUE_COMMAND, tags[i]);
	answers_expect(&client->answers, DUE_END);
	statement_send(client,
	               "BEGIN; INSERT INTO load_write VALUES (%u, %zu, 'c%u.w%zu', '');"
	               " INSERT INTO load_write VALUES (%u, %zu, 'c%u.w%zu', ''); COMMIT",
	               id, number, id, number, id, number + 1, id, number + 1);
	return STEP_SENT;
}

/* One Query message is one transaction: the error rolls back the row before it. */
enum step_result fail_in_one_message(struct client *client, unsigned int step)
{
	unsigned int id = client->id;

	if (step == 1)
		return STEP_DONE;
	client_take_writes(client, 1, WRITE_ABSENT);
	answers_expect_words(&client->answers, DUE_COMMAND, "INSERT 0 1");
	answers_expect_words(&client->answers, DUE_ERROR, "22012");
	answers_expect(&client->answers, DUE_END);
	statement_send(client,
	               "INSERT INTO load_write VALUES (%u, %zu, 'c%u.w%zu', ''); SELECT 1/%u;"
	               " SELECT 'never'",
	               id, client->write_first, id, client->write_first, 0u);
	return STEP_SENT;
}
