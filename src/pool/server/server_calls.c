/* SPDX-License-Identifier: ISC */
/*
 * Calls: requests whose execution a borrower measures.
 *
 * They are described in the ledger. One that was answered is told to the borrower; after an error,
 * the calls behind that were skipped.
 *
 * Hard here: the bytes of a reply come in pieces and are not looked at. They are counted by their
 * positions in all that the server has sent: from the end of the call before to the end of this
 * one.
 */
#include "pgweir/pgwire/fields.h"

#include "server_priv.h"

struct ledger_call *server_note_call(struct server *server, enum ledger_kind kind)
{
	struct server_calls *calls = &server->wire.calls;
	bool is_first = server->wire.ledger.call_count == 0;
	struct ledger_call *call = ledger_mark_call(&server->wire.ledger, kind);

	if (call && is_first) {
		server_watch(server, SERVER_WATCHES_CALLS);
		calls->mark = calls->received;
		calls->rows = 0;
		calls->sqlstate[0] = 0;
	}
	return call;
}

/* The rows of a tag: SELECT 5, INSERT 0 5, COPY 5, ... 0: it has none. */
static uint64_t rows_of(struct bytes tag)
{
	uint64_t rows = 0, place = 1;
	size_t at = tag.count ? tag.count - 1 : 0; /* the zero */

	if (tag.count > 4 && memcmp(tag.at, "MOVE", 4) == 0)
		return 0;
	while (at && tag.at[at - 1] >= '0' && tag.at[at - 1] <= '9' && place) {
		at--;
		rows += place * (uint64_t)(tag.at[at] - '0');
		place *= 10;
	}
	return at && tag.at[at - 1] == ' ' ? rows : 0;
}

__attribute__((noinline)) static void note_error(struct server_calls *calls, struct bytes body)
{
	struct report report = { .sqlstate = "" };

	fields_report(body, &report);
	memcpy(calls->sqlstate, "?????", SQLSTATE_SIZE);
	if (strlen(report.sqlstate) == SQLSTATE_SIZE - 1)
		memcpy(calls->sqlstate, report.sqlstate, SQLSTATE_SIZE);
}

/* position: behind its last byte. */
static void end_call(struct server *server, const struct ledger_call *call, uint64_t position)
{
	struct server_calls *calls = &server->wire.calls;
	usec_t now = loop_now(server->site->shared->loop);
	usec_t from = call->sent_at > calls->ended_at ? call->sent_at : calls->ended_at;
	struct server_call_end end = {
		.now = now,
		.running = now - from,
		.rows = calls->rows,
		.bytes = position > calls->mark ? position - calls->mark : 0,
		.sqlstate = *calls->sqlstate ? calls->sqlstate : NULL,
	};

	if (call->is_parse && !end.sqlstate)
		return;
	if (server->lease.borrower)
		server->lease.borrower->ops->on_call(server->lease.borrower, call, &end);
	calls->rows = 0;
	calls->sqlstate[0] = 0;
	calls->ended_at = now;
	calls->mark = position;
}

/* Ends the call that was answered by this reply, if any. After a FATAL, none is answered. */
static inline void settle(struct server *server, bool is_skipped, uint64_t position)
{
	struct ledger *ledger = &server->wire.ledger;
	bool is_last = server_got_fatal(server);
	const struct ledger_call *call = ledger_take_call(ledger);

	if (is_last)
		call = ledger_first_call(ledger);
	if (call && !is_skipped)
		end_call(server, call, position);
	if (is_last || ledger->call_count == 0)
		server_unwatch(server, SERVER_WATCHES_CALLS);
}

void server_calls_follow(struct server *server, const struct frame *frame, struct bytes in,
                         enum frame_fate fate)
{
	struct server_calls *calls = &server->wire.calls;

	if (fate == FRAME_DROP)
		calls->mark += frame->length;
	else if (frame->type == 'C')
		calls->rows += rows_of(frame_received(in, frame));
	else if (frame->type == 's')
		calls->rows += server->wire.ledger.ended ? server->wire.ledger.ended->row_limit : 0;
	else if (frame->type == 'E')
		note_error(calls, frame_received(in, frame));
	settle(server, fate == FRAME_DROP, calls->received - in.count + frame->length);
	if (frame->type == 'Z')
		calls->sqlstate[0] = 0; /* of a Sync: of a transaction, and of no call */
}
