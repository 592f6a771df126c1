/* SPDX-License-Identifier: ISC */
/*
 * base/err.c: every reason has its row, and what is counted for it.
 */
#include "pgweir/base/close_reason.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

START_TEST(every_reason_has_a_name_of_its_own)
{
	for (int i = 0; i < CLOSE_REASONS; i++) {
		const char *name = close_reason_row((enum close_reason)i)->name;

		ck_assert_msg(name && *name, "reason %d has no name", i);
		for (int j = 0; j < i; j++)
			ck_assert_str_ne(close_reason_row((enum close_reason)j)->name, name);
	}
}
END_TEST

/* So that an error counts under its code if nothing else is said. */
START_TEST(the_first_reasons_are_those_of_the_codes)
{
	ck_assert_int_eq(CLOSE_CLIENT_QUIT, ERR_CODES);
	for (int code = 0; code < ERR_CODES; code++)
		ck_assert_int_eq(close_reason_row((enum close_reason)code)->code, code);
}
END_TEST

START_TEST(close_reason_note_counts_and_keeps_the_last)
{
	struct close_counts *counts = calloc(1, sizeof(*counts));
	const struct close_count *count = &counts->counts[CLOSE_EVICTED_POOL];
	char name[200];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	close_reason_note(counts, &(struct close_told){ .reason = CLOSE_EVICTED_POOL,
	                                                .words = "evicted for pool_size",
	                                                .database = "one",
	                                                .user = "a" });
	ck_assert_str_eq(count->message, "evicted for pool_size");
	close_reason_note(counts, &(struct close_told){ .reason = CLOSE_EVICTED_POOL,
	                                                .words = "evicted for pool_size",
	                                                .detail = "a\nb\x1b",
	                                                .database = name,
	                                                .user = "b" });
	ck_assert_uint_eq(count->count, 2);
	ck_assert_uint_eq(strlen(count->database), CLOSE_NAME_SIZE - 1);
	ck_assert_str_eq(count->user, "b");
	ck_assert(count->wall_last > 0);
	ck_assert_str_eq(count->message, "evicted for pool_size: a b ");
	ck_assert_uint_eq(sparse_sum_at(&counts->of_none, CLOSE_EVICTED_POOL), 2);
	ck_assert_uint_eq(sparse_sum_at(&counts->of_none, CLOSE_EVICTED_POOL + 1), 0);
	sparse_sum_free(&counts->of_none);
	free(counts);
}
END_TEST

/* Cut at its limit, but not within a character. */
START_TEST(a_long_message_is_cut)
{
	struct close_counts *counts = calloc(1, sizeof(*counts));
	char words[2 * CLOSE_MESSAGE_SIZE + 1];
	const struct close_count *count = &counts->counts[ERR_FOREIGN];

	for (size_t shift = 0; shift < 3; shift++) {
		memset(words, 'x', shift);
		for (size_t at = shift; at < 2 * CLOSE_MESSAGE_SIZE; at++)
			words[at] = "\xe2\x82\xac"[(at - shift) % 3];
		words[2 * CLOSE_MESSAGE_SIZE] = 0;
		close_reason_note(counts,
		                  &(struct close_told){ .reason = (enum close_reason)ERR_FOREIGN,
		                                        .words = words,
		                                        .database = "d",
		                                        .user = "u" });
		ck_assert_uint_ge(strlen(count->message), CLOSE_MESSAGE_SIZE - 4);
		ck_assert_uint_eq((strlen(count->message) - shift) % 3, 0);
	}
	sparse_sum_free(&counts->of_none);
	free(counts);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/close_reason");
	TCase *tests = tcase_create("close_reason");

	tcase_add_test(tests, every_reason_has_a_name_of_its_own);
	tcase_add_test(tests, the_first_reasons_are_those_of_the_codes);
	tcase_add_test(tests, close_reason_note_counts_and_keeps_the_last);
	tcase_add_test(tests, a_long_message_is_cut);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
