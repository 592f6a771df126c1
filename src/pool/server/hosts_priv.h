/* SPDX-License-Identifier: ISC */
/*
 * What the files of hosts have in common. Those who call these functions have the lock.
 */
#ifndef PGWEIR_POOL_SERVER_HOSTS_PRIV_H
#define PGWEIR_POOL_SERVER_HOSTS_PRIV_H

#include "pgweir/pool/server/hosts.h"

static inline void hosts_lock(struct hosts *hosts) { pthread_mutex_lock(&hosts->lock); }

static inline void hosts_unlock(struct hosts *hosts) { pthread_mutex_unlock(&hosts->lock); }

/* ---- hosts.c ---- */

/* The address of a host; the host itself if the address is NULL or not in the list. */
struct host_addr *hosts_find_addr(struct host *host, const struct address *address);

/* Sets the addresses. Those that were in the list before keep their state. false: no memory. */
bool hosts_learn(const struct hosts *hosts, struct host *host, const struct address *addresses,
                 unsigned int count);

/* ---- health: hosts_choose.c ---- */

/* One address, or (addr NULL) a host whose addresses are not known. */
struct place {
	const struct hosts *hosts;
	unsigned int index;
	const struct host_addr *addr;
};

#endif
