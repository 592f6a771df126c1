/* SPDX-License-Identifier: ISC */
/*
 * Replan: after "cached plan must not change result type", the statement is prepared again
 * and the client's messages are sent again, if nothing of a transaction has run yet.
 *
 * Hard here: the client must not notice it. So the Bind must be the first message to an
 * idle server, the whole batch must have been received, and its Sync must be the only one
 * that is owed (pool/server/replay.h, ledger_drop_sync()). Also the client must ask for the
 * columns again, with a Describe between Bind and Execute: a client that relies on an
 * earlier description would misread the rows. And it must not have given a format for each
 * column, as there may be another number of them now. Such a client gets the error.
 */
#include "replan_priv.h"

#include "pgweir/pgwire/fields.h"

static bool read_names(const struct frame *frame, struct bytes in, struct object_names *names)
{
	return in.count >= frame->length &&
	       fields_names(frame->type, frame_body(in, frame), frame->length - FRAME_HEADER_SIZE,
	                    names) == WIRE_OK;
}

/* Whether the Bind fits any number of result columns. */
static bool fits_any_columns(const struct frame *frame, struct bytes in)
{
	struct bind_fields bind;

	return fields_bind(frame_body(in, frame), &bind) == WIRE_OK &&
	       bind.result_format_count <= 1;
}

/* Begins a replay with a Bind of a named statement, if the server is idle and owes nothing. */
static void begin_replay(const struct server *server, const struct frame *frame, struct bytes in,
                         struct batch *batch)
{
	struct object_names names;

	if (frame->type == 'B' && !batch->is_again && server->status == 'I' &&
	    ledger_is_empty(&server->ledger) && ledger_is_certain(&server->ledger) &&
	    !server->ledger.is_open && !server->ledger.is_skipping &&
	    read_names(frame, in, &names) && *names.statement && fits_any_columns(frame, in))
		batch->replay = in.at;
}

/* Whether this is a Describe of the Bind's portal. It must follow the Bind directly. */
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
		begin_replay(server, frame, in, batch);
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
		server->replay.may_replan = true;
		batch->replay = NULL;
		batch->is_described = false;
	} else if (!frame_is_extended(frame->type)) {
		batch->replay = NULL;
		batch->is_described = false;
	}
}
