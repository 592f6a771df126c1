/* SPDX-License-Identifier: ISC */
/*
 * SHOW WAITING: which clients wait, at which position of the wait queue, for how long, and
 * why.
 *
 * Hard here: a wait queue changes between two turns and may be long. Between two turns a
 * cursor only keeps the names of the pool and the wait number of the last borrower shown.
 * The next one shown has a greater number, and its position is counted again from the head.
 */
#include "show_priv.h"

#include <stdio.h>

#include "pgweir/base/banned.h"

#define POINTER_SIZE 24

struct waiting_row {
	const char *database, *user, *application_name, *reason, *detail, *addr, *ptr;
	int64_t place, wait, wait_us, port, id;
	char addr_buffer[ADDRESS_TEXT_SIZE], ptr_buffer[POINTER_SIZE];
};
_Static_assert(sizeof(struct waiting_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct waiting_row, VALUE_TEXT, field, help)
#define INT4(field, help) COLUMN(struct waiting_row, VALUE_INT4, field, help)

static const struct column waiting_columns[] = {
	TEXT(database, "Database that the client needs a server for."),
	TEXT(user, "User that the client logged in as."),
	INT4(place, "Position of the client in the wait queue of its pool, from 1."),
	INT4(wait, "Seconds that the client has waited."),
	INT4(wait_us, "Microsecond part of the waiting time (column wait has the seconds)."),
	TEXT(reason, "Why the client waits: pool full, database limit, user limit, server "
	             "login, server check, retry after failure, paused, database paused, "
	             "suspended, served next."),
	TEXT(detail, "Details of the reason: the limit, its current use, and the client that "
	             "has held a server for the longest time; or the user who paused, and "
	             "when; or the last error; or empty."),
	TEXT(application_name, "application_name of the client."),
	TEXT(addr, "IP address of the client, or unix."),
	INT4(port, "Port of the client."),
	TEXT(ptr, "Identifier of the client connection in the log."),
	INT4(id, "id of the client, for KILL_CLIENT."),
};

#undef TEXT
#undef INT4

static bool has_waiters(struct pool *pool)
{
	struct borrower_list *list;

	for (unsigned int line = 0; (list = pool_wait_queue_at(pool, line)); line++) {
		if (!TAILQ_EMPTY(list))
			return true;
	}
	return false;
}

static void collect(struct cursor *cursor)
{
	struct pool *pool;

	TAILQ_FOREACH (pool, &cursor->source->with->pools->list, node) {
		if (!pool->is_for_lookups && has_waiters(pool) &&
		    cursor_wants(cursor, pool->database->name))
			ordered_offer(cursor, (struct ordered_item){ pool->database->name,
			                                             pool->role->name, pool });
	}
}

/* Moves to the first borrower of the current queue after the last one shown. */
static void enter_line(struct waiting_walk *walk)
{
	struct borrower_list *list = pool_wait_queue_at(walk->pool, walk->queue);

	walk->position = 0;
	walk->next = TAILQ_FIRST(list);
	while (walk->next && walk->next->wait_number <= walk->last) {
		walk->next = TAILQ_NEXT(walk->next, wait_node);
		walk->position++;
	}
}

/* Finds the pool of the last row again after a turn, or the next pool. false: no more. */
static bool find_pool(struct cursor *cursor)
{
	struct waiting_walk *walk = &cursor->waiting;
	struct ordered_item item;

	if (walk->has_begun) {
		walk->pool = pools_find_pool(cursor->source->with->pools, cursor->ordered.first,
		                             cursor->ordered.second);
		if (walk->pool) {
			enter_line(walk);
			return true;
		}
	}
	*walk = (struct waiting_walk){ 0 };
	if (!ordered_next(cursor, collect, &item))
		return false;
	walk->has_begun = true;
	walk->pool = (struct pool *)item.object;
	enter_line(walk);
	return true;
}

/* NULL: no more. */
static const struct borrower *next_borrower(struct cursor *cursor)
{
	struct waiting_walk *walk = &cursor->waiting;
	const struct borrower *borrower;

	for (;;) {
		if (!walk->pool && !find_pool(cursor))
			return NULL;
		borrower = walk->next;
		if (borrower) {
			walk->next = TAILQ_NEXT(borrower, wait_node);
			walk->last = borrower->wait_number;
			walk->position++;
			return borrower;
		}
		walk->queue++;
		walk->last = 0;
		if (pool_wait_queue_at(walk->pool, walk->queue))
			enter_line(walk);
		else
			*walk = (struct waiting_walk){ 0 };
	}
}

static void fill_waiting(struct cursor *cursor, struct waiting_row *row,
                         const struct borrower *borrower)
{
	const struct client *client = client_of_borrower(borrower);
	usec_t wait = loop_now(cursor->source->with->loop) - borrower->waiting_since;
	enum wait_reason reason = pool_wait_reason(borrower, cursor->waiting.position);
	const char *name = params_find(client->params, "application_name");

	buf_clear(&cursor->text);
	pool_wait_explain_all(borrower->pool, reason, &cursor->text);
	snprintf(row->ptr_buffer, sizeof(row->ptr_buffer), "%p", (const void *)client);
	row->database = client_database(client);
	row->user = client_user(client);
	row->place = cursor->waiting.position;
	row->wait = wait / USEC_PER_SEC;
	row->wait_us = wait % USEC_PER_SEC;
	row->reason = pool_wait_reason_name(reason);
	row->detail = buf_text(&cursor->text);
	row->application_name = name ? name : "";
	row->addr = address_format_host(&client->peer, row->addr_buffer, sizeof(row->addr_buffer));
	row->port = address_port(&client->peer);
	row->ptr = row->ptr_buffer;
	row->id = (int64_t)client->id;
}

static bool next_waiting(struct cursor *cursor, void *row)
{
	const struct borrower *borrower = next_borrower(cursor);

	if (borrower)
		fill_waiting(cursor, row, borrower);
	return borrower != NULL;
}

const struct show show_waiting = { .item = "WAITING",
	                           .next = next_waiting,
	                           .columns = COLUMNS(waiting_columns),
	                           .help = "Clients that wait for a server, how long, and why.",
	                           .argument = SHOW_OF_DATABASE };
