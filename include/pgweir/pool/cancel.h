/* SPDX-License-Identifier: ISC */
/*
 * Cancel requests on their way, each by a connection of its own: to PostgreSQL, for the query that
 * a borrower's server runs, or to a peer that has the client (peer_pool.h).
 *
 *   WAITING --> CONNECTING --> SENT --> the other side closes: it has dealt with it
 *
 * A request to PostgreSQL goes to the host and address of its server. Until that connection has
 * ended, the server is not lent to another borrower, so the cancel cannot hit another borrower's
 * query.
 */
#ifndef PGWEIR_POOL_CANCEL_H
#define PGWEIR_POOL_CANCEL_H

#include "pgweir/base/slab.h"
#include "pgweir/net/stream.h"
#include "pgweir/pool/server/server.h"

#define CANCEL_ASKER_SIZE 192

enum cancel_state {
	CANCEL_WAITING,    /* until a limit on connections allows it */
	CANCEL_CONNECTING, /* TLS included */
	CANCEL_SENT,       /* the key was sent: it cannot be taken back */
	CANCEL_ENDED,      /* freed at the end of the turn */
	CANCEL_STATES
};

enum cancel_end {
	CANCEL_DELIVERED, /* the other side has closed the connection */
	CANCEL_FAILED,
	CANCEL_WAIT_OVER, /* cancel_wait_timeout */
	CANCEL_WAY_OVER   /* server_connect_timeout */
};

struct cancel;
struct pools;
struct securing_how;
TAILQ_HEAD(cancel_list, cancel);

/* The requests to one pool's servers, or to one peer. */
struct cancel_queue {
	struct pools *pools;
	struct cancel_list lists[CANCEL_ENDED]; /* of each state */
	unsigned int counts[CANCEL_STATES];
	unsigned int count; /* all that have not ended */
};

/* What differs between PostgreSQL and a peer. */
struct cancel_ops {
	/* *key: borrowed; *how: zeroed, plain. false: the request is not wanted any more */
	bool (*prepare)(const struct cancel *cancel, struct bytes *key, struct securing_how *how);
	void (*on_state)(struct cancel *cancel, enum cancel_state from);
	/* For the log. text: of CANCEL_FAILED. Not called if it is dropped, or not wanted. */
	void (*tell)(struct cancel *cancel, enum cancel_end end, const char *text);
};

/* The part that both have. */
struct cancel {
	TAILQ_ENTRY(cancel) node; /* in the list of its state */
	struct cancel_queue *queue;
	const struct cancel_ops *ops;
	struct slab *slab;
	enum cancel_state state;
	struct dial dial;
	struct stream stream;
	struct timer wait; /* cancel_wait_timeout: its owner clears it when it waits no more */
	struct timer way;  /* server_connect_timeout, from the connection attempt on */
	/* Comes once, from the loop: it was delivered or dropped. The cancel is freed then. */
	void (*on_end)(void *arg);
	void *arg;
};

/*
 * Cancels the query that `target`'s server runs. `asker`: where the request came from, for the log.
 * The caller may take the request back by cancel_drop(). on_end: may be NULL. NULL: there is
 * nothing to cancel, or it has failed already; *err has the reason (for the log).
 */
struct cancel *cancel_start(struct borrower *target, const char *asker, void (*on_end)(void *arg),
                            void *arg, struct err *err);

/* Takes the connection that the request came from: the end of the cancel is the end of it. */
void cancel_keep_asker(struct cancel *cancel, struct farewell *farewell);

/* Drops the request without on_end(). A key that was sent cannot be taken back. */
void cancel_drop(struct cancel *cancel);

/* The borrower has returned or lost its server: drops its cancels that were not sent yet. */
void cancel_forget_target(struct borrower *target, struct pool *pool);

/* The server is about to be freed: no cancel refers to it from now on. */
void cancel_forget_server(struct server *server);

/* Starts waiting cancels of the pool as far as its limit allows. */
void cancel_serve(struct pool *pool);

/* ---- for pools.c and peer_pool.c ---- */

void cancels_init(struct pools *pools);

/* Frees all that have ended. No queue may have any. */
void cancels_done(struct pools *pools);

void cancel_queue_init(struct cancel_queue *queue, struct pools *pools);

/* Drops all without calling on_end(); for the end of the process. */
void cancel_queue_drop(struct cancel_queue *queue);

/* Applies a changed cancel_wait_timeout. */
void cancel_queue_rearm(struct cancel_queue *queue);

/* Puts a zeroed one, from the slab, into the queue: it waits. */
void cancel_add(struct cancel *cancel, struct cancel_queue *queue, const struct cancel_ops *ops,
                struct slab *slab);

/* CONNECTING, and server_connect_timeout begins. The owner finds out where to, and connects it. */
void cancel_launch(struct cancel *cancel);

/* path: of a Unix socket; NULL: to the address. */
void cancel_connect(struct cancel *cancel, const struct address *address, const char *path);

/* The only function that changes the state. on_state() follows. */
void cancel_enter(struct cancel *cancel, enum cancel_state next);
void cancel_finish(struct cancel *cancel);
void cancel_fail(struct cancel *cancel, const char *text);

#endif
