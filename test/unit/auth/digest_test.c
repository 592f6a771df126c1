/* SPDX-License-Identifier: ISC */
/*
 * auth/digest.c: the vectors of the RFCs.
 */
#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"

#include "../unit.h"

static void same_hex(const unsigned char *hash, const char *hex)
{
	char found[2 * SHA256_SIZE + 1];

	text_hex(found, hash, SHA256_SIZE);
	ck_assert_str_eq(found, hex);
}

START_TEST(digest_md5_as_postgresql_writes_it)
{
	char out[MD5_TEXT_SIZE];

	ck_assert(digest_md5(bytes_text("abc"), bytes_text(""), out));
	ck_assert_str_eq(out, "md5900150983cd24fb0d6963f7d28e17f72");
	ck_assert(digest_md5(bytes_text("a"), bytes_text("bc"), out));
	ck_assert_str_eq(out, "md5900150983cd24fb0d6963f7d28e17f72");
}
END_TEST

START_TEST(digest_sha256_of_fips_180)
{
	unsigned char out[SHA256_SIZE];

	ck_assert(digest_sha256(bytes_text("abc"), out));
	same_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

START_TEST(digest_hmac_of_rfc_4231)
{
	unsigned char out[SHA256_SIZE];
	char key[131];

	ck_assert(digest_hmac(bytes_text("Jefe"), bytes_text("what do ya want for nothing?"), out));
	same_hex(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	ck_assert(digest_hmac(bytes_of(NULL, 0), bytes_text(""), out));
	same_hex(out, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
	memset(key, 0xaa, sizeof(key)); /* longer than a block of the hash: case 6 */
	ck_assert(digest_hmac(bytes_of(key, sizeof(key)),
	                      bytes_text("Test Using Larger Than Block-Size Key - Hash Key First"),
	                      out));
	same_hex(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
END_TEST

START_TEST(digest_pbkdf2_of_rfc_7914)
{
	unsigned char out[SHA256_SIZE];

	ck_assert(digest_pbkdf2(bytes_text("passwd"), bytes_text("salt"), 1, out));
	same_hex(out, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
}
END_TEST

START_TEST(random_bytes_differ)
{
	unsigned char a[16], b[16];

	ck_assert(digest_random(a, sizeof(a)) && digest_random(b, sizeof(b)));
	ck_assert_int_ne(memcmp(a, b, sizeof(a)), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/digest");
	TCase *cases = tcase_create("digest");

	tcase_add_test(cases, digest_md5_as_postgresql_writes_it);
	tcase_add_test(cases, digest_sha256_of_fips_180);
	tcase_add_test(cases, digest_hmac_of_rfc_4231);
	tcase_add_test(cases, digest_pbkdf2_of_rfc_7914);
	tcase_add_test(cases, random_bytes_differ);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
