/* SPDX-License-Identifier: ISC */
/*
 * Cancel: a CancelRequest for what a borrower's server is doing. A connection of
 * its own carries the server's key to the very host the server is on; until it
 * has ended that server is lent to nobody, so that it cannot hit somebody else.
 */
#ifndef PGWEIR_POOL_CANCEL_H
#define PGWEIR_POOL_CANCEL_H

#include "pgweir/pool/server/server.h"

#define CANCEL_ASKER_SIZE 192

struct cancel {
	TAILQ_ENTRY(cancel) node; /* in the pool's list of waiting or active ones */
	struct pool *pool;
	struct server *server;         /* that works for `target`; NULL: gone */
	const struct borrower *target; /* who asked; compared, never called */
	struct dial dial;
	struct stream stream;
	struct timer wait; /* cancel_wait_timeout, until it is sent */
	struct timer way;  /* server_connect_timeout, from when it gets a connection to its end */
	struct task end_task;
	bool is_active; /* has a connection, or is getting one */
	bool is_sent;   /* the key is out: it cannot be called back */
	bool is_ended;
	/* Comes once, from the loop: it has been delivered, or dropped. The cancel is gone then. */
	void (*on_end)(void *arg);
	void *arg;
	struct address address;
	char asker[CANCEL_ASKER_SIZE]; /* for the log */
};

/*
 * Cancels what `target`'s server is doing. `asker`: where the request came from, for the log.
 * NULL with *err (for the log): there is nothing to cancel. Else the caller may take it back by
 * cancel_drop().
 */
struct cancel *cancel_start(struct borrower *target, const char *asker, void (*on_end)(void *arg),
                            void *arg, struct err *err);

/* on_end() will not come any more; what has been sent cannot be called back. */
void cancel_drop(struct cancel *cancel);

/* The borrower has returned or lost its server: what was not sent yet is dropped. */
void cancel_forget_target(struct borrower *target, struct pool *pool);

/* The server is about to be freed. */
void cancel_forget_server(struct server *server);

/* All of the pool, without a word: at the end. */
void cancel_drop_all(struct pool *pool);

/* cancel_wait_timeout has changed. */
void cancel_rearm_waiting(struct pool *pool);

/* Tries waiting cancels of the pool; called when another connection is allowed. */
void cancel_serve(struct pool *pool);

#endif
