/* SPDX-License-Identifier: ISC */
/*
 * main/process.c: sockets from the service manager
 */
#include "../../../src/main/daemon_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit.h"

static void environment(const char *count, bool is_ours)
{
	char self[16];

	snprintf(self, sizeof(self), "%d", is_ours ? (int)getpid() : 1);
	setenv("LISTEN_FDS", count, 1);
	setenv("LISTEN_PID", self, 1);
}

START_TEST(activation_takes_what_is_ours)
{
	struct handed_sockets given;
	/* Check's own messages use such a descriptor: no assertion while it is replaced. */
	int saved[] = { fcntl(3, F_DUPFD, 100), fcntl(4, F_DUPFD, 100) }, flags;
	bool is_taken;

	dup2(STDERR_FILENO, 3);
	dup2(STDERR_FILENO, 4);
	environment("2", true);
	setenv("LISTEN_FDNAMES", "sessions:", 1);
	is_taken = activation_take(&given, NULL);
	flags = fcntl(3, F_GETFD);
	for (int i = 0; i < 2; i++) {
		if (saved[i] >= 0)
			dup2(saved[i], 3 + i);
	}
	ck_assert(is_taken);
	ck_assert_uint_eq(given.count, 2);
	ck_assert_int_eq(given.fds[0], 3);
	ck_assert_int_eq(given.fds[1], 4);
	ck_assert_str_eq(given.names[0], "sessions");
	ck_assert_str_eq(given.names[1], "");
	ck_assert(flags & FD_CLOEXEC);
	ck_assert_ptr_null(getenv("LISTEN_FDS"));
	ck_assert_ptr_null(getenv("LISTEN_PID"));
	ck_assert(activation_take(&given, NULL));
	ck_assert_uint_eq(given.count, 0);
}
END_TEST

START_TEST(activation_leaves_what_is_not)
{
	struct handed_sockets given;

	environment("1", false);
	ck_assert(activation_take(&given, NULL));
	ck_assert_uint_eq(given.count, 0);
}
END_TEST

START_TEST(activation_refuses_what_cannot_be)
{
	static const char *const bad[] = { "x", "-1", "65", "99999999999999999999", "60" };
	struct handed_sockets given;
	struct err err;

	environment(bad[_i], true); /* 60: they are not open */
	ck_assert(!activation_take(&given, &err));
	ck_assert_ptr_nonnull(strstr(err.text, bad[_i]));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/activation");
	TCase *tcase = tcase_create("activation");

	tcase_add_test(tcase, activation_takes_what_is_ours);
	tcase_add_test(tcase, activation_leaves_what_is_not);
	tcase_add_loop_test(tcase, activation_refuses_what_cannot_be, 0, 5);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
