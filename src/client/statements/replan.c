/* SPDX-License-Identifier: ISC */
/*
 * "cached plan must not change result type", healed: when nothing of a transaction has
 * run yet the statement is prepared anew, and what the client said is said again.
 *
 * Hard here: to do it only where it cannot be noticed. The Bind must be the first
 * that the server hears since it was idle, the whole batch must be at hand and its Sync
 * be all that is owed (pool/replay.h, ledger_drop_sync()). And the client must
 * ask anew, in the same batch and before it runs the statement, what columns there
 * are: one that trusts what it was told before would take the rows for others. For
 * such a client the error is the truth.
 */
#include "replan_priv.h"

#include "pgweir/pgwire/fields.h"

#include "pgweir/base/banned.h"

static bool read_names(const struct frame *frame, struct bytes in, struct object_names *names)
{
	return in.count >= frame->length &&
	       fields_names(frame->type, frame_body(in, frame), frame->length - FRAME_HEADER_SIZE,
	                    names) == WIRE_OK;
}

/* A Bind of a named statement to a server at which nothing is under way. */
static void begin(const struct server *server, const struct frame *frame, struct bytes in,
                  struct batch *batch)
{
	struct object_names names;

	if (frame->type == 'B' && !batch->is_again && server->status == 'I' &&
	    ledger_is_empty(&server->ledger) && ledger_is_certain(&server->ledger) &&
	    !server->ledger.is_open && !server->ledger.is_skipping &&
	    read_names(frame, in, &names) && *names.statement)
		batch->replay = in.at;
}

/* Right behind the Bind: Describe of its portal. */
static bool is_description(const struct batch *batch, const struct frame *frame, struct bytes in)
{
	const char *portal = batch->replay + FRAME_HEADER_SIZE;
	struct object_names names;

	return frame->type == 'D' && read_names(frame, in, &names) && names.target == 'P' &&
	       strcmp(names.portal, portal) == 0;
}

void replan_watch(struct client *client, const struct frame *frame, struct bytes in,
                  struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (!batch->replay) {
		begin(server, frame, in, batch);
		return;
	}
	if (!batch->is_described) {
		batch->is_described = is_description(batch, frame, in);
		if (!batch->is_described)
			batch->replay = NULL;
		return;
	}
	if (frame->type == 'S' && in.count >= frame->length) {
		replay_keep(
		    &server->replay,
		    bytes_of(batch->replay, (size_t)(in.at + frame->length - batch->replay)));
		batch->replay = NULL;
		batch->is_described = false;
	} else if (!frame_is_extended(frame->type)) {
		batch->replay = NULL;
		batch->is_described = false;
	}
}
