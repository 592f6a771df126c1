/* SPDX-License-Identifier: ISC */
/*
 * base/close_reason.c: every reason has its row, and only so many rows there are.
 */
#include "pgweir/base/close_reason.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

static const struct {
	const char *words;
	enum err_code code;
	const char *name;
} cases[] = {
	{ "client_login_timeout", ERR_LIMIT, "client_login_timeout" },
	{ "client_login_timeout (server down)", ERR_LIMIT, "client_login_timeout (server down)" },
	{ "no such database: x", ERR_NO_DATABASE, "no such database" },
	{ "query timeout", ERR_QUERY_CANCELED, "query timeout" },
	{ "query_timeout", ERR_QUERY_CANCELED, "query_timeout while waiting" },
	{ "something new", ERR_PROTOCOL, "other: broken protocol" },
	{ "something new", ERR_NONE, "other" },
	{ "", ERR_NONE, "other" },
	{ "password authentication failed for user \"x\"", ERR_FOREIGN, "refused by PostgreSQL" },
	{ "pgweir's own login as \"x\" at y: password authentication failed", ERR_NOT_ALLOWED,
	  "pgweir's own login refused" },
	{ "password authentication failed", ERR_PASSWORD, "password authentication failed" },
	{ "server login has been failing, cached error: x (server_login_retry)", ERR_FOREIGN,
	  "server login has been failing" },
};

START_TEST(reason_is_found_by_its_words)
{
	const struct close_reason_row *found =
	    close_reason_row(close_reason_find(cases[_i].code, cases[_i].words));

	ck_assert_ptr_nonnull(found);
	ck_assert_str_eq(found->name, cases[_i].name);
}
END_TEST

START_TEST(every_row_is_named_and_has_a_counter)
{
	size_t count = 0;

	for (; close_reason_row(count); count++) {
		ck_assert_ptr_nonnull(close_reason_row(count)->name);
		ck_assert_uint_gt(strlen(close_reason_row(count)->name), 0);
		for (size_t i = 0; i < count; i++)
			ck_assert_str_ne(close_reason_row(i)->name, close_reason_row(count)->name);
	}
	ck_assert_uint_le(count, CLOSE_REASONS_MAX);
	for (int code = 0; code < ERR_CODES; code++)
		ck_assert_uint_lt(close_reason_find((enum err_code)code, "no row knows this"),
		                  count);
}
END_TEST

START_TEST(close_reason_note_counts_and_keeps_the_last)
{
	struct close_counts *counts = calloc(1, sizeof(*counts));
	size_t row = close_reason_find(ERR_NONE, "evicted for pool_size");
	char name[200];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	close_reason_note(counts, &(struct close_told){ .words = "evicted for pool_size",
	                                                .database = "one",
	                                                .user = "a" });
	ck_assert_str_eq(counts->counts[row].message, "evicted for pool_size");
	close_reason_note(counts, &(struct close_told){ .words = "evicted for pool_size",
	                                                .detail = "a\nb\x1b",
	                                                .database = name,
	                                                .user = "b" });
	ck_assert_uint_eq(counts->counts[row].count, 2);
	ck_assert_uint_eq(strlen(counts->counts[row].database), CLOSE_NAME_SIZE - 1);
	ck_assert_str_eq(counts->counts[row].user, "b");
	ck_assert(counts->counts[row].wall_last > 0);
	ck_assert_str_eq(counts->counts[row].message, "evicted for pool_size: a b ");
	free(counts);
}
END_TEST

/* Cut at its limit, and not within a character. */
START_TEST(a_long_message_is_cut)
{
	struct close_counts *counts = calloc(1, sizeof(*counts));
	char words[2 * CLOSE_MESSAGE_SIZE + 1];
	size_t row;

	for (size_t shift = 0; shift < 3; shift++) {
		memset(words, 'x', shift);
		for (size_t at = shift; at < 2 * CLOSE_MESSAGE_SIZE; at++)
			words[at] = "\xe2\x82\xac"[(at - shift) % 3];
		words[2 * CLOSE_MESSAGE_SIZE] = 0;
		row = close_reason_find(ERR_FOREIGN, words);
		close_reason_note(counts, &(struct close_told){ .code = ERR_FOREIGN,
		                                                .words = words,
		                                                .database = "d",
		                                                .user = "u" });
		ck_assert_uint_ge(strlen(counts->counts[row].message), CLOSE_MESSAGE_SIZE - 4);
		ck_assert_uint_eq((strlen(counts->counts[row].message) - shift) % 3, 0);
	}
	free(counts);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/close_reason");
	TCase *tests = tcase_create("close_reason");

	tcase_add_loop_test(tests, reason_is_found_by_its_words, 0, COUNT_OF(cases));
	tcase_add_test(tests, every_row_is_named_and_has_a_counter);
	tcase_add_test(tests, close_reason_note_counts_and_keeps_the_last);
	tcase_add_test(tests, a_long_message_is_cut);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
