/* SPDX-License-Identifier: ISC */
/*
 * The servers of a loop by their hosts: see pgweir/pool/pools_hosts.h.
 */
#include "pgweir/pool/pools_hosts.h"

#include <string.h>

#include "pool_priv.h"
#include "server/server_priv.h"

struct cluster *pools_cluster(const struct pools *pools, const struct config_database *entry)
{
	struct cluster_key key = { entry->host ? entry->host : pools->config->unix_socket_dir,
		                   entry->port, config_host_check_user(pools->config, entry) };

	return clusters_find(pools->with.broker, &key);
}

static bool is_at(const struct server *server, unsigned int host, const struct address *address)
{
	if (server->host != host)
		return false;
	return !address || address_equal_host(&server->peer, address);
}

unsigned int pools_servers_at(const struct pools *pools, const char *database, unsigned int host,
                              const struct address *address)
{
	const struct database *found = pools_find_database((struct pools *)pools, database);
	const struct server *server;
	unsigned int count = 0;

	for (const struct pool *pool = found ? found->pool_table : NULL; pool; pool = pool->hh.next)
		for (int state = SERVER_IDLE; state < SERVER_CLOSING; state++)
			TAILQ_FOREACH (server, &pool->servers[state], node)
				count += is_at(server, host, address);
	return count;
}

uint64_t pools_reads_at(const struct pools *pools, const char *database, const char *host)
{
	const struct database *found = pools_find_database((struct pools *)pools, database);

	return found ? database_reads_at(found, host) : 0;
}

static bool is_busy(const struct server *server)
{
	return !server->is_listening &&
	       (server->state == SERVER_LENT || server->state == SERVER_CHECKING ||
	        server->state == SERVER_RESETTING || server->state == SERVER_CANCELED ||
	        server->state == SERVER_ENDING);
}

unsigned int pools_busy_at(const struct pools *pools, const char *host)
{
	const struct server *server;
	unsigned int count = 0;

	TAILQ_FOREACH (server, &pools->servers, all_node) {
		const struct hosts *hosts = server->site->hosts;

		count += is_busy(server) && server->host < hosts->count &&
		         strcmp(hosts->list[server->host].name, host) == 0;
	}
	return count;
}

void pools_leave_hosts(struct pools *pools)
{
	struct pool *pool;

	TAILQ_FOREACH (pool, &pools->list, node)
		pool_hear_roster(pool);
}
