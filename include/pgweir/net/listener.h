/* SPDX-License-Identifier: ISC */
/*
 * Listeners: all sockets on which clients connect, as one object.
 *
 * If file descriptors (or memory for them) run out, the listener rests: it accepts nothing,
 * logs that once, and tries again after a moment. Connected clients are not affected; new ones wait
 * in the kernel's backlog.
 */
#ifndef PGWEIR_NET_LISTENER_H
#define PGWEIR_NET_LISTENER_H

#include <sys/types.h>

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"
#include "pgweir/net/dial.h"

struct listener;

struct listener_options {
	const char *name; /* for the log; NULL = the main listener */
	/* list of IP addresses and names, separated by commas; "*" = all; NULL or "" = no TCP */
	const char *addresses;
	uint16_t port;
	const char *unix_path; /* NULL or "" = no Unix socket; leading '@' = abstract */
	mode_t unix_mode;
	const char *unix_group; /* name or number; NULL or "" = not changed */
	int backlog;
	bool reuse_port;
	/*
	 * The caller tries again: failures are not logged, and the error is that of the last one.
	 */
	bool is_retried;
	/* Each address must work, and must be an IP address, so that nothing blocks. */
	bool is_strict;
	int tcp_defer_accept; /* seconds, as the kernel's option; 0 = off; see reuse_port */
	struct socket_options socket;
	/*
	 * Sockets opened by a service manager. The listener owns them and opens no others:
	 * addresses and unix_path are ignored; of the main listener, with a warning.
	 */
	const int *given;
	unsigned int given_count;
	/*
	 * Sockets opened by another pgweir process. If a socket is needed at the address of one
	 * of them, it is used and set to -1 here. The caller owns the others.
	 */
	int *inherited;
	unsigned int inherited_count;
	/*
	 * Called from the loop for each accepted connection. The callee owns `fd` (non-blocking,
	 * close-on-exec). Of this listener it may only call listener_accept() and
	 * listener_close_tcp().
	 */
	void (*on_accept)(void *arg, int fd, const struct address *peer);
	/* Descriptors have run out: may close some. NULL: none. */
	void (*on_shortage)(void *arg);
	void *arg;
	struct logger log;
};

/*
 * Opens the sockets. Resolves names, so it may block: only at start. A TCP address that fails is a
 * warning. The options are needed during the call only. NULL: all addresses failed, or the Unix
 * socket did; *err says why.
 */
struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct err *err);

/* Closes all sockets and removes the Unix socket's file, unless a service manager opened it. */
void listener_free(struct listener **listener);

/* The group of this name or number. false: *err says that there is none. */
bool listener_find_group(const char *name, gid_t *group, struct err *err);

/*
 * Whether to remove the Unix socket's file at the end: not if another process has it too, so at
 * first not that of an inherited socket.
 */
void listener_own_file(struct listener *listener, bool is_ours);

bool listener_is_given(const struct listener *listener);

/* Whether to accept connections, at first true; else they wait in the backlog. */
void listener_accept(struct listener *listener, bool accepts);
bool listener_is_paused(const struct listener *listener);

/*
 * Closes the TCP sockets, for a graceful shutdown; the Unix socket stays open. Accepts the
 * connections in the backlog first, because the kernel would reset them.
 */
void listener_close_tcp(struct listener *listener);

/*
 * If other processes share the port (reuse_port), closes it as above, so that the kernel gives
 * them the new connections, until listener_relisten(). A port that is not shared stays open.
 */
void listener_unlisten(struct listener *listener);
void listener_relisten(struct listener *listener);

/* Sets options for new connections. A shared port never has tcp_defer_accept. */
void listener_set_options(struct listener *listener, const struct socket_options *socket,
                          int tcp_defer_accept);

/* The name of its Unix socket; NULL: there is none. */
const char *listener_unix_path(const struct listener *listener);

unsigned int listener_count(const struct listener *listener);

/* Also its address (AF_UNSPEC: the Unix socket). -1: no more sockets. */
int listener_fd(const struct listener *listener, size_t index, struct address *address);

bool listener_is_resting(const struct listener *listener);

#endif
