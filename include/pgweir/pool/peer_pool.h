/* SPDX-License-Identifier: ISC */
/*
 * Peers: other instances that own the clients whose cancel requests arrived here. Each request is
 * forwarded by a separate connection. pool_size of the peer limits how many are connected at once;
 * the others are in a wait queue.
 */
#ifndef PGWEIR_POOL_PEER_POOL_H
#define PGWEIR_POOL_PEER_POOL_H

#include "pgweir/base/table.h"
#include "pgweir/config/entries.h"
#include "pgweir/pool/cancel.h"

/* The longest key that is forwarded, in bytes. */
#define FORWARD_KEY_MAX 260

/* The name of a peer in log lines: peer-<id>@host:port. */
#define PEER_NAME_SIZE (CONFIG_PEER_HOST_MAX + sizeof("peer-65535@[]:65535"))

struct pools;
struct peer_pool;

/*
 * ---- peers without a list: peers_dns ----
 *
 * The addresses of a name are those of all instances. A secret that they share seals cancel keys
 * and requests:
 *
 *   key     bytes 1 and 2: the seal. A key without it is no instance's, and no peer is asked.
 *           bytes 8 to 11 of a long key: the owner's address, so that only one is asked
 *   request of a peer: the key, and 16 bytes that only peers can make. It is not forwarded again
 *
 * A short key has no place for an address: all instances are asked, once.
 */

#define PEERS_MAX 64 /* addresses of the name that are asked */
#define PEER_SECRET_SIZE 32
#define PEER_PROOF_SIZE 16 /* behind the key in a request of a peer */
#define PEER_BY_DNS 0      /* in place of the id of a peer */

struct peers {
	bool is_on;
	struct config_peer peer; /* the name and the port, as an entry */
	char host[CONFIG_PEER_HOST_MAX + 1];
	unsigned char secret[PEER_SECRET_SIZE];
};

/* Reads the settings and the file. false: *err begins with the setting's name. */
bool peer_pool_read_peers(struct peers *peers, const struct config *config, struct err *err);

/* Last, as the seal covers all bytes but loop and TTL. own: our address, where peers reach it. */
void peer_pool_seal_key(const struct peers *peers, unsigned char *key, size_t count,
                        const struct address *own);
bool peer_pool_knows_seal(const struct peers *peers, struct bytes key);

/* Makes a peer's request of a key. out: key.count + PEER_PROOF_SIZE bytes. false: it cannot. */
bool peer_pool_wrap_key(const struct peers *peers, struct bytes key, unsigned char *out);

/* Whether it is a peer's request; then the proof is taken off. */
bool peer_pool_unwrap_key(const struct peers *peers, struct bytes *key);

/* The cancel requests for one peer: from the first one on, until the peer is removed. */
struct peer_pool {
	UT_hash_handle hh; /* by id */
	int id;
	struct cancel_queue queue;
	unsigned int first_count; /* of PEER_BY_DNS: they have no connection */
	struct task serve_task;
	/* when the log last had that the peer cannot be reached: at most once a second */
	usec_t complained_at;
	char name[PEER_NAME_SIZE];
};

/* Part of struct pools. */
struct peer_pools {
	struct peer_pool *table;
	struct slab pool_slab, forward_slab;
};

/*
 * Sends this key to the peer with that id. The key is copied. It already contains the TTL for the
 * peer. key.count <= FORWARD_KEY_MAX. The caller may take the request back by cancel_drop(). NULL:
 * there is no such peer; *err has the reason (for the log).
 */
struct cancel *peer_pool_forward(struct pools *pools, int id, struct bytes key,
                                 void (*on_end)(void *arg), void *arg, struct err *err);

/* NULL: no request was sent to this peer yet. */
const struct peer_pool *peer_pool_find(const struct pools *pools, int id);

/* ---- for pools.c ---- */

void peer_pools_init(struct peer_pools *peers);

/* Drops all requests without calling on_end(); cancels_done() frees them. */
void peer_pools_drop(struct pools *pools);
void peer_pools_done(struct pools *pools);

/* Waiting requests use the new address, or are dropped if the peer is gone. */
void peer_pools_configure(struct pools *pools);

#endif
