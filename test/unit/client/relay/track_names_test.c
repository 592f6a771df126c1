/* SPDX-License-Identifier: ISC */
/*
 * client/relay/track.c: names are found again, and their number is bounded.
 */
#include "../../../../src/client/relay/relay_priv.h"

#include "../../unit.h"

/* Many fall into one place. */
static uint64_t hash_of(uint64_t number) { return (number << 11 | (number & 3)) + 1; }

START_TEST(names_are_found)
{
	struct track_names names = { 0 };

	ck_assert_uint_eq(track_names_get(&names, 5), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		track_names_put(&names, hash_of(i), i);
	track_names_put(&names, hash_of(7), 70);
	for (uint64_t i = 1; i <= 1000; i++)
		unit_expect(track_names_get(&names, hash_of(i)) == (i == 7 ? 70 : i));
	ck_assert_uint_eq(names.count, 1000);
	ck_assert_uint_eq(track_names_get(&names, hash_of(1001)), 0);
	track_names_done(&names);
	ck_assert_ptr_null(names.at);
}
END_TEST

START_TEST(names_are_bounded)
{
	struct track_names names = { 0 };

	for (uint64_t i = 1; i <= 100000; i++) {
		track_names_put(&names, hash_of(i), i);
		unit_expect(track_names_get(&names, hash_of(i)) == i);
		unit_expect(names.capacity <= 2048 && names.count <= 1024);
	}
	track_names_done(&names);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/track_names");
	TCase *tests = tcase_create("track_names");

	tcase_add_test(tests, names_are_found);
	tcase_add_test(tests, names_are_bounded);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
