/* SPDX-License-Identifier: ISC */
/*
 * The listening connections of a pool, internal to the module: listening*.c.
 */
#ifndef PGWEIR_POOL_LISTENING_PRIV_H
#define PGWEIR_POOL_LISTENING_PRIV_H

#include "pgweir/base/table.h"
#include "pgweir/pool/listening.h"

#include "pool_priv.h"

/* The longest NotificationResponse: PostgreSQL accepts payloads of less than 8000 bytes. */
#define NOTIFICATION_MAX ((uint32_t)64 * 1024)

#define MARK_CHANNEL_PREFIX "pgweir_"
#define LISTENING_MARK_CHANNEL_SIZE 48
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
	bool is_active; /* its mark has arrived, */
	bool is_old;    /* and the listener knows */
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
	struct listener *marks;      /* those that expect a mark */
	struct listened *channels;
	struct listened_list stale;
	struct hash_key secret;
	struct buf in;                   /* an incomplete message of the server */
	struct buf text;                 /* of the query; the memory is kept */
	uint64_t sent_count, done_count; /* queries */
	bool is_mark_on;
	bool is_lost;
	bool has_error; /* the server has sent `err` */
	struct err err;
	char mark_channel[LISTENING_MARK_CHANNEL_SIZE];
	char encoding[LISTENING_ENCODING_SIZE];
};

/* ---- listening_channels.c ---- */

void listening_free_channel(struct listening *listening, struct listened *channel);

/* The listener expects no mark any more. */
void listening_forget_mark(struct listener *listener);

/* A mark has come, with this payload. */
void listening_take_mark(struct listening *listening, const char *payload);

/* Hands a notification to all that listen to its channel. */
void listening_spread(struct listening *listening, struct notification *notification);

/* Writes LISTEN and UNLISTEN that are due, and frees the channels that nobody has any more. */
void listening_write_query(struct listening *listening, struct buf *out);

/* ---- listening.c ---- */

/* The listening connection of this borrower. */
struct listening *listening_of(struct borrower *borrower);

/* Makes one that has no server and no listeners. NULL: no memory. */
struct listening *listening_new(struct pool *pool, const char *encoding);

/* At the end of the turn it does what is due. */
void listening_wake(struct listening *listening);

/* Adds a listener that has not joined. */
void listening_enter(struct listening *listening, struct listener *listener);

/* This server, which is SERVER_LENT, is the connection from now on. */
void listening_open(struct listening *listening, struct server *server);

#endif
