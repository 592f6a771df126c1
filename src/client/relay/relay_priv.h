/* SPDX-License-Identifier: ISC */
/*
 * The functions of the relay for the core (clients.c), and those its own files share.
 */
#ifndef PGWEIR_CLIENT_RELAY_RELAY_PRIV_H
#define PGWEIR_CLIENT_RELAY_RELAY_PRIV_H

#include "pgweir/pgwire/sql_digest.h"

#include "../session/session_priv.h"

/* ---- relay.c: see struct client_state_ops and struct borrower_ops ---- */

bool relay_input(struct client *client, struct bytes in);
void relay_flushed(struct client *client); /* CLIENT_ACTIVE */

void relay_lent(struct borrower *borrower); /* not for a client that logs in */
bool relay_bytes(struct borrower *borrower, struct bytes bytes);
void relay_ready(struct borrower *borrower, char status, bool is_settled);
void relay_retry(struct borrower *borrower, struct bytes messages);
void relay_settled(struct client *client);
void relay_idle_flushed(struct client *client);
void relay_answer(struct borrower *borrower, enum order_kind order, const struct facts *facts);
void relay_writable(struct borrower *borrower);

/* A batch begins: this is the first message after the last batch was answered in full. */
void relay_begin_batch(struct client *client);

/* The batch was answered in full. `status` is that of the ReadyForQuery. */
void relay_end_batch(struct client *client, char status);

/*
 * A frame needs a server. true: the client has one that is ready. false: it waits for one; or its
 * state is what it was, and *err says why it gets none.
 */
bool relay_get_server(struct client *client, struct err *err);

/*
 * Whether an error ends only this message, which no server has got, and not the connection: the
 * wait queue is too long, and a client that connected again would only cost more. If the message
 * begins a transaction, that has begun then, and failed: client->late is set.
 */
bool relay_fails_alone(struct client *client, const struct frame *frame, struct bytes in,
                       const struct err *err);

/* A client that waits for a server gets none. */
void relay_refused(struct borrower *borrower, const struct err *err);

/* judge.c: the error of a statement that has waited for a place for too long. */
void relay_lacks_place(const struct client *client, const struct frame *frame, struct bytes in,
                       struct err *err);

/* A statement has waited for a place for too long. false: the client must be closed. */
bool relay_refuse_place(struct client *client);

/* The client's server was lost when it owed nothing of the session: it continues without one. */
void relay_go_on_without(struct client *client);

/*
 * A message that no server has got fails, which is answered here (JUDGE_DROP). JUDGE_END: the
 * client was closed.
 */
enum judgement relay_fail(struct client *client, const struct frame *frame, struct bytes in,
                          const struct err *err, struct batch *batch);

/* Cancels in CLIENT_WAITING: the request is answered with an error here. */
bool relay_cancel_waiting(struct client *client);

/* ---- track.c: slow ---- */

/* A batch begins: `in` has the header of the frame, and what has arrived of its body. */
void slow_note(struct client *client, const struct frame *frame, struct bytes in);

/* The batch was answered. is_kept: SHOW may display its text until the next batch begins. */
void slow_end(struct client *client, usec_t duration, bool is_kept);

/* The batch will not be answered. */
void slow_forget(struct client *client);

/* ---- track.c: what a message says ---- */

struct said {
	char type;
	bool is_whole;              /* all of it has been received */
	const char *name, *portal;  /* as fields_names(); NULL also: not received */
	struct bytes text;          /* as fields_sql(), or of `prepared`; at NULL: not known */
	struct statement *prepared; /* the client's, which a Bind names; or NULL */
};

struct said said_read(const struct client *client, const struct frame *frame, struct bytes in);

/* ---- judge.c: what to do with each message of a client ---- */

/*
 * Handles frames until one of them stops it, and collects in `batch` what must be sent. Advances
 * *in to the rest.
 */
enum judgement judge_all(struct client *client, struct bytes *in, struct batch *batch);

/* ---- causal.c: with route_reads, which transactions are reads ---- */

/* Whether a standby can serve what begins with these frames. WIRE_MORE: more is needed. */
enum wire_result route_judge(const struct client *client, struct bytes in,
                             bool *is_read_on_standby);

/*
 * A client without a server is about to ask for one, with these frames. Makes it a member of the
 * pool that serves it. false: more bytes are needed.
 */
bool route_client(struct client *client, struct bytes in);

/* Whether the client has a server on a standby, and is routed again after this transaction. */
bool route_is_for_now(const struct client *client);

/* ---- late_begin.c: what a server has certainly not run is sent to another one ---- */

/* Before input of a client with CLIENT_HAS_HOSTS is judged. false: it is not to be kept. */
bool resend_begin(struct client *client);

/*
 * Such input, or some that has gone behind the cleaning of a server, was judged and sent as it is:
 * keeps it, if it can be sent again. It is empty if nothing of it was handled, because more must be
 * received.
 */
void resend_keep(struct client *client, struct bytes input, bool may_keep, bool is_one_write);

/* on_unrun() of the borrower. */
void resend_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun);

/* wants_writer() of the borrower. */
bool resend_wants_writer(struct borrower *borrower, const struct replay *kept, const char *words);

/* ---- late_begin.c: BEGIN is answered here, and sent ahead of what comes behind it ---- */

struct late_begin {
	usec_t answered_at;
	bool has_failed;                /* the statement after it was refused here */
	uint16_t size;                  /* of `texts` */
	char texts[REPLAY_OPENING_MAX]; /* each with its zero; a longer BEGIN is not late */
};

/*
 * Handles a Query of a client in CLIENT_IDLE or CLIENT_LATE. JUDGE_SEND: a server is needed.
 * JUDGE_DROP: it was answered here, a BEGIN if the client is in CLIENT_LATE now, else the end of a
 * transaction without a statement.
 */
enum judgement late_begin_judge(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The client has got a server: adds its BEGIN ahead of its first frame, which has this type. Only
 * if client->late. false: no memory.
 */
bool late_begin_send(struct client *client, char type, struct batch *batch);

/* The first statement after BEGIN was refused here. Only in CLIENT_LATE. */
void late_begin_fail(struct client *client);

/*
 * A BEGIN that a lost server has answered becomes late, and so does the SET LOCAL behind it:
 * client->late is set. The caller enters the state. false: no memory.
 */
bool late_begin_again(struct client *client, struct bytes texts);

/*
 * The same for a text that begins with a BEGIN, and has failed before a server got it. The caller
 * calls late_begin_fail(). false: it does not, and nothing has changed.
 */
bool late_begin_in_vain(struct client *client, struct bytes text);

/* What the texts of an opening say together, but for their kind. */
struct sql_block late_begin_read(struct bytes texts);

/* Starts idle_transaction_timeout and transaction_timeout in CLIENT_LATE. */
void late_begin_arm(struct client *client);

/* Drops the late BEGIN: the client is closed, or the transaction has ended. */
void late_begin_forget(struct client *client);

/*
 * ---- causal.c: a read on a standby shows at least what its client has written and read ----
 *
 * The course of a transaction is what a client's messages do to it, before they are answered.
 */

enum course_block {
	/* not known before the server has answered; also behind COPY, which takes data */
	COURSE_UNSURE,
	COURSE_CLOSED, /* then no transaction block is open, or one that has failed */
	COURSE_OPEN,
	COURSE_SAME /* behind a statement: as before */
};

struct course {
	uint8_t block;     /* enum course_block: of the transaction */
	uint8_t statement; /* behind the unnamed statement, if it succeeds */
	uint8_t portal;    /* behind the unnamed portal */
};

/* All messages were answered, and the server has said whether a transaction block is open. */
void course_begin(struct course *course, bool is_open);

/*
 * A message is about to be sent. text: of a Query, of a Parse, and of the named statement of a
 * Bind; `at` is NULL if it is not known.
 */
void course_note(struct course *course, const struct frame *frame, struct bytes in,
                 struct bytes text);

#define CAUSAL_NOT_KNOWN UINT64_MAX

/* What only clients with causal_reads have, from their first transaction on. */
struct causal {
	uint64_t position;  /* in the WAL, up to where the client has written and read; or 0 */
	usec_t position_at; /* when that was found out, */
	uint32_t timeline;  /* and the newest timeline then */
	/*
	 * The standby where it has read since, if that was not asked behind the read: when that
	 * PostgreSQL was started, which tells it from others; 0: `position` is all.
	 */
	uint64_t seen_on;
	usec_t seen_since; /* when the last such read began */
	usec_t began_at;   /* when the current read on a standby began */
	struct course course;
};

/* Only if it is on. Whether the client's next transaction, which is a read, may go to a standby. */
bool causal_may_read(const struct client *client);

/* The client's next transaction begins, in the pool that it is a member of. */
void causal_begin(struct client *client);

void causal_free(struct client *client);

/* Whether that server is known to show what the client has seen, if that was on a standby. */
bool causal_suits(const struct borrower *borrower, const struct server *server);

/*
 * The client was lent a server. false: the client is in CLIENT_CATCHING_UP, until its server has
 * replayed enough, or until the primary serves it; or there was no memory, and it was refused.
 */
bool causal_is_caught_up(struct client *client);

/* The server was lost in CLIENT_CATCHING_UP: the primary serves the read. */
void causal_lost(struct client *client);

/*
 * The transaction has ended, and client->is_position_due. Whether there is no need to ask the
 * server for its position. If there is, causal_ask() does.
 */
bool causal_ends_unasked(struct client *client);
void causal_ask(struct client *client);

/* Whether the client's server owes nothing but its position. */
bool causal_needs_no_server(const struct client *client);

/* That was lost: it is not known. No effect if it is not due. */
void causal_ends_without(struct client *client);

/* client->is_position_due, and a frame is about to be noted in the ledger. */
void causal_note(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The same question can be sent with what ends the transaction. Whether this frame does, which has
 * just been noted: then the transaction has ended or failed when the frame is answered.
 */
bool causal_ends(const struct client *client, const struct frame *frame, struct bytes in);
void causal_ask_behind(struct client *client, struct batch *batch);

/* The answer. Returns whether the client may go on with its server. */
bool causal_facts(struct client *client, const struct facts *facts);

/* ---- track.c: each request that executes a statement is a call in clients->calls ---- */

/*
 * Whether [statements] has no objection to a Query, Parse or Execute. If the client has a server,
 * an execution counts there. *digest: of what it executes or prepares; 0: it is found out.
 */
bool track_allows(struct client *client, const struct frame *frame, struct bytes in,
                  uint64_t *digest, struct err *err);

/* A frame was noted in the server's ledger, and is being sent. digest: if it is known. */
void track_frame(struct client *client, const struct frame *frame, struct bytes in,
                 uint64_t digest);

/* Of a client with a server: its time limits, while the server is lent. */
void track_set_times(struct client *client);

/* In CLIENT_ACTIVE: [statements] or time limits may have changed. */
void track_rearm(struct client *client);

/* The client's query begins on its server. */
static inline void relay_begin_query(struct client *client, usec_t since)
{
	if (client_features(client) & CLIENT_IS_TRACKED)
		track_set_times(client);
	server_begin_query(client->borrower.server, since, client->xact_at);
}

/* A Query was answered here: a BEGIN that is late, or the end of its transaction. */
void track_answered(struct client *client, const struct frame *frame, struct bytes in);

/* See on_call() of struct borrower_ops. */
void track_call(struct borrower *borrower, const struct ledger_call *call,
                const struct server_call_end *end);

void track_free(struct client *client);

/* The digest of the first statement of the client's batch. 0: not tracked. */
uint64_t track_batch_digest(const struct client *client);

#endif
