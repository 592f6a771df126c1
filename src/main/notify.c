/* SPDX-License-Identifier: ISC */
/*
 * Messages to the service manager, by the protocol of sd_notify(3).
 */
#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "pgweir/base/text.h"
#include "pgweir/net/address.h"

#define PATIENCE 100000 /* microseconds */
#define TEXT_MAX 1024

/* The watchdog is for this process if WATCHDOG_PID is not set, or is our process id. */
static usec_t watchdog_of(const char *interval, const char *whose)
{
	int64_t usec, pid;

	if (!interval || !text_to_i64(interval, &usec) || usec <= 0)
		return 0;
	if (whose && (!text_to_i64(whose, &pid) || pid != getpid()))
		return 0;
	return usec;
}

static bool open_socket(struct notify *notify, const char *path, struct err *err)
{
	struct timeval patience = { .tv_usec = PATIENCE };

	if (path[0] != '/' && path[0] != '@')
		return err_set(err, ERR_CONFIG, "it is neither a path nor an abstract name");
	if (!address_unix_name(&notify->name, &notify->name_size, path, err))
		return false;
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify->fd < 0)
		return err_set(err, ERR_SYSTEM, "%s", strerror(errno));
	setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return true;
}

bool notify_open(struct notify *notify, struct err *err)
{
	const char *path = getenv("NOTIFY_SOCKET");
	bool ok = true;

	*notify = (struct notify){ .fd = -1 };
	if (path && *path)
		ok = open_socket(notify, path, err) ||
		     err_prefix(err, "cannot use NOTIFY_SOCKET=%s: ", path);
	if (notify->fd >= 0)
		notify->watchdog = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return ok;
}

void notify_send(const struct notify *notify, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;
	int count;

	if (notify->fd < 0)
		return;
	va_start(args, format);
	count = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (count <= 0)
		return;
	if ((size_t)count >= sizeof(text))
		count = sizeof(text) - 1;
	/* Errors are ignored: a service manager that does not listen must not stop the daemon. */
	(void)!sendto(notify->fd, text, (size_t)count, MSG_NOSIGNAL,
	              (const struct sockaddr *)&notify->name, notify->name_size);
}

void notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

/* ---- activation ---- */

#define FIRST 3

/* names: separated by colons, in the order of the descriptors; or NULL. */
static bool take_sockets(struct handed_sockets *sockets, const char *count_text, const char *names,
                         struct err *err)
{
	int64_t count;

	if (!text_to_i64(count_text, &count) || count < 0 || count > ACTIVATION_MAX)
		return err_set(err, ERR_CONFIG, "LISTEN_FDS=%s: a number from 0 to %d is expected",
		               count_text, ACTIVATION_MAX);
	for (int fd = FIRST; fd < FIRST + (int)count; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
			return err_set(err, ERR_CONFIG, "LISTEN_FDS=%s, but descriptor %d: %s",
			               count_text, fd, strerror(errno));
		if (names) {
			size_t length = strcspn(names, ":");

			snprintf(sockets->names[sockets->count], sizeof(sockets->names[0]), "%.*s",
			         (int)length, names);
			names = names[length] ? names + length + 1 : NULL;
		}
		sockets->fds[sockets->count++] = fd;
	}
	return true;
}

bool activation_take(struct handed_sockets *sockets, struct err *err)
{
	const char *count = getenv("LISTEN_FDS"), *whose = getenv("LISTEN_PID");
	int64_t pid;
	bool is_ours = count && whose && text_to_i64(whose, &pid) && pid == getpid();
	bool ok;

	*sockets = (struct handed_sockets){ 0 };
	ok = !is_ours || take_sockets(sockets, count, getenv("LISTEN_FDNAMES"), err);
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	return ok;
}
