/* SPDX-License-Identifier: ISC */
/*
 * causal_reads: a client's read on a standby shows at least what that client has written and read.
 */
#ifndef PGWEIR_CLIENT_RELAY_CAUSAL_PRIV_H
#define PGWEIR_CLIENT_RELAY_CAUSAL_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pool/server/question.h"

#include "../batch_priv.h"
#include "../client_priv.h"

/*
 * ---- course ----
 *
 * The course of a transaction: what a client's messages do to it, before the server has answered.
 */

enum course_block {
	COURSE_UNSURE, /* not known before the server has answered */
	COURSE_CLOSED, /* then no transaction block is open, or one that has failed */
	COURSE_OPEN
};

/* What a statement does, if it succeeds. */
enum course_effect {
	COURSE_ANYTHING, /* also COPY, which takes the next message as data */
	COURSE_NOTHING,  /* to transaction blocks */
	COURSE_OPENS,
	COURSE_CLOSES
};

/* What the messages that were sent do, if they succeed. */
struct course {
	uint8_t block;     /* enum course_block: of the transaction */
	uint8_t statement; /* enum course_effect: of the unnamed statement */
	uint8_t portal;    /* of the unnamed portal */
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

static inline bool causal_is_on(const struct client *client)
{
	return client->borrower.pool->limits.is_causal;
}

/* Only if it is on. Whether the client's next transaction, which is a read, may go to a standby. */
bool causal_may_read(const struct client *client);

/* The client's next transaction begins, in the pool that it is a member of. */
void causal_begin(struct client *client);

/* Frees what there is. */
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

/*
 * The client's server was lost. Whether it owed nothing but its position, which is not known then.
 */
bool causal_ends_without(struct client *client);

/* client->is_position_due, and a frame is about to be noted in the ledger. */
void causal_note(struct client *client, const struct frame *frame, struct bytes in);

/*
 * The same question can be sent with what ends the transaction. Whether this frame does, which has
 * just been noted: then the transaction has ended or failed when the frame is answered.
 */
bool causal_ends(const struct client *client, const struct frame *frame, struct bytes in);
void causal_ask_behind(struct client *client, struct batch *batch);

/* The transaction has ended, and the question was sent already. */
void causal_await(struct client *client);

/* The answer. Returns whether the client may go on with its server. */
bool causal_facts(struct client *client, const struct facts *facts);

#endif
