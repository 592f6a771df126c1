/* SPDX-License-Identifier: ISC */
/*
 * admin/show/cursor.c: rows in order, and of items, while the shown objects are added and removed.
 */
#include "../../../../src/admin/show/show_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../unit.h"

#define NAMES 5000

static struct show_source *source;
static struct cursor cursor;
static struct ordered_item items[NAMES];
static char names[NAMES][8];
static size_t item_count;

static void collect(struct cursor *to)
{
	for (size_t i = 0; i < item_count; i++)
		cursor_offer(to, items[i].first, items[i].second, items[i].object);
}

static void set_up(void)
{
	source = calloc(1, sizeof(*source));
	cursor = (struct cursor){ .source = source };
	item_count = NAMES;
	for (size_t i = 0; i < NAMES; i++) {
		/* 7 and 5000 have no common divisor: each number occurs once, and out of order.
		 */
		snprintf(names[i], sizeof(names[i]), "%05zu", i * 7 % NAMES);
		items[i] = (struct ordered_item){ names[i], "", names[i] };
	}
}

static void tear_down(void) { free(source); }

/* Goes through the rest, suspended after each `rest` rows, and checks the order. */
static size_t go_through(size_t rest)
{
	char last[8] = "";
	size_t count = 0;

	while (cursor_next_ordered(&cursor, collect)) {
		ck_assert_str_gt(cursor.ordered.first, last);
		memcpy(last, cursor.ordered.first, 6);
		if (++count % rest == 0)
			cursor_suspend(&cursor);
	}
	return count;
}

START_TEST(all_come_in_order) { ck_assert_uint_eq(go_through(NAMES), NAMES); }
END_TEST

START_TEST(rests_change_nothing) { ck_assert_uint_eq(go_through(100), NAMES); }
END_TEST

START_TEST(as_many_as_a_batch_come_once)
{
	item_count = ORDERED_BATCH;
	ck_assert_uint_eq(go_through(NAMES), ORDERED_BATCH);
}
END_TEST

START_TEST(nothing_is_nothing)
{
	item_count = 0;
	ck_assert_uint_eq(go_through(NAMES), 0);
}
END_TEST

START_TEST(what_comes_twice_is_shown_once)
{
	for (size_t i = 0; i < NAMES; i++)
		items[i].first = names[i / 2];
	ck_assert_uint_eq(go_through(NAMES), NAMES / 2);
}
END_TEST

START_TEST(what_goes_meanwhile_is_not_touched)
{

	for (size_t i = 0; i < 10; i++)
		ck_assert(cursor_next_ordered(&cursor, collect));
	cursor_suspend(&cursor);
	/* Even the remaining ones have moved. */
	item_count = 3;
	items[0] = (struct ordered_item){ strdup("00003"), "", NULL };
	items[1] = (struct ordered_item){ strdup("00012"), "b", NULL };
	items[2] = (struct ordered_item){ strdup("00012"), "a", NULL };
	memset(names, 0xff, sizeof(names));
	ck_assert(cursor_next_ordered(&cursor, collect));
	ck_assert_str_eq(cursor.ordered.second, "a");
	ck_assert(cursor_next_ordered(&cursor, collect));
	ck_assert_str_eq(cursor.ordered.second, "b");
	ck_assert(!cursor_next_ordered(&cursor, collect));
	for (size_t i = 0; i < item_count; i++)
		free((char *)items[i].first);
}
END_TEST

/* ---- rows of items ---- */

struct row {
	const char *name, *text, *other;
};

/* Two rows of each item whose number is odd. What it does for others is to leave no trace. */
static bool next_row(struct cursor *of, void *at)
{
	struct row *row = at;

	if (of->index++ == 2)
		return false;
	row->name = cursor_print(of, "%s", of->ordered.first);
	if ((row->name[4] - '0') % 2 == 0) {
		row->other = "of an item that is not shown";
		return false;
	}
	row->text = cursor_print(of, "%500zu", of->index);
	return true;
}

START_TEST(each_item_has_its_rows)
{
	static const struct show show = { .item = "", .next = next_row, .collect = collect };
	_Alignas(max_align_t) char at[ROW_SIZE_MAX];
	const struct row *row = (const struct row *)at;
	size_t count = 0;

	cursor.show = &show;
	while (cursor_next(&cursor, at) || cursor.has_more) {
		if (cursor.has_more)
			continue;
		ck_assert_uint_eq(strtoul(row->name, NULL, 10), count / 2 * 2 + 1);
		ck_assert_uint_eq(strlen(row->text), 500);
		ck_assert_uint_eq((size_t)(row->text[499] - '0'), count % 2 + 1);
		ck_assert_ptr_null(row->other);
		count++;
		cursor_suspend(&cursor);
	}
	ck_assert_uint_eq(count, NAMES);
	for (size_t i = 0; i < CURSOR_TEXTS; i++)
		buf_free(&cursor.texts[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/show/ordered");
	TCase *tests = tcase_create("ordered");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, all_come_in_order);
	tcase_add_test(tests, rests_change_nothing);
	tcase_add_test(tests, as_many_as_a_batch_come_once);
	tcase_add_test(tests, nothing_is_nothing);
	tcase_add_test(tests, what_comes_twice_is_shown_once);
	tcase_add_test(tests, what_goes_meanwhile_is_not_touched);
	tcase_add_test(tests, each_item_has_its_rows);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
