/* SPDX-License-Identifier: ISC */
/*
 * client/cancel_keys.c: the positions of id and TTL in a cancel key; all other bits are
 * unchanged.
 */
#include "pgweir/client/cancel_keys.h"

#include <string.h>

#include "../unit.h"

static const struct {
	const char *says;
	int id;
	const char *signed_as; /* of eight bytes 0xf0 */
} keys[] = {
	{ "the least id", 1, "\xf0\x01\x00\xf0\xf0\xf0\xf0\xf3" },
	{ "one byte", 255, "\xf0\xff\x00\xf0\xf0\xf0\xf0\xf3" },
	{ "two bytes", 256, "\xf0\x00\x01\xf0\xf0\xf0\xf0\xf3" },
	{ "the greatest of our own", 16383, "\xf0\xff\x3f\xf0\xf0\xf0\xf0\xf3" },
	{ "the greatest of a peer", 65535, "\xf0\xff\xff\xf0\xf0\xf0\xf0\xf3" },
};

START_TEST(key_is_signed)
{
	unsigned char key[CANCEL_KEY_SIGNED_SIZE];
	struct bytes bytes = bytes_of(key, sizeof(key));

	memset(key, 0xf0, sizeof(key));
	cancel_key_sign(key, keys[_i].id);
	ck_assert_msg(memcmp(key, keys[_i].signed_as, sizeof(key)) == 0, "%s", keys[_i].says);
	ck_assert_int_eq(cancel_key_peer(bytes), keys[_i].id);
	ck_assert_uint_eq(cancel_key_ttl(bytes), CANCEL_KEY_TTL_MAX);
}
END_TEST

START_TEST(key_counts_down)
{
	unsigned char key[CANCEL_KEY_SIGNED_SIZE] = { 1, 2, 3, 4, 5, 6, 7, 0xff };
	struct bytes bytes = bytes_of(key, sizeof(key));

	for (unsigned int ttl = CANCEL_KEY_TTL_MAX; ttl-- > 0;) {
		cancel_key_set_ttl(key, ttl);
		ck_assert_uint_eq(cancel_key_ttl(bytes), ttl);
		ck_assert_uint_eq(key[7], 0xfc + ttl);
	}
	ck_assert(memcmp(key, "\1\2\3\4\5\6\7", 7) == 0);
	ck_assert_int_eq(cancel_key_peer(bytes), 2 + 3 * 256);
}
END_TEST

START_TEST(key_of_another_length)
{
	unsigned char key[32] = { 0, 9, 1 };

	for (size_t count = 0; count < CANCEL_KEY_SIGNED_SIZE; count++)
		ck_assert_int_eq(cancel_key_peer(bytes_of(key, count)), 0);
	ck_assert_int_eq(cancel_key_peer(bytes_of(key, sizeof(key))), 265);
	ck_assert_int_eq(cancel_key_peer(bytes_of(NULL, 0)), 0);
}
END_TEST

/* Each loop of each number of loops, for each value of the byte. */
START_TEST(key_leads_to_its_loop)
{
	unsigned char key[CANCEL_KEY_SIGNED_SIZE];
	struct bytes bytes = bytes_of(key, sizeof(key));

	for (unsigned int loops = 1; loops <= CANCEL_KEY_LOOPS_MAX; loops++) {
		for (unsigned int loop = 0; loop < loops; loop++) {
			memset(key, (int)(loop * 7 + loops), sizeof(key));
			cancel_key_set_loop(key, loop, loops);
			unit_expect(cancel_key_loop(bytes, loops) == loop);
		}
	}
	for (unsigned int byte = 0; byte < 256; byte++) {
		memset(key, (int)byte, sizeof(key));
		cancel_key_set_loop(key, 0, 1);
		unit_expect(key[6] == byte);
		cancel_key_set_loop(key, 2, 3);
		unit_expect(cancel_key_loop(bytes, 3) == 2);
		key[6] = (unsigned char)byte;
		unit_expect(memcmp(key, key + 1, 7) == 0);
	}
}
END_TEST

/* Of 256 values, 86 or 85 are left with three loops. */
START_TEST(key_with_a_loop_is_still_random)
{
	unsigned char key[CANCEL_KEY_SIGNED_SIZE] = { 0 };
	bool seen[256] = { false };
	unsigned int count = 0;

	for (unsigned int byte = 0; byte < 256; byte++) {
		key[6] = (unsigned char)byte;
		cancel_key_set_loop(key, (unsigned int)_i, 3);
		count += !seen[key[6]];
		seen[key[6]] = true;
	}
	ck_assert_uint_eq(count, _i == 0 ? 86 : 85);
}
END_TEST

START_TEST(key_with_id_and_loop)
{
	unsigned char key[CANCEL_KEY_SIGNED_SIZE] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct bytes bytes = bytes_of(key, sizeof(key));

	cancel_key_sign(key, 513);
	cancel_key_set_loop(key, 3, 4);
	cancel_key_set_ttl(key, 1);
	ck_assert_int_eq(cancel_key_peer(bytes), 513);
	ck_assert_uint_eq(cancel_key_loop(bytes, 4), 3);
	ck_assert_uint_eq(cancel_key_ttl(bytes), 1);
	ck_assert_uint_eq(cancel_key_loop(bytes_of(key, 7), 4), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/key");
	TCase *tcase = tcase_create("key");

	tcase_add_loop_test(tcase, key_is_signed, 0, COUNT_OF(keys));
	tcase_add_test(tcase, key_counts_down);
	tcase_add_test(tcase, key_of_another_length);
	tcase_add_test(tcase, key_leads_to_its_loop);
	tcase_add_loop_test(tcase, key_with_a_loop_is_still_random, 0, 3);
	tcase_add_test(tcase, key_with_id_and_loop);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
