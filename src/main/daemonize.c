/* SPDX-License-Identifier: ISC */
/*
 * Goes to the background with two forks. The child begins a session. The grandchild is not
 * the leader of the session, so it can never get a controlling terminal again.
 */
#include "daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void silence_stdio(int null)
{
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

/* In the child: the exit status tells the parent whether there is a grandchild. */
static void fork_again(void)
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid != 0)
		_exit(pid > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool has_grandchild(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

bool daemonize(struct err *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	if (null < 0)
		return err_set(err, ERR_SYSTEM, "cannot open /dev/null: %s", strerror(errno));
	/* Otherwise the contents of stdio's buffers would be written twice. */
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		fork_again();
		silence_stdio(null);
		return true;
	}
	if (pid > 0 && has_grandchild(pid))
		_exit(EXIT_SUCCESS);
	close(null);
	return err_set(err, ERR_SYSTEM, "cannot run in the background: fork failed");
}
