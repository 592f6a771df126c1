/* SPDX-License-Identifier: ISC */
/*
 * base/buf.c: growth, the limit, and the behaviour of a failed buffer.
 */
#include "pgweir/base/buf.h"

#include <errno.h>

#include "../unit.h"

START_TEST(buf_grows_and_keeps)
{
	struct buf buf = { 0 };

	for (int i = 0; i < 1000; i++)
		buf_add_be32(&buf, (uint32_t)i);
	ck_assert(buf_ok(&buf));
	ck_assert_uint_eq(buf.count, 4000);
	ck_assert_uint_eq(load_be32(buf.at + 3996), 999);
	buf_drop(&buf, 3996);
	ck_assert_uint_eq(load_be32(buf.at), 999);
	buf_free(&buf);
	ck_assert_ptr_null(buf.at);
}
END_TEST

START_TEST(buf_breaks_at_its_limit)
{
	struct buf buf = { .limit = 100 };

	buf_add(&buf, "0123456789", 10);
	ck_assert_ptr_null(buf_reserve(&buf, 91));
	ck_assert(!buf_ok(&buf));
	buf_add_byte(&buf, 'x');
	ck_assert_uint_eq(buf.count, 10);
	buf_clear(&buf);
	ck_assert(buf_ok(&buf));
	buf_free(&buf);
}
END_TEST

START_TEST(buf_holds_what_its_limit_says)
{
	struct buf buf = { .limit = 3 };

	buf_add(&buf, "abc", 3);
	ck_assert(buf_ok(&buf));
	buf_add_byte(&buf, 'd');
	ck_assert(!buf_ok(&buf));
	ck_assert_uint_eq(buf.count, 3);
	buf_free(&buf);
}
END_TEST

START_TEST(buf_prints)
{
	struct buf buf = { 0 };

	buf_printf(&buf, "%s %d", "answer", 42);
	buf_add_text(&buf, ".");
	ck_assert_str_eq(buf_text(&buf), "answer 42.");
	buf_wipe(&buf);
	ck_assert_str_eq(buf_text(&buf), "");
	buf_free(&buf);
}
END_TEST

START_TEST(buf_is_used_again)
{
	struct buf buf = { .limit = 200 };

	buf_reuse(&buf, 100);
	ck_assert_ptr_null(buf.at);
	buf_add(&buf, "abc", 3);
	buf_reuse(&buf, buf.capacity);
	ck_assert_ptr_nonnull(buf.at);
	ck_assert_uint_eq(buf.count, 0);
	buf_reserve(&buf, 201);
	ck_assert(!buf_ok(&buf));
	buf_reuse(&buf, buf.capacity - 1);
	ck_assert(buf_ok(&buf));
	ck_assert_ptr_null(buf.at);
	ck_assert_uint_eq(buf.limit, 200);
}
END_TEST

START_TEST(buf_wraps_between_words)
{
	static const struct {
		const char *text, *lines;
	} cases[] = {
		{ "", "" },
		{ "a", "- a\n" },
		{ "four five", "- four\n- five\n" },
		{ "a bc def", "- a bc\n- def\n" },
		{ "exact: 8", "- exact:\n- 8\n" },
		{ "1234 67", "- 1234 67\n" },
		{ "much too_long_for_it is", "- much\n- too_long_for_it\n- is\n" },
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct buf buf = { 0 };

		buf_add_wrapped(&buf, cases[i].text, 7, "- ");
		ck_assert_str_eq(buf_text(&buf), cases[i].lines);
		buf_free(&buf);
	}
}
END_TEST

START_TEST(buf_says_why_a_file_cannot_be_read)
{
	struct buf buf = { .limit = 2 * BUF_PIECE };

	ck_assert_str_eq(buf_read_file(&buf, "/dev/zero"), "read");
	ck_assert_int_eq(errno, EFBIG);
	buf_free(&buf);
	ck_assert_str_eq(buf_read_file(&buf, "/"), "read");
	ck_assert_int_eq(errno, EISDIR);
	ck_assert_str_eq(buf_read_file(&buf, "/nowhere"), "open");
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_null(buf_read_file(&buf, "/dev/null"));
	buf_free(&buf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/buf");
	TCase *cases = tcase_create("buf");

	tcase_add_test(cases, buf_grows_and_keeps);
	tcase_add_test(cases, buf_breaks_at_its_limit);
	tcase_add_test(cases, buf_holds_what_its_limit_says);
	tcase_add_test(cases, buf_prints);
	tcase_add_test(cases, buf_is_used_again);
	tcase_add_test(cases, buf_wraps_between_words);
	tcase_add_test(cases, buf_says_why_a_file_cannot_be_read);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
