/* SPDX-License-Identifier: ISC */
/*
 * BEGIN answered here, and sent in front of the first statement behind it (late_begin).
 */
#ifndef PGWEIR_CLIENT_RELAY_LATE_BEGIN_PRIV_H
#define PGWEIR_CLIENT_RELAY_LATE_BEGIN_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

/* Bytes of one BEGIN that is late (clients.late_slab). */
size_t late_begin_size(void);

enum late_result {
	LATE_PASS,  /* none of ours: it needs a server */
	LATE_MORE,  /* the rest of it must come before */
	LATE_BEGUN, /* it was a BEGIN, and has been answered: the client is in CLIENT_LATE */
	LATE_ENDED, /* it ended a transaction of which nothing else was said: CLIENT_IDLE */
	LATE_GONE   /* the client is closed */
};

/* Judges a Query of a client in CLIENT_IDLE or CLIENT_LATE. */
enum late_result late_begin_judge(struct client *client, const struct frame *frame,
                                  struct bytes in);

/*
 * The client has a server: its BEGIN goes in front of its first frame, which is of this
 * type. Not for a client without one (client->late). false: no memory.
 */
bool late_begin_send(struct client *client, char type, struct batch *batch);

/* The first statement behind BEGIN was refused here: the transaction has failed. CLIENT_LATE. */
void late_begin_fail(struct client *client);

/* idle_transaction_timeout and transaction_timeout, in CLIENT_LATE. */
void late_begin_arm(struct client *client);

/* Nothing is late any more: the client goes, or has ended the transaction. */
void late_begin_forget(struct client *client);

#endif
