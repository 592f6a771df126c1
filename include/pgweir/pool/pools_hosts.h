/* SPDX-License-Identifier: ISC */
/*
 * The servers of a loop by their hosts: for the console, while all loops are held.
 */
#ifndef PGWEIR_POOL_POOLS_HOSTS_H
#define PGWEIR_POOL_POOLS_HOSTS_H

#include "pgweir/pool/pools.h"

/* The cluster of an entry, without a reference. NULL: nobody has needed it yet. */
struct cluster *pools_cluster(const struct pools *pools, const struct config_database *entry);

/* The servers of a database at this address (NULL: a Unix socket) of the host of this number. */
unsigned int pools_servers_at(const struct pools *pools, const char *database, unsigned int host,
                              const struct address *address);

/* How often a server of the host of this name was lent for a read. */
uint64_t pools_reads_at(const struct pools *pools, const char *database, const char *host);

/* Servers of any database at the host of this name that work for somebody. */
unsigned int pools_busy_at(const struct pools *pools, const char *host);

/* Closes servers whose host must not be used any more, as each pool would do in its next turn. */
void pools_leave_hosts(struct pools *pools);

#endif
