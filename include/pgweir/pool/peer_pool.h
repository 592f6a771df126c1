/* SPDX-License-Identifier: ISC */
/*
 * Peers: other instances that own the clients whose cancel requests came to us.
 * A request is forwarded by a connection of its own; pool_size of the peer says
 * how many may be on their way at once, the others stand in a line.
 */
#ifndef PGWEIR_POOL_PEER_POOL_H
#define PGWEIR_POOL_PEER_POOL_H

#include "pgweir/base/table.h"

#include "pgweir/base/bytes.h"
#include "pgweir/base/err.h"
#include "pgweir/base/log.h"
#include "pgweir/base/slab.h"
#include "pgweir/config/peers.h"
#include "pgweir/net/dial.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/stream.h"

/* The longest key that is passed on. */
#define FORWARD_KEY_MAX 260

/* As log lines name a peer: peer-<id>@host:port. */
#define PEER_NAME_SIZE (CONFIG_PEER_HOST_MAX + sizeof("peer-65535@[]:65535"))

struct pools;
struct peer_pool;

enum forward_state {
	FORWARD_WAITING,    /* for its turn */
	FORWARD_CONNECTING, /* to the peer */
	FORWARD_SENT,       /* the peer has it, and closes when it is done */
	FORWARD_ENDED,      /* freed at the end of the turn */
	FORWARD_STATES
};

/* A cancel request for a client of a peer. */
struct forward {
	TAILQ_ENTRY(forward) node; /* in its pool's line or its active ones; among the ended */
	struct peer_pool *pool;
	struct logger log;
	struct resolver_ask ask;
	struct dial dial;
	struct stream stream;
	struct timer timer; /* cancel_wait_timeout in the line, then server_connect_timeout */
	enum forward_state state;
	/* Comes once, from the loop: it has been delivered, or dropped. The forward is gone then.
	 */
	void (*on_end)(void *arg);
	void *arg;
	uint16_t key_size;
	unsigned char key[FORWARD_KEY_MAX];
};
TAILQ_HEAD(forward_list, forward);

/* What is on its way to one peer. Made at the first use; goes when the peer has gone. */
struct peer_pool {
	UT_hash_handle hh; /* by id */
	struct pools *pools;
	int id;
	struct forward_list waiting, active;
	unsigned int counts[FORWARD_STATES];
	struct task serve_task;
	usec_t complained_at; /* of a peer that cannot be reached: once a second is enough */
	char name[PEER_NAME_SIZE];
};

/* Lives inside the pools. */
struct peer_pools {
	struct peer_pool *table;
	unsigned int count;
	struct forward_list ended;
	struct task free_task;
	struct slab pool_slab, forward_slab;
};

/*
 * Sends this key to the peer of that id. NULL with *err (for the log): there is no such
 * peer. Else the caller may take it back by peer_pool_drop_forward(). The key is copied; its TTL
 * is that with which the peer shall get it. key.count <= FORWARD_KEY_MAX.
 */
struct forward *peer_pool_forward(struct pools *pools, int id, struct bytes key,
                                  void (*on_end)(void *arg), void *arg, struct err *err);

/* on_end() will not come any more; what has been sent cannot be called back. */
void peer_pool_drop_forward(struct forward *forward);

/* NULL: nothing has been sent there yet. */
const struct peer_pool *peer_pool_find(const struct pools *pools, int id);

/* ---- for pools.c ---- */

void peer_pools_init(struct peer_pools *peers);

/* Drops all without a word. */
void peer_pools_done(struct pools *pools);

/* A new snapshot is in force: those in line go where it says, or are dropped. */
void peer_pools_configure(struct pools *pools);

#endif
