/* SPDX-License-Identifier: ISC */
/* The listening connections of a pool, internal to the module: listening*.c. */
#ifndef PGWEIR_POOL_LISTENING_PRIV_H
#define PGWEIR_POOL_LISTENING_PRIV_H

#include "pgweir/base/table.h"
#include "pgweir/pool/listening.h"

#include "pool_priv.h"

/* The longest NotificationResponse: PostgreSQL accepts payloads of less than 8000 bytes. */
#define NOTIFICATION_MAX ((uint32_t)64 * 1024)

#define LISTENING_TEXT_KEEP_MAX 4096 /* bytes of a query's text that are kept for the next one */

#define LISTENING_ENCODING_SIZE 64

/* A channel that clients listen to. */
struct listened {
	UT_hash_handle hh;
	struct subscription_list subscriptions;
	unsigned int count; /* of those */
	TAILQ_ENTRY(listened) stale_node;
	bool is_stale; /* LISTEN, UNLISTEN or neither is due: in `stale` */
	bool is_on;    /* the connection listens to it, or has been asked to */
	uint32_t size;
	char name[];
};
TAILQ_HEAD(listened_list, listened);

/* One listener on one channel. */
struct subscription {
	TAILQ_ENTRY(subscription) node;  /* in its channel */
	TAILQ_ENTRY(subscription) other; /* in its listener */
	struct listener *listener;
	struct listened *channel;
	bool is_leaving; /* listening_set_leaving() */
};

struct listening {
	TAILQ_ENTRY(listening) node; /* in its pool */
	struct pool *pool;
	struct borrower borrower;
	struct server_wish wish;
	const struct params *params; /* of the startup packet */
	struct task task;
	struct listener_list listeners;
	unsigned int listener_count;
	unsigned int rests[LISTENER_RESTS]; /* of them, at the last look of a take-over */
	uint64_t number; /* after a take-over: what the other process has called it; 0: none */
	struct listener_list asking; /* in order of `asked` */
	struct listened *channels;
	struct listened_list stale;
	struct hash_key secret;
	struct buf in;                   /* an incomplete message */
	struct buf text;                 /* of the query; the memory is kept */
	uint64_t sent_count, done_count; /* queries */
	bool is_running;                 /* a query is in progress */
	bool has_error;                  /* the server has sent `err` */
	bool is_lost;
	struct err err; /* why it is lost, or will be */
	char encoding[LISTENING_ENCODING_SIZE];
};

/* ---- listening_channels.c ---- */

/* At the end of the turn it does what is due. */
void listening_wake(struct listening *listening);

/* This server, which is SERVER_LENT, is the connection from now on. */
void listening_open(struct listening *listening, struct server *server);

/* Sends the query. */
void listening_send(struct listening *listening);

/* Closes the server that it has or expects. */
void listening_close(struct listening *listening);

/* At the end of the turn, all listeners get the error: their clients cannot be closed here. */
void listening_fail(struct listening *listening, const struct err *err);

void listening_free_channel(struct listening *listening, struct listened *channel);

/* Hands a notification to all that listen to its channel. */
void listening_spread(struct listening *listening, struct notification *notification);

/*
 * Writes LISTEN and UNLISTEN that are due into `text`, and frees the channels that nobody has any
 * more. false: nothing is due, and nobody asks.
 */
bool listening_write_query(struct listening *listening);

/* ---- listening.c ---- */

/* Adds a listener that has not joined. */
void listening_enter(struct listening *listening, struct listener *listener);

#endif
