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
	const struct lanes *lanes; /* the clients are made later, before the loop runs */

	/* What only main can do. Called from the loop; no function may free the console. */
	struct daemon *daemon;
	/* As SIGHUP does. Calls `tell` for each changed setting. false: *err has the reason. */
	bool (*reload)(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err);
	/* Puts config_with() in force, if all that it needs fits. */
	enum config_change (*set)(struct daemon *daemon, const char *name, const char *value,
	                          struct err *err);
	/* May be called again with another kind. Closes no client within the call. */
	void (*shutdown)(struct daemon *daemon, enum shutdown_kind kind);
	/*
	 * SUSPEND: stops reading from clients; all connections come to rest between two messages.
	 * pools->suspend has the progress.
	 */
	void (*suspend)(struct daemon *daemon, const char *by);
	/* Ends what holds the database with this name; "": a SUSPEND, and a PAUSE of all. */
	void (*resume)(struct daemon *daemon, const char *database);
	/*
	 * Take-over by another process, which speaks this version of hand-overs. It takes the
	 * socket of the client and ends the session. false: the client stays, *err has the reason.
	 */
	bool (*hand_over)(struct daemon *daemon, struct client *client, const char *version,
	                  struct err *err);
	/* See drain_begin(). drain_end() does nothing if there is no DRAIN. */
	void (*drain)(struct daemon *daemon, usec_t limit);
	void (*drain_end)(struct daemon *daemon);
	/* The listeners, the main one first. false: no more. */
	bool (*listener)(struct daemon *daemon, size_t index, struct listener_shown *shown);
	/* The certificates of ours that are in use, by number from 0. false: no more. */
	bool (*certificate)(struct daemon *daemon, size_t number, struct certificate_shown *shown);
	/* Each stats_period, with the averages as a text. */
	void (*on_period)(struct daemon *daemon, const char *text);
	/* Whether a shutdown of any kind has begun. RESUME of all databases is then refused. */
	bool (*is_shutting_down)(struct daemon *daemon);
};

/* Also starts the timer of what is done each second. NULL: *err has the reason. */
struct console *console_new(const struct console_with *with, struct err *err);

/* The functions for clients_new(). Valid as long as the console exists. */
const struct console_door *console_door(const struct console *console);

/* The counters so far were counted by another process (take-over): averages begin here. */
void console_begin_at(struct console *console);

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

enum value_type {
	VALUE_TEXT, /* const char *; NULL = SQL's NULL */
	VALUE_VOID, /* const char *, too; sent as PostgreSQL's type void */
	/* int64_t, as all numbers; cut to the type's range; ROWS_NULL = SQL's NULL */
	VALUE_INT4,
	VALUE_INT8,
	VALUE_NUMERIC,
	VALUE_BYTEA, /* struct bytes; .at NULL = SQL's NULL */
	/* sent as texts: */
	VALUE_POINTER, /* const void *; NULL = empty */
	VALUE_TIME,    /* usec_t of the wall clock, shown in local time; 0 = SQL's NULL */
	VALUE_HOST,    /* const struct address *: its host or "unix"; NULL = SQL's NULL */
	VALUE_TYPES
};

struct column {
	const char *name;
	enum value_type type;
	size_t at; /* offset of the value in the row's struct; ROW_NEXT: behind the last one */
	const char *help;
};

/* Maximum number of columns of a SHOW: their formats are bits of a uint32_t. */
#define COLUMNS_MAX 32

struct columns {
	const struct column *at;
	size_t count;
	uint32_t hidden;     /* bit n: column n is not shown */
	const char *renamed; /* name of a column that is shown as `renamed_to`; or NULL */
	const char *renamed_to;
};

/* PostgreSQL's name of the type: "text", "int4", ... */
const char *rows_type_name(enum value_type type);

static inline bool rows_is_number(enum value_type type)
{
	return type == VALUE_INT4 || type == VALUE_INT8 || type == VALUE_NUMERIC;
}

/* What may follow the name of a SHOW. */
enum show_argument {
	SHOW_ALONE,
	SHOW_OF_DATABASE,  /* [db]: only rows of this database */
	SHOW_OF_TABLE,     /* [table]: only rows about this SHOW */
	SHOW_HIT,          /* [HIT]: only limits that were hit or are reached */
	SHOW_OF_STATEMENTS /* [n] [BY number]: how many, in which order */
};

/* Text for help: "", " [db]" ... */
const char *show_argument_name(enum show_argument argument);

struct cursor; /* the console's */

struct show {
	const char *item; /* upper case */
	/* Fills the next row. false: no more rows, or cursor->has_more. */
	bool (*next)(struct cursor *cursor, void *row);
	/*
	 * Not NULL: next() fills the next row of one of the items that this function offers, which
	 * `ordered` has, and counts with cursor->index from 0. false: the item has no more rows.
	 */
	void (*collect)(struct cursor *cursor);
	bool has_one_row; /* of an item: next() is called once, and fails if it has none */
	/* next() fills the row of cursor->client or of cursor->server. false: it is not shown. */
	bool is_of_clients, is_of_servers;
	bool (*before)(struct cursor *cursor, void *row); /* rows before those; or NULL */
	struct columns columns;
	const char *help;
	enum console_role role; /* the role that may see it; 0: every user of the console */
	enum show_argument argument;
};

/* All SHOW tables in the order of SHOW HELP, which are constant. Ends with NULL. */
extern const struct show *const shows[];

/* The table that table_begin() would read. Any thread may call it. NULL: there is none. */
const struct show *tables_find(const char *words);

struct table;

enum table_result {
	TABLE_MORE, /* there may be more rows: ask again in a later turn */
	TABLE_END,
	TABLE_BROKEN /* it cannot be completed: out of memory */
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
