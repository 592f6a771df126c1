/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_errors.c: whose an ErrorResponse is, and in whose words it is passed on,
 * with a server alone.
 */
#include <stdio.h>
#include <string.h>

#include "../../../lib/lone_server.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "../../unit.h"

/* ---- which are the last words of a server ---- */

static const struct {
	const char *says;
	const char *severity; /* as the server's language has it */
	const char *verbatim; /* as it is in any language; NULL: an old server does not say it */
	bool is_fatal;
} severities[] = {
	{ "an error", "ERROR", "ERROR", false },
	{ "a fatal one", "FATAL", "FATAL", true },
	{ "the last one of all", "PANIC", "PANIC", true },
	{ "a fatal one in German", "FATAL", "FATAL", true },
	{ "an error in another language", "FEHLER", "ERROR", false },
	{ "a fatal one in another language", "FATALITA", "FATAL", true },
	{ "words that only look like it", "FATAL", "ERROR", false },
	{ "an old server", "FATAL", NULL, true },
};

static void add_error(struct buf *out, const char *severity, const char *verbatim,
                      const char *sqlstate, const char *text)
{
	message_error(out, &(struct report){ .severity = severity,
	                                     .verbatim = verbatim,
	                                     .sqlstate = sqlstate,
	                                     .text = text });
}

static struct bytes body_of(const struct buf *message)
{
	return bytes_skip(buf_bytes(message), FRAME_HEADER_SIZE);
}

static bool is_fatal(struct bytes body)
{
	struct server_error error;

	server_read_error(&error, body);
	return error.is_fatal;
}

START_TEST(error_is_fatal_by_its_severity)
{
	struct buf out = { 0 };

	add_error(&out, severities[_i].severity, severities[_i].verbatim, "57P01", "words");
	ck_assert_msg(is_fatal(body_of(&out)) == severities[_i].is_fatal, "%s",
	              severities[_i].says);
	buf_free(&out);
}
END_TEST

/* Only the front of it is there; severity comes first. */
START_TEST(error_is_fatal_though_it_is_cut)
{
	struct buf out = { 0 };
	struct bytes body;

	add_error(&out, "FATAL", "FATAL", "57P01", "words");
	body = body_of(&out);
	for (size_t count = sizeof("SFATAL") + sizeof("VFATAL"); count < body.count; count++)
		ck_assert_msg(is_fatal(bytes_of(body.at, count)), "%zu bytes", count);
	buf_free(&out);
}
END_TEST

START_TEST(error_is_fatal_though_it_is_long)
{
	static char text[3 * ERROR_PREFIX];
	struct buf out = { 0 };

	memset(text, 'x', sizeof(text) - 1);
	add_error(&out, "FATAL", "FATAL", "57P01", text);
	ck_assert(is_fatal(body_of(&out)));
	buf_free(&out);
}
END_TEST

/* ---- of a request ---- */

/* A change that counts how it was settled. */
struct noted {
	struct ledger_change base;
	int done_count, undone_count;
};

static void settle(struct ledger_change *change, bool is_done)
{
	struct noted *noted = (struct noted *)change;

	noted->done_count += is_done;
	noted->undone_count += !is_done;
}

static void say_error(struct lone_server *lone, const char *sqlstate, const char *text)
{
	struct buf out = { 0 };

	add_error(&out, "ERROR", "ERROR", sqlstate, text);
	lone_server_say(lone, buf_bytes(&out), false);
	buf_free(&out);
}

static void say_ready(struct lone_server *lone)
{
	struct buf out = { 0 };

	message_ready(&out, 'I');
	lone_server_say(lone, buf_bytes(&out), false);
	buf_free(&out);
}

/* The words of the last frame that the borrower got, an ErrorResponse. */
static const char *last_words(struct lone_server *lone)
{
	static struct report report;

	ck_assert_uint_gt(lone->last.count, FRAME_HEADER_SIZE);
	ck_assert_int_eq(lone->last.at[0], 'E');
	report = (struct report){ .text = "" };
	ck_assert_int_eq(fields_report(body_of(&lone->last), &report), WIRE_OK);
	return report.text;
}

static void note(struct lone_server *lone, enum ledger_kind kind, enum ledger_fate fate,
                 struct ledger_change *change)
{
	ck_assert(server_note_change(&lone->server, kind, fate, change));
}

START_TEST(server_error_of_a_request_takes_its_change_back)
{
	struct lone_server lone;
	struct noted parse = { .base.settle = settle }, bind = { .base.settle = settle };

	lone_server_open(&lone, "");
	note(&lone, LEDGER_PARSE, LEDGER_CLIENT, &parse.base);
	note(&lone, LEDGER_BIND, LEDGER_CLIENT, &bind.base);
	server_note(&lone.server, LEDGER_SYNC);
	say_error(&lone, "42601", "syntax error");
	say_ready(&lone);
	ck_assert_str_eq(buf_text(&lone.heard), "EZ+I");
	ck_assert_int_eq(parse.undone_count, 1);
	ck_assert_int_eq(bind.undone_count, 1);
	ck_assert_int_eq(parse.done_count + bind.done_count, 0);
	lone_server_close(&lone);
}
END_TEST

/* It was sent so that it fails: the borrower gets our words in place of PostgreSQL's. */
START_TEST(server_error_is_replaced_by_a_refusal)
{
	struct lone_server lone;
	struct err err;

	lone_server_open(&lone, "");
	err_set(&err, ERR_UNSUPPORTED, "words of ours");
	note(&lone, LEDGER_REFUSED_PARSE, LEDGER_CLIENT, server_refusal(&err));
	server_note(&lone.server, LEDGER_SYNC);
	say_error(&lone, "42601", "words of PostgreSQL's");
	say_ready(&lone);
	ck_assert_str_eq(buf_text(&lone.heard), "EZ+I");
	lone_server_close(&lone);
}
END_TEST

/* ---- with a statement ---- */

static struct statement *make_statement(struct lone_server *lone)
{
	static const char text[] = "SELECT 1\0\0"; /* the query, and no types */
	struct statement *statement = statement_of(
	    &lone->statements, bytes_of(text, sizeof("SELECT 1") + 2), bytes_of("", 0));

	ck_assert_ptr_nonnull(statement);
	return statement;
}

/* A Bind of the statement, as the client calls it, fails with this error about our name. */
static void fail_bind(struct lone_server *lone, const struct statement *statement,
                      struct noted *bind, const char *sqlstate)
{
	struct bytes name = statement_name(statement);
	char text[200];

	*bind = (struct noted){ .base = { settle, statement, "mine" } };
	note(lone, LEDGER_BIND, LEDGER_CLIENT, &bind->base);
	server_note(&lone->server, LEDGER_SYNC);
	snprintf(text, sizeof(text), "about \"%.*s\"", (int)name.count, name.at);
	say_error(lone, sqlstate, text);
}

START_TEST(server_error_has_the_name_of_the_client)
{
	struct lone_server lone;
	struct statement *statement;
	struct noted bind;

	lone_server_open(&lone, "");
	statement = make_statement(&lone);
	fail_bind(&lone, statement, &bind, "22P02");
	ck_assert_str_eq(last_words(&lone), "about \"mine\"");
	ck_assert_str_eq(buf_text(&lone.heard), "E");
	say_ready(&lone);
	ck_assert_str_eq(buf_text(&lone.heard), "EZ+I");
	statement_release(&statement);
	lone_server_close(&lone);
}
END_TEST

/* "cached plan must not change result type", with the batch still at hand: it is repeated. */
START_TEST(server_error_of_a_stale_plan_is_retried)
{
	struct lone_server lone;
	struct statement *statement;
	struct noted bind;

	lone_server_open(&lone, "");
	statement = make_statement(&lone);
	replay_add(&lone.server.lease.replay, bytes_of("batch", 5));
	lone.server.lease.replay.may_replan = true;
	fail_bind(&lone, statement, &bind, "0A000");
	ck_assert_str_eq(buf_text(&lone.heard), "");
	ck_assert(!server_has_nothing_pending(&lone.server));
	say_ready(&lone);
	ck_assert_str_eq(buf_text(&lone.heard), ">");
	statement_release(&statement);
	lone_server_close(&lone);
}
END_TEST

START_TEST(server_error_of_a_stale_plan_goes_on_without_a_batch)
{
	struct lone_server lone;
	struct statement *statement;
	struct noted bind;

	lone_server_open(&lone, "");
	statement = make_statement(&lone);
	fail_bind(&lone, statement, &bind, "0A000");
	ck_assert_str_eq(last_words(&lone), "about \"mine\"");
	statement_release(&statement);
	lone_server_close(&lone);
}
END_TEST

START_TEST(server_whose_names_are_taken_is_closed_later)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	server_note(&lone.server, LEDGER_PARSE);
	server_note(&lone.server, LEDGER_SYNC);
	say_error(&lone, "42P05", "prepared statement \"" STATEMENT_NAMES "7\" already exists");
	ck_assert_str_eq(buf_text(&lone.heard), " needed E");
	say_ready(&lone);
	ck_assert(lone.server.close_reason);
	lone_server_close(&lone);
}
END_TEST

/* The scratch name is parsed again and again: that it is there says nothing. */
START_TEST(server_whose_scratch_name_is_there_stays)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	server_note(&lone.server, LEDGER_PARSE);
	server_note(&lone.server, LEDGER_SYNC);
	say_error(&lone, "42P05", "prepared statement \"" SCRATCH_NAME "\" already exists");
	ck_assert(!lone.server.close_reason);
	lone_server_close(&lone);
}
END_TEST

/* ---- of an internal query ---- */

START_TEST(server_error_of_parameters_is_kept_for_the_borrower)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	server_order(&lone.server, &(struct order){ .kind = ORDER_REPLAY, .text = "SET x = 1" });
	say_error(&lone, "22023", "the first error");
	say_error(&lone, "25P02", "and one that follows from it");
	ck_assert_ptr_nonnull(lone.server.orders.refusal);
	ck_assert_str_eq(lone.server.orders.refusal->text, "the first error");
	ck_assert_str_eq(lone.server.orders.refusal->sqlstate, "22023");
	lone_server_close(&lone);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server/server_errors");
	TCase *tests = tcase_create("server_errors");

	tcase_add_loop_test(tests, error_is_fatal_by_its_severity, 0, COUNT_OF(severities));
	tcase_add_test(tests, error_is_fatal_though_it_is_cut);
	tcase_add_test(tests, error_is_fatal_though_it_is_long);
	tcase_add_test(tests, server_error_of_a_request_takes_its_change_back);
	tcase_add_test(tests, server_error_is_replaced_by_a_refusal);
	tcase_add_test(tests, server_error_has_the_name_of_the_client);
	tcase_add_test(tests, server_error_of_a_stale_plan_is_retried);
	tcase_add_test(tests, server_error_of_a_stale_plan_goes_on_without_a_batch);
	tcase_add_test(tests, server_whose_names_are_taken_is_closed_later);
	tcase_add_test(tests, server_whose_scratch_name_is_there_stays);
	tcase_add_test(tests, server_error_of_parameters_is_kept_for_the_borrower);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
