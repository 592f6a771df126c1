/* SPDX-License-Identifier: ISC */
/*
 * What every unit test needs around its cases: a runner for one suite.
 */
#ifndef PGWEIR_TEST_UNIT_H
#define PGWEIR_TEST_UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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

#define UNIT_SECONDS 300 /* for all checks of a program together */
#define UNIT_PASSED 42   /* an exit status that no check ends with */

/* Whether all checks pass in one process, and leave nothing behind. */
static inline bool unit_run_together(SRunner *runner)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		setpgid(0, 0);
		alarm(UNIT_SECONDS);
		srunner_set_fork_status(runner, CK_NOFORK);
		srunner_run_all(runner, CK_NORMAL);
		status = srunner_ntests_failed(runner);
		srunner_free(runner);
		exit(status == 0 ? UNIT_PASSED : EXIT_FAILURE);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == UNIT_PASSED;
}

/*
 * Runs the suite and gives main()'s exit status: 0 when all passed.
 *
 * With sanitizers a process takes longer than most checks. So they share one at first. If that does
 * not end well, each check runs again in a process by itself, which names the one that crashes,
 * hangs or leaks, and only that result counts. CK_FORK=yes does only the latter; CK_FORK=no is for
 * debuggers.
 */
static inline int unit_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed = 0;

	if (getenv("CK_FORK") || !unit_run_together(runner)) {
		srunner_run_all(runner, CK_NORMAL);
		failed = srunner_ntests_failed(runner);
	}
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
