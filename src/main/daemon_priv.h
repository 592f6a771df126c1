/* SPDX-License-Identifier: ISC */
/*
 * The daemon, inside the room.
 */
#ifndef PGWEIR_MAIN_DAEMON_PRIV_H
#define PGWEIR_MAIN_DAEMON_PRIV_H

#include "pgweir/admin/console.h"
#include "pgweir/auth/derived.h"
#include "pgweir/client/clients.h"
#include "pgweir/loop/handshakes.h"
#include "pgweir/net/listener.h"
#include "pgweir/net/outbox.h"

#include "daemon.h"
#include "notify.h"
#include "parts.h"
#include "tls_sets.h"

enum shutdown_state {
	SHUTDOWN_NONE,
	SHUTDOWN_SERVERS, /* waits until no server is left */
	SHUTDOWN_CLIENTS  /* waits until no client is left */
};

struct handover;  /* handover.c */
struct successor; /* takeover.c */

struct daemon {
	struct log *log;
	struct logger logger;
	const struct options *options;
	const struct config *config; /* in force */
	const struct config *wanted; /* with each value by SET that does not fit yet: set.c */
	part_set held;               /* the parts in which they differ */
	struct err why_held[PARTS];  /* of these */
	struct users *users;
	struct tls_sets tls;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct loop *loop;
	struct stream_pool streams;
	struct workers *workers;                       /* for keys to be derived, of clients */
	struct workers *server_workers, *slow_workers; /* and of logins at servers */
	struct handshakes *handshakes;                 /* for handshakes of TLS */
	struct workers *lookups;                       /* for what waits on others */
	struct workers *outside[AUTH_METHODS];         /* of methods with threads of their own */
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
	bool is_draining_to_end;  /* shutdown_drain: it ends when the clients have gone */
	struct pools_watch watch; /* on while shutdown is not NONE */
	struct timer suspend;     /* on while a SUSPEND drains */
	usec_t suspended_at;
	struct handover *handover; /* another process takes over from this one; else NULL */
	struct successor
	    *takeover; /* this one takes over from another that is not done; else NULL */
};

/*
 * Another process wants to take over by this version of hand-overs; and it does, and is heard
 * on that socket. handover.c
 */
bool handover_may_start(const struct daemon *daemon, const char *version, struct err *err);
void handover_start(struct daemon *daemon, int fd);
void handover_free(struct handover **handover);

/* What the process that was taken over from is told; nothing if there is none. takeover.c */
bool takeover_pass_key(struct successor *successor, struct bytes key);
void takeover_stop(struct successor *successor, enum shutdown_kind kind);
void takeover_free(struct successor **successor);

/* See console_with: set, why_held. set.c */
enum config_change set_setting(struct daemon *daemon, const char *name, const char *value,
                               struct err *err);
const char *set_why_held(const struct daemon *daemon, const char *name);

/* What is in force is all that is wanted: at start and after a RELOAD. */
void set_forget_all(struct daemon *daemon);

/* SUSPEND begins, if nothing is held back by now; and its end, in whatever state it is. */
void suspend_begin(struct daemon *daemon, const char *by);
void suspend_end(struct daemon *daemon);

/* DRAIN begins, or has another limit now; and its end. See drain_begin(). drain.c */
void main_drain_begin(struct daemon *daemon, usec_t limit);
void main_drain_end(struct daemon *daemon);

void lifecycle_ready(struct daemon *daemon); /* the service manager may know */
bool lifecycle_catch_signals(struct daemon *daemon, struct err *err);
bool lifecycle_make_console(struct daemon *daemon, struct err *err);
void lifecycle_free_console(struct daemon *daemon);

#endif
