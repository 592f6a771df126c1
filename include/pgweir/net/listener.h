/* SPDX-License-Identifier: ISC */
/*
 * Listeners: all sockets on which clients come in, as one object.
 *
 * When descriptors (or memory for them) run out, the listener rests: it accepts
 * nobody, says so once, and tries again after a moment or as soon as it is told
 * that a descriptor came free. Whoever is connected does not notice; whoever
 * knocks waits in the kernel's backlog.
 */
#ifndef PGWEIR_NET_LISTENER_H
#define PGWEIR_NET_LISTENER_H

#include <sys/types.h>

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"
#include "pgweir/net/socket_options.h"

struct listener;

struct listener_options {
	const char *addresses; /* comma list of IPs and names, "*" = all; NULL or "" = no TCP */
	uint16_t port;
	const char *unix_dir; /* NULL or "" = none; leading '@' = abstract */
	mode_t unix_mode;
	const char *unix_group; /* name or number; NULL or "" = as it comes */
	int backlog;
	bool reuse_port;
	int tcp_defer_accept; /* seconds, as the kernel takes it; 0 = off */
	struct socket_options socket;
	/*
	 * Sockets that a service manager has opened: they are taken over, and are all that is
	 * listened on. What addresses and unix_dir name beyond them is a warning.
	 */
	const int *given; /* good until listener_open() */
	unsigned int given_count;
	/*
	 * Sockets that another process of ours has opened: each is used where one would be
	 * opened at its address, and is -1 then. The others are the caller's.
	 */
	int *inherited; /* good until listener_open() */
	unsigned int inherited_count;
	/* Descriptors have run out. It may close some, and call listener_retry(). NULL: nobody. */
	void (*on_shortage)(void *arg);
	struct logger log; /* copied */
};

#define LISTENER_GIVEN_MAX 64

/*
 * From the loop: somebody came in. The callee owns `fd` (non-blocking,
 * close-on-exec). May stop or free nothing of the listener but by
 * listener_pause() and listener_close_tcp().
 */
typedef void listener_on_accept(void *arg, int fd, const struct address *peer);

/* Holds copies of all that the options say. Nothing is opened. NULL: no memory. */
struct listener *listener_new(struct loop *loop, const struct listener_options *options,
                              listener_on_accept *on_accept, void *arg);

/*
 * Binds and listens; resolves names, so it may block: at start only. A TCP
 * address that fails is a warning in the log. false: none of a list that was
 * not empty could be bound, or the Unix socket cannot be had; nothing is open.
 */
bool listener_open(struct listener *listener, struct err *err);

/* Closes everything and removes the Unix socket's file, unless it was given. */
void listener_free(struct listener **listener);

/*
 * Whether the Unix socket's file is ours to remove at the end. It is, unless another process
 * has that socket too.
 */
void listener_own_file(struct listener *listener, bool is_ours);

/* Whether a service manager has opened the sockets. */
bool listener_is_given(const struct listener *listener);

/* Nobody is accepted until listener_resume(); those who knock wait in the backlog. */
void listener_pause(struct listener *listener);

/* Ends a pause. */
void listener_resume(struct listener *listener);

/* A descriptor came free: a listener that rests for want of one tries again. Cheap otherwise. */
void listener_retry(struct listener *listener);

/*
 * No TCP client comes in any more (graceful shutdown); the Unix socket stays. Who is
 * connected already, and waits in the backlog, is let in before: the kernel would reset it.
 */
void listener_close_tcp(struct listener *listener);

/*
 * Leaves a port that others share (reuse_port), so that the kernel deals new connections to
 * them: closes as above, until listener_step_back(). A port of our own stays open.
 */
void listener_unlisten(struct listener *listener);
void listener_step_back(struct listener *listener);

/* For connections from now on. A port that others share is without tcp_defer_accept. */
void listener_set_options(struct listener *listener, const struct socket_options *socket,
                          int tcp_defer_accept);

/* How many sockets are open. */
unsigned int listener_count(const struct listener *listener);

/* The socket at `index`, and where it listens (nowhere: the Unix socket). -1: that was all. */
int listener_fd(const struct listener *listener, size_t index, struct address *address);

/* The port on which the first TCP socket listens (tests ask for port 0). 0 = none. */
uint16_t listener_port(const struct listener *listener);

/* Accepted so far: for statistics and tests. */
unsigned long listener_accepted_count(const struct listener *listener);

/* Whether it rests for want of descriptors. */
bool listener_is_resting(const struct listener *listener);

#endif
