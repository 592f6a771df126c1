/* SPDX-License-Identifier: ISC */
/*
 * base/hash.c: SipHash-1-3 compared with another implementation, and keys.
 */
#include "pgweir/base/hash.h"

#include "../unit.h"

/*
 * Hashes of the bytes 0, 1, 2, ... with a key of zeros, from hash(bytes(range(count))) in CPython
 * 3.11 with PYTHONHASHSEED=0.
 */
static const struct {
	size_t count;
	uint64_t hash;
} vectors[] = {
	{ 1, UINT64_C(0x68a914128e01e473) },  { 2, UINT64_C(0x010bac45c41e3669) },
	{ 3, UINT64_C(0x4d4c9a4a8ef6e0ad) },  { 7, UINT64_C(0x2f098ab0c751325a) },
	{ 8, UINT64_C(0xead411e67ebe2eea) },  { 9, UINT64_C(0x75927f9d95124362) },
	{ 15, UINT64_C(0xf30eb725bb91c9ea) }, { 16, UINT64_C(0x8972188433a5c5b7) },
	{ 63, UINT64_C(0x385d3e39e5f37359) },
};

START_TEST(hash_is_as_elsewhere)
{
	static const struct hash_key key = { { 0, 0 } };
	unsigned char bytes[64];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	ck_assert_msg(hash_bytes(&key, bytes, vectors[_i].count) == vectors[_i].hash, "%zu",
	              vectors[_i].count);
}
END_TEST

START_TEST(hash_keys_differ)
{
	struct hash_key one = { { 0, 0 } }, other = { { 0, 0 } };

	hash_key_draw(&one);
	hash_key_draw(&other);
	ck_assert(one.half[0] != other.half[0] && one.half[1] != other.half[1]);
	ck_assert(hash_bytes(&one, "x", 1) != hash_bytes(&other, "x", 1));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/hash");
	TCase *tcase = tcase_create("hash");

	tcase_add_loop_test(tcase, hash_is_as_elsewhere, 0, COUNT_OF(vectors));
	tcase_add_test(tcase, hash_keys_differ);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
