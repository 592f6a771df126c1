/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_frames.c: what a server's messages become, with a server alone.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../../lib/lone_server.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"

#include "../../unit.h"

#define WORD_MAX 80

/*
 * A script of words. Of the borrower: q a Query is noted, p b d e s the messages of the extended
 * protocol; order a query of ours that sets parameters, reset one that resets.
 * Of PostgreSQL, said in one go up to the next word of the borrower or the end:
 *   T D 1 2 3 n N t   this message, short     C:TAG   Z:S   S:NAME=VALUE
 *   E:CODE an error, F:CODE a FATAL one       ~ bytes that are no message
 *   N< the first half of a notice, >N its other half
 * ! PostgreSQL closes. What is heard: see lone_server.h; '_' is a blank in a word.
 */
static const struct {
	const char *says;
	const char *script;
	const char *heard;
} cases[] = {
	{ "a query with rows", "q T D D C:SELECT_2 Z:I", "TDDCZ+I" },
	{ "in a transaction", "q C:BEGIN Z:T", "CZ+T" },
	{ "two queries: nothing is owed after the second", "q q C:A Z:I C:B Z:I", "CZ-ICZ+I" },
	{ "the extended protocol", "p b d e s 1 2 T D C:SELECT_1 Z:I", "12TDCZ+I" },
	{ "a notice comes at any time", "N q N C:A Z:I N", "NNCZ+IN" },
	{ "a report goes on", "q S:TimeZone=CET C:SET Z:I", "SCZ+I" },
	{ "all statements are gone", "q C:DISCARD_ALL Z:I", "^CZ+I" },
	{ "the same, by another command", "q C:DEALLOCATE_ALL Z:I", "^CZ+I" },
	{ "one statement is gone", "q C:DEALLOCATE Z:I", "CZ+I" },
	{ "an error, up to ReadyForQuery", "q E:22012 Z:I", "EZ+I" },
	{ "an error ends a batch", "p b e s E:42601 Z:I", "EZ+I" },

	{ "rows that nobody asked for", "D", "lost(unexpected message from server: out of step)" },
	{ "one reply too many", "q C:A Z:I Z:I",
	  "CZ+Ilost(unexpected message from server: out of step)" },
	{ "a reply of another kind", "p s 2", "lost(unexpected message from server: out of step)" },
	{ "no message at all", "q ~", "lost(bad packet header)" },
	{ "an error that nobody asked for", "E:22012", "lost(server said: ERROR words)" },
	{ "its last words are passed on", "F:57P01 !", "Eleft(server ended the connection)" },
	{ "the same between rows", "q T D F:57P01 !", "TDEleft(server ended the connection)" },
	{ "it is gone without an error", "q T !", "Tlost(server conn crashed?)" },

	{ "our own query: its answers are for nobody", "order C:SET Z:I", "l" },
	{ "the report that answers it too", "order S:TimeZone=CET C:SET Z:I", "l" },
	{ "another report goes on", "order S:in_hot_standby=on C:SET Z:I", "Sl" },
	{ "our parameters are refused", "order E:22023 Z:I", " refused " },
	{ "our own query leaves a transaction open", "order C:BEGIN Z:T",
	  "lost(a query of our own left a transaction open)" },
	{ "a reset: the server comes home", "reset C:DISCARD_ALL Z:I", " home " },

	{ "the rest of a notice is all that is missing", "q C:A Z:I N< >N", "CZ+IN*" },
};

/* ---- scripts ---- */

static void add_plain(struct buf *out, char type) { message_end(out, message_begin(out, type)); }

static void add_report(struct buf *out, char type, const char *severity, const char *sqlstate)
{
	struct report report = {
		.severity = severity, .verbatim = severity, .sqlstate = sqlstate, .text = "words"
	};

	if (type == 'N')
		message_notice(out, &report);
	else
		message_error(out, &report);
}

static void add_half_notice(struct buf *out, bool is_first)
{
	struct buf whole = { 0 };
	size_t half;

	add_report(&whole, 'N', "NOTICE", "00000");
	half = whole.count / 2;
	buf_add(out, whole.at + (is_first ? 0 : half), is_first ? half : whole.count - half);
	buf_free(&whole);
}

/* One of PostgreSQL's. */
static void add_word(struct buf *out, const char *word)
{
	const char *rest = word + 2, *equals = strchr(word, '=');
	char name[WORD_MAX];

	if (strcmp(word, "N<") == 0 || strcmp(word, ">N") == 0) {
		add_half_notice(out, word[0] == 'N');
	} else if (word[0] == 'E' || word[0] == 'F') {
		add_report(out, 'E', word[0] == 'F' ? "FATAL" : "ERROR", rest);
	} else if (word[0] == 'N') {
		add_report(out, 'N', "NOTICE", "00000");
	} else if (word[0] == 'C') {
		message_complete(out, rest);
	} else if (word[0] == 'Z') {
		message_ready(out, *rest);
	} else if (word[0] == 'S') {
		ck_assert_ptr_nonnull(equals);
		snprintf(name, sizeof(name), "%.*s", (int)(equals - rest), rest);
		message_parameter(out, name, equals + 1);
	} else if (word[0] == '~') {
		buf_add(out, "~\0\0\0\1~~~", 8);
	} else {
		add_plain(out, word[0]);
	}
}

static void note(struct lone_server *lone, enum ledger_kind kind)
{
	ck_assert(server_note(&lone->server, kind));
}

static void on_order_done(struct server *server)
{
	struct borrower *borrower = server->lease.borrower;

	if (server->orders.has_failed)
		buf_add_text(&container_of(server, struct lone_server, server)->heard, " refused ");
	else
		borrower->ops->on_lent(borrower);
}

/* One of ours. false: it is PostgreSQL's. */
static bool act(struct lone_server *lone, const char *word)
{
	static const char letters[] = "qpbdes";
	static const enum ledger_kind kinds[] = { LEDGER_QUERY,    LEDGER_PARSE,   LEDGER_BIND,
		                                  LEDGER_DESCRIBE, LEDGER_EXECUTE, LEDGER_SYNC };

	if (strcmp(word, "order") == 0) {
		server_order(&lone->server, &(struct order){ .kind = ORDER_REPLAY,
		                                             .text = "SET",
		                                             .on_done = on_order_done });
	} else if (strcmp(word, "reset") == 0) {
		lone->server.lease.borrower = NULL;
		server_enter(&lone->server, SERVER_RESETTING);
		server_order(&lone->server,
		             &(struct order){ .kind = ORDER_RESET, .text = "DISCARD ALL" });
	} else if (strcmp(word, "!") == 0) {
		close(lone->peer);
		lone->peer = -1;
		lone_server_turn(lone);
	} else if (!word[1] && strchr(letters, word[0])) {
		note(lone, kinds[strchr(letters, word[0]) - letters]);
	} else {
		return false;
	}
	return true;
}

static void say_all(struct lone_server *lone, struct buf *out, bool by_bytes)
{
	lone_server_say(lone, buf_bytes(out), by_bytes);
	buf_clear(out);
}

static void run(struct lone_server *lone, const char *script, bool by_bytes)
{
	struct buf out = { 0 };
	char word[WORD_MAX];
	int used;

	while (sscanf(script, "%79s%n", word, &used) == 1) {
		script += used;
		for (char *at = word; *at; at++)
			*at = *at == '_' ? ' ' : *at;
		if (strchr("!", word[0]) || !strcmp(word, "N<") || !strcmp(word, ">N"))
			say_all(lone, &out, by_bytes);
		if (strchr("qpbdes", word[0]) && out.count)
			say_all(lone, &out, by_bytes);
		if (!act(lone, word))
			add_word(&out, word);
	}
	say_all(lone, &out, by_bytes);
	buf_free(&out);
}

/* Whether both are the same; byte by byte a '*' may come more often. */
static bool is_heard(const char *heard, const char *expected, bool by_bytes)
{
	while (*heard || *expected) {
		if (by_bytes && (*heard == '*' || *expected == '*')) {
			heard += *heard == '*';
			expected += *expected == '*';
		} else if (*heard++ != *expected++) {
			return false;
		}
	}
	return true;
}

static void check(const char *says, const char *script, const char *heard, bool by_bytes)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	run(&lone, script, by_bytes);
	ck_assert_msg(is_heard(buf_text(&lone.heard), heard, by_bytes),
	              "%s%s: \"%s\" instead of \"%s\"", says, by_bytes ? ", byte by byte" : "",
	              buf_text(&lone.heard), heard);
	lone_server_close(&lone);
}

START_TEST(server_frames_reach_the_borrower)
{
	check(cases[_i].says, cases[_i].script, cases[_i].heard, false);
}
END_TEST

START_TEST(server_frames_reach_the_borrower_byte_by_byte)
{
	check(cases[_i].says, cases[_i].script, cases[_i].heard, true);
}
END_TEST

/* ---- how far it is from rest ---- */

static const struct {
	const char *says;
	const char *script;
	enum server_rest rest;
} rests[] = {
	{ "lent, and not asked anything", "", REST_FULL },
	{ "a query is not answered", "q", REST_WORKING },
	{ "nor is it with half of the answer", "q C:A", REST_WORKING },
	{ "nor when a second query is owed", "q q C:A Z:I", REST_WORKING },
	{ "in a transaction", "q C:BEGIN Z:T", REST_IN_TRANSACTION },
	{ "in one that has failed", "q E:22012 Z:E", REST_IN_TRANSACTION },
	{ "after it", "q C:COMMIT Z:I", REST_FULL },
	{ "the borrower has half of a notice", "q C:A Z:I N<", REST_MID_RESPONSE },
	{ "and then the rest", "q C:A Z:I N< >N", REST_FULL },
	{ "our own query", "order", REST_WORKING },
	{ "after it", "order C:SET Z:I", REST_FULL },
};

START_TEST(server_rest_tells_how_far_it_is)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	run(&lone, rests[_i].script, false);
	ck_assert_msg(server_rest(&lone.server) == rests[_i].rest, "%s: %d", rests[_i].says,
	              (int)server_rest(&lone.server));
	ck_assert_int_eq(server_is_between_transactions(&lone.server),
	                 rests[_i].rest > REST_IN_TRANSACTION);
	lone_server_close(&lone);
}
END_TEST

START_TEST(server_rest_waits_for_what_is_unsent)
{
	static char block[64 * 1024];
	struct lone_server lone;

	lone_server_open(&lone, "");
	for (int i = 0; i < 100 && stream_unsent(&lone.server.wire.stream) == 0; i++)
		server_send(&lone.server, bytes_of(block, sizeof(block)));
	ck_assert_int_eq(server_rest(&lone.server), REST_UNSENT);
	ck_assert(!server_has_nothing_pending(&lone.server));
	lone_server_close(&lone);
}
END_TEST

START_TEST(server_has_nothing_pending_in_a_transaction)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	ck_assert(server_has_nothing_pending(&lone.server));
	run(&lone, "q C:BEGIN Z:T", false);
	ck_assert(server_has_nothing_pending(&lone.server));
	run(&lone, "q T", false);
	ck_assert(!server_has_nothing_pending(&lone.server));
	lone_server_close(&lone);
}
END_TEST

/* ---- what stays ---- */

START_TEST(server_reports_become_its_parameters)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	run(&lone, "q S:TimeZone=CET C:SET Z:I", false);
	ck_assert_str_eq(params_find(lone.server.session.params, "TimeZone"), "CET");
	lone_server_close(&lone);
}
END_TEST

START_TEST(server_bytes_are_counted_for_its_pool)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	run(&lone, "q C:A Z:I", false);
	ck_assert_uint_eq(lone.server_bytes, 5 + 2 + 5 + 1);
	server_send(&lone.server, bytes_of("abc", 3));
	ck_assert_uint_eq(lone.client_bytes, 3);
	ck_assert_uint_eq(lone.all_server_bytes, lone.server_bytes);
	ck_assert_uint_eq(lone.all_client_bytes, 3);
	lone_server_close(&lone);
}
END_TEST

START_TEST(server_frames_have_a_longest)
{
	struct lone_server lone;

	lone_server_open(&lone, "max_packet_size = 2000");
	note(&lone, LEDGER_QUERY);
	lone_server_say(&lone, bytes_of("T\0\0\7\317", 5), false); /* 1999 */
	ck_assert_str_eq(buf_text(&lone.heard), "");
	lone_server_close(&lone);
	lone_server_open(&lone, "max_packet_size = 2000");
	note(&lone, LEDGER_QUERY);
	lone_server_say(&lone, bytes_of("T\0\0\7\320", 5), false); /* 2000 */
	ck_assert_str_eq(buf_text(&lone.heard), "lost(bad packet header)");
	lone_server_close(&lone);
}
END_TEST

/* ---- a server whose borrower has left: server_ending.c ---- */

/* Its borrower leaves, between two replies. */
static void leave(struct borrower *borrower, char status, bool is_settled)
{
	struct server *server = borrower->server;

	(void)status;
	(void)is_settled;
	server->lease.borrower = NULL;
	server_begin_ending(server, ENDING_KEEPS);
	server_canceled(server);
}

/* The rest of what it was sent, and the replies to the cleaning. */
static void say_cleaned(struct lone_server *lone, bool by_bytes)
{
	struct buf out = { 0 };
	size_t row;

	add_half_notice(&out, false);
	add_report(&out, 'E', "ERROR", "57014");
	message_ready(&out, 'I');
	for (int i = 0; i < 2; i++) {
		message_complete(&out, "ROLLBACK");
		message_ready(&out, 'I');
	}
	message_parameter(&out, "TimeZone", "UTC");
	message_complete(&out, "DISCARD ALL");
	message_ready(&out, 'I');
	row = message_begin(&out, 'D');
	buf_add(&out, (const char[]){ 0, 1, 0, 0, 0, ENDING_MARK_SIZE }, 6);
	buf_add(&out, lone->server.wire.ending.mark, ENDING_MARK_SIZE);
	message_end(&out, row);
	message_complete(&out, "SELECT 1");
	message_ready(&out, 'I');
	lone_server_say(lone, buf_bytes(&out), by_bytes);
	buf_free(&out);
}

/* What is found out only later may be of those that had the server before its last borrower. */
START_TEST(server_may_hold_state_of_anybody)
{
	struct lone_server lone;

	lone_server_open(&lone, "");
	server_distrust(&lone.server, true);
	ck_assert_uint_eq(lone.server.session.held, HELD_LATE);
	lone_server_close(&lone);
}
END_TEST

/* What was read with the last reply that the borrower got is not lost, nor read again. */
START_TEST(server_is_cleaned_in_any_pieces)
{
	struct borrower_ops ops;
	struct lone_server lone;
	struct buf out = { 0 };

	lone_server_open(&lone, "");
	ops = *lone.borrower.ops;
	ops.on_ready = leave;
	lone.borrower.ops = &ops;
	run(&lone, "q q", false);
	message_complete(&out, "A");
	message_ready(&out, 'I');
	add_half_notice(&out, true);
	say_all(&lone, &out, _i);
	buf_free(&out);
	ck_assert_int_eq(lone.server.state, SERVER_ENDING);
	say_cleaned(&lone, _i);
	ck_assert_str_eq(buf_text(&lone.heard), "CZ home ");
	ck_assert_int_eq(lone.server.state, SERVER_RESETTING);
	ck_assert_uint_eq(stream_kept(&lone.server.wire.stream).count, 0);
	ck_assert(server_has_nothing_pending(&lone.server));
	lone_server_close(&lone);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server/server_frames");
	TCase *tests = tcase_create("server_frames");

	tcase_add_loop_test(tests, server_frames_reach_the_borrower, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, server_frames_reach_the_borrower_byte_by_byte, 0,
	                    COUNT_OF(cases));
	tcase_add_loop_test(tests, server_rest_tells_how_far_it_is, 0, COUNT_OF(rests));
	tcase_add_test(tests, server_rest_waits_for_what_is_unsent);
	tcase_add_test(tests, server_has_nothing_pending_in_a_transaction);
	tcase_add_test(tests, server_reports_become_its_parameters);
	tcase_add_test(tests, server_bytes_are_counted_for_its_pool);
	tcase_add_test(tests, server_frames_have_a_longest);
	tcase_add_test(tests, server_may_hold_state_of_anybody);
	tcase_add_loop_test(tests, server_is_cleaned_in_any_pieces, 0, 2);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
