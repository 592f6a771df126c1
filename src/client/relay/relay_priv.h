/* SPDX-License-Identifier: ISC */
/*
 * The functions of the relay for the core (client_states.c), and those its own files share.
 */
#ifndef PGWEIR_CLIENT_RELAY_RELAY_PRIV_H
#define PGWEIR_CLIENT_RELAY_RELAY_PRIV_H

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

#include "../batch_priv.h"
#include "../client_priv.h"
#include "../session/listening_change_priv.h"

/* ---- relay.c: see struct client_state_ops and struct borrower_ops ---- */

bool relay_input(struct client *client, struct bytes in);
void relay_preparing_flushed(struct client *client); /* CLIENT_PREPARING */
void relay_flushed(struct client *client);           /* CLIENT_ACTIVE */

void relay_lent(struct borrower *borrower); /* not for a client that logs in */
bool relay_bytes(struct borrower *borrower, struct bytes bytes);
void relay_ready(struct borrower *borrower, char status, bool is_settled);
void relay_deallocated(struct borrower *borrower);
void relay_retry(struct borrower *borrower, struct bytes messages);
void relay_settled(struct client *client);
void relay_idle_flushed(struct client *client);
bool relay_holds_ready(struct borrower *borrower);
bool relay_takes_parameter(struct borrower *borrower, const char *name, const char *value,
                           struct buf *instead);
void relay_before_ready(struct borrower *borrower, struct buf *ahead);
bool relay_takes_notification(struct borrower *borrower, struct bytes frame, struct buf *instead);
void relay_answer(struct borrower *borrower, enum errand_kind errand, const struct facts *facts);
void relay_writable(struct borrower *borrower);

/* ---- relay_server.c ---- */

/* A batch begins: this is the first message after the last batch was answered in full. */
void relay_begin_batch(struct client *client);

/* The batch was answered in full. `status` is that of the ReadyForQuery. */
void relay_end_batch(struct client *client, char status);

/*
 * A frame needs a server. true: the client has one that is ready; false: the client waits for one.
 */
bool relay_get_server(struct client *client);

/*
 * Returns the server if neither side owes the other anything; the client continues without one, or
 * when its server has answered what the transaction has left in the session. false: it keeps the
 * server.
 */
bool relay_give_back(struct client *client);

/* The client's server was lost when it owed nothing of the session: it continues without one. */
void relay_go_on_without(struct client *client);

/* The client's parameters become those that were changed on its server. */
void relay_take_params(struct client *client);

/*
 * The client's parameters are set on its server. What PostgreSQL spells in another way than the
 * client did, it is told. false: the client was closed.
 */
bool relay_respell_params(struct client *client);

/* Cancels in CLIENT_WAITING: the request is answered with an error here. */
bool relay_cancel_waiting(struct client *client);

/*
 * Whether the client keeps its server until it disconnects. After a change of pool_mode, a
 * transaction that listens or notifies is settled first, as it was begun.
 */
static inline bool relay_is_session(const struct client *client)
{
	return client->replication || (client->borrower.pool->limits.mode == POOL_MODE_SESSION &&
	                               !(client->touched & LISTENING_HOLDS));
}

/* ---- slow.c ---- */

/*
 * Notes the start of a batch: `in` has the header of the frame, and its body as far as it has
 * arrived.
 */
void slow_note(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The batch was answered in full. is_kept: SHOW may display its text until the next batch begins.
 */
void slow_end(struct client *client, usec_t duration, bool is_kept);

/* The batch will not be answered. */
void slow_forget(struct client *client);

/*
 * ---- judge.c ----
 *
 * The interface between the relay and judge.c, which decides what to do with client messages.
 */

enum judgement {
	JUDGE_SEND, /* send it to the server */
	JUDGE_DROP, /* drop it */
	JUDGE_MORE, /* more bytes of the frame are needed */
	/*
	 * cannot be handled now: it stays in the input buffer. With a server: until batch.waits_for
	 */
	JUDGE_WAIT,
	JUDGE_LEAVE, /* the client has sent Terminate */
	JUDGE_END    /* the client was refused or closed */
};

/*
 * Handles frames until one of them stops it, and collects in `batch` what must be sent. Advances
 * *in to the rest.
 */
enum judgement judge_all(struct client *client, struct bytes *in, struct batch *batch);

/*
 * ---- route.c ----
 *
 * With route_reads: which transactions are reads, that a standby can serve.
 */

/*
 * Whether what begins with this frame can be served by a standby. WIRE_MORE: more bytes of it are
 * needed.
 */
enum wire_result route_judge(const struct client *client, const struct frame *frame,
                             struct bytes in, bool *is_read_on_standby);

/*
 * A client without a server is about to ask for one, with this frame as its first. Makes it a
 * member of the pool that serves it. false: more bytes of the frame are needed.
 */
bool route_client(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The text of a whole frame: of a Query, of a Parse, or of the named statement of a Bind. false: it
 * is not known.
 */
bool route_frame_text(const struct client *client, const struct frame *frame, struct bytes in,
                      struct bytes *text);

/* Whether the client has a server on a standby, and is routed again after this transaction. */
bool route_is_for_now(const struct client *client);

/*
 * ---- resend.c ----
 *
 * Resend: what a server was sent and has certainly not run is sent to another one.
 */

/* Input that may be sent again, and what precedes it: replay.h. */
struct resend {
	bool is_first;        /* in its transaction, but for the opening */
	bool has_begun;       /* that was answered by the server */
	bool is_more;         /* of what the server has not answered yet */
	struct bytes opening; /* its texts; empty: none */
	const struct server *server;
	struct replay before; /* of that server, if there is one; borrowed */
	char late[REPLAY_OPENING_MAX];
};

/* Before input of a client with CLIENT_HAS_HOSTS is judged. */
void resend_begin(struct client *client, struct resend *resend);

/* Input that has gone behind the cleaning of a server that the client has just got. */
void resend_begin_behind(struct client *client, struct resend *resend);

/*
 * Some of such input was judged and sent as it is, and has no reply yet; or nothing of it was
 * handled, because more must be received. Keeps it, if it can be sent again. late: the text of a
 * BEGIN in it that was answered here; empty: none.
 */
void resend_keep(struct client *client, const struct resend *resend, struct bytes input,
                 struct bytes late);

/* on_unrun() of the borrower. */
void resend_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun);

/* wants_writer() of the borrower. */
bool resend_wants_writer(struct borrower *borrower, const struct replay *kept, const char *words);

#endif
