/* SPDX-License-Identifier: ISC */
/*
 * Databases: added, counted with the reads of their hosts, and expired if the `*` entry made them
 * and they are unused.
 */
#include "pgweir/pool/pools.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"

static struct timer_queue *database_expiry_queue(const struct database *database)
{
	const struct pools *pools = database->pools;

	if (!database->is_auto || database->client_count || database->server_count)
		return NULL;
	return pools->database_expiry;
}

void database_arm_expiry(struct database *database)
{
	struct timer_queue *line = database_expiry_queue(database);

	if (line)
		timer_set(&database->rest, line, loop_now(database->pools->with.loop));
}

void database_rearm(struct database *database)
{
	timer_change(&database->rest, database_expiry_queue(database));
}

void database_count_client(struct database *database, int change)
{
	database->client_count += (unsigned int)change;
	if (change > 0) {
		share_add_client(&database->share);
		timer_clear(&database->rest);
	} else {
		share_remove_client(&database->share);
		database_arm_expiry(database);
	}
}

struct database *database_add(struct pools *pools, const char *name,
                              const struct config_database *entry, bool is_auto)
{
	struct database *database = slab_take(&pools->database_slab);

	if (!database)
		return NULL;
	text_copy(database->name, sizeof(database->name), name);
	database->share.on_woken = pool_database_woken;
	if (!share_open(&database->share, &pools->member, TALLY_DATABASE, name, "")) {
		slab_put(&pools->database_slab, database);
		return NULL;
	}
	database->pools = pools;
	database->entry = entry;
	database->is_auto = is_auto;
	database->catalog_version = database->quiet_version = UINT_MAX;
	database->vacated = atomic_load(&database->share.tally->vacated);
	database->server_limit = config_max_db_connections(pools->config, entry);
	TAILQ_INIT(&database->blocked);
	TAILQ_INIT(&database->reads);
	TAILQ_INIT(&database->idle);
	TABLE_ADD_STR(hh, &pools->secret, pools->database_table, database->name, database);
	TAILQ_INSERT_TAIL(&pools->databases, database, node);
	pools->database_count++;
	return database;
}

/* ---- reads, by host ---- */

static struct host_reads *find_reads(const struct database *database, const char *host)
{
	struct host_reads *reads;

	TAILQ_FOREACH (reads, &database->reads, node) {
		if (strcmp(reads->host, host) == 0)
			return reads;
	}
	return NULL;
}

/* There are as many as the entry has had hosts. NULL: no memory. */
static uint64_t *count_of(struct database *database, const char *host)
{
	struct host_reads *reads = find_reads(database, host);
	size_t size = strlen(host) + 1;

	if (reads)
		return &reads->count;
	reads = calloc(1, sizeof(*reads) + size);
	if (!reads)
		return NULL;
	memcpy(reads->host, host, size);
	TAILQ_INSERT_TAIL(&database->reads, reads, node);
	return &reads->count;
}

void database_count_read(struct database *database, struct server *server)
{
	const struct hosts *hosts = server->site->hosts;

	if (!server->read_count && server->host < hosts->count)
		server->read_count = count_of(database, hosts->list[server->host].name);
	if (server->read_count)
		++*server->read_count;
}

uint64_t database_reads_at(const struct database *database, const char *host)
{
	const struct host_reads *reads = find_reads(database, host);

	return reads ? reads->count : 0;
}

void database_forget_reads(struct database *database)
{
	struct host_reads *reads;

	while ((reads = TAILQ_FIRST(&database->reads))) {
		TAILQ_REMOVE(&database->reads, reads, node);
		free(reads);
	}
}
