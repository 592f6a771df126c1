/* SPDX-License-Identifier: ISC */
/*
 * What a client keeps that listens or is about to: read and written by the files listening*.c only.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_STATE_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_STATE_PRIV_H

#include "pgweir/base/container_of.h"
#include "pgweir/pool/listening.h"

#include "listening_priv.h"
#include "unread_priv.h"

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

#endif
