/* SPDX-License-Identifier: ISC */
/*
 * base/table.h: keys chosen to collide do not collide in a table with a secret.
 */
#include "pgweir/base/table.h"

#include "../unit.h"
#include "../colliding.h"

#define LONGEST_MAX 20 /* a chain this long occurs by chance practically never */

struct item {
	UT_hash_handle hh;
	char text[COLLIDING_SIZE + 1];
};

static struct item *make_items(const struct colliding *colliding)
{
	struct item *items = calloc(COLLIDING_COUNT, sizeof(*items));

	for (int i = 0; i < COLLIDING_COUNT; i++)
		colliding_text(colliding, i, items[i].text);
	return items;
}

START_TEST(table_with_a_secret_has_short_chains)
{
	struct colliding colliding;
	struct item *items, *plain = NULL, *secret = NULL, *found;
	struct hash_key key;
	unsigned int longest;

	colliding_find(&colliding);
	hash_key_draw(&key);
	items = make_items(&colliding);
	for (int i = 0; i < COLLIDING_COUNT; i++)
		HASH_ADD_STR(plain, text, &items[i]);
	COLLIDING_LONGEST(plain, longest);
	ck_assert_uint_eq(longest, COLLIDING_COUNT); /* they do collide */
	HASH_CLEAR(hh, plain);
	for (int i = 0; i < COLLIDING_COUNT; i++)
		TABLE_ADD_STR(hh, &key, secret, items[i].text, &items[i]);
	COLLIDING_LONGEST(secret, longest);
	ck_assert_uint_lt(longest, LONGEST_MAX);
	for (int i = 0; i < COLLIDING_COUNT; i++) {
		TABLE_FIND_STR(hh, &key, secret, items[i].text, found);
		ck_assert_ptr_eq(found, &items[i]);
	}
	TABLE_FIND_STR(hh, &key, secret, "none of them", found);
	ck_assert_ptr_null(found);
	HASH_CLEAR(hh, secret);
	free(items);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/table");
	TCase *tcase = tcase_create("table");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, table_with_a_secret_has_short_chains);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
