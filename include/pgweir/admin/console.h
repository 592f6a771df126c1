/* SPDX-License-Identifier: ISC */
/*
 * The console: the virtual database `pgbouncer`, whose tables are what the daemon
 * knows of itself and whose commands are what an administrator may do to it.
 *
 * It stands behind the door of clients (client/console_door.h) and also keeps
 * the statistics of the last stats_period, which it logs.
 */
#ifndef PGWEIR_ADMIN_CONSOLE_H
#define PGWEIR_ADMIN_CONSOLE_H

#include "pgweir/client/clients.h"
#include "pgweir/config/changes.h"
#include "pgweir/config/config.h"
#include "pgweir/net/resolver.h"
#include "pgweir/pool/pools.h"

struct console;

enum shutdown_kind {
	SHUTDOWN_NOW,              /* stop the loop; whoever asked gets no answer */
	SHUTDOWN_WAIT_FOR_SERVERS, /* as SIGINT: no listener, pause, exit without servers */
	SHUTDOWN_WAIT_FOR_CLIENTS  /* as SIGTERM: no listener, exit without clients */
};

/* What the console is given. Borrowed: must outlive it. */
struct console_with {
	struct loop *loop;
	struct log *log;
	struct pools *pools;
	struct resolver *resolver;
	struct stream_pool *streams;
	struct params_table *params;

	/* What only main can do; all with `arg`, all from the loop, none may free the console. */
	void *arg;
	/* The snapshot in force, without a reference for us. */
	const struct config *(*config)(void *arg);
	/* The same with each value by SET that does not fit yet: what SHOW CONFIG shows. */
	const struct config *(*wanted)(void *arg);
	/* Why the value of a setting that was taken is not in force; NULL: it is. */
	const char *(*why_held)(void *arg, const char *name);
	/*
	 * Reads all files anew, as SIGHUP does, and logs what is wrong. false: *err says what.
	 * Tells each change before it returns.
	 */
	bool (*reload)(void *arg, config_tell *tell, void *tell_arg, struct err *err);
	/* Puts config_with() in force, or takes it for later: CONFIG_HELD. */
	enum config_change (*set)(void *arg, const char *name, const char *value, struct err *err);
	/* Begins a shutdown; may be called again with another kind. Closes no client at once. */
	void (*shutdown)(void *arg, enum shutdown_kind kind);
	/*
	 * SUSPEND: nobody is read any more, all connections come to rest between two
	 * messages. pools->suspend says how far it is; whoever watches the pools is asked.
	 */
	void (*suspend)(void *arg, const char *by);
	/* Its end. */
	void (*go_on)(void *arg);
	/*
	 * Another process may take over: it has that socket from now on, which nobody watches.
	 * may_hand_over: false with *err, and hand_over is not called. version: as TAKEOVER
	 * has it.
	 */
	bool (*may_hand_over)(void *arg, const char *version, struct err *err);
	void (*hand_over)(void *arg, int fd);
	/* DRAIN, with its limit (see drain_begin()), and its end: nothing, if there is none. */
	void (*drain)(void *arg, usec_t limit);
	void (*drain_end)(void *arg);
	/* The listening sockets: see listener_fd(). */
	int (*listening)(void *arg, size_t index, struct address *address);
	/* The figures of each stats_period, in words. NULL: nobody wants them. */
	void (*status)(void *arg, const char *text);
	/* A shutdown of any kind has begun: PAUSE and RESUME are refused. */
	bool (*is_shutting_down)(void *arg);
};

/* NULL: *err says why. Starts the timer of stats_period. */
struct console *console_new(const struct console_with *with, struct err *err);

/* For clients_new(); good as long as the console is. */
const struct console_door *console_door(const struct console *console);

/* The clients that exist by now: before the loop runs. They are freed before the console. */
void console_attach(struct console *console, struct clients *clients);

/* What has been counted by now was counted by another process: averages begin here. */
void console_begin_at(struct console *console);

/* After a new snapshot is in force: stats_period may be another. */
void console_configure(struct console *console);

/* All sessions must be closed (clients_free()), and the pools must still be there. */
void console_free(struct console **console);

#endif
