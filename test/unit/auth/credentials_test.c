/* SPDX-License-Identifier: ISC */
/*
 * auth/users.c: credentials.
 */
#include "pgweir/auth/users.h"

#include "../unit.h"

#define MD5 "md5900150983cd24fb0d6963f7d28e17f72"

static const struct {
	const char *text;
	enum secret_kind kind;
} cases[] = {
	{ "plain", SECRET_PLAIN },
	{ MD5, SECRET_MD5 },
	{ "", SECRET_NONE },
	{ "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
	  ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
	  SECRET_NONE },
};

START_TEST(credentials_of_a_text)
{
	struct secret secret = users_secret_of(cases[_i].text), other = { secret.kind, "another" };
	const struct credentials *a = credentials_of_secret(&secret, false), *held;
	const struct credentials *same = credentials_of_secret(&secret, true);
	const struct credentials *b = credentials_of_secret(&other, false);

	ck_assert_int_eq(credentials_kind(a), cases[_i].kind);
	ck_assert(credentials_equal(a, same));
	ck_assert_int_eq(credentials_equal(a, b), a == NULL);
	held = credentials_hold(a);
	ck_assert_ptr_eq(held, a);
	credentials_release(&a);
	ck_assert_ptr_null(a);
	if (held)
		ck_assert_str_eq(held->text, cases[_i].text);
	ck_assert(credentials_equal(held, same));
	credentials_release(&held);
	credentials_release(&same);
	credentials_release(&b);
}
END_TEST

START_TEST(credentials_of_a_proof)
{
	struct scram_verifier scram = { .keys.client_key = { 1, 2, 3 } };
	const struct credentials *a = credentials_of_keys(&scram), *b = credentials_of_keys(&scram);

	ck_assert(a->is_shown);
	ck_assert(credentials_equal(a, b));
	credentials_release(&b);
	scram.keys.client_key[0]++;
	b = credentials_of_keys(&scram);
	ck_assert(!credentials_equal(a, b));
	credentials_release(&b);
	ck_assert(!credentials_equal(a, b));
	credentials_release(&a);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/credentials");
	TCase *tests = tcase_create("credentials");

	tcase_add_loop_test(tests, credentials_of_a_text, 0, COUNT_OF(cases));
	tcase_add_test(tests, credentials_of_a_proof);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
