/* SPDX-License-Identifier: ISC */
/*
 * Listeners, inside the module: their sockets, accepting connections, and opening sockets.
 */
#ifndef PGWEIR_NET_LISTENER_PRIV_H
#define PGWEIR_NET_LISTENER_PRIV_H

#include <sys/queue.h>
#include <sys/stat.h>

#include "pgweir/net/listener.h"

struct listen_socket {
	struct watch watch;
	struct listener *listener;
	struct address address; /* AF_UNSPEC: the Unix socket */
	TAILQ_ENTRY(listen_socket) node;
};

struct listener {
	struct loop *loop;
	struct listener_options options; /* its texts are copies */
	char *unix_path;                 /* file to be removed at the end; NULL = none */
	struct stat unix_file;           /* the file that we created */
	listener_on_accept *on_accept;
	void *arg;
	TAILQ_HEAD(, listen_socket) sockets;
	TAILQ_HEAD(, listen_socket) unlistened; /* closed for now, but their addresses are kept */
	unsigned int socket_count;
	struct timer rest;
	bool is_file_ours;
	bool is_paused;
	bool is_resting;
	bool is_closing; /* the backlog is being accepted before closing */
	bool has_warned; /* the current shortage has been logged */
};

/* ---- opening sockets: listener_bind.c ---- */

/*
 * Both return a non-blocking, listening descriptor. -1: *err is filled and nothing has changed.
 */
int listener_bind_tcp(const struct address *address, const struct listener_options *options,
                      struct err *err);

/* Removes a stale socket file; fails if a process accepts connections on it. */
int listener_bind_unix(const char *path, const struct listener_options *options, struct err *err);

/* A socket that another process has opened. */
struct given {
	int fd;
	struct address address; /* AF_UNSPEC: a Unix socket */
	char path[128];         /* its path; "" = it has none */
};

/* Checks the socket and makes it non-blocking. false: it cannot be used. */
bool listener_judge_given(int fd, struct given *given, struct err *err);

/* Returns the inherited socket with this address, which the caller owns. -1: there is none. */
int listener_find_inherited(const struct listener_options *options, const struct address *address,
                            const char *path);

#endif
