/* SPDX-License-Identifier: ISC */
/*
 * SHOW WAITING: which clients wait, at which position of the wait queue, for how long, and
 * why.
 *
 * Hard here: a wait queue changes between two turns and may be long. Between two turns a
 * cursor only keeps the names of the pool and, for each lane, the wait number of the last borrower
 * shown. The next one shown of that lane has a greater number, and its position is counted again
 * from the head. The queues of all lanes are shown as one, the longest waiting first.
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
	TEXT(reason, "Why the client waits: pool full, pinned, database limit, user limit, "
	             "server login, server check, retry after failure, paused, database paused, "
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
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct lane *lane;
	struct pool *pool;

	LANES_EACH(lane, lanes)
	TAILQ_FOREACH (pool, &lane->pools->list, node) {
		if (pool->purpose != POOL_FOR_LOOKUPS && has_waiters(pool) &&
		    cursor_wants(cursor, pool->database->name))
			ordered_offer(cursor, (struct ordered_item){ pool->database->name,
			                                             pool->role->name, pool });
	}
}

/* Moves to the first borrower of the current queue after the last one shown. */
static void enter_queue(struct waiting_place *place, struct borrower_list *list)
{
	place->position = 0;
	place->next = list ? TAILQ_FIRST(list) : NULL;
	while (place->next && place->next->wait_number <= place->last) {
		place->next = TAILQ_NEXT(place->next, wait_node);
		place->position++;
	}
}

/* The queues of a user on a database: those of the pool for clients, and the one for reads. */
static const struct {
	enum pool_purpose purpose;
	unsigned int number;
} queues[] = { { POOL_FOR_CLIENTS, 0 }, { POOL_FOR_CLIENTS, 1 }, { POOL_FOR_CLIENTS, 2 },
	       { POOL_FOR_CLIENTS, 3 }, { POOL_FOR_CLIENTS, 4 }, { POOL_FOR_CLIENTS, 5 },
	       { POOL_FOR_CLIENTS, 6 }, { POOL_FOR_READS, 0 } };

#define QUEUES (sizeof(queues) / sizeof(queues[0]))

/* NULL: there is no such pool. */
static struct borrower_list *queue_of(const struct cursor *cursor, const struct lane *lane)
{
	unsigned int queue = cursor->waiting.queue;
	struct pool *pool = pools_find_exact_pool(lane->pools, cursor->ordered.first,
	                                          cursor->ordered.second, queues[queue].purpose);

	return pool ? pool_wait_queue_at(pool, queues[queue].number) : NULL;
}

/* Enters the current queue in each lane. false: there is no such queue. */
static bool enter_queues(struct cursor *cursor)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	struct waiting_walk *walk = &cursor->waiting;

	if (walk->queue >= QUEUES)
		return false;
	for (unsigned int i = 0; i < lanes->count; i++)
		enter_queue(&walk->places[i], queue_of(cursor, &lanes->at[i]));
	walk->is_entered = true;
	return true;
}

/* The next queue of these pools, or the first one of the next pools. false: no more. */
static bool next_queue(struct cursor *cursor)
{
	struct waiting_walk *walk = &cursor->waiting;
	struct ordered_item item;
	bool has_begun = walk->has_begun;
	unsigned int queue = walk->queue + 1;

	*walk = (struct waiting_walk){ .has_begun = has_begun, .queue = queue };
	if (has_begun && enter_queues(cursor))
		return true;
	*walk = (struct waiting_walk){ 0 };
	if (!ordered_next(cursor, collect, &item))
		return false;
	walk->has_begun = true;
	enter_queues(cursor);
	return true;
}

/* The lane of the borrower that has waited longest in this queue. NULL: no more in it. */
static struct waiting_place *longest_waiting(struct cursor *cursor)
{
	struct waiting_place *places = cursor->waiting.places, *found = NULL;

	for (unsigned int i = 0; i < show_source_lanes(cursor->source)->count; i++) {
		const struct borrower *next = places[i].next;

		if (next && (!found || next->waiting_since < found->next->waiting_since))
			found = &places[i];
	}
	return found;
}

/* NULL: no more. */
static struct waiting_place *next_place(struct cursor *cursor)
{
	struct waiting_walk *walk = &cursor->waiting;
	struct waiting_place *place;

	if (walk->has_begun && !walk->is_entered)
		enter_queues(cursor);
	for (;;) {
		place = walk->has_begun ? longest_waiting(cursor) : NULL;
		if (place)
			return place;
		if (!next_queue(cursor))
			return NULL;
	}
}

/* The position in the wait queue of all lanes, from 1, of the next borrower shown. */
static unsigned int count_positions(const struct cursor *cursor)
{
	unsigned int position = 1;

	for (unsigned int i = 0; i < show_source_lanes(cursor->source)->count; i++)
		position += cursor->waiting.places[i].position;
	return position;
}

/* In all lanes: whose server is what the pool waits for, for longest. NULL: not known. */
static const struct server *find_holder(const struct cursor *cursor, const struct pool *pool,
                                        enum wait_reason reason)
{
	const struct server *longest = NULL;
	const struct lane *lane;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	longest = pool_wait_longer(longest, pool_wait_holder(lane->pools, pool, reason));
	return longest;
}

/* position: in the queue of its own lane, from 1, for the reason. */
static void fill_waiting(struct cursor *cursor, struct waiting_row *row,
                         const struct borrower *borrower, unsigned int position)
{
	const struct client *client = client_of_borrower(borrower);
	usec_t wait = loop_now(client->clients->with.loop) - borrower->waiting_since;
	enum wait_reason reason = pool_wait_reason(borrower, position);
	const char *name = params_find(client->params, "application_name");

	buf_clear(&cursor->text);
	pool_wait_explain_all(borrower->pool, reason, find_holder(cursor, borrower->pool, reason),
	                      &cursor->text);
	snprintf(row->ptr_buffer, sizeof(row->ptr_buffer), "%p", (const void *)client);
	row->database = client_database(client);
	row->user = client_user(client);
	row->place = count_positions(cursor);
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
	struct waiting_place *place = next_place(cursor);
	const struct borrower *borrower;

	if (!place)
		return false;
	borrower = place->next;
	fill_waiting(cursor, row, borrower, place->position + 1);
	place->next = TAILQ_NEXT(borrower, wait_node);
	place->last = borrower->wait_number;
	place->position++;
	return true;
}

const struct show show_waiting = { .item = "WAITING",
	                           .next = next_waiting,
	                           .columns = COLUMNS(waiting_columns),
	                           .help = "Clients that wait for a server, how long, and why.",
	                           .argument = SHOW_OF_DATABASE };
