/* SPDX-License-Identifier: ISC */
/*
 * Calls: requests whose execution a borrower measures.
 *
 * The ledger counts the calls that are not answered, and here is a queue of them. When the queue
 * is longer than the ledger's count, its first call was answered. After an error, the calls behind
 * that were skipped.
 *
 * Hard here: the bytes of a reply come in pieces and are not looked at. They are counted by their
 * positions in all that the server has sent: from the end of the call before to the end of this
 * one.
 */
#include <stdlib.h>

#include "pgweir/pgwire/fields.h"

#include "server_priv.h"

#define FIRST_CAPACITY 8
#define KEPT_CAPACITY 64 /* of an empty queue */
#define SQLSTATE_SIZE 6

struct server_calls {
	struct server_call *ring;
	uint32_t capacity; /* a power of two */
	uint32_t head, count;
	usec_t ended_at;              /* when the last call was answered */
	uint64_t received;            /* bytes read from the server since it has this */
	uint64_t mark;                /* position of the first byte that counts */
	uint64_t rows;                /* of the first call so far */
	char sqlstate[SQLSTATE_SIZE]; /* its error; "": none */
};

void server_calls_read(struct server *server, size_t count)
{
	server->wire.calls->received += count;
}

void server_calls_done(struct server *server)
{
	if (server->wire.calls)
		free(server->wire.calls->ring);
	free(server->wire.calls);
	server->wire.calls = NULL;
}

static struct server_call *call_at(const struct server_calls *calls, uint32_t index)
{
	return &calls->ring[(calls->head + index) & (calls->capacity - 1)];
}

__attribute__((noinline)) static bool grow(struct server_calls *calls)
{
	uint32_t capacity = calls->capacity ? 2 * calls->capacity : FIRST_CAPACITY;
	struct server_call *ring = malloc(capacity * sizeof(*ring));

	if (!ring)
		return false;
	for (uint32_t i = 0; i < calls->count; i++)
		ring[i] = *call_at(calls, i);
	free(calls->ring);
	calls->ring = ring;
	calls->capacity = capacity;
	calls->head = 0;
	return true;
}

__attribute__((noinline)) static void shrink(struct server_calls *calls)
{
	free(calls->ring);
	calls->ring = NULL;
	calls->capacity = 0;
}

/* The queue is empty: the server is not watched any more. */
static inline void rest(struct server *server)
{
	server_unwatch(server, SERVER_WATCHES_CALLS);
	if (server->wire.calls->capacity > KEPT_CAPACITY)
		shrink(server->wire.calls);
}

/* The queue, with room for a call. NULL: no memory. */
static inline struct server_calls *get(struct server *server)
{
	struct server_calls *calls = server->wire.calls;

	if (calls && calls->count < calls->capacity)
		return calls;
	if (!calls)
		calls = server->wire.calls = calloc(1, sizeof(*calls));
	return calls && grow(calls) ? calls : NULL;
}

struct server_call *server_note_call(struct server *server, enum ledger_kind kind)
{
	struct server_calls *calls = get(server);

	if (!calls || !ledger_mark_call(&server->wire.ledger, kind))
		return NULL;
	if (calls->count == 0) {
		server_watch(server, SERVER_WATCHES_CALLS);
		calls->head = 0; /* the same memory as before */
		calls->mark = calls->received;
		calls->rows = 0;
		calls->sqlstate[0] = 0;
	}
	return call_at(calls, calls->count++);
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

static struct bytes body_of(struct bytes in, const struct frame *frame)
{
	size_t count = in.count < frame->length ? in.count : frame->length;

	return bytes_of(in.at + FRAME_HEADER_SIZE, count - FRAME_HEADER_SIZE);
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
static void end_call(struct server *server, const struct server_call *call, uint64_t position)
{
	struct server_calls *calls = server->wire.calls;
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

/* Ends what the ledger does not count any more: the first call by this reply, or not at all. */
static inline void settle(struct server *server, bool is_skipped, uint64_t position)
{
	struct server_calls *calls = server->wire.calls;
	uint32_t left = server_got_fatal(server) ? 0 : server->wire.ledger.call_count;

	if (calls->count <= left)
		return;
	if (!is_skipped)
		end_call(server, call_at(calls, 0), position);
	calls->head = (calls->head + calls->count - left) & (calls->capacity - 1);
	calls->count = left;
	if (calls->count == 0)
		rest(server);
}

void server_calls_plain(struct server *server, struct bytes in, size_t length)
{
	struct server_calls *calls = server->wire.calls;

	if (in.at[0] == 'C')
		calls->rows +=
		    rows_of(bytes_of(in.at + FRAME_HEADER_SIZE, length - FRAME_HEADER_SIZE));
	settle(server, false, server->wire.calls->received - in.count + length);
}

void server_calls_follow(struct server *server, const struct frame *frame, struct bytes in,
                         enum frame_fate fate)
{
	struct server_calls *calls = server->wire.calls;

	if (!calls || !calls->count)
		return;
	if (fate == FRAME_DROP)
		calls->mark += frame->length;
	else if (frame->type == 'C')
		calls->rows += rows_of(body_of(in, frame));
	else if (frame->type == 's')
		calls->rows += call_at(calls, 0)->row_limit;
	else if (frame->type == 'E')
		note_error(calls, body_of(in, frame));
	settle(server, fate == FRAME_DROP, server->wire.calls->received - in.count + frame->length);
	if (frame->type == 'Z')
		calls->sqlstate[0] = 0; /* of a Sync: of a transaction, and of no call */
}
