/* SPDX-License-Identifier: ISC */
/*
 * Relay: carries frames between a client and the server lent to it.
 *
 *   client --> [judge the header, note it] --> server     what is not ours to change
 *   client <-- [the ledger, in pool/] <-- server          passes without a copy
 *
 * Frames that go on are sent in runs, as they lie, with one write however many
 * they are. A client that has no server gets one with the first frame that needs
 * one, and gives it back when nothing is owed any more: in transaction mode at the
 * end of each transaction, in session mode at its own end.
 *
 * Hard here: back-pressure. A client is not read while its server does not take
 * what it said; a server is not read while its client does not take its answers.
 */
#include <assert.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "client_priv.h"
#include "heal_priv.h"
#include "late_begin_priv.h"
#include "names_priv.h"
#include "prepared_priv.h"
#include "sql_priv.h"

#include "pgweir/base/banned.h"

/* What may come from a client, and what the server owes for it. */
static const struct {
	bool is_known;
	bool needs_server; /* without a server there is nothing that it could be about */
	enum ledger_kind kind;
} requests[128] = {
	['Q'] = { true, true, LEDGER_QUERY },     ['P'] = { true, true, LEDGER_PARSE },
	['B'] = { true, true, LEDGER_BIND },      ['D'] = { true, true, LEDGER_DESCRIBE },
	['E'] = { true, true, LEDGER_EXECUTE },   ['C'] = { true, true, LEDGER_CLOSE },
	['S'] = { true, true, LEDGER_SYNC },      ['F'] = { true, true, LEDGER_FUNCTION },
	['H'] = { true, false, LEDGER_NONE },     ['d'] = { true, false, LEDGER_COPY_DATA },
	['c'] = { true, false, LEDGER_COPY_END }, ['f'] = { true, false, LEDGER_COPY_END },
	['X'] = { true, false, LEDGER_NONE },
};

static struct client *client_of(struct borrower *borrower) { return CLIENT_OF(borrower, borrower); }

static usec_t now_of(const struct client *client) { return loop_now(client->clients->with.loop); }

/* ---- batches and transactions ---- */

/* A batch begins: the first packet after the last one was answered in full. */
static void begin_batch(struct client *client)
{
	struct stats *stats = &client->borrower.pool->stats;

	if (client->request_at)
		return;
	client->request_at = now_of(client);
	stats->query_count++;
	if (client->xact_at)
		return;
	client->xact_at = client->request_at;
	stats->xact_count++;
}

static void end_batch(struct client *client, char status)
{
	struct stats *stats = &client->borrower.pool->stats;

	if (client->request_at)
		stats->query_time += (uint64_t)(now_of(client) - client->request_at);
	if (client->request_at && (client->slow || client->clients->config->log_min_duration))
		slow_end(client, now_of(client) - client->request_at);
	client->request_at = 0;
	if (status != 'I' || !client->xact_at)
		return;
	stats->xact_time += (uint64_t)(now_of(client) - client->xact_at);
	client->xact_at = 0;
}

/* ---- getting a server, giving it back ---- */

/* The server's parameters are what this client has from now on, but for what a RESET took. */
static void take_params(struct client *client, const struct server *server)
{
	struct params_table *table = client->clients->with.params;
	const char *at = NULL, *name, *value;

	if (client->params != server->params) {
		const struct params *old = client->params;

		client->params = params_hold(server->params);
		params_release(table, &old);
	}
	if (!server->is_rest_unknown)
		return;
	/* After RESET or DISCARD ALL a session has again what it was started with. */
	while (params_next(client->startup, &at, &name, &value)) {
		const char *now = params_find(client->params, name);

		if (!now || *now == '\001')
			params_change(table, &client->params, name, value);
	}
}

static bool is_session(const struct client *client)
{
	return client->replication || client->borrower.pool->limits.mode == POOL_MODE_SESSION;
}

/* Without a server; goes on with what has come meanwhile. */
static void go_on_without(struct client *client)
{
	if (stream_unsent(&client->stream)) {
		stream_want(&client->stream, WANT_NOTHING); /* on_drained() goes on */
		return;
	}
	if (stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
	emptying_look(client);
}

/* Back to being without a server. */
static void rest(struct client *client)
{
	client_enter(client, CLIENT_IDLE);
	client_idle_begin(client);
	go_on_without(client);
}

/* Gives the server back, if nothing is owed on either side; then the client goes on without. */
static bool give_back(struct client *client)
{
	struct server *server = client->borrower.server;

	if (client->frame_left || !server->is_ready || server->status != 'I' || server->is_within ||
	    stream_unsent(&server->stream))
		return false;
	take_params(client, server);
	unnamed_away(client);
	sql_leave(client);
	pool_return(&client->borrower);
	rest(client);
	return true;
}

/* Reads on, and goes on with what is kept. */
static void go_on(struct client *client)
{
	if (stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
}

/* A server is there: sets it up, then goes on with what is kept. */
static void on_lent(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state == CLIENT_NEWCOMER) {
		welcome_send_own(client);
		if (client->state == CLIENT_ACTIVE && client->stream.want == WANT_INPUT)
			client_judge_kept(client);
		return;
	}
	if (client->state == CLIENT_WAITING || client->state == CLIENT_IDLE) {
		timer_clear(&client->timer);
		if (!pool_prepare(borrower, client->params, true)) {
			client_enter(client, CLIENT_PREPARING);
			return;
		}
	}
	client_enter(client, CLIENT_ACTIVE);
	if (client->request_at)
		server_begin_query(borrower->server, client->request_at, client->xact_at);
	go_on(client);
	emptying_look(client);
}

/* A frame needs a server. true: there is one, ready for it; false: there will be. */
static bool get_server(struct client *client)
{
	struct borrower *borrower = &client->borrower;
	struct err err;

	begin_batch(client);
	if (pool_take(borrower)) {
		timer_clear(&client->timer);
		if (pool_prepare(borrower, client->params, true)) {
			client_enter(client, CLIENT_ACTIVE);
			server_begin_query(borrower->server, client->request_at, client->xact_at);
			return true;
		}
		client_enter(client, CLIENT_PREPARING);
		stream_want(&client->stream, WANT_END);
		return false;
	}
	if (!pool_ask(borrower, &err)) {
		client_fatal(client, &err);
		return false;
	}
	client_enter(client, CLIENT_WAITING);
	client->was_notified = false;
	client_wait_begin(client);
	stream_want(&client->stream, WANT_END);
	return false;
}

/* ---- from the client ---- */

enum judgement {
	JUDGE_SEND,  /* it goes to the server */
	JUDGE_DROP,  /* it goes nowhere */
	JUDGE_MORE,  /* not before more of it has come */
	JUDGE_WAIT,  /* not now: it stays */
	JUDGE_LEAVE, /* the client takes its leave */
	JUDGE_END    /* the client is done with: it was told why */
};

static enum judgement refuse(struct client *client, enum err_code code, const char *words)
{
	client_refuse(client, code, "%s", words);
	return JUDGE_END;
}

/* After an error of ours in the extended protocol: nothing counts up to the Sync, which we answer.
 */
static enum judgement skip(struct client *client, char type)
{
	struct buf out = { 0 };
	bool is_sent = true;

	if (type == 'S') {
		client->is_skipping = false;
		message_ready(&out, client->late ? 'E' : 'I');
		is_sent = client_send(client, buf_bytes(&out));
		buf_free(&out);
	}
	return is_sent ? JUDGE_DROP : JUDGE_END;
}

void relay_cancel_waiting(struct client *client)
{
	struct bytes in = stream_kept(&client->stream);
	struct buf out = { 0 };
	struct frame frame;
	struct err err;
	bool is_sent;

	if (frame_peek(in, UINT32_MAX, &frame) != WIRE_OK)
		return; /* it waits, so a whole header is there */
	err_set(&err, ERR_QUERY_CANCELED, "canceling statement due to user request");
	message_err(&out, "ERROR", &err);
	if (frame.type == 'Q' || frame.type == 'F')
		message_ready(&out, client->late ? 'E' : 'I');
	else
		client->is_skipping = true;
	pool_give_up(&client->borrower);
	end_batch(client, client->late ? 'E' : 'I');
	is_sent = client_send(client, buf_bytes(&out));
	buf_free(&out);
	if (!is_sent)
		return;
	if (!client->is_skipping) {
		client->frame_left = frame.length;
		client->passes = false;
	}
	if (!client->late) {
		rest(client);
		return;
	}
	late_begin_fail(client);
	go_on_without(client);
}

/* A batch that was answered here. */
static void count_batch(struct client *client, char status)
{
	begin_batch(client);
	end_batch(client, status);
}

/* A Query of a client without a server, where BEGIN may be late. JUDGE_SEND: it needs one. */
static enum judgement judge_late(struct client *client, const struct frame *frame, struct bytes in,
                                 struct gather *gather)
{
	enum late_result result = late_begin_judge(client, frame, in);

	if (result == LATE_PASS)
		return JUDGE_SEND;
	if (result == LATE_MORE)
		return JUDGE_MORE;
	if (result == LATE_GONE)
		return JUDGE_END;
	/* What PostgreSQL does with any Query. */
	unnamed_drop(client, gather);
	sql_forget(client);
	count_batch(client, result == LATE_BEGUN ? 'T' : 'I');
	if (result == LATE_BEGUN)
		late_begin_arm(client);
	else
		client_idle_begin(client);
	return JUDGE_DROP;
}

/* A frame of a client without a server. JUDGE_SEND: it has one now. */
static enum judgement judge_without(struct client *client, const struct frame *frame,
                                    struct bytes in, struct gather *gather)
{
	if (frame->type == 'Q' && (client->late || client->borrower.pool->limits.late_begin)) {
		enum judgement judgement = judge_late(client, frame, in, gather);

		if (judgement != JUDGE_SEND)
			return judgement;
	}
	if (!get_server(client))
		return client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED
		           ? JUDGE_END
		           : JUDGE_WAIT;
	if (client->late && !late_begin_send(client, frame->type, gather))
		return refuse(client, ERR_MEMORY, "out of memory");
	return JUDGE_SEND;
}

/* What concerns the statements of a client whose names are followed. */
static enum judgement judge_prepared(struct client *client, const struct frame *frame,
                                     struct bytes in, struct gather *gather, size_t *head)
{
	switch (prepared_judge(client, frame, in, gather, head)) {
	case PREPARED_PASS:
		server_note(client->borrower.server, requests[(unsigned char)frame->type].kind);
		return JUDGE_SEND;
	case PREPARED_HEAD:
		return JUDGE_SEND;
	case PREPARED_DROP:
		return JUDGE_DROP;
	case PREPARED_MORE:
		return JUDGE_MORE;
	case PREPARED_WAIT:
		return JUDGE_WAIT;
	case PREPARED_END:
		break;
	}
	return refuse(client, ERR_MEMORY, "out of memory");
}

static bool names_statements(const struct client *client, char type)
{
	return type == 'P' || type == 'B' || type == 'D' || type == 'C' || type == 'Q' ||
	       (type == 'E' && client->sql);
}

/* Keeps what may have to be said again; what is kept is dropped when more is said. */
static void watch(struct client *client, const struct frame *frame, struct bytes in,
                  struct gather *gather)
{
	struct server *server = client->borrower.server;

	segment_drop(&server->segment);
	if (gather->segment || (frame->type == 'B' && ledger_is_empty(&server->ledger)))
		heal_watch(client, frame, in, gather);
}

static enum judgement judge(struct client *client, const struct frame *frame, struct bytes in,
                            struct gather *gather, size_t *head)
{
	unsigned char type = (unsigned char)frame->type;
	struct server *server = client->borrower.server;

	if (type >= sizeof(requests) / sizeof(requests[0]) || !requests[type].is_known)
		return refuse(client, ERR_PROTOCOL, "unknown pkt");
	/* More data of a COPY: there may be millions. */
	if (type == 'd' && client->state == CLIENT_ACTIVE && server->ledger.has_data &&
	    !server->is_ready)
		return JUDGE_SEND;
	if (type == 'X')
		return JUDGE_LEAVE;
	if (client->is_skipping)
		return skip(client, frame->type);
	if (type == 'Q' && client->clients->config->disable_pqexec)
		return refuse(client, ERR_NOT_ALLOWED, "PQexec disallowed");
	/* The rest of a COPY that has failed; a Flush of nothing. */
	if (!requests[type].needs_server && (client->state != CLIENT_ACTIVE || server->is_ready))
		return JUDGE_DROP;
	if (client->state != CLIENT_ACTIVE) {
		enum judgement judgement = judge_without(client, frame, in, gather);

		if (judgement != JUDGE_SEND)
			return judgement;
		server = client->borrower.server;
	}
	if (ledger_is_full(&server->ledger) || server->segment.is_failed)
		return JUDGE_WAIT;
	if (client->clients->config->log_min_duration)
		slow_note(client, frame, in);
	gather->server = server;
	if (!client->request_at) {
		begin_batch(client);
		server_begin_query(server, client->request_at, client->xact_at);
	}
	if (type == 'Q')
		unnamed_drop(client, gather);
	if (prepared_follows(client)) {
		watch(client, frame, in, gather);
		if (names_statements(client, frame->type))
			return judge_prepared(client, frame, in, gather, head);
	}
	switch (server_note(server, requests[type].kind)) {
	case LEDGER_SENT:
		break;
	case LEDGER_DROP:
		return JUDGE_DROP;
	case LEDGER_NO_MEMORY:
		return refuse(client, ERR_MEMORY, "out of memory");
	}
	return JUDGE_SEND;
}

/*
 * Judges frames until something stops it, and gathers what is to be sent. *in goes
 * forward to what is left.
 */
static enum judgement judge_all(struct client *client, struct bytes *in, struct gather *gather)
{
	uint32_t max = (uint32_t)client->clients->config->max_packet_size;

	while (in->count) {
		size_t count, head = 0;

		if (client->frame_left == 0) {
			struct frame frame;
			enum wire_result result = frame_peek(*in, max, &frame);
			enum judgement judgement;

			if (result == WIRE_MORE)
				return JUDGE_MORE;
			if (result == WIRE_BAD)
				return refuse(client, ERR_PROTOCOL, "bad packet header");
			judgement = judge(client, &frame, *in, gather, &head);
			if (judgement > JUDGE_DROP)
				return judgement;
			client->frame_left = frame.length - (uint32_t)head;
			client->passes = judgement == JUDGE_SEND;
			*in = bytes_skip(*in, head);
		}
		count = client->frame_left < in->count ? client->frame_left : in->count;
		if (client->passes)
			gather_run(gather, bytes_of(in->at, count));
		client->frame_left -= (uint32_t)count;
		*in = bytes_skip(*in, count);
	}
	return JUDGE_SEND;
}

/* Sends what was gathered, and answers what needs nobody else. false: the client is gone. */
static bool send_gathered(struct client *client, struct gather *gather)
{
	struct server *server = client->borrower.server;

	gather->server = server;
	gather_send(gather);
	server->is_cut = client->frame_left && client->passes;
	if (!server_answer(server) && client->state == CLIENT_ACTIVE)
		stream_want(&client->stream, WANT_NOTHING); /* it has to read before */
	return client->state == CLIENT_ACTIVE;
}

bool relay_input(struct client *client, struct bytes in)
{
	struct gather gather;
	enum judgement judgement;
	struct server *server;

	gather_begin(&gather);
	if (client->late && client->state == CLIENT_ACTIVE &&
	    !late_begin_send(client, in.at[0], &gather)) {
		refuse(client, ERR_MEMORY, "out of memory");
		return false;
	}
	judgement = judge_all(client, &in, &gather);
	if (judgement == JUDGE_END)
		return false;
	if (judgement == JUDGE_WAIT && client->state == CLIENT_ACTIVE)
		late_begin_flush(client, &gather);
	if (client->state == CLIENT_ACTIVE && !send_gathered(client, &gather))
		return false;
	unnamed_keep(client, &gather);
	server = client->borrower.server;
	if (judgement == JUDGE_LEAVE) {
		client_close(client, "client close request");
		return false;
	}
	if (!stream_keep(&client->stream, in)) {
		client_close(client, "out of memory");
		return false;
	}
	if (client->state != CLIENT_ACTIVE)
		return client->state == CLIENT_IDLE || client->state == CLIENT_LATE;
	if (server_has_room(server) && judgement != JUDGE_WAIT) {
		if (server->is_ready && !is_session(client) && client->frame_left == 0)
			give_back(client); /* the rest of a frame was all that was missing */
		return client->state == CLIENT_ACTIVE && client->stream.want == WANT_INPUT;
	}
	stream_want(&client->stream, WANT_NOTHING);
	return false;
}

/* ---- from the server ---- */

static void on_again(struct borrower *borrower, struct bytes batch)
{
	struct client *client = client_of(borrower);
	struct gather gather;

	gather_begin(&gather);
	gather.is_again = true;
	if (judge_all(client, &batch, &gather) == JUDGE_END)
		return;
	assert(batch.count == 0); /* it was judged before, and nothing is owed any more */
	if (batch.count)
		client_refuse(client, ERR_INTERNAL, "a batch cannot be sent again");
	else if (send_gathered(client, &gather))
		unnamed_keep(client, &gather);
}

static bool on_bytes(struct borrower *borrower, struct bytes bytes)
{
	struct client *client = client_of(borrower);

	return client_send(client, bytes) && stream_unsent(&client->stream) == 0;
}

/*
 * A session that has reset its parameters has again those that it was started with.
 * false: they are being set.
 */
static bool start_anew(struct client *client)
{
	struct borrower *borrower = &client->borrower;

	take_params(client, borrower->server);
	borrower->server->is_rest_unknown = false;
	if (pool_prepare(borrower, client->params, false))
		return true;
	client_enter(client, CLIENT_PREPARING);
	stream_want(&client->stream, WANT_END);
	return false;
}

static void on_ready(struct borrower *borrower, char status, bool is_settled)
{
	struct client *client = client_of(borrower);

	if (!is_settled) {
		/* For a client that waits for this answer. */
		if (client->stream.want == WANT_NOTHING && server_has_room(borrower->server))
			borrower->ops->on_room(borrower);
		return;
	}
	end_batch(client, status);
	if (borrower->pool->limits.mode == POOL_MODE_STATEMENT && status != 'I' &&
	    !client->replication) {
		client_refuse(client, ERR_UNSUPPORTED,
		              "transaction blocks not allowed in statement pooling mode");
		return;
	}
	if (!is_session(client) && give_back(client))
		return;
	/* A server of one's own was started with them, so it knows by itself. */
	if (is_session(client) && !client->replication && borrower->server->is_rest_unknown &&
	    status == 'I' && !start_anew(client))
		return;
	if (client->stream.want == WANT_NOTHING && server_has_room(borrower->server))
		go_on(client);
	emptying_look(client);
}

static void on_deallocated(struct borrower *borrower) { names_forget(client_of(borrower)); }

static void on_room(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state != CLIENT_ACTIVE)
		return;
	if (borrower->server->is_ready && !is_session(client) && give_back(client))
		return;
	go_on(client);
}

static void on_lost(struct borrower *borrower, const struct err *err, bool is_told)
{
	struct client *client = client_of(borrower);

	if (is_told)
		client_leave(client, err->text);
	else
		client_fatal(client, err);
}

static void on_refused(struct borrower *borrower, const struct err *err)
{
	client_fatal(client_of(borrower), err);
}

static void on_welcome(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	welcome_send(client);
	if (client->state == CLIENT_IDLE)
		client_judge_kept(client);
}

const struct borrower_ops client_borrower_ops = {
	.on_lent = on_lent,
	.on_refused = on_refused,
	.on_welcome = on_welcome,
	.on_bytes = on_bytes,
	.on_ready = on_ready,
	.on_deallocated = on_deallocated,
	.on_again = on_again,
	.on_room = on_room,
	.on_lost = on_lost,
	.on_expelled = on_refused,
};

const struct client *client_of_borrower(const struct borrower *borrower)
{
	return borrower->ops == &client_borrower_ops ? CLIENT_OF(borrower, borrower) : NULL;
}
