/* SPDX-License-Identifier: ISC */
/*
 * base/line.c: pieces in a row, and where the row is full.
 */
#include "pgweir/base/line.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

START_TEST(line_is_what_was_added)
{
	char out[64], pointer[32];
	struct line line = line_begin(out, sizeof(out));

	ck_assert_str_eq(out, "");
	line_add(&line, "a=");
	line_add_number(&line, 0);
	line_add_bytes(&line, " bcd", 2);
	line_add_number(&line, UINT64_MAX);
	ck_assert_str_eq(out, "a=0 b18446744073709551615");
	ck_assert_uint_eq(line.count, strlen(out));

	snprintf(pointer, sizeof(pointer), "%p", (void *)out);
	line = line_begin(out, sizeof(out));
	line_add_pointer(&line, out);
	ck_assert_str_eq(out, pointer);
}
END_TEST

START_TEST(line_is_cut_at_its_size)
{
	char out[16];

	for (size_t size = 1; size < sizeof(out); size++) {
		struct line line;

		memset(out, '#', sizeof(out));
		line = line_begin(out, size);
		line_add(&line, "abcd");
		line_add_number(&line, 12345678);
		line_add(&line, "e");
		ck_assert_uint_eq(line.count, size - 1 < 13 ? size - 1 : 13);
		ck_assert_uint_eq(strlen(out), line.count);
		ck_assert_int_eq(strncmp(out, "abcd12345678e", line.count), 0);
		ck_assert_int_eq(out[size], '#');
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/line");
	TCase *cases = tcase_create("line");

	tcase_add_test(cases, line_is_what_was_added);
	tcase_add_test(cases, line_is_cut_at_its_size);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
