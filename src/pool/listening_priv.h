/* SPDX-License-Identifier: ISC */
/* The listening connections of a pool: listening.c, and their hand-over. */
#ifndef PGWEIR_POOL_LISTENING_PRIV_H
#define PGWEIR_POOL_LISTENING_PRIV_H

#include "pgweir/base/table.h"
#include "pgweir/pool/listening.h"

#include "pool_priv.h"

#define LISTENING_LINKS 2

#define MARK_CHANNEL_PREFIX "pgweir_"
#define LISTENING_MARK_CHANNEL_SIZE 48
#define LISTENING_ENCODING_SIZE 64

/* A channel that clients listen to. */
struct listened {
	UT_hash_handle hh;
	struct subscription_list subscriptions;
	TAILQ_ENTRY(listened) stale_node;
	bool is_stale; /* LISTEN, UNLISTEN or neither is due: in `stale` */
	bool is_on;    /* the connection listens to it, or has been asked to */
	uint32_t size;
	char name[];
};
TAILQ_HEAD(listened_list, listened);

/* One listener on one channel: found by both, as either may have many of the other. */
struct subscription {
	UT_hash_handle hh; /* by `of` */
	struct subscription_of {
		struct listener *listener;
		struct listened *channel;
	} of;
	enum subscription_state state;
	TAILQ_ENTRY(subscription) node;  /* in its channel */
	TAILQ_ENTRY(subscription) other; /* in its listener, in the list of its state */
};

/* One server connection of a listening connection, or its place. */
struct listening_link {
	struct listening *listening;
	struct borrower borrower;
	struct server_wish wish;
	bool is_mark_here; /* of the replacement */
};

/*
 * A connection that must be closed, because of RECONNECT or a new configuration, is replaced
 * without a loss. A second one, its successor, executes LISTEN for all channels and sends a mark
 * that both get. Notifications before the mark come from the old one, those after it from the
 * successor. The old one stays in use until then, whatever becomes of its successor. If it does not
 * get the mark, the successor has led to another server or database: the connection is lost.
 */
enum replace_state {
	REPLACE_NONE,
	REPLACE_LATER,  /* the timer says when it is tried again */
	REPLACE_MARK,   /* the successor was asked; no new query until both have the mark */
	REPLACE_PROVING /* the same, and the old one executes a query behind the mark */
};

struct listening_replace {
	enum replace_state state;
	bool is_told; /* the log has that there is no permit */
	char mark[17];
	struct timer timer; /* of REPLACE_MARK and REPLACE_LATER */
};

struct listening {
	TAILQ_ENTRY(listening) node; /* in its pool */
	struct pool *pool;
	struct listening_link links[LISTENING_LINKS];
	struct listening_link *now, *next; /* the connection, and its successor */
	struct listening_replace replace;
	const struct params *params; /* of the startup packet */
	struct task task;
	struct listener_list listeners;
	unsigned int listener_count;
	unsigned int look;       /* the number of the last look of a take-over */
	enum listener_rest rest; /* the worst of theirs, at that look */
	uint64_t number; /* after a take-over: what the other process has called it; 0: none */
	struct listener_list asking; /* in the order of the numbers that they await */
	uint64_t query_number;       /* of the last query that was sent */
	struct listened *channels;
	struct subscription *subscriptions;
	struct listened_list stale;
	struct buf kept; /* notifications that a successor got after its mark */
	bool is_lost;
	struct err err; /* why */
	char mark_channel[LISTENING_MARK_CHANNEL_SIZE];
	char encoding[LISTENING_ENCODING_SIZE];
};

/* The link that must be opened now. NULL: none. */
struct listening_link *listening_wanted_link(struct listening *listening);

/* Adds a listener that has not joined. */
void listening_enter(struct listening *listening, struct listener *listener);

#endif
