/* SPDX-License-Identifier: ISC */
/*
 * Cursors: see cursor_priv.h.
 */
#include "cursor_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

void cursor_begin(struct cursor *cursor, struct show_source *source, struct show_asked asked)
{
	const struct lane *first = show_source_first(source);

	*cursor = (struct cursor){
		.asked = asked, .source = source, .pools_lane = first, .clients_lane = first
	};
	pools_walk_start(first->pools, &cursor->pools);
	clients_walk_start(first->clients, &cursor->clients);
}

void cursor_end(struct cursor *cursor)
{
	const struct lane *first;
	bool is_elsewhere;

	if (!cursor->asked.show)
		return;
	first = show_source_first(cursor->source);
	is_elsewhere = cursor->pools_lane != first || cursor->clients_lane != first;
	if (is_elsewhere)
		lanes_hold(show_source_lanes(cursor->source));
	pools_walk_stop(cursor->pools_lane->pools, &cursor->pools);
	clients_walk_stop(cursor->clients_lane->clients, &cursor->clients);
	if (is_elsewhere)
		lanes_release(show_source_lanes(cursor->source));
	buf_free(&cursor->text);
	catalog_reading_release(&cursor->reading);
	show_applications_end(&cursor->applications);
	free(cursor->latency);
	cursor->latency = NULL;
	free(cursor->statements.picks);
	cursor->statements.picks = NULL;
	cursor->asked.show = NULL;
}

bool cursor_next(struct cursor *cursor, void *row)
{
	memset(row, 0, ROW_SIZE_MAX);
	cursor->has_more = false;
	cursor->look_count = 0;
	return cursor->asked.show->next(cursor, row);
}

bool cursor_may_look(struct cursor *cursor)
{
	cursor->has_more = cursor->look_count++ >= SHOW_LOOKS_MAX;
	return !cursor->has_more;
}

static bool is_last(const struct cursor *cursor, const struct lane *lane)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);

	return lane + 1 == lanes->at + lanes->count;
}

const struct client *cursor_next_client(struct cursor *cursor)
{
	const struct client *client;

	while (!cursor->clients.next && !is_last(cursor, cursor->clients_lane)) {
		clients_walk_stop(cursor->clients_lane->clients, &cursor->clients);
		cursor->clients_lane++;
		clients_walk_start(cursor->clients_lane->clients, &cursor->clients);
	}
	client = cursor->clients.next;
	if (!client || !cursor_may_look(cursor))
		return NULL;
	cursor->clients.next = TAILQ_NEXT(client, node);
	return client;
}

static void next_pools_lane(struct cursor *cursor)
{
	pools_walk_stop(cursor->pools_lane->pools, &cursor->pools);
	cursor->pools_lane++;
	pools_walk_start(cursor->pools_lane->pools, &cursor->pools);
}

void cursor_first_pool(struct cursor *cursor)
{
	pools_walk_stop(cursor->pools_lane->pools, &cursor->pools);
	cursor->pools_lane = show_source_first(cursor->source);
	pools_walk_start(cursor->pools_lane->pools, &cursor->pools);
}

const struct pool *cursor_next_pool(struct cursor *cursor)
{
	const struct pool *pool;

	while (!cursor->pools.next_pool && !is_last(cursor, cursor->pools_lane))
		next_pools_lane(cursor);
	pool = cursor->pools.next_pool;
	if (!pool || !cursor_may_look(cursor))
		return NULL;
	cursor->pools.next_pool = TAILQ_NEXT(pool, node);
	return pool;
}

const struct server *cursor_next_server(struct cursor *cursor)
{
	const struct server *server;

	while (!cursor->pools.next_server && !is_last(cursor, cursor->pools_lane))
		next_pools_lane(cursor);
	server = cursor->pools.next_server;
	if (!server || !cursor_may_look(cursor))
		return NULL;
	cursor->pools.next_server = TAILQ_NEXT(server, all_node);
	return server;
}

bool cursor_wants(const struct cursor *cursor, const char *database)
{
	return !cursor->asked.argument || strcmp(cursor->asked.argument, database) == 0;
}

void cursor_suspend(struct cursor *cursor)
{
	cursor->ordered.at = cursor->ordered.count = 0;
	cursor->ordered.is_last_batch = false;
	cursor->waiting.is_entered = false;
}
