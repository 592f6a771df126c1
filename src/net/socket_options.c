/* SPDX-License-Identifier: ISC */
/*
 * Options of TCP sockets, as a table.
 *
 * Hard here: an option that is 0 is left at the system's default, even if the listener had
 * another value before: the default cannot be found out any more. Only keepalive can be
 * switched off again.
 */
#include "pgweir/net/socket_options.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "pgweir/base/banned.h"

static const struct row {
	const char *name;
	int level;
	int option;
	size_t at; /* offset of an int in struct socket_options */
	bool is_for_keepalive;
} rows[] = {
	{ "tcp_keepcnt", IPPROTO_TCP, TCP_KEEPCNT, offsetof(struct socket_options, tcp_keepcnt),
	  true },
	{ "tcp_keepidle", IPPROTO_TCP, TCP_KEEPIDLE, offsetof(struct socket_options, tcp_keepidle),
	  true },
	{ "tcp_keepintvl", IPPROTO_TCP, TCP_KEEPINTVL,
	  offsetof(struct socket_options, tcp_keepintvl), true },
	{ "tcp_user_timeout", IPPROTO_TCP, TCP_USER_TIMEOUT,
	  offsetof(struct socket_options, tcp_user_timeout), false },
	{ "tcp_socket_buffer", SOL_SOCKET, SO_SNDBUF,
	  offsetof(struct socket_options, tcp_socket_buffer), false },
	{ "tcp_socket_buffer", SOL_SOCKET, SO_RCVBUF,
	  offsetof(struct socket_options, tcp_socket_buffer), false },
};

struct refused {
	const char *name;
	int why;
};

static void set(int fd, int level, int option, int value, const char *name, struct refused *refused)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)) == 0 || refused->name)
		return;
	refused->name = name;
	refused->why = errno;
}

const char *socket_options_apply(int fd, const struct socket_options *options)
{
	struct refused refused = { NULL, 0 };

	set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY", &refused);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, options->tcp_keepalive, "tcp_keepalive", &refused);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int value;

		memcpy(&value, (const char *)options + rows[i].at, sizeof(value));
		if (value == 0 || (rows[i].is_for_keepalive && !options->tcp_keepalive))
			continue;
		set(fd, rows[i].level, rows[i].option, value, rows[i].name, &refused);
	}
	errno = refused.why;
	return refused.name;
}

int socket_open(int family)
{
	return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}
