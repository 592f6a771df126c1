/* SPDX-License-Identifier: ISC */
/*
 * pool/homes.c: how many homes a pool has, and that they are dealt evenly.
 */
#include <limits.h>
#include <stdio.h>

#include "pgweir/pool/homes.h"

#include "../unit.h"

static const struct {
	int pool_size, servers_per_loop;
	unsigned int loops, count;
} cases[] = {
	{ 1, 5, 4, 1 },  { 4, 5, 4, 1 },  { 5, 5, 4, 1 },          { 6, 5, 4, 2 },
	{ 20, 5, 4, 4 }, { 20, 5, 8, 4 }, { 20, 5, 2, 2 },         { 1000000, 5, 64, 64 },
	{ 0, 5, 4, 4 },  { 4, 0, 4, 4 },  { 2147483647, 1, 3, 3 },
};

START_TEST(one_home_for_so_many_servers)
{
	struct homes homes;

	homes_init(&homes, cases[_i].loops);
	ck_assert_uint_eq(homes_count(&homes, cases[_i].pool_size, cases[_i].servers_per_loop),
	                  cases[_i].count);
}
END_TEST

START_TEST(a_pool_keeps_its_home)
{
	struct homes homes;
	unsigned int first;

	homes_init(&homes, 64);
	homes_first(&homes, "other", "alice");
	first = homes_first(&homes, "app", "alice");
	ck_assert_uint_eq(homes_first(&homes, "app", "alice"), first);
	homes_note(&homes, "app", "alice", (first + 1) % 64);
	ck_assert_uint_eq(homes_first(&homes, "app", "alice"), first);
}
END_TEST

/* The names are two: which part belongs to which counts. */
START_TEST(names_are_not_joined)
{
	struct homes homes;
	unsigned int differ = 0;

	for (int i = 0; i < 20; i++) {
		homes_init(&homes, 64);
		homes_note(&homes, "ab", "c", 7);
		differ += homes_first(&homes, "a", "bc") != 7;
	}
	ck_assert_uint_gt(differ, 15); /* the hash is keyed, and may be the same by chance */
}
END_TEST

START_TEST(clients_that_were_taken_over_decide)
{
	struct homes homes;

	homes_init(&homes, 64);
	homes_note(&homes, "app", "alice", 63);
	ck_assert_uint_eq(homes_first(&homes, "app", "alice"), 63);
}
END_TEST

/* However many there are: also of names that only a stranger has sent. */
START_TEST(homes_are_given_in_turn)
{
	unsigned int counts[4] = { 0 }, most = 0, least = UINT_MAX;
	struct homes homes;
	char name[20];

	homes_init(&homes, 4);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "user%d", i);
		counts[homes_first(&homes, "app", name)]++;
	}
	for (unsigned int i = 0; i < 4; i++) {
		most = counts[i] > most ? counts[i] : most;
		least = counts[i] < least ? counts[i] : least;
	}
	/* Each of those that share a hash with another one adds one at most. */
	ck_assert_uint_ge(least, 15);
	ck_assert_uint_le(most, 35);
}
END_TEST

static const struct {
	unsigned int first, count;
	uint64_t busy;
	unsigned int widened;
} loads[] = {
	{ 1, 1, 0, 1 },   /* nothing to do */
	{ 1, 1, 0xd, 1 }, /* all but its home */
	{ 1, 1, 0x2, 2 }, /* the next one is not busy */
	{ 1, 1, 0x6, 3 }, /* nor is the one behind that */
	{ 3, 1, 0x8, 2 }, /* behind the last one comes the first one */
	{ 3, 2, 0x9, 3 }, /* both homes are busy */
	{ 3, 2, 0x8, 2 }, /* one of them is */
	{ 2, 1, 0xf, 4 }, /* all are */
	{ 0, 4, 0xf, 4 },
};

START_TEST(busy_homes_get_help)
{
	struct homes homes;

	homes_init(&homes, 4);
	ck_assert_uint_eq(homes_widen(&homes, loads[_i].first, loads[_i].count, loads[_i].busy),
	                  loads[_i].widened);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/homes");
	TCase *tests = tcase_create("homes");

	suite_add_tcase(suite, tests);
	tcase_add_loop_test(tests, one_home_for_so_many_servers, 0, COUNT_OF(cases));
	tcase_add_test(tests, a_pool_keeps_its_home);
	tcase_add_test(tests, names_are_not_joined);
	tcase_add_test(tests, clients_that_were_taken_over_decide);
	tcase_add_test(tests, homes_are_given_in_turn);
	tcase_add_loop_test(tests, busy_homes_get_help, 0, COUNT_OF(loads));
	return unit_run(suite);
}
