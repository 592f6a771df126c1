/* SPDX-License-Identifier: ISC */
/*
 * SHOW: the list of all, and the cursor that goes through one.
 */
#include "admin_priv.h"

#include <strings.h>

#include "show_priv.h"

#include "pgweir/base/banned.h"

const struct show *const shows[] = {
	&show_version,
	&show_state,
	&show_config,
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
	&show_limits,
	&show_errors,
	&show_ready,
	&show_drain,
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

void cursor_begin(struct cursor *cursor, struct console *console, const struct show *show,
                  const struct talk *talk)
{
	*cursor = (struct cursor){
		.show = talk ? &show_talk : show,
		.talk = talk,
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
	return cursor->show->next(cursor, row);
}

void cursor_rest(struct cursor *cursor)
{
	cursor->ordered.at = cursor->ordered.count = 0;
	cursor->ordered.is_last_batch = false;
	cursor->waiting.pool = NULL;
	cursor->waiting.next = NULL;
}
