/* SPDX-License-Identifier: ISC */
/*
 * What a client keeps that listens or is about to: read and written by the files listening*.c only.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_STATE_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_STATE_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pool/listening.h"

#include "listening_change_priv.h"

/*
 * ---- notifications that wait ----
 *
 * Notifications that a client has not got yet, in order. A zeroed queue is empty and owns nothing.
 */

struct notification;

/* is_own: the client itself has sent it, so it has the process id of the client's cancel key. */
struct unread {
	struct notification **ring; /* the lowest bit of a pointer: is_own */
	size_t at, count, capacity;
	size_t bytes; /* with the pointers */
};

/* Adds one at the end, and holds it. false: no memory. */
bool unread_add(struct unread *unread, struct notification *notification, bool is_own);

/* Looks at an entry: 0 is the oldest. It is borrowed. */
struct notification *unread_look_at(const struct unread *unread, size_t index, bool *is_own);

/* Moves the oldest `count` entries of `from` to the end of `to`. false: no memory for some. */
bool unread_move(struct unread *from, struct unread *to, size_t count);

void unread_done(struct unread *unread);

struct unlisten;
struct ahead;
TAILQ_HEAD(unlisten_list, unlisten);
TAILQ_HEAD(ahead_list, ahead);

/* What the client waits for. */
enum listening_step {
	STEP_NONE,
	/* a NOTIFY or UNLISTEN: the listening connection delivers what was committed before it */
	STEP_BEFORE,
	STEP_AFTER,   /* the end of its transaction: the same again */
	STEP_HOME,    /* its server begins to listen, and the mark comes on both connections */
	STEP_LEAVE,   /* the same; the server stops to listen to the mark */
	STEP_CONNECT, /* the listening connection gets the new channels */
	STEP_MARK,    /* the mark, on both connections */
	STEP_CLEAN    /* only UNLISTEN * on the lent server */
};

struct client_listening {
	struct listener listener;
	struct client *client;
	enum listening_step step;
	struct timer timer;             /* from STEP_CONNECT on */
	char mark[LISTENING_MARK_SIZE]; /* in STEP_MARK */
	bool had_channels;              /* before those that are being settled */
	bool may_notify;                /* the transaction may have notified the client itself */
	bool is_withheld;               /* the ReadyForQuery of the transaction, */
	bool is_server_done; /* in STEP_MARK: the lent server listens to nothing any more */
	bool is_mark_here;   /* the mark has come from the lent server, */
	bool is_mark_there;  /* and from the listening connection */
	bool is_clear;       /* STEP_BEFORE is over for this server, */
	bool is_caught_up;   /* and for the transaction that unlistens */
	uint32_t own_pid;    /* notifications of this process are the client's own; 0: none are */
	unsigned int number; /* of the last unlisten */
	struct unlisten_list unlistens;
	unsigned int unlisten_count;
	bool is_ahead; /* what goes ahead of the frame was added, and the frame is not sent yet */
	struct ahead_list aheads;
	bool is_discarding;   /* DISCARD ALL was sent in this transaction, */
	bool is_discarded;    /* and has run */
	struct buf ahead;     /* goes ahead of the text of the batch in progress */
	struct unread unread; /* notifications to be sent */
	size_t sure_count;    /* of those: came before UNLISTEN, which does not take them back */
	/*
	 * those of the lent server since the last transaction began, which are not sent yet because
	 * others may come before them
	 */
	struct unread lent;
	size_t early_count;    /* in STEP_MARK: how many in `unread` came before the mark */
	bool is_lent_complete; /* `lent` has what came for all channels of the client */
};

static inline struct client *listening_client(struct listener *listener)
{
	return container_of(listener, struct client_listening, listener)->client;
}

/* The process id that begins a cancel key. */
static inline uint32_t listening_pid(struct bytes key)
{
	return key.count >= 4 ? load_be32(key.at) : 0;
}

static inline uint32_t listening_server_pid(const struct server *server)
{
	return listening_pid(bytes_of(server->key, server->key_size));
}

/* The client's message waits for its server's ledger. */
static inline enum listening_go listening_wait(struct batch *batch, enum ledger_wait wait)
{
	batch->waits_for = wait;
	return LISTENING_WAIT;
}

/* The client_encoding of these parameters; "": that of the server. */
const char *listening_encoding_of(const struct params *params);

/* Whether this channel is for marks of the client's listening connection. */
bool listening_is_ours(const struct client_listening *listening, const char *name);

/*
 * ---- lists of channels ----
 *
 * Those that a server listens to, as its facts say, and those of a text.
 */

/* The channels that a server listens to, in order. The names are borrowed. */
struct listening_names {
	const char **list;
	size_t count;
};

/* Reads name\0name\0... false: no memory; free it in any case. */
bool listening_names_read(struct listening_names *names, struct bytes channels);

bool listening_names_have(const struct listening_names *names, const char *name);

void listening_names_free(struct listening_names *names);

/* Whether name\0name\0... has this one. */
bool listening_names_of_text(struct bytes list, struct bytes name);

/*
 * ---- listening_change.c ----
 *
 * The change of a client's channels from the server lent to it to the listening connection, and
 * back to a server of its own in session mode. Both are made at a mark, so nothing is lost and
 * nothing comes twice.
 */

/* What the client keeps, made if it has none. NULL: no memory. */
struct client_listening *listening_change_get(struct client *client);

/*
 * ---- listening_deliver.c ----
 *
 * Delivery of notifications to a client: from the listening connection, and from the server lent to
 * it while that listens. What cannot be sent yet is kept, in order.
 */

/* One of the listening connection: see struct listener_ops. */
void listening_deliver_notification(struct listener *listener, struct notification *notification);

/* Sends all that wait. false: the client is closed, and its `listening` is freed. */
bool listening_deliver_all(struct client *client);

/* Without channels, and without notifications to be sent, it needs no listening connection. */
void listening_deliver_leave(struct client_listening *listening);

/*
 * Drops those of channels that the client does not have any more, but for the first ones that are
 * sure. false: no memory.
 */
bool listening_deliver_drop(struct client_listening *listening);

/*
 * Both connections have delivered what came before the mark: puts that in order, and drops what
 * came on both. false: no memory.
 */
bool listening_deliver_merge(struct client_listening *listening);

/* Adds a notification that the client itself has sent, with the process id of its cancel key. */
void listening_deliver_add_own(const struct client *client, const struct notification *notification,
                               struct buf *out);

/*
 * ---- listening_unlisten.c ----
 *
 * UNLISTEN: finds out which channels a transaction has unlistened. listening_change_priv.h has the
 * rules.
 */

/* A message of a client that listens is about to be sent: see listening_before(). */
enum listening_go listening_unlisten_before(struct client *client, char type, unsigned int touches,
                                            struct bytes text, struct batch *batch);

/* Adds the second mark, if it is due: see listening_follow(). */
enum listening_go listening_unlisten_follow(struct client *client, char type, struct batch *batch);

/*
 * The transaction has ended, and its server listens to these: removes the client's channels that it
 * has unlistened, and what waits of them. false: no memory.
 */
bool listening_unlisten_judge(struct client_listening *listening,
                              const struct listening_names *names);

/* Frees what is kept for the transaction. The ledger may still own a part of it. */
void listening_unlisten_free(struct client_listening *listening);

#endif
