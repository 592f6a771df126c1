/* SPDX-License-Identifier: ISC */
/*
 * main/process.c: the pid file
 */
#include "../../../src/main/daemon_priv.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit.h"

struct scene {
	char directory[32];
	char path[64];
	struct log *log;
	struct logger logger;
};

static void set_up(struct scene *scene)
{
	*scene = (struct scene){ .directory = "/tmp/pgweir-pid-XXXXXX", .log = log_new() };
	scene->logger.log = scene->log;
	ck_assert(log_configure(scene->log, &(struct log_options){ 0 }, NULL));
	ck_assert_ptr_nonnull(mkdtemp(scene->directory));
	snprintf(scene->path, sizeof(scene->path), "%s/pid", scene->directory);
}

static void tear_down(struct scene *scene)
{
	log_free(&scene->log);
	unlink(scene->path);
	ck_assert_int_eq(rmdir(scene->directory), 0);
}

static void put(const struct scene *scene, const char *text)
{
	FILE *file = fopen(scene->path, "we");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

/* The ID of an ended process. */
static pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	return pid;
}

START_TEST(pidfile_is_written_once_and_removed)
{
	struct scene scene;
	struct stat found;
	struct err err;
	char text[32], expected[32];
	FILE *file;

	set_up(&scene);
	umask(077);
	ck_assert(pidfile_check(scene.path, &scene.logger, NULL));
	ck_assert(pidfile_write(scene.path, NULL));
	ck_assert_int_eq(stat(scene.path, &found), 0);
	ck_assert_uint_eq(found.st_mode & 07777, 0644);
	file = fopen(scene.path, "re");
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	snprintf(expected, sizeof(expected), "%d\n", (int)getpid());
	ck_assert_str_eq(text, expected);
	ck_assert(!pidfile_write(scene.path, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "File exists"));
	pidfile_remove(scene.path);
	ck_assert_int_ne(access(scene.path, F_OK), 0);
	pidfile_remove(scene.path);
	pidfile_remove(NULL);
	tear_down(&scene);
}
END_TEST

START_TEST(pidfile_of_a_living_process_is_refused)
{
	struct scene scene;
	struct err err;
	char text[32];

	set_up(&scene);
	snprintf(text, sizeof(text), "%d\n", (int)getppid());
	put(&scene, text);
	ck_assert(!pidfile_check(scene.path, &scene.logger, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "is running"));
	pidfile_remove(scene.path); /* not ours */
	ck_assert_int_eq(access(scene.path, F_OK), 0);
	tear_down(&scene);
}
END_TEST

START_TEST(pidfile_of_a_dead_process_is_removed)
{
	struct scene scene;
	char text[32];

	set_up(&scene);
	/* Or our own: process IDs restart in a container. */
	snprintf(text, sizeof(text), "%d\n", _i ? (int)dead_pid() : (int)getpid());
	put(&scene, text);
	ck_assert(pidfile_check(scene.path, &scene.logger, NULL));
	ck_assert_int_ne(access(scene.path, F_OK), 0);
	tear_down(&scene);
}
END_TEST

static const char *const nonsense[] = {
	"", "\n", "abc\n", "-1\n", "0\n", "12 13\n", "99999999999\n"
};

START_TEST(pidfile_of_nonsense_is_refused)
{
	struct scene scene;
	struct err err;

	set_up(&scene);
	put(&scene, nonsense[_i]);
	ck_assert(!pidfile_check(scene.path, &scene.logger, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "contains no process ID"));
	ck_assert_int_eq(access(scene.path, F_OK), 0);
	tear_down(&scene);
}
END_TEST

START_TEST(pidfile_that_cannot_be_had_is_an_error)
{
	struct scene scene;
	struct err err;

	set_up(&scene);
	ck_assert(!pidfile_check(scene.directory, &scene.logger, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "cannot read pidfile"));
	ck_assert(!pidfile_write("/nonexistent/pid", &err));
	ck_assert_str_eq(err.text,
	                 "cannot write pidfile /nonexistent/pid: No such file or directory");
	tear_down(&scene);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/pidfile");
	TCase *cases = tcase_create("pidfile");

	tcase_add_test(cases, pidfile_is_written_once_and_removed);
	tcase_add_test(cases, pidfile_of_a_living_process_is_refused);
	tcase_add_loop_test(cases, pidfile_of_a_dead_process_is_removed, 0, 2);
	tcase_add_loop_test(cases, pidfile_of_nonsense_is_refused, 0, COUNT_OF(nonsense));
	tcase_add_test(cases, pidfile_that_cannot_be_had_is_an_error);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
