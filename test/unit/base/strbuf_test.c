/* SPDX-License-Identifier: ISC */
/*
 * base/text.c: appended pieces, and a full buffer.
 */
#include "pgweir/base/text.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

START_TEST(line_is_what_was_added)
{
	char out[64], pointer[32];
	struct strbuf line = strbuf_begin(out, sizeof(out));

	ck_assert_str_eq(out, "");
	strbuf_add(&line, "a=");
	strbuf_add_number(&line, 0);
	strbuf_add_bytes(&line, " bcd", 2);
	strbuf_add_number(&line, UINT64_MAX);
	ck_assert_str_eq(out, "a=0 b18446744073709551615");
	ck_assert_uint_eq(line.count, strlen(out));

	snprintf(pointer, sizeof(pointer), "%p", (void *)out);
	line = strbuf_begin(out, sizeof(out));
	strbuf_add_pointer(&line, out);
	ck_assert_str_eq(out, pointer);
}
END_TEST

START_TEST(line_is_cut_at_its_size)
{
	char out[16];

	for (size_t size = 1; size < sizeof(out); size++) {
		struct strbuf line;

		memset(out, '#', sizeof(out));
		line = strbuf_begin(out, size);
		strbuf_add(&line, "abcd");
		strbuf_add_number(&line, 12345678);
		strbuf_add(&line, "e");
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
