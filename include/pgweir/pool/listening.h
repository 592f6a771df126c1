/* SPDX-License-Identifier: ISC */
/*
 * LISTEN for the clients of a pool: one server connection, the listening connection, executes
 * LISTEN for all of them and distributes the notifications.
 *
 *   client --> listener --> subscription --> channel     what a client listens to
 *   PostgreSQL --> listening connection --> channel --> each listener     notifications
 *
 * The connection is opened for the first listener and closed when the last one has left. It counts
 * for max_db_connections and max_user_connections, not for pool_size, and is never lent. The text
 * of notifications depends on client_encoding, so clients with another encoding have a connection
 * of their own.
 *
 * A client that is about to execute LISTEN waits until the connection listens to the channel. So
 * nothing is missed from its LISTEN on.
 *
 * If the connection is lost, all its listeners are: notifications may have been missed.
 */
#ifndef PGWEIR_POOL_LISTENING_H
#define PGWEIR_POOL_LISTENING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/err.h"

/* Whether the owner of a listener can be handed over to another process; the worst is the last. */
enum listener_rest {
	LISTENER_AT_REST,
	LISTENER_ENDS, /* its current work ends without more input */
	LISTENER_WORKS,
	LISTENER_STAYS /* never */
};

struct listened;
struct listener;
struct listening;
struct notification;
struct pool;
struct subscription;
TAILQ_HEAD(subscription_list, subscription);
TAILQ_HEAD(listener_list, listener);
TAILQ_HEAD(listening_list, listening);

/* All are called from the loop, never within a call that the listener makes. */
struct listener_ops {
	/* The connection has executed all that was asked before listening_ask(). */
	void (*on_answer)(struct listener *listener);
	/* Of one of its channels. May end the listener, but no other one. */
	void (*on_notification)(struct listener *listener, const struct notification *notification);
	/* It is lost, or could not be opened. The listener has left, and has no channel. */
	void (*on_lost)(struct listener *listener, const struct err *err);
};

/* What a listener has of a channel. */
enum subscription_state {
	SUBSCRIPTION_NONE,
	SUBSCRIPTION_NEW, /* it may have executed LISTEN, which may be undone */
	SUBSCRIPTION_ON,
	SUBSCRIPTION_LEAVING, /* it has unlistened the channel, and gets what is on its way */
	SUBSCRIPTION_STATES
};

/* One client that listens. Part of the client; zero it before first use, and set `ops`. */
struct listener {
	const struct listener_ops *ops;
	struct listening *listening; /* NULL: it has not joined */
	TAILQ_ENTRY(listener) node;
	struct subscription_list subscriptions[SUBSCRIPTION_STATES]; /* those of each state */
	unsigned int count;                                          /* of all */
	uint64_t awaits; /* the number of the query that answers it; 0: it has not asked */
	TAILQ_ENTRY(listener) ask_node;
};

/* Joins that of this client_encoding, and makes it if there is none. false: no memory. */
bool listening_join(struct listener *listener, struct pool *pool, const char *encoding);

/* Leaves, with all channels. Does nothing if it has not joined. */
void listening_leave(struct listener *listener);

/* SUBSCRIPTION_NONE: it does not have this channel. */
enum subscription_state listening_state(struct listener *listener, struct bytes name);

/*
 * Adds a channel that it does not have, as new, or as SUBSCRIPTION_ON if the connection is known to
 * listen to it. false: no memory.
 */
bool listening_add(struct listener *listener, struct bytes name, enum subscription_state state);

/* Of a channel that it has, or of all. A new one is not SUBSCRIPTION_LEAVING, but stays new. */
void listening_set(struct listener *listener, struct bytes name, enum subscription_state state);
void listening_set_all(struct listener *listener, enum subscription_state state);

/* Removes those in this state. */
void listening_remove(struct listener *listener, enum subscription_state state);

/* Walks its channels: start with NULL. Returns the name; NULL: no more. */
const char *listening_next(const struct listener *listener, const struct subscription **at);

/* on_answer() comes when all that was asked so far is done; once, if it waits already. */
void listening_ask(struct listener *listener);

/* The client_encoding of its connection; "": that of the server. */
const char *listening_encoding(const struct listener *listener);

/* ---- a NotificationResponse of PostgreSQL ---- */

struct notification {
	struct bytes frame;
	uint32_t pid;                  /* of the sender */
	bool is_ascii;                 /* the same bytes in all encodings */
	const char *channel, *payload; /* in `frame` */
};

/* Takes the first frame of `in`. false: there is none, or it is not whole, or broken. */
bool notification_take(struct bytes *in, struct notification *notification);

#endif
