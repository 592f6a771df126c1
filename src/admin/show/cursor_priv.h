/* SPDX-License-Identifier: ISC */
/*
 * Cursors: a SHOW that is read row by row, as fast as the client reads the rows.
 *
 *   struct show_source --> struct show: next() --> row --> columns --> DataRow
 *
 * Between two turns of the loop, any object that a cursor has reached may be freed. So a
 * cursor keeps names, ids and walks, and no other pointer. Within a turn, all lanes are held.
 */
#ifndef PGWEIR_ADMIN_SHOW_CURSOR_PRIV_H
#define PGWEIR_ADMIN_SHOW_CURSOR_PRIV_H

#include "pgweir/admin/console.h"
#include "pgweir/base/sqlstates.h"

#include "history_priv.h"
#include "rows_priv.h"
#include "timeline_priv.h"

struct cursor;

/* ---- rows in the order of names: ordered.c ---- */

/* An item with two names. The second one may be "". */
struct ordered_item {
	const char *first, *second;
	const void *object; /* valid within one turn only */
};

#define ORDERED_BATCH 1024

struct ordered_batch {
	size_t count;
	struct ordered_item items[ORDERED_BATCH];
};

/* The position of a cursor in that order: a pair of names, and no pointer. */
struct ordered {
	bool has_last;
	bool is_last_batch;
	/* position in the source's batch, and its size; both 0 between two turns */
	size_t at, count;
	char first[CONFIG_USER_NAME_MAX + 1];
	char second[CONFIG_USER_NAME_MAX + 1];
};

/* `collect` calls this for each item. The names must stay valid until the end of the turn. */
void ordered_offer(struct cursor *cursor, struct ordered_item item);

/*
 * Gives the item after the last one, in the order of names. Calls `collect`, which offers
 * all items, whenever the batch is used up. false: no more items.
 */
bool ordered_next(struct cursor *cursor, void (*collect)(struct cursor *cursor),
                  struct ordered_item *item);

/* ---- sources ---- */

/* The objects that every SHOW takes its rows from. */
struct show_source {
	const struct console_with *with;
	struct stats own; /* counters of the console itself */
	struct history *history;
	struct timeline *timeline;
	struct latency latency; /* of all pools, as far as the timer has emptied the lanes' */
	struct ordered_batch batch;
};

static inline const struct config *show_source_config(const struct show_source *source)
{
	return source->with->config(source->with->arg);
}

static inline const struct lanes *show_source_lanes(const struct show_source *source)
{
	return source->with->lanes;
}

/* The first lane has what is the same in all of them. */
static inline const struct lane *show_source_first(const struct show_source *source)
{
	return &source->with->lanes->at[0];
}

/* The number of clients that are connected to the console. All belong to the first lane. */
static inline unsigned int show_source_console_count(const struct show_source *source)
{
	return show_source_first(source)->clients->state_counts[CLIENT_CONSOLE];
}

#define ROW_SIZE_MAX 1024

/* What may follow the name of a SHOW. */
enum show_argument {
	SHOW_ALONE,
	SHOW_OF_DATABASE,  /* [db]: only rows of this database */
	SHOW_OF_TABLE,     /* [table]: only rows about this SHOW */
	SHOW_HIT,          /* [HIT]: only limits that were hit or are reached */
	SHOW_OF_STATEMENTS /* [n] [BY number]: how many, in which order */
};

struct show {
	const char *item; /* upper case */
	/* Fills the next row. false: no more rows, or cursor->has_more. */
	bool (*next)(struct cursor *cursor, void *row);
	struct columns columns;
	const char *help;
	enum console_role role; /* the role that may see it; 0: every user of the console */
	enum show_argument argument;
};

/* ---- cursors: cursor.c ---- */

/* Maximum number of items that are examined for one row before the loop gets its turn. */
#define SHOW_LOOKS_MAX 4096

/*
 * The position of SHOW WAITING within the wait queues of the pools that `ordered` names: in each
 * lane there may be one.
 */
struct waiting_walk {
	bool has_begun;
	bool is_entered; /* `next` is valid: within one turn only */
	unsigned int queue;
	struct waiting_place {
		struct borrower *next;
		unsigned int position; /* how many of this lane come before `next` */
		uint64_t last;         /* wait number of the last borrower shown */
	} places[LANES_MAX];
};

/* The position of SHOW LIMITS: which kind of object, and which of its limits. */
struct limits_walk {
	size_t scope, limit;
	bool has_begun;
};

/* The position of SHOW STATEMENTS: which statements are chosen, and how far they are shown. */
struct statements_walk {
	bool has_begun, is_picked, is_sorted;
	unsigned int order;
	unsigned int lane; /* whose table is read, */
	uint32_t slot;     /* and the next statement there */
	size_t limit;      /* how many are wanted */
	/* the least is first: a heap, until they are sorted. Owned */
	struct statements_pick *picks;
	size_t capacity, count;
	size_t unsorted; /* how many of them are still a heap */
	size_t shown;
};

/* What SHOW APPLICATIONS has gathered; its memory is owned: show_applications_end(). */
struct applications_walk {
	bool is_gathered, is_ended;
	unsigned int shown;
	struct named_clients *table; /* by name */
	struct named_clients *next;  /* the next one to be shown */
	struct named_clients *rest;  /* of names that are not told apart; NULL: not begun */
};

/* Frees it. */
void show_applications_end(struct applications_walk *walk);

/* What SHOW LATENCY and SHOW HISTOGRAMS have gathered of a database with many pools. */
struct latency_walk;

/* What a cursor returns rows of. The texts are borrowed and outlive the cursor. */
struct show_asked {
	const struct show *show;
	const char *argument; /* the words after the SHOW's name; NULL: none */
	const char *other;    /* a second word, for completion.c only */
};

/* The position of a SHOW. A cursor of zeros is not in use. */
struct cursor {
	struct show_asked asked;
	struct show_source *source;
	struct pools_walk pools;
	struct clients_walk clients;
	const struct lane *pools_lane, *clients_lane; /* where the walks are */
	struct ordered ordered;
	struct waiting_walk waiting;
	struct limits_walk limits;
	struct catalog_reading *reading; /* held by SHOW CATALOG, between two databases NULL */
	size_t parameters_at;            /* the next one of its parameters */
	struct statements_walk statements;
	struct applications_walk applications;
	struct latency_walk *latency; /* owned; NULL: none is needed */
	enum console_role role;       /* of the session */
	bool is_owner;                /* see session_is_owner() */
	bool skips_unused;            /* see show_leaves_out() */
	/* `next` returned false, but has not examined all items: call it again in a later turn */
	bool has_more;
	unsigned int look_count;      /* items examined since the last row */
	struct sqlstate_key sqlstate; /* of the last row of SHOW SQLSTATES */
	uint64_t slot;                /* the next one of SHOW HISTORY */
	size_t index;
	unsigned int lane; /* whose names or rows come next: SHOW DNS_..., SHOW AUDIT */
	unsigned long dns;
	struct buf text; /* memory for a value of the current row */
};

void cursor_begin(struct cursor *cursor, struct show_source *source, struct show_asked asked);
void cursor_end(struct cursor *cursor);

/*
 * Fills `row`, of ROW_SIZE_MAX bytes, with the next row. false: no more rows, or
 * cursor->has_more.
 */
bool cursor_next(struct cursor *cursor, void *row);

/*
 * `next` calls this before it examines an item that it may have to skip. false: enough for
 * this turn; `next` returns false.
 */
bool cursor_may_look(struct cursor *cursor);

/*
 * The next client, pool and server, of all lanes, one lane after the other. NULL: no more, or
 * has_more.
 */
const struct client *cursor_next_client(struct cursor *cursor);
const struct pool *cursor_next_pool(struct cursor *cursor);
const struct server *cursor_next_server(struct cursor *cursor);

/* Begins again with the first pool. */
void cursor_first_pool(struct cursor *cursor);

/* Whether rows of this database are wanted. */
bool cursor_wants(const struct cursor *cursor, const char *database);

/* Call at the end of a turn: drops the pointers that are valid within one turn only. */
void cursor_suspend(struct cursor *cursor);

#endif
