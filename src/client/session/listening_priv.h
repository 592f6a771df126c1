/* SPDX-License-Identifier: ISC */
/*
 * LISTEN, UNLISTEN and NOTIFY of a client in transaction mode.
 *
 * The client's statements run on the server lent to it, with all their rules: an error, a ROLLBACK
 * and a ROLLBACK TO undo them. The order of calls:
 *
 *   listening_before()     a message that may touch LISTEN, UNLISTEN or NOTIFY is about to be sent
 *   listening_follow()     the next messages are
 *   listening_takes(), listening_holds()      notifications and ReadyForQuery of the lent server
 *   listening_settle()     the transaction has ended, and the server has answered the question
 *   listening_waits()      the listening connection must deliver first
 *   listening_deliver()    the client is between two transactions
 *
 * LISTEN. Before a text is sent, the pool's listening connection (pool/listening.h) listens to the
 * channels that it names. When the transaction has ended, the lent server says to which it listens:
 * those remain the client's, and the server forgets them. A channel that no text has named (LISTEN
 * in a function or a DO block) stays on that server, and so the server stays with the client.
 *
 * UNLISTEN changes nothing on the lent server that could be asked for. So it is followed as far as
 * texts and tags show what has become of it: it counts if it was executed, and nothing has failed
 * or was rolled back since. In doubt the client goes on to get the notifications.
 *
 * ReadyForQuery. It is not forwarded after a transaction that may have executed LISTEN, nor after
 * one of a client that listens, if it may have executed UNLISTEN or NOTIFY, by a trigger too. The
 * client gets it when all is settled, and the listening connection has delivered what was committed
 * before. So its own notifications come first, as with PostgreSQL. They have the process id of its
 * cancel key.
 *
 * That a function in a SELECT notifies is known from the catalog.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_PRIV_H

#include "../batch_priv.h"
#include "../client_priv.h"
#include "session_priv.h"

struct facts;
struct listener;
struct client_record;

/* How many channels a client may have there. With more, its server stays. */
#define LISTENING_CHANNELS_MAX 10000

/* How many bytes of notifications may wait for a client, with their share of memory. */
#define LISTENING_UNREAD_MAX ((size_t)8 * 1024 * 1024)

/*
 * A message is about to be sent whose statement is executed and may touch these (enum sql_touch).
 * text: "" if it is not known. To be called again after JUDGE_WAIT.
 */
enum judgement listening_before(struct client *client, unsigned int touches, struct bytes text,
                                struct batch *batch);

/* Another message, while listening_is_followed(): waits for ReadyForQuery if it may be withheld. */
enum judgement listening_follow(struct client *client, struct batch *batch);

/* The message was sent, or is not to be sent. */
void listening_sent(struct client *client);

/* Whether the client has channels, or is getting some. */
bool listening_has_any(const struct client *client);

/*
 * A notification of the lent server. false: forward it. true: it is not forwarded; what was added
 * to `instead` is.
 */
bool listening_takes(struct borrower *borrower, struct bytes frame, struct buf *instead);

/* A statement of the lent server is done. */
void listening_see_tag(struct borrower *borrower, struct bytes tag);

/* Whether the ReadyForQuery of the lent server is not forwarded: listening_release() sends it. */
bool listening_holds(struct borrower *borrower);

/*
 * The transaction is settled but for notifications, and its server is at rest. true: the client
 * waits for the listening connection in CLIENT_SETTLING.
 */
bool listening_waits(struct client *client);

/* Sends the notifications that wait, and a ReadyForQuery that was withheld. false: closed. */
bool listening_release(struct client *client);

/* Whether the lent server listens to a channel that no text of the client has named. */
bool listening_is_hidden(const struct client *client, const struct facts *facts);

/*
 * The lent server has answered the question about channels. true: done. false: the client stays in
 * CLIENT_SETTLING; on_settled() comes.
 */
bool listening_settle(struct client *client, const struct facts *facts);

/* The order of listening_settle() is over. */
void listening_order_done(struct client *client);

/* Sends the notifications that wait, if the client is between two transactions. */
void listening_deliver(struct client *client);

/* The connection that it listens with. NULL: none. */
const struct listener *listening_listener(const struct client *client);

/* Whether channels and notifications that wait are all that there is to be handed over. */
bool listening_is_at_rest(const struct client *client);

/* Fills that part of the client's record, if it listens; it borrows the channels from a buffer. */
void listening_write_channels(const struct client *client, struct client_record *values,
                              struct buf *channels);

/* Makes it from the record. CLOSE_NONE: done. */
enum close_reason listening_read(struct client *client, const struct client_record *values);

void listening_free(struct client *client);

static inline bool listening_is_followed(const struct client *client)
{
	return client->touched & LISTENING_HOLDS;
}

/* ---- session_use.c: waiting for a place of max_pinned_servers, with a server ---- */

/*
 * As listening_before(), for a statement that is about to run: first, it may have to wait before it
 * asks for values of sequences, or for a place. Then batch->waits_for is LEDGER_WAIT_PLACE.
 */
enum judgement place_before(struct client *client, unsigned int touches, struct bytes text,
                            struct batch *batch);

/* The client waits for it: its statement is judged again, with a place or without. */
void place_await(struct client *client);

/* on_place() of the borrower. */
void place_given(struct borrower *borrower);

/* A cancel request ends the wait. false: the client does not wait. */
bool place_cancel(struct client *client);

/* As session_rearm(), and for the limit of the wait. */
void place_rearm(struct client *client);

#endif
