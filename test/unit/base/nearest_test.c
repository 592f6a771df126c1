/* SPDX-License-Identifier: ISC */
/*
 * base/text.c.
 */
#include "pgweir/base/text.h"

#include "../unit.h"

#define N63 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

static const char *const names[] = { "POOLS", "PEERS", "PEER_POOLS", "CLIENTS", N63 };

static const struct {
	const char *says;
	const char *wanted, *found;
} cases[] = {
	{ "the name itself", "POOLS", "POOLS" },
	{ "a letter left out", "POOL", "POOLS" },
	{ "a letter too many", "CLIENTSS", "CLIENTS" },
	{ "two letters swapped", "CLEINTS", "CLIENTS" },
	{ "two letters swapped in a short name", "POOSL", "POOLS" },
	{ "in lower case", "pols", "POOLS" },
	{ "the nearer of two", "PEER_POOL", "PEER_POOLS" },
	{ "nothing", "", NULL },
	{ "nothing like it", "DATABASES", NULL },
	{ "one letter in two is too much", "PO", NULL },
	{ "as long as may be", N63, N63 },
	{ "longer than that", N63 "n", NULL },
};

START_TEST(the_nearest_is_found)
{
	struct nearest nearest = nearest_begin(cases[_i].wanted);

	for (size_t i = 0; i < COUNT_OF(names); i++)
		nearest_offer(&nearest, names[i]);
	if (!cases[_i].found)
		ck_assert_msg(!nearest.found, "%s: %s", cases[_i].says, nearest.found);
	else
		ck_assert_pstr_eq(nearest.found, cases[_i].found);
}
END_TEST

START_TEST(a_longer_name_is_not_offered)
{
	struct nearest nearest = nearest_begin(N63);

	nearest_offer(&nearest, N63 "n");
	ck_assert_ptr_null(nearest.found);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/nearest");
	TCase *tests = tcase_create("nearest");

	tcase_add_loop_test(tests, the_nearest_is_found, 0, COUNT_OF(cases));
	tcase_add_test(tests, a_longer_name_is_not_offered);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
