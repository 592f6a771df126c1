/* SPDX-License-Identifier: ISC */
/*
 * client/relay/causal.c: what may be read on a standby. Each case says what the client sends first,
 * its parameters, and the setting; and it is decided at every cut.
 */
#include <string.h>

#include "pgweir/pgwire/message.h"

#include "../../../../src/client/client_priv.h"
#include "../../../../src/client/relay/relay_priv.h"
#include "../../../../src/pool/pool_priv.h"

#include "../../unit.h"

#define READ_ONLY "default_transaction_read_only"
#define ISOLATION "default_transaction_isolation"
#define EXECUTED "B()", "E", "S"

#define TRANSACTIONS ROUTE_READS_TRANSACTIONS
#define SESSIONS ROUTE_READS_SESSIONS
#define STATEMENTS ROUTE_READS_STATEMENTS

static const struct {
	const char *says;
	enum route_reads setting;
	const char *name, *value; /* a parameter; or NULL */
	const char *late;         /* a BEGIN that was answered; or NULL */
	/* Q(text), P(text) of the unnamed statement, N(text) of a named one, B() of the unnamed
	 * statement, and types alone */
	const char *messages[8];
	bool is_read;
} cases[] = {
	{ "BEGIN READ ONLY", TRANSACTIONS, NULL, NULL, NULL, { "Q(begin read only)" }, true },
	{ "START", TRANSACTIONS, NULL, NULL, NULL, { "Q(start transaction read only)" }, true },
	{ "extended", TRANSACTIONS, NULL, NULL, NULL, { "P(begin read only)", EXECUTED }, true },
	{ "prepared", TRANSACTIONS, NULL, NULL, NULL, { "N(begin read only)", "S" }, true },
	{ "BEGIN", TRANSACTIONS, NULL, NULL, NULL, { "Q(begin)" }, false },
	{ "BEGIN READ WRITE", TRANSACTIONS, NULL, NULL, NULL, { "Q(begin read write)" }, false },
	{ "serializable",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "Q(begin isolation level serializable read only)" },
	  false },
	{ "more in the text",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "Q(begin read only; select 1)" },
	  false },
	{ "a SELECT", TRANSACTIONS, NULL, NULL, NULL, { "Q(select 1)" }, false },
	{ "COMMIT", TRANSACTIONS, READ_ONLY, "on", NULL, { "Q(commit)" }, false },

	{ "by default", TRANSACTIONS, READ_ONLY, "on", NULL, { "Q(begin)" }, true },
	{ "alone by default", TRANSACTIONS, READ_ONLY, "on", NULL, { "Q(select 1)" }, true },
	{ "t", TRANSACTIONS, READ_ONLY, "t", NULL, { "Q(begin)" }, true },
	{ "YE", TRANSACTIONS, READ_ONLY, "YE", NULL, { "Q(begin)" }, true },
	{ "1", TRANSACTIONS, READ_ONLY, "1", NULL, { "Q(begin)" }, true },
	{ "off", TRANSACTIONS, READ_ONLY, "off", NULL, { "Q(begin)" }, false },
	{ "o is both", TRANSACTIONS, READ_ONLY, "o", NULL, { "Q(begin)" }, false },
	{ "no value", TRANSACTIONS, READ_ONLY, "", NULL, { "Q(begin)" }, false },
	{ "not by default", TRANSACTIONS, READ_ONLY, "on", NULL, { "Q(begin read write)" }, false },
	{ "several by default",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "Q(select 1; select 2)" },
	  true },
	{ "not by default, with more in the text",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "Q(begin read write; select 1)" },
	  false },
	{ "COMMIT PREPARED",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "Q(commit prepared 'x')" },
	  false },
	{ "what stays in the session",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "Q(listen a)" },
	  false },
	{ "a lock",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "Q(select pg_advisory_lock(1))" },
	  false },

	{ "SET behind BEGIN",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin",
	  { "Q(set transaction read only)" },
	  true },
	{ "READ WRITE behind it",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(set transaction read write)" },
	  false },
	{ "a level behind READ ONLY",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(set transaction isolation level repeatable read)" },
	  true },
	{ "the first statement",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(select 1)" },
	  true },
	{ "of a BEGIN that says nothing",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin",
	  { "Q(select 1)" },
	  false },
	{ "SET of a serializable one",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin isolation level serializable",
	  { "Q(set transaction read only)" },
	  false },
	{ "a lock first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(select pg_advisory_lock(1))" },
	  false },
	{ "a lock of the transaction first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(select pg_try_advisory_xact_lock(1))" },
	  false },
	{ "a transaction id first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(select txid_current())" },
	  false },
	{ "LOCK first", TRANSACTIONS, NULL, NULL, "begin read only", { "Q(lock t)" }, false },
	{ "WITH first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(with a as (select 1) select * from a)" },
	  true },
	{ "WITH and a lock first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(with a as (select pg_advisory_lock(1)) select * from a)" },
	  false },
	{ "WITH alone by default",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "Q(with a as (select 1) select * from a)" },
	  true },
	{ "SET LOCAL first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(set local a.b=1)" },
	  true },

	{ "READ WRITE first, with more in the text",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  "begin",
	  { "Q(set transaction read write; select 1)" },
	  false },
	{ "another transaction behind the first",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  "begin read only",
	  { "Q(select 1; commit; begin)" },
	  false },

	{ "a read in the batch of BEGIN",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(begin read only)", "B()", "E", "P(select 1)", EXECUTED },
	  true },
	{ "a whole transaction in a batch",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(begin read only)", "B()", "P(select 1)", "B()", "P(commit)", EXECUTED },
	  true },
	{ "a lock in the batch of BEGIN",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(begin read only)", "B()", "E", "P(select pg_advisory_lock(1))", EXECUTED },
	  false },
	{ "a held cursor in it",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(begin read only)", "B()", "P(declare c cursor with hold for select 1)", EXECUTED },
	  false },
	{ "a lock behind a Close and BEGIN",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "C", "P(begin read only)", "B()", "P(select pg_advisory_xact_lock(1))", EXECUTED },
	  false },
	{ "a lock behind a Flush",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(begin read only)", "B()", "E", "H", "P(select pg_advisory_lock(1))", EXECUTED },
	  true },
	{ "READ WRITE in the batch of BEGIN",
	  TRANSACTIONS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(begin read only)", "B()", "P(set transaction read write)", EXECUTED },
	  false },
	{ "another transaction in the batch",
	  TRANSACTIONS,
	  READ_ONLY,
	  "on",
	  NULL,
	  { "P(select 1)", "B()", "P(begin read write)", EXECUTED },
	  false },

	{ "a session", SESSIONS, READ_ONLY, "on", NULL, { "Q(begin)" }, true },
	{ "another session", SESSIONS, NULL, NULL, NULL, { "Q(begin read only)" }, false },

	{ "a single SELECT", STATEMENTS, NULL, NULL, NULL, { "Q(select 1)" }, true },
	{ "an INSERT", STATEMENTS, NULL, NULL, NULL, { "Q(insert into t values (1))" }, false },
	{ "an unknown function", STATEMENTS, NULL, NULL, NULL, { "Q(select f())" }, false },
	{ "serializable by default",
	  STATEMENTS,
	  ISOLATION,
	  "serializable",
	  NULL,
	  { "Q(select 1)" },
	  false },
	{ "an extended one", STATEMENTS, NULL, NULL, NULL, { "P(select 1)", EXECUTED }, true },
	{ "behind a Close", STATEMENTS, NULL, NULL, NULL, { "C", "P(select 1)", EXECUTED }, true },
	{ "two of them",
	  STATEMENTS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(select 1)", "B()", "E", "P(select 2)", EXECUTED },
	  true },
	{ "a write behind it",
	  STATEMENTS,
	  NULL,
	  NULL,
	  NULL,
	  { "P(select 1)", "B()", "E", "P(delete from t)", EXECUTED },
	  false },
	{ "a statement of before", STATEMENTS, NULL, NULL, NULL, { EXECUTED }, false },
	{ "a Flush", STATEMENTS, NULL, NULL, NULL, { "P(select 1)", "B()", "H", "E", "S" }, false },
	{ "in a transaction", STATEMENTS, NULL, NULL, "begin", { "Q(select 1)" }, false },
};

struct stage {
	struct clients clients;
	struct pool pool;
	struct database database;
	struct role role;
	struct client client;
	struct params_table *params;
	struct buf sent;
};

static void add_message(struct buf *out, const char *message)
{
	const char *text = strchr(message, '(');
	char type = *message == 'N' ? 'P' : *message;
	size_t at = message_begin(out, type);

	if (type == 'P')
		buf_add_cstr(out, *message == 'N' ? "name" : "");
	if (text && type != 'B') {
		buf_add(out, text + 1, strlen(text) - 2);
		buf_add_byte(out, 0);
	}
	if (type == 'P')
		buf_add(out, "\0", 2);
	if (type == 'B')
		buf_add(out, "\0\0\0\0\0\0\0", 8);
	if (type == 'E')
		buf_add(out, "\0\0\0\0", 5);
	if (type == 'C')
		buf_add(out, "S", 2);
	message_end(out, at);
}

static void open_stage(struct stage *stage, int number)
{
	*stage = (struct stage){ 0 };
	stage->params = params_table_new();
	stage->client.params = stage->client.startup = params_none(stage->params);
	stage->client.clients = &stage->clients;
	stage->client.borrower.pool = &stage->pool;
	stage->pool.database = &stage->database;
	stage->pool.role = &stage->role;
	stage->pool.limits.rules[0].mode = POOL_MODE_TRANSACTION;
	stage->pool.limits.rules[0].route_reads = cases[number].setting;
	if (cases[number].setting == SESSIONS && cases[number].name)
		stage->pool.limits.rules[0].mode = POOL_MODE_SESSION;
	if (cases[number].name) {
		ck_assert(params_change(stage->params, &stage->client.params, cases[number].name,
		                        cases[number].value));
		stage->client.startup = params_hold(stage->client.params);
	}
	stage->clients.loop = loop_new(NULL);
	slab_init(&stage->clients.late_slab, "late", sizeof(struct late_begin));
	if (cases[number].late)
		ck_assert(late_begin_again(
		    &stage->client, bytes_of(cases[number].late, strlen(cases[number].late) + 1)));
	for (int i = 0; i < 8 && cases[number].messages[i]; i++)
		add_message(&stage->sent, cases[number].messages[i]);
}

static void close_stage(struct stage *stage)
{
	late_begin_forget(&stage->client);
	slab_done(&stage->clients.late_slab);
	loop_free(&stage->clients.loop);
	params_release(stage->params, &stage->client.params);
	params_release(stage->params, &stage->client.startup);
	params_table_free(&stage->params);
	buf_free(&stage->sent);
}

static enum wire_result decide(const struct stage *stage, size_t count, bool *is_read)
{
	return route_judge(&stage->client, bytes_of(stage->sent.at, count), is_read);
}

START_TEST(route_decides)
{
	struct stage stage;
	bool is_read;

	open_stage(&stage, _i);
	ck_assert_msg(decide(&stage, stage.sent.count, &is_read) == WIRE_OK, "%s", cases[_i].says);
	ck_assert_msg(is_read == cases[_i].is_read, "%s", cases[_i].says);
	close_stage(&stage);
}
END_TEST

/* More is awaited, or what has come is no read, or it is all that decides. */
START_TEST(route_at_every_cut)
{
	struct stage stage;
	bool is_read;

	open_stage(&stage, _i);
	for (size_t count = FRAME_HEADER_SIZE; count < stage.sent.count; count++) {
		char *copy = malloc(count); /* the sanitizer detects reads after it */
		struct buf whole = stage.sent;

		memcpy(copy, whole.at, count);
		stage.sent.at = copy;
		if (decide(&stage, count, &is_read) == WIRE_OK)
			ck_assert_msg(!is_read || cases[_i].is_read, "%s at %zu", cases[_i].says,
			              count);
		stage.sent = whole;
		free(copy);
	}
	close_stage(&stage);
}
END_TEST

/* Wherever a client is, and whatever it says. */
START_TEST(route_of_some_clients_is_settled)
{
	struct stage stage;
	bool is_read;

	for (int i = 0; i < 3; i++) {
		open_stage(&stage, 0);
		stage.client.replication = i == 0 ? REPLICATION_LOGICAL : REPLICATION_NONE;
		stage.client.asks_sequences = i == 1;
		stage.client.listening = i == 2 ? (void *)&stage : NULL;
		ck_assert_int_eq(decide(&stage, stage.sent.count, &is_read), WIRE_OK);
		ck_assert(!is_read);
		close_stage(&stage);
	}
}
END_TEST

/* A long text is not awaited. */
START_TEST(route_of_a_long_text_is_the_primary)
{
	struct stage stage;
	bool is_read = true;

	open_stage(&stage, 0);
	ck_assert_int_eq(
	    route_judge(&stage.client, bytes_of("Q\0\1\0\0begin read only", 20), &is_read),
	    WIRE_OK);
	ck_assert(!is_read);
	close_stage(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/route");
	TCase *tcase = tcase_create("route");

	tcase_add_loop_test(tcase, route_decides, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, route_at_every_cut, 0, COUNT_OF(cases));
	tcase_add_test(tcase, route_of_some_clients_is_settled);
	tcase_add_test(tcase, route_of_a_long_text_is_the_primary);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
