/* SPDX-License-Identifier: ISC */
/* Activities with COPY: each line out is checked; the server counts the lines in. */
#include <stdio.h>
#include <string.h>

#include "activity.h"
#include "statement.h"

#define LINES_A_STEP 50
#define FILLER 150

static const char copy_in_text[] = "COPY load_write FROM STDIN";

enum step_result copy_out(struct client *client, unsigned int step)
{
	char text[512];
	struct due *due;

	if (step == 1)
		return STEP_DONE;
	due = statement_expect_rows(client, load_random(client->load, 2000), 100);
	due->kind = DUE_COPY_OUT;
	answers_expect(&client->answers, DUE_END);
	statement_rows_text(due, text, sizeof(text));
	statement_send(client, "COPY (%s) TO STDOUT", text);
	return STEP_SENT;
}

static void begin_copy_in(struct client *client, enum write_state state)
{
	client_take_writes(client, load_random(client->load, 500), state);
	client->copied = 0;
	answers_expect(&client->answers, DUE_COPY_IN_BEGUN);
	statement_send(client, "%s", copy_in_text);
}

static void put_line(struct client *client)
{
	size_t number = client->write_first + client->copied++;
	char line[FILLER + 128];
	int length;

	length = snprintf(line, sizeof(line), "%u\t%zu\tc%u.w%zu\t%0*zu\n", client->id, number,
	                  client->id, number, FILLER, number);
	PQputCopyData(client->conn, line, length);
}

/* True when the last line has been sent. */
static bool put_lines(struct client *client)
{
	for (unsigned int i = 0; i < LINES_A_STEP; i++) {
		if (client->copied == client->write_count)
			return true;
		put_line(client);
	}
	return false;
}

enum step_result copy_in(struct client *client, unsigned int step)
{
	char words[WORDS_SIZE];

	switch (step) {
	case 0:
		begin_copy_in(client, WRITE_IN_DOUBT);
		return STEP_SENT;
	case 1:
		if (!put_lines(client))
			return STEP_AGAIN;
		PQputCopyEnd(client->conn, NULL);
		snprintf(words, sizeof(words), "COPY %zu", client->write_count);
		answers_expect_words(&client->answers, DUE_COMMAND, words);
		answers_expect(&client->answers, DUE_END);
		return STEP_SENT;
	case 2:
		client_commit_writes(client);
		snprintf(words, sizeof(words), "%zu", client->write_count);
		statement_value(client, words,
		                "SELECT count(*) FROM load_write WHERE client = %u"
		                " AND number >= %zu AND number < %zu AND length(filler) = %d",
		                client->id, client->write_first,
		                client->write_first + client->write_count, FILLER);
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}

/* Fails by CopyFail, or by an invalid line that the server refuses. */
enum step_result copy_in_and_fail(struct client *client, unsigned int step)
{
	static const char nonsense[] = "this is no number\tat all\n";

	switch (step) {
	case 0:
		begin_copy_in(client, WRITE_ABSENT);
		return STEP_SENT;
	case 1:
		if (!put_lines(client))
			return STEP_AGAIN;
		if (load_random(client->load, 2)) {
			PQputCopyEnd(client->conn, "given up");
			answers_expect_words(&client->answers, DUE_ERROR, "57014");
		} else {
			PQputCopyData(client->conn, nonsense, (int)strlen(nonsense));
			PQputCopyEnd(client->conn, NULL);
			answers_expect_words(&client->answers, DUE_ERROR, "22P02");
		}
		answers_expect(&client->answers, DUE_END);
		return STEP_SENT;
	case 2:
		statement_rows(client, 3, 3);
		return STEP_SENT;
	default:
		return STEP_DONE;
	}
}
