/* SPDX-License-Identifier: ISC */
/*
 * The daemon, inside the room.
 */
#ifndef PGWEIR_MAIN_DAEMON_PRIV_H
#define PGWEIR_MAIN_DAEMON_PRIV_H

#include "pgweir/admin/console.h"
#include "pgweir/auth/derived.h"
#include "pgweir/client/clients.h"
#include "pgweir/main/daemon.h"
#include "pgweir/main/notify.h"
#include "pgweir/main/tls_sets.h"
#include "pgweir/net/listener.h"

enum shutdown_state {
	SHUTDOWN_NONE,
	SHUTDOWN_SERVERS, /* waits until no server is left */
	SHUTDOWN_CLIENTS  /* waits until no client is left */
};

struct daemon {
	struct log *log;
	struct logger logger;
	const struct options *options;
	const struct config *config;
	struct users *users;
	struct tls_sets tls;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct loop *loop;
	struct stream_pool streams;
	struct workers *workers;
	struct workers *lookups; /* for what waits on others */
	struct workers *pam, *ldap;
	struct verifiers *verifiers;
	struct params_table *params;
	struct resolver *resolver;
	struct pools *pools;
	struct clients *clients;
	struct listener *listener;
	struct console *console;
	struct notify notify;
	struct timer watchdog; /* on if the service manager has asked for it */
	enum shutdown_state shutdown;
	struct pools_watch watch; /* on while shutdown is not NONE */
	struct timer suspend;     /* on while a SUSPEND drains */
	usec_t suspended_at;
};

/* The users whom a configuration names; none where nobody's name counts. NULL: *err says why. */
struct users *daemon_load_users(const struct config *config, struct err *err);

/* SUSPEND begins, if nothing is held back by now; and its end, in whatever state it is. */
void daemon_suspend(struct daemon *daemon);
void daemon_go_on(struct daemon *daemon);

/* DRAIN begins, or has another limit now; and its end. See emptying_begin(). drain.c */
void daemon_drain(struct daemon *daemon, usec_t limit);
void daemon_drain_end(struct daemon *daemon);

void lifecycle_ready(struct daemon *daemon); /* the service manager may know */
bool lifecycle_catch_signals(struct daemon *daemon, struct err *err);
bool lifecycle_make_console(struct daemon *daemon, struct err *err);
void lifecycle_free_console(struct daemon *daemon);
void lifecycle_stop_watching(struct daemon *daemon);

#endif
