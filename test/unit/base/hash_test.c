/* SPDX-License-Identifier: ISC */
/*
 * base/hash.c: the published vectors of SipHash-2-4, and keys.
 */
#include "pgweir/base/hash.h"

#include "../unit.h"

/* Of the bytes 0, 1, 2, ... under the key of the bytes 0 to 15; the lowest byte first. */
static const struct {
	size_t count;
	uint64_t hash;
} vectors[] = {
	{ 0, UINT64_C(0x726fdb47dd0e0e31) },  { 1, UINT64_C(0x74f839c593dc67fd) },
	{ 2, UINT64_C(0x0d6c8009d9a94f5a) },  { 3, UINT64_C(0x85676696d7fb7e2d) },
	{ 7, UINT64_C(0xab0200f58b01d137) },  { 8, UINT64_C(0x93f5f5799a932462) },
	{ 9, UINT64_C(0x9e0082df0ba9e4b0) },  { 15, UINT64_C(0xa129ca6149be45e5) },
	{ 16, UINT64_C(0x3f2acc7f57c29bdb) }, { 63, UINT64_C(0x958a324ceb064572) },
};

START_TEST(hash_is_as_published)
{
	static const struct hash_key key = { { UINT64_C(0x0706050403020100),
		                               UINT64_C(0x0f0e0d0c0b0a0908) } };
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

	tcase_add_loop_test(tcase, hash_is_as_published, 0, COUNT_OF(vectors));
	tcase_add_test(tcase, hash_keys_differ);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
