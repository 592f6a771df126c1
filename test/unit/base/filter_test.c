/* SPDX-License-Identifier: ISC */
/*
 * base/filter.c.
 */
#include "pgweir/base/filter.h"

#include "../unit.h"

#define LONG 200000 /* more than one piece */

static void double_all(struct bytes text, struct buf *made)
{
	buf_add(made, text.at, text.count);
	buf_add(made, text.at, text.count);
}

START_TEST(filter_passes_all)
{
	FILE *in = tmpfile(), *out = tmpfile();

	ck_assert(in && out);
	for (int i = 0; i < LONG; i++)
		fputc('a' + i % 26, in);
	rewind(in);
	ck_assert(filter_run(in, out, double_all));
	rewind(out);
	for (int i = 0; i < 2 * LONG; i++)
		ck_assert_int_eq(fgetc(out), 'a' + i % LONG % 26);
	ck_assert_int_eq(fgetc(out), EOF);
	fclose(in);
	fclose(out);
}
END_TEST

START_TEST(filter_tells_that_writing_failed)
{
	FILE *in = tmpfile(), *full = fopen("/dev/full", "w");

	ck_assert(in && full);
	fputs("text", in);
	rewind(in);
	ck_assert(!filter_run(in, full, double_all));
	fclose(in);
	fclose(full);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/filter");
	TCase *cases = tcase_create("filter");

	tcase_add_test(cases, filter_passes_all);
	tcase_add_test(cases, filter_tells_that_writing_failed);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
