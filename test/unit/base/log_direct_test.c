/* SPDX-License-Identifier: ISC */
/*
 * base/log_outlets.c
 */
#include "../../../src/base/log_priv.h"

#include "../unit.h"

/* A slow disk only delays the writer thread. */
START_TEST(log_direct_has_a_budget)
{
	struct log_direct direct = { .is_file_near = true };
	struct outlets outlets = { .fd = 3 };
	usec_t now = USEC_PER_SEC;

	for (int i = 0; i < LOG_DIRECT_LINES; i++)
		ck_assert(log_direct_may(&direct, outlets, 100, now));
	ck_assert(!log_direct_may(&direct, outlets, 100, now));
	now += LOG_DIRECT_WINDOW;
	ck_assert(!log_direct_may(&direct, outlets, LOG_DIRECT_BYTES + 1, now));
	ck_assert(log_direct_may(&direct, outlets, LOG_DIRECT_BYTES, now));
	log_direct_took(&direct, LOG_DIRECT_OWED_MAX + 1000);
	ck_assert(!log_direct_may(&direct, outlets, 100, now));
	now += LOG_DIRECT_WINDOW - 1000;
	ck_assert(!log_direct_may(&direct, outlets, 100, now));
	now += LOG_DIRECT_WINDOW;
	ck_assert(log_direct_may(&direct, outlets, 100, now));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/log_direct");
	TCase *cases = tcase_create("log_direct");

	tcase_add_test(cases, log_direct_has_a_budget);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
