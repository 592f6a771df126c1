/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_digest.h.
 */
#include "pgweir/pgwire/sql_digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

/* The same statement, and how it is printed. */
static const struct {
	const char *one;
	const char *other;
	const char *text;
} same[] = {
	{ "", "  -- nothing", "" },
	{ "", ";;", "" },
	{ "SELECT 1", "select  2", "SELECT ?" },
	{ "SELECT 1", "SELECT 'x'", "SELECT ?" },
	{ "SELECT 1", "SELECT $1", "SELECT ?" },
	{ "SELECT 1", "SELECT 1.5e-3", "SELECT ?" },
	{ "SELECT 1", "SELECT .5", "SELECT ?" },
	{ "SELECT 1", "SELECT 1.", "SELECT ?" },
	{ "SELECT 1", "SELECT 1E+10", "SELECT ?" },
	{ "SELECT 1", "SELECT 0xFE", "SELECT ?" },
	{ "SELECT 1", "SELECT 1_000", "SELECT ?" },
	{ "SELECT 1", "SELECT N'a'", "SELECT ?" },
	{ "SELECT 1", "SELECT U&'\\0061'", "SELECT ?" },
	{ "SELECT 1 FROM t", "SELECT 23FROM t", "SELECT ? FROM t" },
	{ "SELECT 1", "SELECT E'a\\'b'", "SELECT ?" },
	{ "SELECT 1", "SELECT $$a$$", "SELECT ?" },
	{ "SELECT 1", "SELECT $x$a$$b$x$", "SELECT ?" },
	{ "SELECT 1", "SELECT 1;", "SELECT ?" },
	{ "SELECT 1", "; SELECT 1 ; ; -- end", "SELECT ?" },
	{ "SELECT 1", "/* a /* b */ c */SELECT/**/1", "SELECT ?" },
	{ "SELECT 1; SELECT 2", "SELECT 1;;SELECT 2;", "SELECT ?; SELECT ?" },
	{ "abcdefg", "ABCDEFG", "abcdefg" },
	{ "abcdefgh", "ABCDEFGH", "abcdefgh" },
	{ "abcdefghijklmno", "ABCDEFGHIJKLMNO", "abcdefghijklmno" },
	{ "abcdefghijklmnop", "ABCDEFGHIJKLMNOP", "abcdefghijklmnop" },
	{ "abcdefghijklmnopqrstuvwxyz_0123456789$", "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789$",
	  "abcdefghijklmnopqrstuvwxyz_0123456789$" },
	{ "a = 1", "a = -1", "a = ?" },
	{ "a = 1", "a = - 1", "a = ?" },
	{ "a = 1", "a = -.5", "a = ?" },
	{ "a=1", "a = NULL", "a=?" },
	{ "a = true AND b", "a = false AND b", "a = ? AND b" },
	{ "Select A.\"B\" FROM A", "SELECT a.\"B\" from a", "Select A.\"B\" FROM A" },
	{ "a IN (1)", "a IN (1, 2, 3)", "a IN (?)" },
	{ "a IN (1, 2)", "a IN ($1,$2,$3)", "a IN (?, ...)" },
	{ "a IN (-1, NULL)", "a IN (1)", "a IN (?, ...)" },
	{ "a IN (1::int, 2::int)", "a IN (3::int)", "a IN (?::int, ...)" },
	{ "a IN ((1, 2), (3, 4)) x", "a IN ((5, 6)) x", "a IN ((?, ?), ...) x" },
	{ "a IN (1, (2 + 3))", "a IN (5, b, f(c, d))", "a IN (?, ...)" },
	{ "a IN (f(b IN (1, 2), c), 1)", "a IN (f(b IN (3), c))",
	  "a IN (f(b IN (?, ...), c), ...)" },
	{ "a NOT IN (1, 2) OR b", "a NOT IN (3) OR b", "a NOT IN (?, ...) OR b" },
	{ "a = ANY (ARRAY[1, 2])", "a = ANY (ARRAY[1])", "a = ANY (ARRAY[?, ...])" },
	{ "ARRAY[[1, 2], [3, 4]]", "ARRAY[[1]]", "ARRAY[[?, ...], ...]" },
	{ "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
	  "INSERT INTO t VALUES (?, ?)" },
	{ "INSERT INTO t VALUES (1, now()), (DEFAULT, now()) RETURNING a",
	  "INSERT INTO t VALUES (1,now()) RETURNING a",
	  "INSERT INTO t VALUES (?, now()), ... RETURNING a" },
	{ "SELECT * FROM (VALUES (1), (2)) v", "SELECT * FROM (VALUES (3)) v",
	  "SELECT * FROM (VALUES (?), ...) v" },
	{ "VALUES (1, now()), (now(), 1)", "VALUES (1, now())", "VALUES (?, now()), ..." },
	{ "VALUES (1), (2) UNION VALUES (3)", "VALUES (1) UNION VALUES (2), (3)",
	  "VALUES (?), ... UNION VALUES (?)" },
	{ "CALL p('x\ty')", "CALL p('')", "CALL p(?)" },
};

/* Different statements. */
static const struct {
	const char *one;
	const char *other;
} different[] = {
	{ "SELECT 1", "SELECT a" },
	{ "SELECT 1", "" },
	{ "SELECT a", "SELECT b" },
	{ "SELECT ab", "SELECT a b" },
	{ "SELECT a", "SELECT \"a\"" },
	{ "SELECT \"a\"", "SELECT \"A\"" },
	{ "\"a\" \"b\"", "\"a\"\"b\"" },
	{ "abcdefgh ijk", "abcdefghijk" },
	{ "abcdefgh 1", "abcdefgh" },
	{ "a@", "a`" },
	{ "a\001", "a 1" },
	{ "+ + + + + + a", "+ + + + + + + a" },
	{ "SELECT a - 1", "SELECT a + 1" },
	{ "SELECT (a) - 1", "SELECT (a) + 1" },
	{ "a IS NULL", "a IS TRUE" },
	{ "SELECT t.true", "SELECT t.false" },
	{ "SELECT 1; SELECT 2", "SELECT 1 SELECT 2" },
	{ "f(1)", "f(1, 2)" },
	{ "VALUES (1)", "VALUES (1, 2)" },
	{ "VALUES (1)", "VALUES (a)" },
	{ "VALUES (1), (a)", "VALUES (a), (1)" },
	{ "VALUES (1) a", "VALUES (1) b" },
	{ "a IN (1)", "a IN (1) AND b" },
	{ "a IN (b, 1)", "a IN (c, 1)" },
	{ "a IN (SELECT b, c FROM t)", "a IN (SELECT c FROM t, SELECT b)" },
	{ "a IN (SELECT b, b FROM t)", "a IN (SELECT b FROM t)" },
	{ "ARRAY[1]", "ARRAY(1)" },
	{ "ARRAY[f(1)]", "ARRAY[f(1, 1)]" },
	{ "a[1]", "a[1, 2]" },
	{ "a[1]", "a[1:2]" },
	{ "(((a", "((a" },
};

static uint64_t of(const char *text) { return sql_digest(bytes_text(text)); }

START_TEST(same_digest)
{
	char out[200];
	struct strbuf text = strbuf_begin(out, sizeof(out));

	ck_assert_msg(of(same[_i].one) == of(same[_i].other), "%s | %s", same[_i].one,
	              same[_i].other);
	sql_digest_text(bytes_text(same[_i].one), &text);
	ck_assert_str_eq(out, same[_i].text);
}
END_TEST

START_TEST(different_digest)
{
	ck_assert_msg(of(different[_i].one) != of(different[_i].other), "%s | %s",
	              different[_i].one, different[_i].other);
}
END_TEST

/* Files have digests: a release that computes others makes their entries name nothing. */
START_TEST(stays_the_same)
{
	ck_assert_uint_eq(of(""), UINT64_C(0x5bc0bb509cd1ea27));
	ck_assert_uint_eq(of("SELECT * FROM orders WHERE customer = 7"),
	                  UINT64_C(0x85315c26cb31a2ee));
}
END_TEST

/* No byte behind the text is read, and each cut has one digest and one text. */
START_TEST(every_cut)
{
	const char *all = same[_i].one;

	for (size_t count = 0; count <= strlen(all); count++) {
		char *copy = malloc(count ? count : 1), out[80];
		struct strbuf text = strbuf_begin(out, sizeof(out));

		memcpy(copy, all, count);
		ck_assert(sql_digest(bytes_of(copy, count)) == sql_digest(bytes_of(all, count)));
		sql_digest_text(bytes_of(copy, count), &text);
		ck_assert_uint_eq(strlen(out), text.count);
		free(copy);
	}
}
END_TEST

/* ---- random texts ---- */

#define LETTERS_47 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define PIECE_MAX 200 /* with the gap before it */

static const char *const pieces[] = { "a",
	                              "b",
	                              "abcdefg",
	                              "abcdefgh",
	                              "abcdefghi",
	                              "aaaaaaa",
	                              "aaaaaaaa",
	                              "aaaaaaaaaaaaaaa",
	                              "aaaaaaaaaaaaaaaa",
	                              "aaaaaaaaaaaaaaaaa",
	                              "abcdefghijklmnopqrstuvwxyz",
	                              LETTERS_47 "aaaaaaaaaaaaaaa",
	                              LETTERS_47 "aaaaaaaaaaaaaaaa",
	                              LETTERS_47 "aaaaaaaaaaaaaaaaa",
	                              LETTERS_47 "AAAAAAAAAAAAAAAAA",
	                              LETTERS_47 LETTERS_47 LETTERS_47 "_",
	                              LETTERS_47 LETTERS_47 LETTERS_47 "$",
	                              "\303\244",
	                              "_$1",
	                              "in",
	                              "array",
	                              "values",
	                              "IN",
	                              "Array",
	                              "VALUES",
	                              "select",
	                              "with",
	                              "table",
	                              "null",
	                              "true",
	                              "FALSE",
	                              "default",
	                              "(",
	                              ")",
	                              "[",
	                              "]",
	                              ",",
	                              "(",
	                              ")",
	                              ",",
	                              ";",
	                              "+",
	                              "-",
	                              ".",
	                              "=",
	                              "/",
	                              "1",
	                              "23",
	                              "0xFE",
	                              "1e",
	                              "1.5e-3",
	                              ".5",
	                              "$1",
	                              "$",
	                              "$e",
	                              "'a'",
	                              "'b''c'",
	                              "'d\\'",
	                              "E'a\\'b'",
	                              "b'01'",
	                              "x'ff'",
	                              "N'a'",
	                              "$$f$$",
	                              "$x$g$$h$x$",
	                              "\"a\"",
	                              "\"A\"",
	                              "\"a\"\"b\"",
	                              "\"abcdefgh\"",
	                              "\"abcdefghi\"",
	                              "-- c\n",
	                              "/* d */",
	                              "/* /**/ */",
	                              "\001",
	                              "\177" };

static const char *const gaps[] = { " ", "", " ", " ", "\t\n", "/**/", "--\n" };

#define PIECES 32

struct random_text {
	unsigned int count;
	unsigned int pieces[PIECES], gaps[PIECES];
};

/* xorshift: the same texts in each run. */
static unsigned int draw(uint64_t *state, size_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (unsigned int)((*state >> 20) % below);
}

static void draw_text(uint64_t *state, struct random_text *text)
{
	text->count = draw(state, PIECES + 1);
	for (unsigned int i = 0; i < text->count; i++) {
		text->pieces[i] = draw(state, COUNT_OF(pieces));
		text->gaps[i] = draw(state, COUNT_OF(gaps));
	}
}

static struct bytes write_text(const struct random_text *text, char *out)
{
	char *at = out;

	*at = 0;
	for (unsigned int i = 0; i < text->count; i++) {
		at = stpcpy(at, gaps[text->gaps[i]]);
		at = stpcpy(at, pieces[text->pieces[i]]);
	}
	return bytes_of(out, (size_t)(at - out));
}

/* Of these, another text would be printed. The last sign before a constant belongs to it. */
static bool has_any(const char *text)
{
	static const char *const parts[] = { "N'",  "\303", "\001", "\177",
		                             "- -", "- +",  "+ -",  "+ +" };

	for (size_t i = 0; i < COUNT_OF(parts); i++) {
		if (strstr(text, parts[i]))
			return true;
	}
	return false;
}

/* What was printed without leaving anything out is the same statement. */
START_TEST(printed_is_the_same)
{
	uint64_t state = 0x2545f4914f6cdd1d;
	unsigned int count = 0;

	for (int i = 0; i < 20000; i++) {
		char one[PIECES * PIECE_MAX], out[PIECES * PIECE_MAX * 2];
		struct strbuf printed = strbuf_begin(out, sizeof(out));
		struct random_text drawn;
		struct bytes text;

		draw_text(&state, &drawn);
		memset(drawn.gaps, 0, sizeof(drawn.gaps));
		if (drawn.count)
			drawn.pieces[drawn.count - 1] = 0; /* a sign at the end does not count */
		text = write_text(&drawn, one);
		sql_digest_query(text, &printed);
		if (strstr(out, "...") || has_any(one))
			continue;
		count++;
		if (sql_digest(text) != of(out))
			ck_abort_msg("%s | %s", one, out);
	}
	ck_assert(count > 2000);
}
END_TEST

/* begin, `count` times `item`, end. */
static struct bytes repeated(const char *begin, const char *item, size_t count, const char *end)
{
	size_t size = strlen(begin) + count * strlen(item) + strlen(end);
	char *text = malloc(size + 1), *at = stpcpy(text, begin);

	while (count--)
		at = stpcpy(at, item);
	stpcpy(at, end);
	return bytes_of(text, size);
}

static uint64_t of_repeated(const char *begin, const char *item, size_t count, const char *end)
{
	struct bytes text = repeated(begin, item, count, end);
	uint64_t digest = sql_digest(text);

	free((char *)text.at);
	return digest;
}

/* What is behind the limit does not count, and an item that it cuts does not either. */
START_TEST(long_texts)
{
	static const char begin[] = "INSERT INTO t VALUES (1, 'a')", row[] = ", (23, 'bcd')";
	uint64_t one = of_repeated(begin, row, 0, "");

	ck_assert(of_repeated(begin, row, 1000, "") == one);
	ck_assert(of_repeated(begin, row, 10000, "") == one);
	for (size_t i = 0; i < 13; i++) /* the limit is at each byte of a row once */
		ck_assert(of_repeated(begin, row, SQL_DIGEST_MAX / 13 - i, "garbage (") == one ||
		          i > 1);
	ck_assert(of_repeated("", "a+", SQL_DIGEST_MAX / 2, "b") ==
	          of_repeated("", "a+", SQL_DIGEST_MAX / 2, "c"));
	ck_assert(of_repeated("", "a+", SQL_DIGEST_MAX / 2 - 1, "b") !=
	          of_repeated("", "a+", SQL_DIGEST_MAX / 2 - 1, "c"));
}
END_TEST

/* Lists too deep are no lists, and nothing overflows. */
START_TEST(deep_texts)
{
	static const char *const opening[] = { "(", "IN (", "ARRAY[", "VALUES (", "[", ")", "]" };

	for (size_t i = 0; i < COUNT_OF(opening); i++) {
		uint64_t once = of_repeated("", opening[i], 5000, "1, 2");

		ck_assert(once == of_repeated("", opening[i], 5000, "1, 2"));
		ck_assert(once != of_repeated("", opening[i], 4999, "1, 2"));
	}
	ck_assert(of_repeated("a IN (1, ", "(", 100, "2") ==
	          of_repeated("a IN (1, ", "(", 100, "3"));
}
END_TEST

/* No part of a constant is printed, whatever the session's settings are. */
static const struct {
	const char *text;
	const char *printed;
} secrets[] = {
	{ "ALTER ROLE a PASSWORD 'secret'", "ALTER ROLE a PASSWORD ?" },
	{ "SELECT 'secret", "SELECT" },
	{ "SELECT 1 -- secret", "SELECT ?" },
	{ "SELECT /* secret */ 1", "SELECT ?" },
	{ "SELECT 'a\\' secret', 1", "SELECT ..." },
	{ "SELECT E'a\\' secret', 1", "SELECT ?, ?" },
	{ "SELECT $a$ secret $a$, $b$ secret", "SELECT ?," },
	{ "SELECT \"a\nb\303\244\"", "SELECT \"a?b??\"" },
	{ "SELECT a IN ('secret', 'a\\' secret', b)", "SELECT a IN (?, ..." },
};

START_TEST(nothing_secret)
{
	char out[100];
	struct strbuf text = strbuf_begin(out, sizeof(out));

	sql_digest_text(bytes_text(secrets[_i].text), &text);
	ck_assert_str_eq(out, secrets[_i].printed);
}
END_TEST

START_TEST(text_is_cut)
{
	char out[12];
	struct strbuf text = strbuf_begin(out, sizeof(out));

	sql_digest_text(bytes_text("SELECT abcdefghijk FROM t"), &text);
	ck_assert_str_eq(out, "SELECT abcd");
}
END_TEST

/* As pg_stat_statements prints them. */
static const struct {
	const char *text;
	const char *printed;
} queries[] = {
	{ "SELECT 1", "SELECT $1" },
	{ "select 'a', -5 , b", "select $1, $2 , b" },
	{ "SELECT $2, 7, $1", "SELECT $2, $3, $1" },
	{ "SELECT $$a$$, $1", "SELECT $2, $1" },
	{ "SELECT a IN (1, 2, 3), 4", "SELECT a IN ($1, ...), $2" },
	{ "SELECT 'a\\' secret', 1", "SELECT ..." },
	{ "SELECT $70000, 1", "SELECT $70000, $1" },
	{ "SELECT $99999999999999999999, 1", "SELECT $99999999999999999999, $1" },
	{ "SELECT $1a, 1", "SELECT $1a, $2" },
	{ "", "" },
};

START_TEST(constants_are_numbered)
{
	char out[100];
	struct strbuf text = strbuf_begin(out, sizeof(out));

	sql_digest_query(bytes_text(queries[_i].text), &text);
	ck_assert_str_eq(out, queries[_i].printed);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_digest");
	TCase *tests = tcase_create("sql_digest");

	tcase_add_loop_test(tests, same_digest, 0, COUNT_OF(same));
	tcase_add_loop_test(tests, different_digest, 0, COUNT_OF(different));
	tcase_add_test(tests, stays_the_same);
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(same));
	tcase_add_test(tests, printed_is_the_same);
	tcase_add_test(tests, long_texts);
	tcase_add_test(tests, deep_texts);
	tcase_add_loop_test(tests, nothing_secret, 0, COUNT_OF(secrets));
	tcase_add_test(tests, text_is_cut);
	tcase_add_loop_test(tests, constants_are_numbered, 0, COUNT_OF(queries));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
