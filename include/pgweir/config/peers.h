/* SPDX-License-Identifier: ISC */
/*
 * The entries of [peers]: other instances, to which cancel requests for their clients are
 * forwarded. They belong to the snapshot, like all entries.
 */
#ifndef PGWEIR_CONFIG_PEERS_H
#define PGWEIR_CONFIG_PEERS_H

#include "pgweir/base/table.h"

#include "pgweir/config/config.h"

#define CONFIG_PEER_ID_MAX 65535 /* largest id in [peers]; peer_id itself is at most 16383 */
#define CONFIG_PEER_HOST_MAX 255 /* bytes */

struct config_peer {
	int id;
	char *host; /* never NULL; "/.." and "@.." = Unix socket there */
	int port;
	int pool_size;         /* as written; see config_peer_pool_size() */
	struct source_pos pos; /* source position of the entry; .file NULL: not known */
	UT_hash_handle hh;
};

/* NULL: no such entry. */
const struct config_peer *config_peer_find(const struct config *config, int id);

/* Returns the entry with the lowest id above this one; 0 starts the walk. NULL: no more. */
const struct config_peer *config_peer_after(const struct config *config, int id);

size_t config_peer_count(const struct config *config);

/* How many cancel requests may be forwarded to it at the same time. 0 = no limit. */
int config_peer_pool_size(const struct config *config, const struct config_peer *peer);

#endif
