/* SPDX-License-Identifier: ISC */
/* What the pools of one database, and those of one role, have in common. */
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"

/*
 * ---- roles ----
 *
 * The state of a user's name, and its secret in auth_file. What a client authenticated with
 * belongs to its pool: on another database the same name may be another user.
 */

void role_configure(struct pools *pools, struct role *role)
{
	const struct user *user = users_find(pools->users, role->name);
	const char *former = role->secret, *secret = user ? user->secret.text : NULL;

	role->entry = config_entry(pools->config, ENTRY_USER, role->name);
	permit_set_limit(&role->cap.share, config_max_user_connections(pools->config, role->entry),
	                 role->entry ? role->entry->guaranteed_servers : 0);
	role->secret = secret;
	if (secret ? former && strcmp(former, secret) == 0 : !former)
		return; /* what clients authenticated with is still valid */
	role->secret_version++;
	credentials_release(&role->credentials);
	if (user)
		role->credentials = credentials_of_secret(&user->secret, false);
}

struct role *role_of_name(struct pools *pools, const char *name)
{
	struct role *role;

	TABLE_FIND_STR(hh, &pools->secret, pools->role_table, name, role);
	if (role)
		return role;
	role = slab_take(&pools->role_slab);
	if (!role)
		return NULL;
	text_copy(role->name, sizeof(role->name), name);
	if (!pool_cap_open(&role->cap, pools, CAP_ROLE, name)) {
		slab_put(&pools->role_slab, role);
		return NULL;
	}
	role_configure(pools, role);
	TABLE_ADD_STR(hh, &pools->secret, pools->role_table, role->name, role);
	TAILQ_INSERT_TAIL(&pools->roles, role, node);
	return role;
}

void role_free(struct pools *pools, struct role *role)
{
	HASH_DEL(pools->role_table, role);
	share_close(&role->cap.share);
	TAILQ_REMOVE(&pools->roles, role, node);
	credentials_release(&role->credentials);
	slab_put(&pools->role_slab, role);
}

void role_forget_unused(struct pools *pools, struct role *role)
{
	if (!role->client_count && !role->pool_count && !role->entry && !role->secret)
		role_free(pools, role);
}

void role_enter(struct role *role, bool is_exempt)
{
	role->client_count++;
	if (!is_exempt)
		role->cap.share.tally->client_count++;
}

void role_leave(struct pools *pools, struct role **rolep, bool was_exempt)
{
	struct role *role = *rolep;

	*rolep = NULL;
	role->client_count--;
	if (!was_exempt)
		role->cap.share.tally->client_count--;
	role_forget_unused(pools, role);
}

/*
 * ---- databases ----
 *
 * Added, counted with the reads of their hosts, and expired if the `*` entry made them
 * and they are unused.
 */

void database_arm_expiry(struct database *database)
{
	database->unused_since = loop_now(database->pools->shared.loop);
	pools_sweep_in_time(database->pools);
}

void database_count_client(struct database *database, int change)
{
	database->client_count += (unsigned int)change;
	database->cap.share.tally->client_count += (unsigned int)change;
	if (change < 0)
		database_arm_expiry(database);
}

struct database *database_add(struct pools *pools, const char *name,
                              const struct config_database *entry, bool is_auto)
{
	struct database *database = slab_take(&pools->database_slab);

	if (!database)
		return NULL;
	text_copy(database->name, sizeof(database->name), name);
	if (!pool_cap_open(&database->cap, pools, CAP_DATABASE, name)) {
		slab_put(&pools->database_slab, database);
		return NULL;
	}
	database->pools = pools;
	database->entry = entry;
	database->is_auto = is_auto;
	if (!pool_catalog_join(database)) {
		share_close(&database->cap.share);
		slab_put(&pools->database_slab, database);
		return NULL;
	}
	database->vacated = atomic_load(&database->cap.share.tally->vacated);
	permit_set_limit(&database->cap.share, config_max_db_connections(pools->config, entry),
	                 entry ? entry->guaranteed_servers : 0);
	TAILQ_INIT(&database->reads);
	TABLE_ADD_STR(hh, &pools->secret, pools->database_table, database->name, database);
	TAILQ_INSERT_TAIL(&pools->databases, database, node);
	return database;
}

/* ---- reads, by host ---- */

static struct host_reads *find_reads(const struct database *database, const char *host)
{
	TAILQ_EACH (reads, &database->reads, node) {
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

	if (!server->place.read_count && server->place.host < hosts->count)
		server->place.read_count = count_of(database, hosts->list[server->place.host].name);
	if (server->place.read_count)
		++*server->place.read_count;
}

uint64_t pools_reads_at(const struct pools *pools, const char *database, const char *host)
{
	const struct database *found = pools_find_database((struct pools *)pools, database);
	const struct host_reads *reads = found ? find_reads(found, host) : NULL;

	return reads ? reads->count : 0;
}

void database_forget_reads(struct database *database)
{
	for (struct host_reads *reads; (reads = TAILQ_FIRST(&database->reads));) {
		TAILQ_REMOVE(&database->reads, reads, node);
		free(reads);
	}
}
