/* SPDX-License-Identifier: ISC */
/*
 * admin/manual.c.
 */
#include "../../../src/admin/admin_priv.h"

#include "../unit.h"

static struct buf out;

static const char *filled(const char *template)
{
	buf_clear(&out);
	admin_manual_fill(bytes_text(template), &out);
	return buf_text(&out);
}

static void tear_down(void) { buf_free(&out); }

START_TEST(other_lines_are_copied)
{
	ck_assert_str_eq(filled("a\n\n@shows\n @shows@\nb"), "a\n\n@shows\n @shows@\nb");
	ck_assert_str_eq(filled(""), "");
}
END_TEST

START_TEST(marks_give_way_to_lists)
{
	const char *text = filled("a\n@commands@\nb\n");

	ck_assert_ptr_nonnull(strstr(text, "a\n.TP\n.B SHOW HELP\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n.TP\n.B PAUSE [db]\n"));
	text = filled("@shows@\n");
	ck_assert_ptr_nonnull(strstr(text, ".SS SHOW POOLS [db]\n"));
	ck_assert_ptr_nonnull(strstr(text, ".TP\n.BR total_xact_count \" (numeric)\"\n"));
	ck_assert_ptr_null(strstr(text, "(null)"));
	ck_assert_ptr_nonnull(strstr(text, ".SS SHOW FDS\n"));
}
END_TEST

START_TEST(session_state_is_told_from_its_table)
{
	const char *text = filled("@features@\n");

	ck_assert_ptr_nonnull(strstr(
	    text, "\n.TP\n.B temporary object\nThe server stays until the last one is dropped. "
		  "Ended by DROP, DISCARD TEMP, DISCARD ALL. Where it is refused: Create"));
	ck_assert_ptr_nonnull(strstr(text, ".B DO, CALL\nThe server is asked what it did.\n"));
	ck_assert_ptr_null(strstr(text, "(null)"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/manual");
	TCase *tests = tcase_create("manual");

	tcase_add_checked_fixture(tests, NULL, tear_down);
	tcase_add_test(tests, other_lines_are_copied);
	tcase_add_test(tests, marks_give_way_to_lists);
	tcase_add_test(tests, session_state_is_told_from_its_table);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
