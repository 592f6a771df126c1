/* SPDX-License-Identifier: ISC */
/*
 * A host watch: one connection to one address of a host, which asks for the role of the host and
 * notes it in the roster of the cluster. A host has one for each address of its name.
 *
 * A cluster owns its hosts and their watches, and host_watches own the clusters.
 */
#ifndef PGWEIR_POOL_HOST_WATCH_PRIV_H
#define PGWEIR_POOL_HOST_WATCH_PRIV_H

#include "pgweir/pool/pools.h"

#include "server/server_priv.h"

#define HOST_WATCH_GAP_MIN (50 * USEC_PER_MS) /* between two attempts to connect */
#define HOST_WATCH_GAP_MAX (500 * USEC_PER_MS)

struct watched_cluster;

/* One host of a cluster: its name is looked up again and again. */
struct watched_host {
	struct watched_cluster *cluster;
	struct resolver_ask ask;
	struct timer timer;
	unsigned int number;
	char *name; /* without its port */
	uint16_t port;
};

/* One address. */
struct host_watch {
	TAILQ_ENTRY(host_watch) node;
	const struct watched_host *host;
	struct watched_cluster *cluster;
	struct roster_at at;
	struct address address; /* AF_UNSPEC: a Unix socket */
	struct hosts hosts;     /* only this one */
	struct server_site site;
	struct server server; /* valid while is_open */
	bool is_open;         /* from server_init() until on_free() */
	char *database;       /* while is_open: as clients know it */
	bool is_short;        /* the host does not answer the whole role question */
	bool is_refused;      /* its login is refused */
	usec_t asked_at;
	usec_t gap; /* before the next attempt to connect */
	struct timer timer;
};

TAILQ_HEAD(host_watch_list, host_watch);

struct watched_cluster {
	TAILQ_ENTRY(watched_cluster) node;
	struct host_watches *watches;
	struct cluster *cluster; /* one reference */
	/* what the startup packet is made of; its texts are of the snapshot in force */
	struct config_database entry;
	char *user;
	const struct credentials *credentials;
	bool borrows_login; /* user and credentials are those of a pool */
	bool is_wanted;     /* by the configuration that is being applied */
	struct host_watch_list list;
	unsigned int host_count;
	struct watched_host hosts[];
};

struct host_watches {
	struct pools *pools;
	struct share listener;
	TAILQ_HEAD(, watched_cluster) list;
	struct server_limits limits;
	uint64_t bytes; /* counted by servers; nobody reads them */
};

/* Its name is looked up soon, when the loop runs, and its addresses are watched from then on. */
void host_watch_seek(struct watched_host *host);

/* Its name is looked up no more. Its watches must have ended. */
void host_watch_forget(struct watched_host *host);

/* Frees the watch. Not within a callback of its server. */
void host_watch_end(struct host_watch *watch);

/* Takes over what the next connection is made with. */
void host_watch_update(struct host_watch *watch);

/* Whether PAUSE is about a database: then nothing of it may keep PostgreSQL from being replaced. */
bool host_watch_is_held(struct pools *pools, const char *database);

/* cluster_database(), of those that are not held. */
bool host_watch_database(struct pools *pools, const struct cluster *cluster, struct buf *database);

/*
 * ---- all watches ----
 *
 * Which clusters are watched: those whose entries or pools need roles. Each address of each of
 * their hosts has a host watch.
 *
 * They belong to the pools of the main thread, whatever loops use the cluster. They count for no
 * limit, and are no servers of any pool.
 */

struct host_watches;

/* Makes pools->host_watches, or changes them. New ones begin when the loop runs. */
void host_watches_configure(struct pools *pools);

/*
 * Databases were paused or resumed: while all databases that need the roles of a cluster are paused
 * there are no watches. Nothing if there are no host_watches.
 */
void host_watches_update(struct pools *pools);

/* Closes all connections at once. */
void host_watches_free(struct host_watches **watches);

#endif
