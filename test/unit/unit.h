/* SPDX-License-Identifier: ISC */
/*
 * What every unit test needs around its cases: a runner for one suite.
 */
#ifndef PGWEIR_TEST_UNIT_H
#define PGWEIR_TEST_UNIT_H

#include <check.h>
#include <stdlib.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * An assertion for loops of many thousand turns. Check notes in a file that it has passed one of
 * its own, which takes longer than what is tested.
 */
#define unit_expect(condition)                          \
	do {                                            \
		if (!(condition))                       \
			ck_abort_msg("%s", #condition); \
	} while (0)

/* Runs the suite and gives main()'s exit status: 0 when all passed. */
static inline int unit_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
