/* SPDX-License-Identifier: ISC */
/*
 * Dialling: connect(), and wait for the socket to become writable.
 *
 *   connect() --> at once, or refused at once --> task at the end of the turn --> on_done
 *             \-> in progress --> writable --> SO_ERROR ----------------------> on_done
 *
 * Hard here: a Unix socket whose listener has a full backlog fails with EAGAIN, and the kernel
 * does not continue to connect. That is a failure, and there is nothing to wait for.
 */
#include "pgweir/net/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"

static void fill_err(struct err *err, int failure)
{
	switch (failure) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		err_set(err, ERR_FILES, "cannot open a socket: %s", strerror(failure));
		break;
	case EAGAIN:
		err_set(err, ERR_SERVER_CONNECT, "connect failed: the server's backlog is full");
		break;
	default:
		err_set(err, ERR_SERVER_CONNECT, "connect failed: %s", strerror(failure));
	}
}

/* Ends an attempt. on_done() may free the dial. */
static void end_dial(struct dial *dial, int failure)
{
	int fd = dial->watch.fd;
	struct err err = { .code = ERR_NONE };

	watch_done(&dial->watch);
	dial->is_active = false;
	if (failure == 0) {
		dial->on_done(dial, fd, NULL);
		return;
	}
	if (fd >= 0)
		close(fd);
	fill_err(&err, failure);
	dial->on_done(dial, -1, &err);
}

static void run_task(struct task *task)
{
	struct dial *dial = container_of(task, struct dial, task);

	end_dial(dial, dial->failure);
}

static void on_writable(struct watch *watch, unsigned int what)
{
	struct dial *dial = container_of(watch, struct dial, watch);
	int failure = 0;
	socklen_t size = sizeof(failure);

	(void)what;
	if (getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
		failure = errno;
	end_dial(dial, failure);
}

static void end_later(struct dial *dial, int failure)
{
	dial->failure = failure;
	loop_defer(dial->watch.loop, &dial->task);
}

void dial_start(struct dial *dial, struct loop *loop, const struct address *address,
                const char *path, const struct socket_options *options,
                void (*on_done)(struct dial *dial, int fd, const struct err *err))
{
	struct sockaddr_un local;
	const struct sockaddr *name = (struct sockaddr *)&local;
	socklen_t size;

	*dial = (struct dial){ .on_done = on_done, .task.run = run_task, .is_active = true };
	watch_init(&dial->watch, loop, -1, on_writable);
	if (!path) {
		name = address_sockaddr(address);
		size = address_sockaddr_size(address);
	} else if (!address_unix_name(&local, &size, path, NULL)) {
		end_later(dial, ENAMETOOLONG);
		return;
	}
	dial->watch.fd = socket_open(name->sa_family);
	if (dial->watch.fd < 0) {
		end_later(dial, errno);
		return;
	}
	if (!path && options)
		socket_options_apply(dial->watch.fd, options);
	if (connect(dial->watch.fd, name, size) == 0)
		end_later(dial, 0);
	else if (errno != EINPROGRESS)
		end_later(dial, errno);
	else if (!watch_set(&dial->watch, WATCH_WRITE))
		end_later(dial, ENOMEM);
}

void dial_cancel(struct dial *dial)
{
	if (!dial->is_active)
		return;
	loop_undefer(dial->watch.loop, &dial->task);
	watch_done(&dial->watch);
	if (dial->watch.fd >= 0)
		close(dial->watch.fd);
	dial->is_active = false;
}

/*
 * ---- socket options ----
 *
 * Hard here: an option that is 0 is left at the system's default, even if the listener had
 * another value before: the default cannot be found out any more. Only keepalive can be
 * switched off again.
 */

#define IN_OPTIONS(field) offsetof(struct socket_options, field)

static const struct row {
	int level;
	int option;
	size_t at; /* offset of an int in struct socket_options */
	bool is_for_keepalive;
} rows[] = {
	{ IPPROTO_TCP, TCP_KEEPCNT, IN_OPTIONS(tcp_keepcnt), true },
	{ IPPROTO_TCP, TCP_KEEPIDLE, IN_OPTIONS(tcp_keepidle), true },
	{ IPPROTO_TCP, TCP_KEEPINTVL, IN_OPTIONS(tcp_keepintvl), true },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, IN_OPTIONS(tcp_user_timeout), false },
	{ SOL_SOCKET, SO_SNDBUF, IN_OPTIONS(tcp_socket_buffer), false },
	{ SOL_SOCKET, SO_RCVBUF, IN_OPTIONS(tcp_socket_buffer), false },
};

void socket_options_apply(int fd, const struct socket_options *options)
{
	int keepalive = options->tcp_keepalive;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keepalive, sizeof(int));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int value;

		memcpy(&value, (const char *)options + rows[i].at, sizeof(value));
		if (value && (keepalive || !rows[i].is_for_keepalive))
			setsockopt(fd, rows[i].level, rows[i].option, &value, sizeof(value));
	}
}

int socket_open(int family)
{
	return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}
