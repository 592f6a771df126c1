/* SPDX-License-Identifier: ISC */
/*
 * auth/users.c: credentials.
 */
#include "pgweir/auth/users.h"

#include "../unit.h"

#define MD5 "md5900150983cd24fb0d6963f7d28e17f72"

static const struct {
	const char *text;
	enum credentials_kind kind;
} cases[] = {
	{ "plain", CREDENTIALS_PLAIN },
	{ MD5, CREDENTIALS_MD5 },
	{ "", CREDENTIALS_NONE },
	{ "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
	  ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
	  CREDENTIALS_NONE },
};

START_TEST(credentials_of_a_secret)
{
	struct secret secret = users_secret_of(cases[_i].text);
	struct credentials a = { 0 }, b = { 0 };

	ck_assert(credentials_from_secret(&a, &secret));
	ck_assert_int_eq(a.kind, cases[_i].kind);
	ck_assert(credentials_copy(&b, &a));
	ck_assert(credentials_equal(&a, &b));
	if (a.text)
		b.text[0]++;
	ck_assert_int_eq(credentials_equal(&a, &b), a.text == NULL);
	credentials_done(&a);
	credentials_done(&b);
	ck_assert_int_eq(a.kind, CREDENTIALS_NONE);
	ck_assert_ptr_null(a.text);
}
END_TEST

START_TEST(credentials_of_keys)
{
	struct scram_verifier scram = { .keys.client_key = { 1, 2, 3 } };
	struct credentials a = { .kind = CREDENTIALS_KEYS, .scram = &scram }, b = { 0 };

	ck_assert(credentials_copy(&b, &a));
	ck_assert_ptr_ne(b.scram, a.scram);
	ck_assert(credentials_equal(&a, &b));
	b.scram->keys.client_key[0]++;
	ck_assert(!credentials_equal(&a, &b));
	credentials_done(&b);
	ck_assert(!credentials_equal(&a, &b));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/credentials");
	TCase *tests = tcase_create("credentials");

	tcase_add_loop_test(tests, credentials_of_a_secret, 0, COUNT_OF(cases));
	tcase_add_test(tests, credentials_of_keys);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
