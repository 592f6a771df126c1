/* SPDX-License-Identifier: ISC */
/*
 * SHOW: the list of all, and the cursor that goes through one.
 */
#include "../admin_priv.h"

#include <strings.h>

#include "show_priv.h"

#include "pgweir/base/banned.h"

const struct show *const shows[] = {
	&show_version,
	&show_state,
	&show_config,
	&show_all,
	&show_databases,
	&show_users,
	&show_pools,
	&show_clients,
	&show_servers,
	&show_sockets,
	&show_active_sockets,
	&show_stats,
	&show_stats_totals,
	&show_stats_averages,
	&show_totals,
	&show_lists,
	&show_mem,
	&show_dns_hosts,
	&show_peers,
	&show_peer_pools,
	&show_dns_zones,
	&show_hba,
	&show_ident,
	&show_waiting,
	&show_transactions,
	&show_limits,
	&show_errors,
	&show_ready,
	&show_drain,
	&show_pending,
	&show_columns,
	&show_fds,
	NULL,
};

const struct show *show_find(const char *item)
{
	for (size_t i = 0; shows[i]; i++) {
		if (strcasecmp(shows[i]->item, item) == 0)
			return shows[i];
	}
	return NULL;
}

const char *show_argument_name(enum show_argument argument)
{
	static const char *const names[] = {
		[SHOW_ALONE] = "",
		[SHOW_OF_DATABASE] = " [db]",
		[SHOW_OF_TABLE] = " [table]",
		[SHOW_HIT] = " [HIT]",
	};

	return names[argument];
}

static const struct show *show_of(const struct request *request)
{
	if (request->kind != REQUEST_TALK)
		return request->show;
	return talk_rows(request->talk) ? talk_rows(request->talk) : &show_talk;
}

void cursor_begin(struct cursor *cursor, struct console *console, const struct request *request)
{
	*cursor = (struct cursor){
		.show = show_of(request),
		.request = request,
		.console = console,
	};
	pools_walk_start(console->with.pools, &cursor->pools);
	clients_walk_start(console->clients, &cursor->clients);
}

void cursor_end(struct cursor *cursor)
{
	if (!cursor->show)
		return;
	pools_walk_stop(cursor->console->with.pools, &cursor->pools);
	clients_walk_stop(cursor->console->clients, &cursor->clients);
	buf_free(&cursor->text);
	cursor->show = NULL;
}

bool cursor_next(struct cursor *cursor, void *row)
{
	memset(row, 0, ROW_SIZE_MAX);
	cursor->has_more = false;
	cursor->look_count = 0;
	return cursor->show->next(cursor, row);
}

bool cursor_may_look(struct cursor *cursor)
{
	cursor->has_more = cursor->look_count++ >= SHOW_LOOKS_MAX;
	return !cursor->has_more;
}

const char *cursor_argument(const struct cursor *cursor)
{
	const struct words *words = &cursor->request->words;

	return words->count == 3 ? words->value : NULL;
}

bool cursor_wants(const struct cursor *cursor, const char *database)
{
	const char *wanted = cursor_argument(cursor);

	return !wanted || strcmp(wanted, database) == 0;
}

void cursor_suspend(struct cursor *cursor)
{
	cursor->ordered.at = cursor->ordered.count = 0;
	cursor->ordered.is_last_batch = false;
	cursor->waiting.pool = NULL;
	cursor->waiting.next = NULL;
}
