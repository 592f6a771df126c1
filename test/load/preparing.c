/* SPDX-License-Identifier: ISC */
/*
 * Activities with named statements: each client has NAMES of them, with the same TEXTS as all
 * others, and a server holds fewer. The rows identify their text, so the execution of another
 * statement with the same name is detected, even if it is the client's own.
 *
 * Hard here: libpq 15 cannot send a Close, so we write it to the socket ourselves after libpq has
 * flushed its output; libpq ignores the CloseComplete as long as another result is due after it. A
 * Parse with the same name and another text always follows.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "activity.h"
#include "statement.h"

#define TEXTS 20
#define PARAMETERS 4
#define MANY 8          /* messages of a pipeline */
#define FREE_NAME NAMES /* a name that no statement has */
#define NOT_A_NUMBER "22P02"

static unsigned int pick_name(struct client *client) { return load_random(client->load, NAMES); }

static const char *name_of(unsigned int number, char name[TAG_SIZE])
{
	snprintf(name, TAG_SIZE, "p%u", number);
	return name;
}

static void expect(struct client *client, enum due_kind kind, const char *words)
{
	answers_expect_words(&client->answers, kind, words);
	answers_expect(&client->answers, DUE_END);
}

static void send_parse(struct client *client, unsigned int number, const char *text)
{
	char name[TAG_SIZE];

	tally_add(&client->load->tally, TALLY_PREPARED, 1);
	PQsendPrepare(client->conn, name_of(number, name), text, 0, NULL);
}

/* One of the texts under this name, which must be free. */
static void prepare(struct client *client, unsigned int number)
{
	unsigned int text = 1 + load_random(client->load, TEXTS);
	char words[256];

	snprintf(words, sizeof(words),
	         "SELECT $1 || '.t%u', g, ($2::int + g) %% 1000003 AS t%u,"
	         " repeat(chr(97 + g %% 26), $3) FROM generate_series(1, $4::int) g",
	         text, text);
	send_parse(client, number, words);
	expect(client, DUE_COMMAND, "");
	client->prepared[number] = text;
}

static void send_use(struct client *client, unsigned int number, const struct due *due,
                     const char *tag)
{
	char name[TAG_SIZE], numbers[3][16];
	const char *values[PARAMETERS] = { tag, numbers[0], numbers[1], numbers[2] };

	snprintf(numbers[0], sizeof(numbers[0]), "%u", due->seed);
	snprintf(numbers[1], sizeof(numbers[1]), "%u", due->width);
	snprintf(numbers[2], sizeof(numbers[2]), "%u", due->rows);
	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendQueryPrepared(client->conn, name_of(number, name), PARAMETERS, values, NULL, NULL, 0);
}

/* Executes the statement with this name. */
static void use(struct client *client, unsigned int number)
{
	struct due *due = statement_expect_rows(client, load_random(client->load, 10), 10);
	char tag[TAG_SIZE];

	snprintf(tag, sizeof(tag), "%.20s", due->tag);
	snprintf(due->tag, sizeof(due->tag), "%s.t%u", tag, client->prepared[number]);
	send_use(client, number, due, tag);
	answers_expect(&client->answers, DUE_END);
}

/* The same, and it fails: with another error if there is no such name. */
static void use_badly(struct client *client, unsigned int number, const char *sqlstate)
{
	const char *const values[PARAMETERS] = { "", "0", "0", "none" };
	char name[TAG_SIZE];

	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendQueryPrepared(client->conn, name_of(number, name), PARAMETERS, values, NULL, NULL, 0);
	expect(client, DUE_ERROR, sqlstate);
}

static void describe(struct client *client, unsigned int number)
{
	char name[TAG_SIZE], column[TAG_SIZE];

	snprintf(column, sizeof(column), "t%u", client->prepared[number]);
	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendDescribePrepared(client->conn, name_of(number, name));
	expect(client, DUE_DESCRIPTION, column);
}

static void prepare_if_absent(struct client *client, unsigned int number)
{
	if (!client->prepared[number])
		prepare(client, number);
}

/* Close and Parse in one write. Skipped if libpq still has output, because the order matters. */
static void replace(struct client *client, unsigned int number)
{
	char message[6 + TAG_SIZE] = "C\0\0\0\0S";
	size_t length;

	if (PQflush(client->conn) != 0)
		return;
	length = 6 + strlen(name_of(number, message + 6)) + 1;
	message[4] = (char)(length - 1);
	if (send(PQsocket(client->conn), message, length, MSG_NOSIGNAL) != (ssize_t)length)
		return;
	prepare(client, number);
}

/* ---- steps of an activity ---- */

typedef void step_run(struct client *client);

/* Runs the step with this number; ends after the last one. */
static enum step_result take_step(struct client *client, unsigned int step, step_run *const *steps,
                                  size_t count)
{
	if (step >= count)
		return STEP_DONE;
	steps[step](client);
	return STEP_SENT;
}

#define TAKE_STEP(client, step, ...)                                \
	take_step(client, step, (step_run *const[]){ __VA_ARGS__ }, \
	          sizeof((step_run *const[]){ __VA_ARGS__ }) / sizeof(step_run *))

/* Both choose the name that the steps below are about. */
static void choose_and_replace(struct client *client)
{
	client->name = pick_name(client);
	replace(client, client->name);
}

static void choose_prepared(struct client *client)
{
	client->name = pick_name(client);
	prepare_if_absent(client, client->name);
}

static void prepare_chosen(struct client *client) { prepare(client, client->name); }

static void prepare_absent(struct client *client) { prepare_if_absent(client, client->name); }

static void use_chosen(struct client *client) { use(client, client->name); }

static void describe_chosen(struct client *client) { describe(client, client->name); }

static void replace_chosen(struct client *client) { replace(client, client->name); }

static void prepare_again(struct client *client)
{
	send_parse(client, client->name, "SELECT 'nobody''s'");
	expect(client, DUE_ERROR, "42P05");
}

static void use_with_no_number(struct client *client)
{
	use_badly(client, client->name, NOT_A_NUMBER);
}

static void use_forgotten(struct client *client) { use_badly(client, client->name, "26000"); }

static void prepare_wrong(struct client *client)
{
	send_parse(client, FREE_NAME, "SELECT 1 FROM nowhere WHERE id = $1");
	expect(client, DUE_ERROR, "42P01");
}

static void use_wrong(struct client *client) { use_badly(client, FREE_NAME, "26000"); }

static void begin(struct client *client) { statement_command(client, "BEGIN", "BEGIN"); }

static void commit(struct client *client) { statement_command(client, "COMMIT", "COMMIT"); }

static void deallocate(struct client *client)
{
	statement_command(client, "DEALLOCATE ALL", "DEALLOCATE ALL");
	memset(client->prepared, 0, sizeof(client->prepared));
}

/* ---- the activities ---- */

enum step_result use_prepared(struct client *client, unsigned int step)
{
	return TAKE_STEP(client, step, choose_prepared, use_chosen, use_chosen, use_chosen);
}

enum step_result describe_prepared(struct client *client, unsigned int step)
{
	return TAKE_STEP(client, step, choose_prepared, describe_chosen);
}

enum step_result replace_prepared(struct client *client, unsigned int step)
{
	return TAKE_STEP(client, step, choose_and_replace, prepare_absent, use_chosen);
}

/* None of these errors may change the meaning of a name. */
enum step_result prepare_and_fail(struct client *client, unsigned int step)
{
	return TAKE_STEP(client, step, choose_prepared, prepare_again, use_with_no_number,
	                 prepare_wrong, prepare_wrong, use_wrong, use_chosen);
}

enum step_result use_prepared_in_transaction(struct client *client, unsigned int step)
{
	return TAKE_STEP(client, step, choose_prepared, begin, use_chosen, replace_chosen,
	                 use_chosen, use_chosen, commit);
}

/* Afterwards no name exists. */
enum step_result deallocate_all(struct client *client, unsigned int step)
{
	return TAKE_STEP(client, step, choose_prepared, deallocate, use_forgotten, prepare_chosen,
	                 use_chosen);
}

static void skipped(struct client *client, unsigned int number)
{
	char name[TAG_SIZE];

	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendDescribePrepared(client->conn, name_of(number, name));
	expect(client, DUE_ABORTED, "");
}

/* One message of a pipeline; true if it fails and skips the messages up to the next Sync. */
static bool pipeline_one(struct client *client)
{
	unsigned int number = pick_name(client);

	prepare_if_absent(client, number);
	switch (load_random(client->load, 6)) {
	case 0:
		describe(client, number);
		return false;
	case 1:
		replace(client, number);
		return false;
	case 2:
		use_badly(client, number, NOT_A_NUMBER);
		return true;
	default:
		use(client, number);
		return false;
	}
}

enum step_result pipeline_prepared(struct client *client, unsigned int step)
{
	bool has_failed = false;

	if (step == 1) {
		if (!PQexitPipelineMode(client->conn))
			tally_wrong(&client->load->tally, "client %u: %s", client->id,
			            PQerrorMessage(client->conn));
		return STEP_DONE;
	}
	PQenterPipelineMode(client->conn);
	for (unsigned int i = 0; i < MANY; i++) {
		if (has_failed)
			skipped(client, pick_name(client));
		else
			has_failed = pipeline_one(client);
		if (i + 1 < MANY && load_random(client->load, 2))
			continue;
		PQpipelineSync(client->conn);
		answers_expect(&client->answers, DUE_SYNC);
		has_failed = false;
	}
	return STEP_SENT;
}

/* A Parse, its use and no Sync, without waiting for the results. */
enum step_result leave_preparing(struct client *client, unsigned int step)
{
	(void)step;
	PQenterPipelineMode(client->conn);
	for (unsigned int i = 0; i < MANY; i++)
		pipeline_one(client);
	if (load_random(client->load, 2))
		PQpipelineSync(client->conn);
	PQflush(client->conn);
	client_vanish(client, load_random(client->load, 2) ? VANISH_FIN : VANISH_RESET);
	return STEP_GONE;
}
