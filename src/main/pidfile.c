/* SPDX-License-Identifier: ISC */
/*
 * The pid file.
 *
 * Hard here: a file left behind by another process may have our own process id, because in
 * a container process ids begin again after a restart. That is not another running process.
 */
#include "pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pgweir/base/text.h"

/* 0: there is no such file. -1: it cannot be read, or has no number; *err has the reason. */
static pid_t read_pid(const char *path, struct err *err)
{
	char text[64];
	int64_t number;
	ssize_t count;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	count = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (count < 0)
		err_set(err, ERR_CONFIG, "cannot read pidfile %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (count < 0)
		return -1;
	text[count] = 0;
	if (text_to_i64(text_trim(text), &number) && number > 0 && number <= INT_MAX)
		return (pid_t)number;
	err_set(err, ERR_CONFIG,
	        "pidfile %s exists but contains no process ID: remove it if it is stale", path);
	return -1;
}

bool pidfile_check(const char *path, const struct logger *log, struct err *err)
{
	pid_t pid = read_pid(path, err);

	if (pid <= 0)
		return pid == 0;
	if (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH))
		return err_set(err, ERR_CONFIG,
		               "pidfile %s: process %d is running, cannot start another", path,
		               (int)pid);
	log_info(log, "removing stale pidfile %s of process %d", path, (int)pid);
	if (unlink(path) != 0 && errno != ENOENT)
		return err_set(err, ERR_SYSTEM, "cannot remove stale pidfile %s: %s", path,
		               strerror(errno));
	return true;
}

bool pidfile_write(const char *path, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	bool ok;

	if (fd < 0)
		return err_set(err, ERR_SYSTEM, "cannot write pidfile %s: %s", path,
		               strerror(errno));
	/* Readable for other users, whatever the umask is. */
	ok = fchmod(fd, 0644) == 0 && dprintf(fd, "%d\n", (int)getpid()) > 0;
	if (!ok)
		err_set(err, ERR_SYSTEM, "cannot write pidfile %s: %s", path, strerror(errno));
	close(fd);
	if (!ok)
		unlink(path);
	return ok;
}

bool pidfile_is_of(const char *path, pid_t pid)
{
	struct err err;

	return read_pid(path, &err) == pid;
}

bool pidfile_replace(const char *path, struct err *err)
{
	char fresh[PATH_MAX];
	bool ok;

	snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
	unlink(fresh);
	if (!pidfile_write(fresh, err))
		return false;
	ok = rename(fresh, path) == 0;
	if (!ok)
		err_set(err, ERR_SYSTEM, "cannot write pidfile %s: %s", path, strerror(errno));
	unlink(fresh);
	return ok;
}

void pidfile_remove(const char *path)
{
	if (path && *path && pidfile_is_of(path, getpid()))
		unlink(path);
}
