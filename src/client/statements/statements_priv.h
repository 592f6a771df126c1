/* SPDX-License-Identifier: ISC */
/*
 * Statements: the one interface between the relay and all that is done for prepared statements.
 *
 *   prepared.c   named ones of the protocol          names.c    a client's names for them
 *   unnamed.c    the unnamed one                     inject.c   what a server is sent for them
 *   sql.c        PREPARE, EXECUTE, DEALLOCATE        replan.c   "cached plan must not change ..."
 *   whole.c      which messages must be complete
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_STATEMENTS_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_STATEMENTS_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/clients.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql.h"

enum statements_result {
	STATEMENTS_PASS, /* goes on as it is, and has not been noted */
	STATEMENTS_HEAD, /* noted; the first *head bytes are replaced in `batch`, the rest goes on
	                  */
	STATEMENTS_DROP, /* noted; nothing of the frame itself goes on */
	STATEMENTS_MORE, /* more of the frame is needed */
	STATEMENTS_WAIT, /* the server has to answer a Sync before */
	STATEMENTS_WAIT_EMPTY, /* the server has to answer all before */
	STATEMENTS_END         /* no memory */
};

/* Whether this client's statements are followed. */
bool statements_follow(const struct client *client);

/*
 * Whether a frame of such a client, of which a part has come, must be complete before it is
 * judged. Needs no server.
 */
bool statements_need_more(const struct client *client, const struct frame *frame, struct bytes in);

/*
 * Whether a frame of which `seen` bytes were not enough need not be looked at again, now that
 * there are `count` of `length`: when there are twice as many, or all. So a message that
 * comes byte by byte costs no more than some walks through it.
 */
static inline bool statements_can_wait(uint32_t seen, size_t count, uint32_t length)
{
	return seen && count < length && count / 2 < seen;
}

/*
 * Judges a frame of such a client, which has a server. in: what has come of the frame, and behind
 * it. *head: see STATEMENTS_HEAD.
 */
enum statements_result statements_judge(struct client *client, const struct frame *frame,
                                        struct bytes in, struct batch *batch, size_t *head);

/*
 * Whether statements_judge() could do more with a frame than pass it: not with one that names no
 * statement and cannot begin with PREPARE, EXECUTE or DEALLOCATE, where nothing is kept that it
 * would end.
 */
static inline bool statements_concern(const struct client *client, const struct frame *frame,
                                      struct bytes in, const struct batch *batch)
{
	size_t count = frame->length < in.count ? frame->length : in.count;

	if (batch->replay || client->borrower.server->replay.count)
		return true;
	switch (frame->type) {
	case 'P':
	case 'B':
	case 'D':
	case 'C':
		return true;
	case 'E':
		return client->sql;
	case 'Q':
		return client->sql || !sql_is_other(bytes_of(in.at + FRAME_HEADER_SIZE,
		                                             count - FRAME_HEADER_SIZE));
	default:
		return false;
	}
}

/* A Query goes to the server, which drops its unnamed statement. */
void statements_drop_unnamed(struct client *client, struct batch *batch);

/* A Query was answered here: PostgreSQL would drop the unnamed statement. */
void statements_forget_unnamed(struct client *client, struct batch *batch);

/* What was read has been judged and sent: an unnamed statement that was not bound yet is kept. */
void statements_keep_unnamed(struct client *client, const struct batch *batch);

static inline void statements_keep(struct client *client, const struct batch *batch)
{
	if (batch->unnamed.count)
		statements_keep_unnamed(client, batch);
}

/* The server is given back. */
void statements_leave(struct client *client);

static inline void statements_leave_server(struct client *client)
{
	if (client->unnamed || client->sql)
		statements_leave(client);
}

/* The server has dropped all of its statements: DISCARD ALL, DEALLOCATE ALL. */
void statements_deallocated(struct client *client);

/* Frees all; the ledger has settled what was under way. */
void statements_free(struct client *client);

/* The SQL text of a statement that the client has prepared by this name; NULL: none. */
const char *statements_text(const struct client *client, const char *name);

#endif
