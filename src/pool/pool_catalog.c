/* SPDX-License-Identifier: ISC */
/*
 * Asking an idle server about the catalog; putting servers in doubt when it has changed.
 */
#include "pool_priv.h"

#include "server/server_priv.h"

#include "pgweir/base/banned.h"

/* If a server is lost before it has answered, another one is asked after this time. */
#define PATIENCE (10 * USEC_PER_SEC)

void pool_note_ddl(struct pool *pool)
{
	atomic_fetch_add(&pool->database->share.tally->ddl_count, 1);
}

void pool_read_catalog(struct server *server)
{
	struct pool *pool = server->pool;
	struct catalog *catalog = &pool->database->catalog;
	struct buf *text = &pool->pools->errand_text;

	catalog->reads_all = catalog->verdict == CATALOG_UNREAD || pool_has_new_ddl(pool);
	catalog->asked_count = atomic_load(&pool->database->share.tally->ddl_count);
	catalog->asked_at = loop_now(pool_loop(pool));
	catalog->due_at = catalog->asked_at + PATIENCE;
	catalog->has_row = false;
	buf_clear(text);
	catalog_text(catalog->reads_all, text);
	if (buf_ok(text)) {
		server_enter(server, SERVER_CHECKING);
		server_errand(server, ERRAND_CATALOG, text->at);
	}
	buf_reuse(text, ERRAND_KEEP_MAX);
}

void pool_catalog_row(struct server *server, struct bytes body)
{
	catalog_row(&server->pool->database->catalog, body);
}

/* Something that nobody knew of may have left state on any of them. */
static void doubt_servers(struct pool *pool)
{
	struct server *server;

	for (int state = 0; state < SERVER_STATES; state++) {
		TAILQ_FOREACH (server, &pool->servers[state], node)
			server_set_doubt(server);
	}
}

static void doubt_all(struct database *database)
{
	struct pool *pool, *next;

	HASH_ITER (hh, database->pool_table, pool, next) {
		if (pool->limits.isolation == SESSION_ISOLATION_KNOWN)
			doubt_servers(pool);
	}
}

/* A verdict is logged when it changes, not each time that the catalog is read. */
static void tell(const struct server *server, const struct catalog *catalog)
{
	if (catalog->verdict == CATALOG_QUIET)
		log_info(&server->log, "no function of the database can touch session state");
	else
		log_info(&server->log,
		         "functions of the database may touch session state, so servers are "
		         "cleaned between clients: %s",
		         catalog->why);
}

void pool_catalog_end(struct server *server, bool has_failed)
{
	struct pool *pool = server->pool;
	struct database *database = pool->database;
	struct catalog *catalog = &database->catalog;

	if (catalog_end(catalog, has_failed, loop_now(pool_loop(pool))))
		doubt_all(database);
	if (catalog->verdict == CATALOG_UNREAD || catalog->verdict == catalog->told)
		return;
	catalog->told = catalog->verdict;
	tell(server, catalog);
}
