/* SPDX-License-Identifier: ISC */
/*
 * pool/catalog.h.
 */
#include "pgweir/pool/catalog.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_touch.h"

#include "../unit.h"

static struct catalog_reading *question;

static void ask(void) { question = catalog_ask(true, 7, 1); }

static void forget(void) { catalog_reading_release(&question); }

/* A row of these values. */
static void answer(const char *const *values, uint16_t count)
{
	struct buf out = { 0 };
	size_t at = message_row_begin(&out, count);

	for (uint16_t i = 0; i < count; i++)
		message_row_text(&out, values[i]);
	message_end(&out, at);
	catalog_row(question, bytes_skip(buf_bytes(&out), FRAME_HEADER_SIZE));
	buf_free(&out);
}

static void answer_changes(const char *changes)
{
	const char *values[] = { changes };

	answer(values, 1);
}

static void answer_name(const char *kind, const char *name, const char *letters)
{
	const char *values[] = { kind, name, letters, "" };

	answer(values, 4);
}

static unsigned int touched(const char *text)
{
	return sql_touchers_in(&question->names, bytes_text(text), NULL);
}

START_TEST(texts)
{
	struct catalog_reading *small = catalog_ask(false, 0, 0);
	struct buf out = { 0 };

	catalog_text(question, &out);
	ck_assert_ptr_nonnull(strstr(out.at, "pg_stat_get_tuples_inserted"));
	ck_assert_ptr_nonnull(strstr(out.at, "WITH RECURSIVE"));
	ck_assert_ptr_null(
	    strchr(out.at, '\\')); /* it would mean something else with other settings */
	buf_clear(&out);
	catalog_text(small, &out);
	ck_assert_ptr_null(strstr(out.at, "WITH RECURSIVE"));
	buf_free(&out);
	catalog_reading_release(&small);
}
END_TEST

START_TEST(quiet)
{
	answer_changes("1.5 10");
	ck_assert(catalog_end(question, false));
	ck_assert_int_eq(question->state, CATALOG_QUIET);
	ck_assert_uint_eq(question->ddl_count, 7);
	ck_assert_str_eq(question->changes, "1.5 10");
}
END_TEST

/* What is not known counts as any text. */
static const struct {
	const char *use, *none;
	enum catalog_sequences sequences, if_any;
} sequences[] = {
	{ "written", "none", CATALOG_SEQUENCES_NONE, CATALOG_SEQUENCES_WRITTEN },
	{ "called", "none", CATALOG_SEQUENCES_NONE, CATALOG_SEQUENCES_CALLED },
	{ "written", "", CATALOG_SEQUENCES_WRITTEN, CATALOG_SEQUENCES_WRITTEN },
	{ "called", "", CATALOG_SEQUENCES_CALLED, CATALOG_SEQUENCES_CALLED },
	{ "", "", CATALOG_SEQUENCES_CALLED, CATALOG_SEQUENCES_CALLED },
	{ NULL, NULL, CATALOG_SEQUENCES_CALLED, CATALOG_SEQUENCES_CALLED },
};

START_TEST(use_of_sequences)
{
	answer_changes("1 1");
	if (sequences[_i].use)
		answer_name("sequences", sequences[_i].use, sequences[_i].none);
	ck_assert(catalog_end(question, false));
	ck_assert_int_eq(question->sequences, sequences[_i].sequences);
	ck_assert_int_eq(question->sequences_if_any, sequences[_i].if_any);
	ck_assert_int_eq(question->state, CATALOG_QUIET);
}
END_TEST

/* Texts of relations: what they call or are made like. */
static const struct {
	const char *texts;
	size_t size;
	bool is_known;
} definitions[] = {
	{ "CREATE TABLE x (a int)", 23, true },
	{ "CREATE TABLE x (a int DEFAULT f(1))", 36, false },
	{ "CREATE TABLE x (f int)", 23, true },
	{ "CREATE TABLE x (LIKE v)", 24, false },
	{ "CREATE TABLE x ()\0ALTER TABLE v RENAME TO w", 44, false },
	{ "CREATE TABLE x (a text DEFAULT 'v')\0CREATE INDEX ON x (a)", 58, true },
	{ "", 0, true },
};

START_TEST(definitions_that_a_reading_knows)
{
	answer_changes("1 1");
	answer_name("function", "f", "p");
	answer_name("view", "v", "n");
	ck_assert(catalog_end(question, false));
	ck_assert_int_eq(
	    catalog_knows(question, bytes_of(definitions[_i].texts, definitions[_i].size)),
	    definitions[_i].is_known);
}
END_TEST

START_TEST(a_reading_that_knows_nothing)
{
	catalog_end(question, true);
	ck_assert(!catalog_knows(question, bytes_of("CREATE TABLE x ()", 18)));
	question->state = CATALOG_ANY; /* any text counts anyway */
	ck_assert(catalog_knows(question, bytes_of("CREATE TABLE x (LIKE v)", 24)));
}
END_TEST

/* The letters of what a name touches. One that is not known may be anything. */
static const struct {
	const char *letters;
	unsigned int bits;
	enum catalog_state state;
} letters[] = {
	{ "p", SQL_TOUCH_PARAMS, CATALOG_TOUCHES },
	{ "t", SQL_TOUCH_TEMP, CATALOG_TOUCHES },
	{ "l", SQL_TOUCH_LOCK, CATALOG_TOUCHES },
	{ "c", SQL_TOUCH_LISTEN, CATALOG_TOUCHES },
	{ "n", SQL_TOUCH_NOTIFY, CATALOG_QUIET },
	{ "s", SQL_TOUCH_SCOPE, CATALOG_QUIET },
	{ "u", SQL_TOUCH_CURSOR, CATALOG_TOUCHES },
	{ "x", SQL_TOUCH_EXTENSION, CATALOG_TOUCHES },
	{ "h", SQL_TOUCH_HIDDEN, CATALOG_TOUCHES },
	{ "pl", SQL_TOUCH_PARAMS | SQL_TOUCH_LOCK, CATALOG_TOUCHES },
	{ "?", SQL_TOUCH_HIDDEN, CATALOG_TOUCHES },
	{ "", SQL_TOUCH_HIDDEN, CATALOG_TOUCHES },
};

START_TEST(a_name)
{
	answer_changes("1 1");
	answer_name("function", "f", letters[_i].letters);
	ck_assert(catalog_end(question, false));
	ck_assert_uint_eq(touched("SELECT f(1)"), letters[_i].bits);
	ck_assert_uint_eq(touched("SELECT f"), 0);
	ck_assert_int_eq(question->state, letters[_i].state);
}
END_TEST

START_TEST(kinds)
{
	answer_changes("1 1");
	answer_name("view", "v", "p");
	answer_name("parameter", "app.x", "");
	answer_name("event trigger", "0event", "l");
	ck_assert(catalog_end(question, false));
	ck_assert_uint_eq(touched("TABLE v"), SQL_TOUCH_PARAMS);
	ck_assert_uint_eq(touched("CREATE VIEW x AS SELECT 1"), SQL_TOUCH_LOCK);
	ck_assert_uint_eq(touched("SELECT 1"), 0);
	ck_assert_str_eq(question->parameters.at, "app.x");
	ck_assert_str_eq(catalog_kind_name((enum catalog_kind)question->names.list[0].kind),
	                 "view");
}
END_TEST

START_TEST(any_text)
{
	answer_changes("1 1");
	answer_name("function", "f", "p");
	answer_name("any text", "*", "p");
	answer_name("any text", "the second reason", "h");
	ck_assert(catalog_end(question, false));
	ck_assert_int_eq(question->state, CATALOG_ANY);
	ck_assert_ptr_nonnull(strstr(question->why, "operator"));
}
END_TEST

/* So many names are kept; with more any text counts. */
START_TEST(limits)
{
	char name[64];

	answer_changes("1 1");
	for (int i = 0; i < CATALOG_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		answer_name("function", name, "p");
	}
	ck_assert_int_eq(question->state, CATALOG_TOUCHES);
	answer_name("function", "one_more", "p");
	ck_assert_int_eq(question->state, CATALOG_ANY);
	ck_assert_uint_eq(question->names.count, CATALOG_NAMES_MAX);
}
END_TEST

START_TEST(limit_of_bytes)
{
	char name[1025];

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	answer_changes("1 1");
	for (size_t i = 0; i < CATALOG_SIZE_MAX / 1024; i++)
		answer_name("function", name, "p");
	ck_assert_int_eq(question->state, CATALOG_ANY);
	ck_assert_uint_le(question->names.names.count, CATALOG_SIZE_MAX);
}
END_TEST

START_TEST(no_answer)
{
	ck_assert(!catalog_end(question, false));
	ck_assert_int_eq(question->state, CATALOG_UNREAD);
}
END_TEST

START_TEST(a_failure)
{
	answer_changes("1 1");
	answer_name("function", "f", "p");
	ck_assert(!catalog_end(question, true));
	ck_assert_int_eq(question->state, CATALOG_UNREAD);
	ck_assert_str_eq(question->why, "it could not be read");
}
END_TEST

/* Rows in another order say the same; other rows do not. */
START_TEST(digests)
{
	uint64_t digest;

	answer_name("function", "f", "p");
	answer_name("function", "g", "l");
	digest = question->digest;
	forget();
	ask();
	answer_name("function", "g", "l");
	ck_assert_uint_ne(question->digest, digest);
	answer_name("function", "f", "p");
	ck_assert_uint_eq(question->digest, digest);
}
END_TEST

static const struct {
	const char *before, *now;
	bool has_changed, is_other;
} changes[] = {
	{ "1.5 10", "1.5 10", false, false },
	{ "1.5 10", "1.5 11", true, false },
	{ "1.5 10", "2.5 10", true, true },
	{ "1.5 10", "1.50 10", true, true },
};

START_TEST(changes_are_noticed)
{
	struct catalog_reading *next = catalog_ask(false, 0, 0);
	bool is_other;

	answer_changes(changes[_i].before);
	catalog_end(question, false);
	snprintf(next->changes, sizeof(next->changes), "%s", changes[_i].now);
	ck_assert_int_eq(catalog_has_changed(next, question, &is_other), changes[_i].has_changed);
	ck_assert_int_eq(is_other, changes[_i].is_other);
	catalog_reading_release(&next);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/catalog");
	TCase *tcase = tcase_create("catalog");

	tcase_add_checked_fixture(tcase, ask, forget);
	tcase_add_test(tcase, texts);
	tcase_add_test(tcase, quiet);
	tcase_add_loop_test(tcase, use_of_sequences, 0, COUNT_OF(sequences));
	tcase_add_loop_test(tcase, definitions_that_a_reading_knows, 0, COUNT_OF(definitions));
	tcase_add_test(tcase, a_reading_that_knows_nothing);
	tcase_add_loop_test(tcase, a_name, 0, COUNT_OF(letters));
	tcase_add_test(tcase, kinds);
	tcase_add_test(tcase, any_text);
	tcase_add_test(tcase, limits);
	tcase_add_test(tcase, limit_of_bytes);
	tcase_add_test(tcase, no_answer);
	tcase_add_test(tcase, a_failure);
	tcase_add_test(tcase, digests);
	tcase_add_loop_test(tcase, changes_are_noticed, 0, COUNT_OF(changes));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
