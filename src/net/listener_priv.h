/* SPDX-License-Identifier: ISC */
/*
 * Listeners, inside: their sockets, who comes in by them, and how a listening socket is made.
 */
#ifndef PGWEIR_NET_LISTENER_PRIV_H
#define PGWEIR_NET_LISTENER_PRIV_H

#include <sys/queue.h>
#include <sys/stat.h>

#include "pgweir/net/listener.h"

/* One listening socket. */
struct listen_socket {
	struct watch watch;
	struct listener *listener;
	struct address address; /* nowhere: the Unix socket */
	TAILQ_ENTRY(listen_socket) node;
};

struct listener {
	struct loop *loop;
	unsigned long accepted_at;       /* the turn in which somebody came in last */
	int burst;                       /* how many to let in at one knock */
	struct listener_options options; /* its texts are ours */
	char *addresses;
	char *unix_dir;
	char *unix_group;
	char *unix_path;       /* bound, to be removed at the end; NULL = none */
	struct stat unix_file; /* what we made there */
	listener_on_accept *on_accept;
	void *arg;
	TAILQ_HEAD(, listen_socket) sockets;
	TAILQ_HEAD(, listen_socket) aside; /* closed for now: their addresses */
	unsigned int socket_count;
	unsigned long accepted_count;
	struct timer rest;
	bool is_file_ours;
	bool is_paused;
	bool is_resting;
	bool is_closing; /* the last ones are being let in */
	bool has_warned; /* of a shortage that is not over */
};

/* ---- coming in: listener_accept.c ---- */

/* Whether its sockets are to be watched: it neither pauses nor rests. */
bool listener_wants_clients(const struct listener *listener);

/* Of a door's watch, which is its first member. */
void listener_on_ready(struct watch *watch, unsigned int what);

/*
 * Whoever is connected by now, and waits to be accepted: the kernel would reset them with the
 * socket. What the service manager gave us it keeps open, and they wait for who comes next.
 */
void listener_accept_all(struct listener *listener);

/* ---- sockets of our own: listener_bind.c ---- */

/*
 * Both return a descriptor that listens and accepts without blocking, or -1 with
 * *err filled and nothing left behind.
 */
int listener_bind_tcp(const struct address *address, const struct listener_options *options,
                      struct err *err);

/* Removes a socket's file that nobody serves; refuses when somebody does. */
int listener_bind_unix(const char *path, const struct listener_options *options, struct err *err);

/* ---- sockets that were given: listener_given.c ---- */

/* A socket that somebody else has opened. */
struct given {
	int fd;
	struct address address; /* AF_UNSPEC: a Unix socket */
	char path[128];         /* of that; "" = it has none */
};

/* Looks at it and sets it to be accepted from without blocking. false: it is of no use. */
bool listener_judge_given(int fd, struct given *given, struct err *err);

/* The inherited socket that listens there; it is the caller's now. -1: there is none. */
int listener_find_inherited(const struct listener_options *options, const struct address *address,
                            const char *path);

/* Warns of what listen_addr and unix_socket_dir ask for and these sockets do not give. */
void listener_check_given(const struct given *given, unsigned int count,
                          const struct listener_options *options);

#endif
