/* SPDX-License-Identifier: ISC */
/*
 * client/login/auth_cache.c: valid and invalid results of auth_query.
 */
#include "../../../../src/client/login/login_priv.h"

#include "../../unit.h"

#include "pgweir/auth/users.h"
#include "pgweir/pgwire/message.h"

/* The messages, one letter each. */
static const struct {
	const char *says;
	const char *plan; /* see add(); "" between rows of different texts */
	const char *rows[2][3];
	enum auth_reply_verdict verdict;
	const char *why; /* its beginning */
} cases[] = {
	{ "a user", "RC", { { "alice", "secret" } }, AUTH_REPLY_USER, NULL },
	{ "a user, with other things around",
	  "NPTRSC",
	  { { "alice", "secret" } },
	  AUTH_REPLY_USER,
	  NULL },
	{ "an empty secret", "RC", { { "alice", "" } }, AUTH_REPLY_USER, NULL },
	{ "the same row twice",
	  "RRC",
	  { { "alice", "x" }, { "alice", "x" } },
	  AUTH_REPLY_USER,
	  NULL },
	{ "no row", "C", { { NULL } }, AUTH_REPLY_NOBODY, NULL },
	{ "no secret", "RC", { { "alice", NULL } }, AUTH_REPLY_USER, NULL },
	{ "no secret twice",
	  "RRC",
	  { { "alice", NULL }, { "alice", NULL } },
	  AUTH_REPLY_USER,
	  NULL },
	{ "no name", "RC", { { NULL, "secret" } }, AUTH_REPLY_NOBODY, NULL },
	{ "no name twice", "RRC", { { NULL, "x" }, { NULL, "x" } }, AUTH_REPLY_NOBODY, NULL },
	{ "no name, then one",
	  "RRC",
	  { { NULL, NULL }, { "alice", NULL } },
	  AUTH_REPLY_BAD,
	  "it has several rows" },
	{ "an empty name", "RC", { { "", "secret" } }, AUTH_REPLY_BAD, "the name in its row" },
	{ "another secret",
	  "RRC",
	  { { "alice", "x" }, { "alice", "y" } },
	  AUTH_REPLY_BAD,
	  "it has several rows" },
	{ "another name",
	  "RRC",
	  { { "alice", "x" }, { "bob", "x" } },
	  AUTH_REPLY_BAD,
	  "it has several rows" },
	{ "a secret, then none",
	  "RRC",
	  { { "alice", "x" }, { "alice", NULL } },
	  AUTH_REPLY_BAD,
	  "it has several rows" },
	{ "none, then a secret",
	  "RRC",
	  { { "alice", NULL }, { "alice", "x" } },
	  AUTH_REPLY_BAD,
	  "it has several rows" },
	{ "one column", "1C", { { "alice" } }, AUTH_REPLY_BAD, "it must have two columns" },
	{ "three columns",
	  "3C",
	  { { "alice", "x", "y" } },
	  AUTH_REPLY_BAD,
	  "it must have two columns" },
	{ "no columns", "0C", { { NULL } }, AUTH_REPLY_BAD, "it must have two columns" },
	{ "no end", "R", { { "alice", "secret" } }, AUTH_REPLY_BAD, "it did not come to its end" },
	{ "nothing", "", { { NULL } }, AUTH_REPLY_BAD, "it did not come to its end" },
	{ "a query without words", "I", { { NULL } }, AUTH_REPLY_BAD, "it is empty" },
	{ "more rows than asked for",
	  "Rs",
	  { { "alice", "x" } },
	  AUTH_REPLY_BAD,
	  "it has too many rows" },
	{ "an error", "E", { { NULL } }, AUTH_REPLY_BAD, "no" },
	{ "an error behind a row", "RE", { { "alice", "secret" } }, AUTH_REPLY_BAD, "no" },
	{ "a row behind an error", "ERC", { { "alice", "secret" } }, AUTH_REPLY_BAD, "no" },
	{ "a name that is none", "e", { { NULL } }, AUTH_REPLY_NOBODY, NULL },
	{ "a name that is none, behind a row",
	  "Re",
	  { { "alice", "secret" } },
	  AUTH_REPLY_NOBODY,
	  NULL },
};

static void add_row(struct buf *out, const char *const *texts, uint16_t count)
{
	size_t at = message_row_begin(out, count);

	for (uint16_t i = 0; i < count; i++)
		message_row_text(out, texts[i]);
	message_end(out, at);
}

static void add_error(struct buf *out, const char *sqlstate)
{
	message_error(out,
	              &(struct report){ .severity = "ERROR", .sqlstate = sqlstate, .text = "no" });
}

static void add(struct buf *out, char what, const char *const *row)
{
	switch (what) {
	case 'R':
		add_row(out, row, 2);
		return;
	case '0':
	case '1':
	case '3':
		add_row(out, row, (uint16_t)(what - '0'));
		return;
	case 'C':
		message_complete(out, "SELECT 1");
		return;
	case 'E':
		add_error(out, "42501");
		return;
	case 'e':
		add_error(out, "22021");
		return;
	case 'P':
		message_bare(out, '1');
		message_bare(out, '2');
		return;
	case 'S':
		message_parameter(out, "TimeZone", "GMT");
		return;
	case 'N':
		message_notice(
		    out, &(struct report){ .severity = "NOTICE", .sqlstate = "00000", .text = "" });
		return;
	case 'T':
		message_end(out, message_columns_begin(out, 0));
		return;
	case 'I':
		message_bare(out, 'I');
		return;
	case 's':
		message_bare(out, 's');
		return;
	default:
		ck_abort_msg("no such thing: %c", what);
	}
}

static struct buf make(int index)
{
	struct buf out = { 0 };
	unsigned int row = 0;

	for (const char *at = cases[index].plan; *at; at++) {
		add(&out, *at, cases[index].rows[row]);
		row += *at == 'R';
	}
	ck_assert(buf_ok(&out));
	return out;
}

/* In pieces of this many bytes. */
static void check(int index, size_t step)
{
	struct buf in = make(index);
	struct auth_reply replies = { 0 };

	for (size_t at = 0; at < in.count; at += step)
		auth_reply_take(&replies,
		                bytes_of(in.at + at, in.count - at < step ? in.count - at : step));
	ck_assert_msg(auth_reply_end(&replies) == cases[index].verdict, "%s", cases[index].says);
	if (cases[index].why)
		ck_assert_msg(
		    strncmp(replies.why.text, cases[index].why, strlen(cases[index].why)) == 0,
		    "%s: %s", cases[index].says, replies.why.text);
	if (cases[index].verdict == AUTH_REPLY_USER) {
		ck_assert_str_eq(replies.name, cases[index].rows[0][0]);
		ck_assert_pstr_eq(replies.secret, cases[index].rows[0][1]);
	}
	auth_reply_done(&replies);
	buf_free(&in);
}

START_TEST(auth_reply_are_judged) { check(_i, 1 << 20); }
END_TEST

START_TEST(auth_reply_come_in_pieces)
{
	check(_i, 1);
	check(_i, 7);
}
END_TEST

static enum auth_reply_verdict judge_long(size_t name_count, size_t secret_count)
{
	struct auth_reply replies = { 0 };
	struct buf out = { 0 };
	char *name = calloc(1, name_count + 1), *secret = calloc(1, secret_count + 1);
	enum auth_reply_verdict verdict;

	memset(name, 'n', name_count);
	memset(secret, 's', secret_count);
	add_row(&out, (const char *[]){ name, secret }, 2);
	message_complete(&out, "SELECT 1");
	auth_reply_take(&replies, buf_bytes(&out));
	verdict = auth_reply_end(&replies);
	auth_reply_done(&replies);
	buf_free(&out);
	free(name);
	free(secret);
	return verdict;
}

START_TEST(auth_reply_have_limits)
{
	ck_assert_int_eq(judge_long(USER_NAME_MAX, USER_SECRET_MAX), AUTH_REPLY_USER);
	ck_assert_int_eq(judge_long(USER_NAME_MAX + 1, 1), AUTH_REPLY_BAD);
	ck_assert_int_eq(judge_long(1, USER_SECRET_MAX + 1), AUTH_REPLY_BAD);
	ck_assert_int_eq(judge_long(1, 1 << 20), AUTH_REPLY_BAD);
}
END_TEST

START_TEST(auth_reply_take_no_zero_bytes)
{
	struct auth_reply replies = { 0 };
	struct buf out = { 0 };
	size_t at = message_row_begin(&out, 2);

	message_row_bytes(&out, bytes_of("al\0ce", 5));
	message_row_text(&out, "secret");
	message_end(&out, at);
	message_complete(&out, "SELECT 1");
	auth_reply_take(&replies, buf_bytes(&out));
	ck_assert_int_eq(auth_reply_end(&replies), AUTH_REPLY_BAD);
	auth_reply_done(&replies);
	buf_free(&out);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/replies");
	TCase *tcase = tcase_create("replies");

	tcase_add_loop_test(tcase, auth_reply_are_judged, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, auth_reply_come_in_pieces, 0, COUNT_OF(cases));
	tcase_add_test(tcase, auth_reply_have_limits);
	tcase_add_test(tcase, auth_reply_take_no_zero_bytes);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
