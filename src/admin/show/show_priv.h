/* SPDX-License-Identifier: ISC */
/*
 * All SHOW tables, each in the file of its topic.
 */
#ifndef PGWEIR_ADMIN_SHOW_SHOW_PRIV_H
#define PGWEIR_ADMIN_SHOW_SHOW_PRIV_H

#include <string.h>

#include "pgweir/admin/console.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pool/latency.h"

/*
 * ---- rows ----
 *
 * One row of a SHOW is a struct. A column has the offset of its value in the struct.
 * RowDescription, the rows and the manual are all generated from the columns.
 */

#define ROWS_NULL INT64_MIN

#define ROW_SIZE_MAX 512
#define ROW_NEXT SIZE_MAX

/*
 * A row is declared once, as a list: COLUMN(type, name, from, help) for each column.
 *
 * ROW_DECLARE() makes of it the struct and its table of columns. ROW_FILL()
 * sets a row to the values `from`, where the names in them are known; 0 stands for what is set
 * afterwards. Its value is true. ROW_ADD() adds the numbers of a list to those of the struct that
 * `row` points at.
 */
#define ROW_DECLARE(row, table, list)                                      \
	row{ list(ROW_FIELD) };                                            \
	_Static_assert(sizeof(row) <= ROW_SIZE_MAX, "a row is too large"); \
	static const struct column table[] = { list(ROW_COLUMN) }
#define ROW_FILL(to, row, list) (*(row *)(to) = (row){ list(ROW_VALUE) }, true)
#define ROW_ADD(list) list(ROW_PLUS)

#define ROW_FIELD(type, name, from, help) _Alignas(ROW_SLOT) ROW_##type name;
#define ROW_COLUMN(type, name, from, help) { #name, VALUE_##type, ROW_NEXT, help },
#define ROW_VALUE(type, name, from, help) .name = (from),
#define ROW_PLUS(type, name, from, help) row->name += (from);

/* The fields of a list begin at multiples of it, one behind the other. */
#define ROW_SLOT 8

/* What the struct has for a value of each type. */
#define ROW_TEXT const char *
#define ROW_INT4 int64_t
#define ROW_INT8 int64_t
#define ROW_NUMERIC int64_t
#define ROW_BYTEA struct bytes
#define ROW_POINTER const void *
#define ROW_TIME usec_t
#define ROW_HOST const struct address *

#define COLUMNS(table) \
	((struct columns){ .at = (table), .count = sizeof(table) / sizeof((table)[0]) })

/* Under which name a column is shown. */
const char *rows_column_name(struct columns columns, const struct column *column);

/* How many columns are shown: those that the formats of a Bind are for. */
size_t rows_columns_shown(struct columns columns);

/* Adds a RowDescription. Bit n of `binary`: column n of those shown is sent in binary. */
void rows_describe(struct buf *out, struct columns columns, uint32_t binary);

/* Adds a DataRow. `row` is the struct that the columns describe. */
void rows_add(struct buf *out, struct columns columns, uint32_t binary, const void *row);

/*
 * ---- cursors: a SHOW that is read row by row, as fast as the client reads the rows ----
 *
 *   struct show_source --> struct show: next() --> row --> columns --> DataRow
 *
 * Between two turns of the loop, any object that a cursor has reached may be freed. So a
 * cursor keeps names, ids and walks, and no other pointer. Within a turn, all lanes are held.
 */

/* ---- rows in the order of names: cursor.c ---- */

/* An item with two names. The second one may be "". */
struct ordered_item {
	const char *first, *second;
	const void *object; /* valid within one turn only */
};

#define ORDERED_BATCH 1024

struct ordered_batch {
	size_t count;
	bool is_full; /* the first ORDERED_BATCH are in order; later ones are not wanted */
	struct ordered_item items[2 * ORDERED_BATCH];
};

/* The position of a cursor in that order: a pair of names, and no pointer. */
struct ordered {
	bool has_last;
	bool is_last_batch;
	/* position in the source's batch, and its size; both 0 between two turns */
	size_t at, count;
	char first[CONFIG_USER_NAME_MAX + 1];
	char second[CONFIG_USER_NAME_MAX + 1];
	const void *object; /* valid until the end of the turn only */
};

/* `collect` calls this for each item. The names must stay valid until the end of the turn. */
void cursor_offer(struct cursor *cursor, const char *first, const char *second, const void *object);

/* The same for those databases, or pools, of all lanes that `wants` wants; NULL: all pools. */
void cursor_offer_databases(struct cursor *cursor, bool (*wants)(const struct cursor *cursor,
                                                                 const struct database *database));
void cursor_offer_pools(struct cursor *cursor, bool (*wants)(const struct pool *pool));

/* Moves to the item after the last one. Calls `collect`, which offers all. false: no more. */
bool cursor_next_ordered(struct cursor *cursor, void (*collect)(struct cursor *cursor));

/* Walks the pools with this purpose that have the names of `ordered`, in all lanes. */
#define POOLS_EACH(each, cursor, purpose)                                                          \
	LANES_EACH (lane, (cursor)->lanes)                                                         \
		for (struct pool *each = pools_find_exact_pool(                                    \
			 lane->pools, (cursor)->ordered.first, (cursor)->ordered.second, purpose); \
		     each; each = NULL)

/*
 * ---- the timeline: show_daemon.c ----
 *
 * What all pools together did in each second of the last five minutes, and in each minute of the
 * last hour.
 */

/* A second or a minute. Counts are of that time, the other numbers are those at its end. */
struct timeline_slot {
	usec_t wall_at, at; /* its end */
	int64_t xacts, queries, errors, received, sent, logins;
	int64_t wait_p99, statement_p50, statement_p95, statement_p99, xact_p99;
	int64_t cl_active, cl_waiting, sv_active, sv_idle;
	int64_t maxwait; /* of a minute: the longest of its seconds */
};

enum timeline_resolution { TIMELINE_SECONDS, TIMELINE_MINUTES, TIMELINE_RESOLUTIONS };

#define TIMELINE_SLOTS_MAX 300

/* A zeroed one is empty; began_at of the minutes is to be set. */
struct timeline {
	struct timeline_ring {
		struct timeline_slot slots[TIMELINE_SLOTS_MAX];
		uint64_t count; /* slots since the start */
		/* of the one that has not ended; the totals are those at its begin */
		usec_t began_at;
		int64_t maxwait;
		struct timeline_totals {
			uint64_t errors, received, sent; /* since the start, of all lanes */
		} totals;
		struct histogram counted[LATENCY_KINDS];
	} rings[TIMELINE_RESOLUTIONS];
};

/* Each second, while the lanes are held, and before their latencies are emptied. */
void timeline_tick(struct timeline *timeline, const struct lanes *lanes, usec_t now);

/*
 * The slot with this number, counted from 0 since the start; or, if it has gone, the oldest one
 * there is: *number is that of the slot. NULL: it has not ended.
 */
const struct timeline_slot *timeline_find(const struct timeline *timeline,
                                          enum timeline_resolution resolution, uint64_t *number);

/* ---- sources ---- */

/* The objects that every SHOW takes its rows from. */
struct show_source {
	const struct console_with *with;
	struct stats own; /* counters of the console itself */
	struct {
		usec_t older_at, newer_at;
		struct stats_past own, all; /* of the console, and of everything */
	} history;                          /* the last two ticks */
	struct timeline timeline;
	struct latency latency; /* of all pools, as far as the timer has emptied the lanes' */
	struct ordered_batch batch;
};

const struct config *show_source_config(const struct show_source *source);

/* Clients that are connected to the console. All belong to the first lane. */
unsigned int show_source_console_count(const struct show_source *source);

/* ---- cursors: cursor.c ---- */

/* Maximum number of items that are examined for one row before the loop gets its turn. */
#define SHOW_LOOKS_MAX 4096

/* The position of SHOW WAITING in the wait queues, in each lane, of what `ordered` names. */
struct waiting_walk {
	bool is_entered; /* `next` is valid: within one turn only */
	unsigned int queue;
	struct waiting_place {
		struct borrower *next;
		unsigned int position; /* how many of this lane come before `next` */
		uint64_t last;         /* wait number of the last borrower shown */
	} places[LANES_MAX];
};

/* The position of SHOW STATEMENTS: which statements are chosen, and how far they are shown. */
struct statements_walk {
	unsigned int order;
	unsigned int lane;             /* whose table is read (the number of lanes: all were), */
	uint32_t slot;                 /* and the next statement there */
	size_t limit;                  /* how many are wanted */
	struct statements_pick *picks; /* room for twice as many; owned. NULL: not begun */
	size_t count, shown;
};

/* The clients of one application_name, for SHOW APPLICATIONS. */
struct named_clients {
	UT_hash_handle hh;
	char name[APPLICATION_NAME_SIZE];
	int64_t clients, active, waiting, pinned, xacts, errors;
	usec_t longest;
};

/* What SHOW APPLICATIONS has gathered; its memory is owned. */
struct applications_walk {
	bool is_gathered, is_ended;
	struct named_clients *table; /* by name */
	struct named_clients *next;  /* the next one to be shown */
	struct named_clients rest;   /* of names that are not told apart */
};

/* What SHOW LATENCY and SHOW HISTOGRAMS sum up: show_latency.c. */
struct latency_walk;

/* What is behind the words of a command: [argument], or argument and value. */
struct words {
	/* 0, 1, or 2 (with value); of a SHOW also more: then `value` has spaces between words */
	unsigned int count;
	char argument[64]; /* of a SHOW its name */
	char value[256];
};

#define CURSOR_TEXTS 6

/* The position of a SHOW. A cursor of zeros is not in use. */
struct cursor {
	const struct show *show;
	const char *argument; /* the words after the SHOW's name; NULL: none */
	const char *other;    /* a second word, for small talk only */
	struct show_source *source;
	const struct lanes *lanes; /* the first one has what is the same in all of them */
	struct pools_walk pools;
	struct clients_walk clients;
	const struct lane *pools_lane, *clients_lane; /* where the walks are */
	struct ordered ordered;
	struct waiting_walk waiting;
	struct catalog_reading *reading; /* held by SHOW CATALOG, between two databases NULL */
	struct statements_walk statements;
	struct applications_walk applications;
	struct latency_walk *latency; /* owned; NULL: not begun */
	enum console_role role;       /* of the session */
	bool is_owner;                /* see session_is_owner() */
	bool skips_unused;            /* see table_begin() */
	/* `next` returned false, but has not examined all items: call it again in a later turn */
	bool has_more;
	unsigned int look_count; /* items examined since the last row */
	struct stats totals[2];  /* of SHOW TOTALS: totals and averages, since its first row */
	/*
	 * The next slot of SHOW HISTORY, row of SHOW PEER_POOLS, kind of SHOW LIMITS, or byte of a
	 * catalog's parameters; of SHOW SQLSTATES, the next row has no lower key.
	 */
	uint64_t slot;
	size_t index;
	unsigned int lane; /* whose rows come next: SHOW AUDIT */
	unsigned long dns;
	const struct client *client; /* of the current row, as `server` */
	const struct server *server;
	struct buf group;               /* SHOW SHARES: the key of the last one of the pool */
	struct buf texts[CURSOR_TEXTS]; /* of the current row: see cursor_text() */
	unsigned int text_count;
};

/* The words outlive the cursor. */
void cursor_begin(struct cursor *cursor, struct show_source *source, const struct show *show,
                  const struct words *words);
void cursor_end(struct cursor *cursor);

/* Fills `row`, of ROW_SIZE_MAX bytes. false: no more rows, or cursor->has_more. */
bool cursor_next(struct cursor *cursor, void *row);

/* For `next`, before it examines what it may have to skip. false: enough for this turn. */
bool cursor_may_look(struct cursor *cursor);

/*
 * The next client whose database is wanted, of all lanes, one lane after the other. NULL: no more,
 * or has_more.
 */
const struct client *cursor_next_client(struct cursor *cursor);

bool cursor_wants(const struct cursor *cursor, const char *database);

/* Room for one of the texts of the current row; it is empty. */
struct buf *cursor_text(struct cursor *cursor);

/* Such a text. "": no memory. */
const char *cursor_print(struct cursor *cursor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *cursor_lower(struct cursor *cursor, const char *text); /* in small letters */
const char *cursor_host(struct cursor *cursor, const struct address *address);

/* Call at the end of a turn: drops the pointers that are valid within one turn only. */
void cursor_suspend(struct cursor *cursor);

/* What shows[] has. SHOW NAME is a `const struct show show_name`. */
#define SHOW_TABLES(X)     \
	X(version)         \
	X(state)           \
	X(config)          \
	X(all)             \
	X(databases)       \
	X(users)           \
	X(pools)           \
	X(clients)         \
	X(servers)         \
	X(sockets)         \
	X(active_sockets)  \
	X(stats)           \
	X(stats_totals)    \
	X(stats_averages)  \
	X(totals)          \
	X(lists)           \
	X(mem)             \
	X(certificates)    \
	X(dns_hosts)       \
	X(peers)           \
	X(peer_pools)      \
	X(dns_zones)       \
	X(hba)             \
	X(ident)           \
	X(waiting)         \
	X(transactions)    \
	X(pinned)          \
	X(session_state)   \
	X(limits)          \
	X(shares)          \
	X(advice)          \
	X(errors)          \
	X(closes)          \
	X(catalog)         \
	X(audit)           \
	X(loops)           \
	X(ready)           \
	X(drain)           \
	X(sources)         \
	X(latency)         \
	X(histograms)      \
	X(pool_histograms) \
	X(sqlstates)       \
	X(statements)      \
	X(events)          \
	X(events_totals)   \
	X(history)         \
	X(hosts)           \
	X(reads)           \
	X(applications)    \
	X(columns)         \
	X(listeners)       \
	X(fds)

#define SHOW_EXTERN(name) extern const struct show show_##name;
SHOW_TABLES(SHOW_EXTERN)
#undef SHOW_EXTERN

const struct show *show_find(const char *item); /* upper and lower case are equal; NULL: none */

/* The columns as PgBouncer had them in this version. */
struct columns rows_columns(const struct show *show, enum console_version version);
bool rows_have(const char *item, const char *column, enum console_version version);

/* What the console says of our version: see console_version. */
struct release {
	const char *number;         /* 1.26.1 */
	const char *shown;          /* by SHOW VERSION */
	const char *server_version; /* in the parameter of this name */
};

const struct release *rows_release(const struct show_source *source);

/* Defines SHOW NAME: the function that fills a row, the columns, the help; then other fields. */
#define SHOW(name, words, fill, table, text, ...)                    \
	const struct show show_##name = { .item = (words),           \
		                          .next = (fill),            \
		                          .columns = COLUMNS(table), \
		                          .help = (text),            \
		                          __VA_ARGS__ }

/*
 * Defines SHOW NAME of rows that are declared as a list: struct name_shown, the columns, and
 * next_name(), whose body is to follow.
 */
#define SHOW_ROWS(name, words, list, text, ...)                    \
	ROW_DECLARE(struct name##_shown, name##_columns, list);    \
	static bool next_##name(struct cursor *cursor, void *row); \
	SHOW(name, words, next_##name, name##_columns, text, __VA_ARGS__)

/* The same with `collect`: collect_name() is to follow as well. */
#define SHOW_ITEMS(name, words, list, text, ...)           \
	static void collect_##name(struct cursor *cursor); \
	SHOW_ROWS(name, words, list, text, .collect = collect_##name, __VA_ARGS__)

/* SHOW of one setting, whose name is the cursor's argument. The column has the setting's name. */
extern const struct show show_setting;

/* Whether SHOW STATEMENTS takes these words, which have one space between them. */
bool show_statements_takes(const char *argument);

/* ---- used by several of them ---- */

/*
 * They call cursor_offer() for all users that are known from anywhere, all databases, and all pools
 * of clients whose database has an entry.
 */
void show_collect_users(struct cursor *cursor);
void show_collect_databases(struct cursor *cursor);
void show_collect_own_pools(struct cursor *cursor);

/* The wall clock's time of `at`, by its distance from now: it moves when that clock is set. */
usec_t show_wall(usec_t at, usec_t now);

/* "": it has none. */
const char *show_application(const struct client *client);

/* What several tables say of a `client`. */
#define WHO_ROW(COLUMN)                                                               \
	COLUMN(INT4, id, (int64_t)client->id, "id of the client, for KILL_CLIENT.")   \
	COLUMN(TEXT, database, client_database(client), "Database of the client.")    \
	COLUMN(TEXT, user, client_user(client), "User that the client logged in as.") \
	WHO_PEER(COLUMN)
#define WHO_PEER(COLUMN)                                                        \
	COLUMN(TEXT, application_name, show_application(client),                \
	       "application_name of the client.")                               \
	COLUMN(HOST, addr, &client->peer, "IP address of the client, or unix.") \
	COLUMN(INT4, port, address_port(&client->peer), "Port of the client.")  \
	COLUMN(POINTER, ptr, client, "Identifier of the client connection in the log.")

/* ---- statistics: show_stats.c ---- */

/* The averages until `now` of all databases together. */
void show_stats_average_all(const struct show_source *source, usec_t now, struct stats *average);

/* Each stats_period: keeps what has been counted, for the averages. */
void show_stats_tick(struct show_source *source, usec_t now);

#endif
