/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_digest.h.
 */
#include "pgweir/pgwire/sql_digest.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

static const struct hash_key key = { { 1, 2 } };

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
	{ "SELECT 1", "SELECT E'a\\'b'", "SELECT ?" },
	{ "SELECT 1", "SELECT $$a$$", "SELECT ?" },
	{ "SELECT 1", "SELECT $x$a$$b$x$", "SELECT ?" },
	{ "SELECT 1", "SELECT 1;", "SELECT ?" },
	{ "SELECT 1", "; SELECT 1 ; ; -- end", "SELECT ?" },
	{ "SELECT 1", "/* a /* b */ c */SELECT/**/1", "SELECT ?" },
	{ "SELECT 1; SELECT 2", "SELECT 1;;SELECT 2;", "SELECT ?; SELECT ?" },
	{ "a = 1", "a = -1", "a = ?" },
	{ "a = 1", "a = - 1", "a = ?" },
	{ "a = 1", "a = -.5", "a = ?" },
	{ "a=1", "a = NULL", "a=?" },
	{ "a = true AND b", "a = false AND b", "a = ? AND b" },
	{ "Select A.\"B\" FROM A", "SELECT a.\"B\" from a", "Select A.\"B\" FROM A" },
	{ "a IN (1)", "a IN (1, 2, 3)", "a IN (?)" },
	{ "a IN (1, 2)", "a IN ($1,$2,$3)", "a IN (?, ...)" },
	{ "a IN (-1, NULL)", "a IN (1)", "a IN (?, ...)" },
	{ "a IN (1, b)", "a IN (b, 1, 2, b)", "a IN (?, ...)" },
	{ "a IN (1::int, 2::int)", "a IN (3::int)", "a IN (?::int, ...)" },
	{ "a IN ((1, 2), (3, 4)) x", "a IN ((5, 6)) x", "a IN ((?, ?), ...) x" },
	{ "a IN (1, (2 + 3))", "a IN ((5 + 6), 7, 8)", "a IN (?, ...)" },
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
	{ "VALUES (1, now()), (now(), 1)", "VALUES (now(), 1), (1, now())",
	  "VALUES (?, now()), ..." },
	{ "VALUES (1), (2) UNION VALUES (3)", "VALUES (1) UNION VALUES (2), (3)",
	  "VALUES (?), ... UNION VALUES (?)" },
	{ "a IN (1, f(b IN (1, 2), c))", "a IN (f(b IN (3), c), 4)", "a IN (?, ...)" },
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
	{ "SELECT a - 1", "SELECT a + 1" },
	{ "SELECT (a) - 1", "SELECT (a) + 1" },
	{ "a IS NULL", "a IS TRUE" },
	{ "SELECT t.true", "SELECT t.false" },
	{ "SELECT 1; SELECT 2", "SELECT 1 SELECT 2" },
	{ "f(1)", "f(1, 2)" },
	{ "VALUES (1)", "VALUES (1, 2)" },
	{ "VALUES (1)", "VALUES (a)" },
	{ "VALUES (1), (a)", "VALUES (1)" },
	{ "VALUES (1), a", "VALUES (1), b" },
	{ "a IN (1)", "a IN (1) AND b" },
	{ "a IN (1, b)", "a IN (1, c)" },
	{ "a IN (SELECT b, c FROM t)", "a IN (SELECT c FROM t, SELECT b)" },
	{ "a IN (SELECT b, b FROM t)", "a IN (SELECT b FROM t)" },
	{ "ARRAY[1]", "ARRAY(1)" },
	{ "ARRAY[f(1)]", "ARRAY[f(1, 1)]" },
	{ "a[1]", "a[1, 2]" },
	{ "a[1]", "a[1:2]" },
	{ "(((a", "((a" },
};

static uint64_t of(const char *text) { return sql_digest(&key, bytes_text(text)); }

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

START_TEST(key_counts)
{
	struct hash_key other = { { 1, 3 } };

	ck_assert(sql_digest(&key, bytes_text("a")) != sql_digest(&other, bytes_text("a")));
	ck_assert(of("a") == sql_digest(&key, bytes_text("a")));
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
		ck_assert(sql_digest(&key, bytes_of(copy, count)) ==
		          sql_digest(&key, bytes_of(all, count)));
		sql_digest_text(bytes_of(copy, count), &text);
		ck_assert_uint_eq(strlen(out), text.count);
		free(copy);
	}
}
END_TEST

/* begin, `count` times `item`, end. */
static struct bytes repeated(const char *begin, const char *item, size_t count, const char *end)
{
	size_t size = strlen(begin) + count * strlen(item) + strlen(end);
	char *text = malloc(size + 1), *at = stpcpy(text, begin);

	while (count--)
		at = stpcpy(at, item);
	strcpy(at, end);
	return bytes_of(text, size);
}

static uint64_t of_repeated(const char *begin, const char *item, size_t count, const char *end)
{
	struct bytes text = repeated(begin, item, count, end);
	uint64_t digest = sql_digest(&key, text);

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
	ck_assert(of_repeated(begin, ", (now(), 'bcd')", 1000, "") != one);
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
	tcase_add_test(tests, key_counts);
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(same));
	tcase_add_test(tests, long_texts);
	tcase_add_test(tests, deep_texts);
	tcase_add_loop_test(tests, nothing_secret, 0, COUNT_OF(secrets));
	tcase_add_test(tests, text_is_cut);
	tcase_add_loop_test(tests, constants_are_numbered, 0, COUNT_OF(queries));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
