/* SPDX-License-Identifier: ISC */
/*
 * Which clusters are watched: those whose entries or pools need roles. Each address of each of
 * their hosts has a host watch (host_watch_priv.h).
 *
 * They belong to the pools of the main thread, whatever loops use the cluster. They count for no
 * limit, and are no servers of any pool.
 */
#ifndef PGWEIR_POOL_HOST_WATCHES_PRIV_H
#define PGWEIR_POOL_HOST_WATCHES_PRIV_H

#include "pgweir/pool/pools.h"

struct host_watches;

/*
 * Makes and ends watches so that they are those of the configuration. The first call makes
 * pools->host_watches. New ones begin when the loop runs.
 */
void host_watches_configure(struct pools *pools);

/*
 * Databases were paused or resumed: while all databases that need the roles of a cluster are paused
 * there are no watches. Nothing if there are no host_watches.
 */
void host_watches_update(struct pools *pools);

/* Closes all connections at once. */
void host_watches_free(struct host_watches **watches);

#endif
