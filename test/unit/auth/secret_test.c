/* SPDX-License-Identifier: ISC */
/*
 * auth/digest.h: nothing is left of one.
 */
#include "pgweir/auth/digest.h"

#include <stdlib.h>
#include <string.h>

#include "../unit.h"

START_TEST(secrets_are_wiped)
{
	char at[] = "secret", *text = strdup("secret");

	secret_wipe(at, 6);
	ck_assert_int_eq(memcmp(at, "\0\0\0\0\0\0", 6), 0);
	secret_free(&text);
	ck_assert_ptr_null(text);
	secret_free(&text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/secret");
	TCase *cases = tcase_create("secret");

	tcase_add_test(cases, secrets_are_wiped);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
