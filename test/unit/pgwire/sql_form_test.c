/* SPDX-License-Identifier: ISC */
/*
 * src/pgwire/sql_form_priv.h.
 */
#include "../../../src/pgwire/sql_form_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/sql_digest.h"

#include "../unit.h"

#define TEXT_MAX 400
#define PIECES_MAX 12
#define TRIES 200000

static const struct hash_key secret = { { 1, 2 } };

/* With no byte more than it may read and write. To be freed. */
static struct bytes form_of(struct bytes text)
{
	char *copy = malloc(text.count + 1), *form = malloc(text.count + SQL_FORM_ROOM);
	size_t size;

	ck_assert(copy && form);
	memcpy(copy + 1, text.at, text.count); /* not aligned */
	size = sql_form(bytes_of(copy + 1, text.count), form);
	ck_assert_uint_le(size, text.count);
	free(copy);
	return bytes_of(form, size);
}

static void check_form(const char *text, const char *expected)
{
	struct bytes form = form_of(bytes_text(text));

	ck_assert_msg(bytes_are(form, expected), "%s: %.*s", text, (int)form.count, form.at);
	free((void *)form.at);
}

static void check_itself(const char *text) { check_form(text, text); }

START_TEST(numbers)
{
	check_form("SELECT a FROM t WHERE b = 12345;", "SELECT a FROM t WHERE b = 0;");
	check_form("SELECT a FROM t WHERE b = 12345", "SELECT a FROM t WHERE b = 0");
	check_form("12345 SELECT a FROM t", "0 SELECT a FROM t");
	check_form("SELECT a FROM t LIMIT 10 OFFSET 1", "SELECT a FROM t LIMIT 0 OFFSET 0");
	check_form("SELECT a FROM t WHERE b IN (1,22,333)", "SELECT a FROM t WHERE b IN (0,0,0)");
	check_form("UPDATE t SET a = a + -12.50 , b=1.", "UPDATE t SET a = a + -0 , b=0");
	check_form("SELECT ARRAY[1, 2, 3]::int[]", "SELECT ARRAY[0, 0, 0]::int[]");
	check_form("SELECT 12345678901234567890123456789012345678901234567890, 7", "SELECT 0, 0");
}
END_TEST

START_TEST(parts_of_other_tokens)
{
	check_itself("SELECT t0.a, t1.b2 FROM t0, t1 x7");
	check_itself("SELECT \"a 1\", \"b\", \"-- 5 \", \"it's 5\" FROM t");
	check_itself("SELECT $1, a$2, $3 FROM t WHERE b = $44");
	check_itself(
	    "SELECT a FROM t WHERE b = 1e5 OR b = 0x1F OR b = 1_000 OR b = .5 OR b = 1e-5.5");
	check_form("SELECT a1 FROM \"t 5\" WHERE b = 5", "SELECT a1 FROM \"t 5\" WHERE b = 0");
}
END_TEST

START_TEST(strings)
{
	check_form("SELECT a FROM t WHERE b = 'some text' AND c = 'x'",
	           "SELECT a FROM t WHERE b = '' AND c = ''");
	check_form("SELECT a FROM t WHERE b = 'it''s 5 \"o''clock\" -- /* $$'",
	           "SELECT a FROM t WHERE b = ''''''");
	check_form("SELECT a FROM t WHERE b = 'a\\'", "SELECT a FROM t WHERE b = ''");
	check_form("SELECT a FROM t WHERE b = ''", "SELECT a FROM t WHERE b = ''");
	check_form("SELECT x'1f', b'01', n'a', u&'a' FROM t", "SELECT x'', b'', n'', u&'' FROM t");
}
END_TEST

/* What may be a comment, a dollar quote, or a string with escapes; or does not end. */
START_TEST(hard_places)
{
	check_itself("SELECT a FROM t WHERE b = 5 -- 7");
	check_itself("SELECT a FROM t WHERE b = 5 /* 7 */");
	check_itself("SELECT a FROM t WHERE b = 5 OR c = $$7$$");
	check_itself("SELECT a FROM t WHERE b = 5 OR c = $x$ 7 $x$");
	check_itself("SELECT a FROM t WHERE b = 5 OR c = $");
	check_itself("SELECT a FROM t WHERE b = 5 OR c = E'7'");
	check_itself("SELECT a FROM t WHERE b = 5 OR c = '7");
	check_itself("SELECT a FROM t WHERE b = 5 OR c = \"7");
	check_form("SELECT a FROM t WHERE b = 5 - 7 / 9 * 3 -",
	           "SELECT a FROM t WHERE b = 0 - 0 / 0 * 0 -");
}
END_TEST

START_TEST(short_texts)
{
	check_itself("");
	check_itself("5");
	check_itself("SELECT 12345678");
	check_form("SELECT 123456789", "SELECT 0");
}
END_TEST

/* Each constant, at each place of the sixteen bytes that are looked at together. */
START_TEST(every_place)
{
	static const char *const constants[] = { "1", "123456789012345678901234567890", "'a'",
		                                 "''" };
	static const char *const forms[] = { "0", "0", "''", "''" };

	for (size_t c = 0; c < COUNT_OF(constants); c++) {
		for (int before = 0; before < 40; before++) {
			for (int behind = 0; behind < 20; behind++) {
				char text[TEXT_MAX], expected[TEXT_MAX];

				snprintf(text, sizeof(text), "SELECT a FROM t%*s%s%*s", before + 1,
				         " ", constants[c], behind, "");
				snprintf(expected, sizeof(expected), "SELECT a FROM t%*s%s%*s",
				         before + 1, " ", forms[c], behind, "");
				check_form(text, expected);
			}
		}
	}
}
END_TEST

static struct bytes random_text(char *text)
{
	static const char *const pieces[] = {
		"SELECT", "select a", " ",   "\n", "5",      "12.5",     "1e",     "1e+5",
		".",      ",",        "(",   ")",  "[",      "]",        "'",      "'a'",
		"\"",     "\"b\"",    "$",   "$1", "$a$",    "-",        "+",      "--",
		"/*",     "*/",       "/",   "\\", "e'",     "E'\\'",    "U&'",    "in (",
		";",      "null",     "= 7", "_",  "x1f'0'", "\xc3\xa4", "array[", "values ",
	};
	size_t count = 0;

	for (long i = random() % PIECES_MAX; i >= 0; i--) {
		const char *piece = pieces[(size_t)random() % COUNT_OF(pieces)];

		memcpy(text + count, piece, strlen(piece));
		count += strlen(piece);
	}
	return bytes_of(text, count);
}

START_TEST(has_the_digest_of_the_text)
{
	struct sql_digest_key key = sql_digest_key(&secret);
	int others = 0;

	srandom(1);
	for (int i = 0; i < TRIES; i++) {
		char text[TEXT_MAX];
		struct bytes whole = random_text(text), form = form_of(whole);

		ck_assert_msg(sql_digest(&key, whole) == sql_digest(&key, form), "%.*s: %.*s",
		              (int)whole.count, whole.at, (int)form.count, form.at);
		others += !bytes_equal(whole, form);
		free((void *)form.at);
	}
	ck_assert_int_gt(others, TRIES / 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_form");
	TCase *tests = tcase_create("sql_form");

	tcase_add_test(tests, numbers);
	tcase_add_test(tests, parts_of_other_tokens);
	tcase_add_test(tests, strings);
	tcase_add_test(tests, hard_places);
	tcase_add_test(tests, short_texts);
	tcase_add_test(tests, every_place);
	tcase_add_test(tests, has_the_digest_of_the_text);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
