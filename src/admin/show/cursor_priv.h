/* SPDX-License-Identifier: ISC */
/*
 * Cursors: a SHOW that is read row by row, as fast as its reader takes the rows.
 *
 *   struct show_source --> struct show: next() --> row --> columns --> DataRow
 *
 * Whatever a cursor has come to may be removed between two turns of the loop. A cursor therefore
 * keeps names, ids and walks, and no pointer to anything else.
 */
#ifndef PGWEIR_ADMIN_SHOW_CURSOR_PRIV_H
#define PGWEIR_ADMIN_SHOW_CURSOR_PRIV_H

#include "pgweir/admin/console.h"

#include "history_priv.h"
#include "rows_priv.h"

struct cursor;

/* ---- in the order of names: ordered.c ---- */

/* Something that has two names, the second of which may be "". */
struct ordered_item {
	const char *first, *second;
	const void *object; /* good within one turn only */
};

#define ORDERED_BATCH 1024

struct ordered_batch {
	size_t count;
	struct ordered_item items[ORDERED_BATCH];
};

/* Where a cursor is in that order: a pair of names, and no pointer to anything. */
struct ordered {
	bool has_last;
	bool is_last_batch;
	size_t at, count; /* in the source's batch; both 0 between two turns */
	char first[CONFIG_USER_NAME_MAX + 1];
	char second[CONFIG_USER_NAME_MAX + 1];
};

/* To be called by `collect`, for each item. The names must outlive the turn. */
void ordered_offer(struct cursor *cursor, struct ordered_item item);

/*
 * The next item behind the last one, in the order of names; `collect` is called now
 * and then to offer all that there are. false: no more.
 */
bool ordered_next(struct cursor *cursor, void (*collect)(struct cursor *cursor),
                  struct ordered_item *item);

/* ---- what is read ---- */

/* Where every SHOW has its rows from. */
struct show_source {
	const struct console_with *with;
	struct clients *clients;
	struct stats own; /* the console's own counters */
	struct history *history;
	struct ordered_batch batch;
};

static inline const struct config *show_source_config(const struct show_source *source)
{
	return source->with->config(source->with->arg);
}

/* Clients of the console. */
static inline unsigned int show_source_console_count(const struct show_source *source)
{
	return source->clients->state_counts[CLIENT_CONSOLE];
}

#define ROW_SIZE_MAX 1024

/* What may stand behind a SHOW's name. */
enum show_argument {
	SHOW_ALONE,
	SHOW_OF_DATABASE, /* [db]: only what belongs to it */
	SHOW_OF_TABLE,    /* [table]: only what concerns that SHOW */
	SHOW_HIT          /* [HIT]: only what is in force and has been reached */
};

struct show {
	const char *item; /* upper case */
	/* Fills the next row; false: no more. */
	bool (*next)(struct cursor *cursor, void *row);
	struct columns columns;
	const char *help;
	enum console_role role; /* who may see it; 0: everybody who may log in to the console */
	enum show_argument argument;
};

/* ---- cursors: cursor.c ---- */

/* Rows that are looked at for one row that is shown, before others get their turn. */
#define SHOW_LOOKS_MAX 4096

/* Where SHOW WAITING is: within the queue of the pool that `ordered` names. */
struct waiting_walk {
	bool has_begun;
	struct pool *pool; /* both good within one turn only */
	struct borrower *next;
	unsigned int queue, place;
	uint64_t last; /* the wait number of the last one shown */
};

/* Where SHOW LIMITS is: which kind of things, and which of their limits. */
struct limits_walk {
	size_t scope, limit;
	bool has_begun;
};

/* What a cursor is asked for. The texts are borrowed, and outlive the cursor. */
struct show_asked {
	const struct show *show;
	const char *argument; /* the word behind the SHOW's name; NULL: there is none */
	const char *other;    /* one more word, if the SHOW knows what it means */
};

/* Where a SHOW is. A zeroed one is at rest. */
struct cursor {
	struct show_asked asked;
	struct show_source *source;
	struct pools_walk pools;
	struct clients_walk clients;
	struct ordered ordered;
	struct waiting_walk waiting;
	struct limits_walk limits;
	enum console_role role; /* of the session */
	bool is_owner;          /* the session is of the user that we run as, by the Unix socket */
	bool has_more; /* `next` found none, but has not looked at all there is: ask again later */
	unsigned int look_count; /* since the last row */
	size_t index;
	unsigned long dns;
	struct buf text; /* for a value of the present row */
};

void cursor_begin(struct cursor *cursor, struct show_source *source, struct show_asked asked);
void cursor_end(struct cursor *cursor);

/* The next row, into `row` of ROW_SIZE_MAX bytes. false: no more, or cursor->has_more. */
bool cursor_next(struct cursor *cursor, void *row);

/*
 * For `next`, before it looks at another thing that it may have to pass over. false: enough for
 * now, it returns false.
 */
bool cursor_may_look(struct cursor *cursor);

/* Whether what belongs to this database is wanted. */
bool cursor_wants(const struct cursor *cursor, const char *database);

/* The turn ends: forgets the pointers that are good within one turn only. */
void cursor_suspend(struct cursor *cursor);

#endif
