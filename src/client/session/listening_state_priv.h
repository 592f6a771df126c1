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
 * What the client waits for.
 *
 *   NONE --> BEFORE   a text may LISTEN, or notify the client itself: see listening_before()
 *   NONE --> CLEAN    the transaction has ended: the lent server forgets its channels
 *   NONE --> AFTER    the same: the listening connection delivers what was committed before
 *
 * From each of them back to NONE, by the answer of the connection that it waits for.
 */
enum listening_step { STEP_NONE, STEP_BEFORE, STEP_CLEAN, STEP_AFTER };

/* What the transaction has unlistened, if it is committed as a whole: listening_change.c. */
struct unlisten {
	unsigned int count; /* of UNLISTEN and DISCARD ALL; 0: there is none */
	bool is_all;
	struct buf named;    /* name\0 */
	unsigned int before; /* unlisten_count, */
	unsigned int errors; /* and error_count of the server before it */
};

struct client_listening {
	struct listener listener;
	struct client *client;
	enum listening_step step;
	struct timer timer; /* of STEP_BEFORE and STEP_AFTER */
	bool may_notify;    /* the transaction may have notified the client itself */
	bool is_withheld;   /* the ReadyForQuery of the transaction */
	bool is_noted;      /* the text that is about to be sent */
	bool has_new;       /* the listening connection was not asked yet about all channels */
	/*
	 * Notifications of this process are the client's own. 0: none are, as some of the server's
	 * former borrower may still come.
	 */
	uint32_t own_pid;
	struct buf added; /* channels that the transaction may have begun to listen to: name\0 */
	struct unlisten unlisten;
	bool has_leaving; /* it has unlistened some, which are removed at the end of STEP_AFTER */
	/* notifications to be sent, in order; its own ones have the process id of its cancel key */
	struct buf unread;
	bool has_letters; /* of them: not all are the same in each encoding */
};

/* The client_encoding of these parameters; "": that of the server. */
static inline const char *listening_encoding_of(const struct params *params)
{
	const char *value = params_find(params, "client_encoding");

	return value ? value : "";
}

/* The process id that begins a cancel key. */
static inline uint32_t listening_pid(struct bytes key)
{
	return key.count >= 4 ? load_be32(key.at) : 0;
}

static inline uint32_t listening_server_pid(const struct server *server)
{
	return listening_pid(bytes_of(server->key.bytes, server->key.size));
}

/*
 * ---- listening_change.c ----
 *
 * Which channels the client listens to, and what it waits for.
 */

/* What the client keeps, made if it has none. NULL: no memory. */
struct client_listening *listening_change_get(struct client *client);

/*
 * ---- listening_deliver.c ----
 *
 * Delivery of notifications to a client. What cannot be sent yet is kept, in order.
 */

/* One of the listening connection: see struct listener_ops. */
void listening_deliver_notification(struct listener *listener,
                                    const struct notification *notification);

/* Adds one to those that wait. */
void listening_deliver_keep(struct client_listening *listening,
                            const struct notification *notification);

/* Takes the next one from the bytes of those that wait. false: there is none. */
bool listening_deliver_next(struct bytes *unread, struct notification *notification);

/* Sends all that wait. false: the client is closed, and its `listening` is freed. */
bool listening_deliver_all(struct client *client);

/* Without channels, and without notifications to be sent, it needs no listening connection. */
void listening_deliver_leave(struct client_listening *listening);

/*
 * Drops those of channels that the client does not have, and its own ones of those that it leaves.
 * false: no memory.
 */
bool listening_deliver_drop(struct client_listening *listening);

#endif
