/* SPDX-License-Identifier: ISC */
/*
 * The console: the virtual database `pgbouncer`. Its tables show the state of the daemon,
 * and its commands control the daemon.
 *
 * A client login to this database opens a console session through client/client.h.
 * The console also computes the averages of each stats_period and logs them.
 */
#ifndef PGWEIR_ADMIN_CONSOLE_H
#define PGWEIR_ADMIN_CONSOLE_H

#include "pgweir/base/buf.h"
#include "pgweir/client/clients.h"
#include "pgweir/client/lanes.h"
#include "pgweir/config/changes.h"
#include "pgweir/config/config.h"
#include "pgweir/net/resolver.h"
#include "pgweir/pool/pools.h"

struct console;
struct daemon; /* main's */

enum shutdown_kind {
	SHUTDOWN_NOW, /* stop the loop at once; the command gets no answer */
	/* as SIGINT: stop listening, pause, exit when no server is in use */
	SHUTDOWN_WAIT_FOR_SERVERS,
	SHUTDOWN_WAIT_FOR_CLIENTS /* as SIGTERM: stop listening, exit when no client is left */
};

/* A listener, for SHOW LISTENERS. */
struct listener_shown {
	const struct listener *listener;
	const struct gate *gate; /* NULL: the main listener */
	uint64_t accepted_count;
};

struct certificate_shown {
	const char *setting; /* that names the file */
	struct tls_certificate certificate;
};

/* What the console needs. All pointers are borrowed and must outlive the console. */
struct console_with {
	struct loop *loop;
	struct log *log;
	const struct lanes *lanes; /* the clients are made later, before the loop runs */
	struct watches *watches;

	/* What only main can do. Called from the loop; no function may free the console. */
	struct daemon *daemon;
	const struct config *const *config; /* the snapshot in force */
	/* As SIGHUP does. Calls `tell` for each changed setting. false: *err has the reason. */
	bool (*reload)(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err);
	/* Puts config_with() in force, if all that it needs fits. */
	enum config_change (*set)(struct daemon *daemon, const char *name, const char *value,
	                          struct err *err);
	/* May be called again with another kind. Closes no client within the call. */
	void (*shutdown)(struct daemon *daemon, enum shutdown_kind kind);
	/*
	 * SUSPEND: stops reading from clients; all connections come to rest between two messages.
	 * pools->suspend has the progress, and the watches are asked when it changes.
	 */
	void (*suspend)(struct daemon *daemon, const char *by);
	/* Ends a SUSPEND. */
	void (*go_on)(struct daemon *daemon);
	/*
	 * Take-over by another process. may_hand_over() checks `version`, the argument of TAKEOVER;
	 * on false it has filled *err, and hand_over() is not called. hand_over() gets the socket
	 * of the other process: it owns the socket, which is in no event loop.
	 */
	bool (*may_hand_over)(struct daemon *daemon, const char *version, struct err *err);
	void (*hand_over)(struct daemon *daemon, int fd);
	/* See drain_begin(). drain_end() does nothing if there is no DRAIN. */
	void (*drain)(struct daemon *daemon, usec_t limit);
	void (*drain_end)(struct daemon *daemon);
	/* The listeners, the main one first. false: no more. */
	bool (*listener)(struct daemon *daemon, size_t index, struct listener_shown *shown);
	/* The certificates of ours that are in use, by number from 0. false: no more. */
	bool (*certificate)(struct daemon *daemon, size_t number, struct certificate_shown *shown);
	/* Each stats_period, with the averages as a text. NULL: not wanted. */
	void (*on_period)(struct daemon *daemon, const char *text);
	/* Whether a shutdown of any kind has begun. RESUME of all databases is then refused. */
	bool (*is_shutting_down)(struct daemon *daemon);
};

/* Also starts the timer of stats_period. NULL: *err has the reason. */
struct console *console_new(const struct console_with *with, struct err *err);

/* The functions for clients_new(). Valid as long as the console exists. */
const struct console_door *console_door(const struct console *console);

/* The counters so far were counted by another process (take-over): averages begin here. */
void console_begin_at(struct console *console);

/* Applies a new snapshot: stats_period may have changed. */
void console_configure(struct console *console);

/* All sessions must be closed before (clients_free()), and the pools must still exist. */
void console_free(struct console **console);

/*
 * ---- tables ----
 *
 * SHOW tables for readers other than the console's sessions: the same rows, made in pieces.
 *
 * A piece is what the console would send: DataRows, all values as text. A table is read with the
 * rights of stats_users.
 */

#define TABLE_COLUMNS_MAX 32

/* What SHOW HELP and SHOW COLUMNS know of a table. Static texts. */
struct table_listed {
	const char *name;
	const char *argument; /* what may follow the name: "", "[db]" */
	const char *help;
	bool is_for_admins; /* table_begin() refuses it */
	size_t column_count;
	struct table_column {
		const char *name;
		const char *type; /* PostgreSQL's name: "text", "int4", ... */
		const char *help;
		bool is_number;
	} columns[TABLE_COLUMNS_MAX];
};

/* The table at this place of SHOW HELP. Any thread may call it. false: no more tables. */
bool tables_list(size_t index, struct table_listed *listed);

/* The table that table_begin() would read. Any thread may call it. false: there is none. */
bool tables_find(const char *words, struct table_listed *listed);

struct table;

enum table_result {
	TABLE_MORE, /* there may be more rows: ask again in a later turn */
	TABLE_END,
	TABLE_BROKEN /* out of memory */
};

/*
 * Begins to read. `words` is what would follow SHOW, without quotes; only tables, not settings.
 * skips_unused: of more than a thousand databases or users, those that were never used are left
 * out. The caller ends it with table_end(), before the console is freed. NULL: *err says why
 * (ERR_SYNTAX: there is no such table; ERR_RIGHTS; ERR_NO_DATABASE; ERR_MEMORY).
 */
struct table *table_begin(struct console *console, const char *words, bool skips_unused,
                          struct err *err);

/* One piece in a turn of the main thread: a fraction of a millisecond, with all lanes held. */
enum table_result table_next(struct table *table, struct buf *out);

/* Accepts NULL. */
void table_end(struct table **table);

#endif
