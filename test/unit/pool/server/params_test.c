/* SPDX-License-Identifier: ISC */
/*
 * pool/server/params.c: equal maps are shared, independent of how they were created. The
 * sanitizers detect leaks.
 */
#include "pgweir/pool/server/params.h"

#include "pgweir/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../compares.h"
#include "../../unit.h"

struct change {
	const char *name;
	const char *value; /* NULL: it is removed */
};

#define CHANGES_MAX 8

static const struct {
	const char *says;
	struct change changes[CHANGES_MAX];
	const char *map; /* "name=value;" in the order of the map */
} cases[] = {
	{ "nothing", { { NULL, NULL } }, "" },
	{ "one name", { { "a", "1" } }, "a=1;" },
	{ "an empty value is a value", { { "a", "" } }, "a=;" },
	{ "in the order of names", { { "b", "2" }, { "c", "3" }, { "a", "1" } }, "a=1;b=2;c=3;" },
	{ "case does not count for the order", { { "b", "2" }, { "A", "1" } }, "A=1;b=2;" },
	{ "a name is there once, in its last spelling", { { "Aa", "1" }, { "aA", "2" } }, "aA=2;" },
	{ "the same value again keeps the spelling", { { "Aa", "1" }, { "aA", "1" } }, "Aa=1;" },
	{ "values differ by case", { { "a", "x" }, { "a", "X" } }, "a=X;" },
	{ "one is removed", { { "a", "1" }, { "b", "2" }, { "A", NULL } }, "b=2;" },
	{ "the last is removed", { { "a", "1" }, { "a", NULL } }, "" },
	{ "what is not there is removed", { { "a", "1" }, { "b", NULL } }, "a=1;" },
	{ "a name that begins another",
	  { { "ab", "2" }, { "a", "1" }, { "abc", "3" } },
	  "a=1;ab=2;abc=3;" },
};

static void write_map(const struct params *params, char *out, size_t size)
{
	const char *at = NULL, *name, *value;
	size_t count = 0;
	unsigned int names = 0;

	out[0] = 0;
	while (params_next(params, &at, &name, &value)) {
		count += (size_t)snprintf(out + count, size - count, "%s=%s;", name, value);
		names++;
	}
	ck_assert_uint_eq(names, params_count(params));
}

static void apply(struct params_table *table, const struct params **params,
                  const struct change *changes)
{
	for (size_t i = 0; i < CHANGES_MAX && changes[i].name; i++)
		ck_assert(params_change(table, params, changes[i].name, changes[i].value));
}

START_TEST(params_change_makes_the_map)
{
	struct params_table *table = params_table_new();
	const struct params *params = params_none(table);
	char map[256];

	apply(table, &params, cases[_i].changes);
	write_map(params, map, sizeof(map));
	ck_assert_msg(strcmp(map, cases[_i].map) == 0, "%s: \"%s\"", cases[_i].says, map);
	ck_assert_uint_eq(params_table_count(table), *cases[_i].map ? 1 : 0);
	ck_assert((params == params_none(table)) == (*cases[_i].map == 0));
	params_release(table, &params);
	ck_assert_ptr_eq(params, params_none(table));
	ck_assert_uint_eq(params_table_count(table), 0);
	params_table_free(&table);
	ck_assert_ptr_null(table);
}
END_TEST

START_TEST(params_that_are_equal_are_the_same)
{
	static const struct change one[CHANGES_MAX] = { { "a", "1" }, { "b", "2" }, { "c", "3" } };
	static const struct change other[CHANGES_MAX] = {
		{ "c", "x" }, { "b", "2" }, { "d", "4" }, { "c", "3" }, { "a", "1" }, { "d", NULL }
	};
	struct params_table *table = params_table_new();
	const struct params *first = params_none(table), *second = params_none(table), *third;

	apply(table, &first, one);
	apply(table, &second, other);
	ck_assert_ptr_eq(first, second);
	ck_assert_uint_eq(params_table_count(table), 1);
	third = params_hold(first);
	params_release(table, &first);
	params_release(table, &second);
	ck_assert_str_eq(params_find(third, "B"), "2"); /* one owner is enough */
	ck_assert_ptr_null(params_find(third, "d"));
	params_release(table, &third);
	params_table_free(&table);
}
END_TEST

/* "ab"="c" and "a"="bc" must differ; an empty value must not be confused with the next name. */
START_TEST(params_that_look_alike_are_not_the_same)
{
	struct params_table *table = params_table_new();
	const struct params *maps[4];
	static const struct change changes[][CHANGES_MAX] = {
		{ { "ab", "c" } }, { { "a", "bc" } }, { { "a", "" }, { "b", "" } }, { { "a", "b" } }
	};

	for (size_t i = 0; i < COUNT_OF(maps); i++) {
		maps[i] = params_none(table);
		apply(table, &maps[i], changes[i]);
		for (size_t j = 0; j < i; j++)
			ck_assert_ptr_ne(maps[i], maps[j]);
	}
	for (size_t i = 0; i < COUNT_OF(maps); i++)
		params_release(table, &maps[i]);
	params_table_free(&table);
}
END_TEST

START_TEST(params_are_limited)
{
	struct params_table *table = params_table_new();
	const struct params *params = params_none(table), *before;
	char value[1024], name[16];
	size_t size = 0;
	unsigned int count = 0;

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	do {
		before = params;
		snprintf(name, sizeof(name), "name%04u", count);
		size += strlen(name) + 1 + sizeof(value);
		count++;
	} while (params_change(table, &params, name, value));
	ck_assert_uint_gt(size, PARAMS_SIZE_MAX);
	ck_assert_uint_lt(size, PARAMS_SIZE_MAX + 2 * sizeof(value));
	ck_assert_ptr_eq(params, before); /* unchanged */
	ck_assert_uint_eq(params_count(params), count - 1);
	ck_assert(params_change(table, &params, "name0000", NULL)); /* space again */
	ck_assert(params_change(table, &params, name, value));
	params_release(table, &params);
	params_table_free(&table);
}
END_TEST

/* ---- many changes at once ---- */

START_TEST(params_change_all_makes_the_same_map)
{
	struct params_table *table = params_table_new();
	const struct params *single = params_none(table), *together = params_none(table);
	struct params_pair pairs[CHANGES_MAX];
	size_t count = 0;

	for (; count < CHANGES_MAX && cases[_i].changes[count].name; count++)
		pairs[count] = (struct params_pair){ cases[_i].changes[count].name,
			                             cases[_i].changes[count].value };
	apply(table, &single, cases[_i].changes);
	ck_assert(params_change_all(table, &together, pairs, count));
	if (strcmp(cases[_i].map, "Aa=1;") != 0) /* of two spellings the last one counts */
		ck_assert_msg(single == together, "%s", cases[_i].says);
	params_release(table, &single);
	params_release(table, &together);
	params_table_free(&table);
}
END_TEST

/* Batches of every size against the same changes one by one. */
START_TEST(params_change_all_at_random)
{
	struct params_table *table = params_table_new();
	const struct params *single = params_none(table), *together = params_none(table);
	uint32_t dice = (uint32_t)_i + 1;

	for (int round = 0; round < 300; round++) {
		char names[40][2], values[40][2];
		struct params_pair pairs[40];
		size_t count = round % 40;

		for (size_t i = 0; i < count; i++) {
			dice = dice * 1664525u + 1013904223u;
			names[i][0] = (char)('a' + (dice >> 8) % 26);
			values[i][0] = (char)('0' + (dice >> 16) % 3);
			names[i][1] = values[i][1] = 0;
			pairs[i] = (struct params_pair){ names[i],
				                         values[i][0] == '2' ? NULL : values[i] };
			ck_assert(params_change(table, &single, pairs[i].name, pairs[i].value));
		}
		ck_assert(params_change_all(table, &together, pairs, count));
		ck_assert_ptr_eq(single, together);
	}
	params_release(table, &single);
	params_release(table, &together);
	params_table_free(&table);
}
END_TEST

START_TEST(params_add_text_reads_pairs)
{
	static const char text[] = "b\0002\0a\0001\0b\0003\0cut";
	struct params_table *table = params_table_new();
	const struct params *params = params_none(table);
	char got[64];

	ck_assert(params_add_text(table, &params, bytes_of(text, sizeof(text) - 1)));
	write_map(params, got, sizeof(got));
	ck_assert_str_eq(got, "a=1;b=3;");
	ck_assert(bytes_equal(params_text(params), bytes_of("a\0001\0b\0003\0", 8)));
	ck_assert(params_add_text(table, &params, bytes_of("", 0)));
	ck_assert_uint_eq(params_count(params), 2);
	params_release(table, &params);
	ck_assert_uint_eq(params_text(params).count, 0);
	params_table_free(&table);
}
END_TEST

/* "n0000=x", "n0001=x", ... in random order; 7919 is a prime. */
static void add_names(struct buf *text, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		buf_printf(text, "n%04u", i * 7919 % count);
		buf_add_byte(text, 0);
		buf_add_cstr(text, "x");
	}
}

START_TEST(params_have_so_many_names)
{
	struct params_table *table = params_table_new();
	const struct params *params = params_none(table), *before;
	struct buf text = { 0 };

	add_names(&text, PARAMS_NAMES_MAX + 1);
	ck_assert(!params_add_text(table, &params, buf_bytes(&text)));
	ck_assert_ptr_eq(params, params_none(table));
	buf_clear(&text);
	add_names(&text, PARAMS_NAMES_MAX);
	ck_assert(params_add_text(table, &params, buf_bytes(&text)));
	before = params;
	ck_assert(!params_change(table, &params, "another", "x"));
	ck_assert_ptr_eq(params, before);
	ck_assert(params_change(table, &params, "n0007", "y"));
	ck_assert(params_change(table, &params, "n0007", NULL));
	ck_assert(params_change(table, &params, "another", "x"));
	params_release(table, &params);
	params_table_free(&table);
	buf_free(&text);
}
END_TEST

/* The cost of a batch is one sort and one pass, not one pass per name. */
START_TEST(params_change_all_compares_little)
{
	struct params_table *table = params_table_new();
	const struct params *params = params_none(table), *more;
	struct buf text = { 0 };
	/* 2^9 names and more. The sort of glibc needs half of it, that of musl nearly all. */
	size_t sorting = 2 * 10 * PARAMS_NAMES_MAX;

	add_names(&text, PARAMS_NAMES_MAX);
	compare_count = 0;
	ck_assert(params_add_text(table, &params, buf_bytes(&text)));
	ck_assert_uint_lt(compare_count, sorting + 3 * PARAMS_NAMES_MAX);
	compare_count = 0;
	ck_assert_str_eq(params_find(params, "N0321"), "x");
	ck_assert_ptr_null(params_find(params, "n0321a"));
	ck_assert_uint_le(compare_count, 2 * 9);
	more = params_hold(params);
	compare_count = 0;
	ck_assert(params_add_text(table, &more, buf_bytes(&text)));
	ck_assert_ptr_eq(more, params);
	ck_assert_uint_lt(compare_count, sorting + 3 * PARAMS_NAMES_MAX);
	/* Ten thousand values for one name. */
	buf_clear(&text);
	for (int i = 0; i < 10000; i++)
		buf_add(&text, i % 2 ? "N0001\0001\0" : "n0001\0002\0", 8);
	compare_count = 0;
	ck_assert(params_add_text(table, &more, buf_bytes(&text)));
	ck_assert_str_eq(params_find(more, "n0001"), "1");
	ck_assert_uint_lt(compare_count, 2 * 14 * 10000 + 10000 + 2 * PARAMS_NAMES_MAX);
	params_release(table, &more);
	params_release(table, &params);
	params_table_free(&table);
	buf_free(&text);
}
END_TEST

/* As for each server that comes from another loop: no name is compared. */
START_TEST(params_add_text_finds_a_known_map)
{
	struct params_table *table = params_table_new();
	const struct params *params = params_none(table), *again = params_none(table);
	struct buf text = { 0 };

	add_names(&text, 100);
	ck_assert(params_add_text(table, &params, buf_bytes(&text)));
	compare_count = 0;
	ck_assert(params_add_text(table, &again, params_text(params)));
	ck_assert_uint_eq(compare_count, 0);
	ck_assert_ptr_eq(again, params);
	/* Each is an owner. */
	params_release(table, &params);
	ck_assert_str_eq(params_find(again, "N0042"), "x");
	params_release(table, &again);
	ck_assert_uint_eq(params_table_count(table), 0);
	params_table_free(&table);
	buf_free(&text);
}
END_TEST

/* Many owners change their maps at random; in the end the table is empty. */
START_TEST(params_leak_nothing)
{
	struct params_table *table = params_table_new();
	const struct params *owners[50];
	uint32_t dice = 1;

	for (size_t i = 0; i < COUNT_OF(owners); i++)
		owners[i] = params_none(table);
	for (int i = 0; i < 20000; i++) {
		char name[2] = { 0 }, value[2] = { 0 };

		dice = dice * 1664525u + 1013904223u;
		name[0] = (char)('a' + (dice >> 8) % 5);
		value[0] = (char)('0' + (dice >> 12) % 3);
		ck_assert(params_change(table, &owners[(dice >> 16) % COUNT_OF(owners)], name,
		                        value[0] == '2' ? NULL : value));
	}
	ck_assert_uint_le(params_table_count(table), COUNT_OF(owners));
	for (size_t i = 0; i < COUNT_OF(owners); i++)
		params_release(table, &owners[i]);
	ck_assert_uint_eq(params_table_count(table), 0);
	params_table_free(&table);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/params");
	TCase *tcase = tcase_create("params");

	tcase_add_loop_test(tcase, params_change_makes_the_map, 0, COUNT_OF(cases));
	tcase_add_test(tcase, params_that_are_equal_are_the_same);
	tcase_add_test(tcase, params_that_look_alike_are_not_the_same);
	tcase_add_test(tcase, params_are_limited);
	tcase_add_loop_test(tcase, params_change_all_makes_the_same_map, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, params_change_all_at_random, 0, 4);
	tcase_add_test(tcase, params_add_text_reads_pairs);
	tcase_add_test(tcase, params_add_text_finds_a_known_map);
	tcase_add_test(tcase, params_have_so_many_names);
	tcase_add_test(tcase, params_change_all_compares_little);
	tcase_add_test(tcase, params_leak_nothing);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
