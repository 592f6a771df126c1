/* SPDX-License-Identifier: ISC */
/*
 * Late BEGIN: it is answered here, and sent ahead of the first statement after it (late_begin).
 */
#ifndef PGWEIR_CLIENT_RELAY_LATE_BEGIN_PRIV_H
#define PGWEIR_CLIENT_RELAY_LATE_BEGIN_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql_block.h"

/* Size of one struct late_begin (clients.late_slab). */
size_t late_begin_size(void);

enum late_result {
	LATE_PASS,  /* not handled here: a server is needed */
	LATE_MORE,  /* more bytes of the frame are needed */
	LATE_BEGUN, /* a BEGIN, answered here: the client is in CLIENT_LATE */
	/* the end of a transaction without any statement: the client is in CLIENT_IDLE */
	LATE_ENDED,
	LATE_GONE /* the client was closed */
};

/* Handles a Query of a client in CLIENT_IDLE or CLIENT_LATE. */
enum late_result late_begin_judge(struct client *client, const struct frame *frame,
                                  struct bytes in);

/*
 * The client has got a server: adds its BEGIN ahead of its first frame, which has this type. Only
 * if client->late. false: no memory.
 */
bool late_begin_send(struct client *client, char type, struct batch *batch);

/*
 * The first statement after BEGIN was refused here: the transaction has failed. Only in
 * CLIENT_LATE.
 */
void late_begin_fail(struct client *client);

/* What the late BEGIN says, and SET TRANSACTION behind it. Only if client->late. */
const struct sql_block *late_begin_block(const struct client *client);

/* Its texts, each with its zero: REPLAY_OPENING_MAX bytes at most. Only if client->late. */
struct bytes late_begin_texts(const struct client *client);

/*
 * A BEGIN that a lost server has answered becomes late, and so does the SET LOCAL behind it:
 * client->late is set. The caller enters the state. false: no memory.
 */
bool late_begin_again(struct client *client, struct bytes texts);

/* Starts idle_transaction_timeout and transaction_timeout in CLIENT_LATE. */
void late_begin_arm(struct client *client);

/* Drops the late BEGIN: the client is closed, or the transaction has ended. */
void late_begin_forget(struct client *client);

#endif
