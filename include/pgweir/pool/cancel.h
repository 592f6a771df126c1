/* SPDX-License-Identifier: ISC */
/*
 * Cancel: forwards a CancelRequest for the query that a borrower's server runs. A separate
 * connection sends the server's key to the same host and address. Until that connection has ended,
 * the server is not lent to another borrower, so the cancel cannot hit another borrower's query.
 */
#ifndef PGWEIR_POOL_CANCEL_H
#define PGWEIR_POOL_CANCEL_H

#include "pgweir/net/stream_parcel.h"
#include "pgweir/pool/server/server.h"

#define CANCEL_ASKER_SIZE 192

struct cancel {
	TAILQ_ENTRY(cancel) node; /* in the pool's list of waiting or active cancels */
	struct pool *pool;
	struct server *server; /* the server lent to `target`; NULL: that one is gone */
	/* whose query is cancelled; only compared, never called. NULL: an ending */
	const struct borrower *target;
	struct dial dial;
	struct stream stream;
	struct timer wait; /* cancel_wait_timeout, until the key is sent */
	struct timer way;  /* server_connect_timeout, from the connection attempt to the end */
	struct task end_task;
	bool is_active; /* has a connection, or is connecting */
	bool is_sent;   /* the key has been sent: it cannot be taken back */
	bool is_ended;
	/* Comes once, from the loop: it was delivered or dropped. The cancel is freed then. */
	void (*on_end)(void *arg);
	void *arg;
	struct farewell farewell; /* the connection of the request, if another process got it */
	struct address address;
	char asker[CANCEL_ASKER_SIZE]; /* where the request came from, for the log */
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

/* Drops all cancels of the pool without calling on_end(); for the end of the process. */
void cancel_drop_all(struct pool *pool);

/* Applies a changed cancel_wait_timeout. */
void cancel_rearm_waiting(struct pool *pool);

/* Starts waiting cancels of the pool as far as its limit allows. */
void cancel_serve(struct pool *pool);

#endif
