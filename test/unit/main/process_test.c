/* SPDX-License-Identifier: ISC */
/*
 * main/process.c: functions that change the whole process. Check runs each case in its own process.
 */
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../src/main/daemon_priv.h"

#include "../unit.h"

struct told {
	pid_t pid, session;
	bool same_directory;
	bool is_silent;
};

/* In the daemon: reports its state. */
static void tell(int pipe_end, const char *directory)
{
	struct told told = { .pid = getpid(), .session = getsid(0) };
	char now[PATH_MAX];
	struct stat null, err;

	told.same_directory = getcwd(now, sizeof(now)) && strcmp(now, directory) == 0;
	told.is_silent = stat("/dev/null", &null) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
	                 null.st_rdev == err.st_rdev;
	_exit(write(pipe_end, &told, sizeof(told)) == (ssize_t)sizeof(told) ? 0 : 1);
}

START_TEST(daemon_leaves_its_parent)
{
	char directory[PATH_MAX];
	struct told told;
	int pair[2], status;
	pid_t child;

	ck_assert_ptr_nonnull(getcwd(directory, sizeof(directory)));
	ck_assert_int_eq(pipe(pair), 0);
	child = fork();
	if (child == 0) {
		if (!daemonize(NULL))
			_exit(9);
		tell(pair[1], directory);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_int_eq(read(pair[0], &told, sizeof(told)), (int)sizeof(told));
	ck_assert_int_ne(told.pid, child);
	ck_assert_int_ne(told.session, getsid(0));
	ck_assert_int_ne(told.session, told.pid); /* leads no session */
	ck_assert(told.same_directory);
	ck_assert(told.is_silent);
}
END_TEST

START_TEST(root_is_refused_and_can_be_given_up)
{
	struct err err;
	char own[64];

	snprintf(own, sizeof(own), "%s", getpwuid(getuid())->pw_name);
	if (getuid() != 0) {
		ck_assert(privileges_drop(NULL, NULL));
		ck_assert(privileges_drop("", NULL));
		ck_assert(privileges_drop(own, NULL));
		ck_assert(!privileges_drop("root", &err));
		ck_assert_str_eq(err.text, "cannot switch to user root: only root may");
		return;
	}
	ck_assert(!privileges_drop(NULL, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "refusing to run as root"));
	ck_assert(!privileges_drop("root", &err));
	ck_assert_ptr_nonnull(
	    strstr(err.text, "refusing to run as root: user is root, which is root"));
	ck_assert(privileges_drop("nobody", &err));
	ck_assert_uint_eq(getuid(), getpwnam("nobody")->pw_uid);
	ck_assert_uint_eq(getegid(), getpwnam("nobody")->pw_gid);
	ck_assert(privileges_drop("nobody", NULL));
	ck_assert(!privileges_drop("root", NULL));
	_exit(0); /* the leak checker cannot inspect a process of another user */
}
END_TEST

START_TEST(a_user_is_borrowed_and_given_back)
{
	struct err err;

	ck_assert(privileges_borrow(NULL, NULL));
	privileges_return();
	ck_assert(!privileges_borrow("no-such-user", &err));
	ck_assert_str_eq(err.text, "cannot switch to user no-such-user: no such user");
	ck_assert(!privileges_borrow("root", &err));
	ck_assert_ptr_nonnull(strstr(err.text, "user is root"));
	ck_assert(privileges_borrow("nobody", &err));
	ck_assert(privileges_are_borrowed() == (getuid() == 0));
	if (getuid() == 0)
		ck_assert_uint_eq(geteuid(), getpwnam("nobody")->pw_uid);
	privileges_return();
	ck_assert(!privileges_are_borrowed());
	ck_assert_uint_eq(geteuid(), getuid());
	ck_assert_uint_eq(getegid(), getgid());
}
END_TEST

START_TEST(users_that_are_not_there_are_refused)
{
	struct err err;

	ck_assert(!privileges_drop("no-such-user", &err));
	ck_assert_str_eq(err.text, "cannot switch to user no-such-user: no such user");
}
END_TEST

START_TEST(files_are_raised_to_the_hard_limit)
{
	struct rlimit files, raised;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = 64;
	files.rlim_max = 256;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	ck_assert(limits_raise(&raised, NULL));
	ck_assert_uint_eq(raised.rlim_cur, 256);
	ck_assert_uint_eq(raised.rlim_max, 256);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	ck_assert_uint_eq(files.rlim_cur, 256);
}
END_TEST

static const struct {
	unsigned long files;
	unsigned long expected;
	const char *says;
	bool warns;
} reports[] = {
	{ 256, 256, "LOG kernel file descriptor limit: 256 (hard: 512); max expected fd use: 256\n",
	  false },
	{ 256, 257, "LOG kernel file descriptor limit: 256 (hard: 512); max expected fd use: 257\n",
	  true },
	{ ULONG_MAX, 9,
	  "LOG kernel file descriptor limit: unlimited (hard: 512); max expected fd use: 9\n",
	  false },
};

START_TEST(files_are_reported)
{
	char path[] = "/tmp/pgweir-limits-XXXXXX", text[4096];
	struct log *log = log_new();
	struct logger logger = { log, NULL };
	struct rlimit limits = { .rlim_cur = reports[_i].files, .rlim_max = 512 };
	int fd = mkstemp(path);

	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	limits_report(&limits, reports[_i].expected, &logger);
	log_free(&log);
	text[read(fd, text, sizeof(text) - 1)] = 0;
	close(fd);
	unlink(path);
	ck_assert_ptr_nonnull(strstr(text, reports[_i].says));
	ck_assert_int_eq(strstr(text, "WARNING") != NULL, reports[_i].warns);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/process");
	TCase *cases = tcase_create("process");

	tcase_add_test(cases, daemon_leaves_its_parent);
	tcase_add_test(cases, root_is_refused_and_can_be_given_up);
	tcase_add_test(cases, a_user_is_borrowed_and_given_back);
	tcase_add_test(cases, users_that_are_not_there_are_refused);
	tcase_add_test(cases, files_are_raised_to_the_hard_limit);
	tcase_add_loop_test(cases, files_are_reported, 0, COUNT_OF(reports));
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
