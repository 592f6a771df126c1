/* SPDX-License-Identifier: ISC */
/*
 * Relay: carries frames between a client and the server lent to it.
 *
 *   client --> [judged, noted (judge.c)] --> server       what is not ours to change
 *   client <-- [the ledger, in pool/] <-- server          passes without a copy
 *
 * Frames that go on are sent in runs, as they lie, with one write however many
 * they are. A client that has no server gets one with the first frame that needs
 * one, and gives it back when nothing is owed any more: in transaction mode at the
 * end of each transaction, in session mode at its own end.
 *
 * Hard here: back-pressure. A client is not read while its server does not take
 * what it said; a server is not read while its client does not take its answers.
 *
 * And waiting. A client that has to wait for answers of its server says for which
 * (borrower.waits_for), and then the server must be able to give them: all that was to
 * go in front of the client's next word is sent, with a Flush if it needs one.
 */
#include <assert.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"

#include "../client_priv.h"
#include "../statements/replan_priv.h"
#include "judge_priv.h"
#include "late_begin_priv.h"
#include "../statements/names_priv.h"
#include "../statements/sql_priv.h"

#include "pgweir/base/banned.h"

static struct client *client_of(struct borrower *borrower) { return CLIENT_OF(borrower, borrower); }

static usec_t now_of(const struct client *client) { return loop_now(client->clients->with.loop); }

/* ---- batches and transactions ---- */

void relay_begin_batch(struct client *client)
{
	struct stats *stats = &client->borrower.pool->stats;

	if (client->request_at)
		return;
	client->request_at = now_of(client);
	client->borrower.waited = 0;
	stats->query_count++;
	if (client->xact_at)
		return;
	client->xact_at = client->request_at;
	stats->xact_count++;
}

void relay_end_batch(struct client *client, char status)
{
	struct stats *stats = &client->borrower.pool->stats;

	if (client->request_at)
		stats->query_time += (uint64_t)(now_of(client) - client->request_at);
	if (client->request_at && (client->slow || client->clients->config->log_min_duration))
		slow_end(client, now_of(client) - client->request_at, status != 'I');
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
	struct params_pair again[PARAMS_NAMES_MAX];
	struct params_seek seek = { 0 };
	const char *at = NULL, *name, *value, *now;
	size_t count = 0;

	if (client->params != server->params) {
		const struct params *old = client->params;

		client->params = params_hold(server->params);
		params_release(table, &old);
	}
	if (!server->is_rest_unknown)
		return;
	/* After RESET or DISCARD ALL a session has again what it was started with. */
	while (params_next(client->startup, &at, &name, &value)) {
		if (!params_seek(client->params, &seek, name, &now) || *now == '\001')
			again[count++] = (struct params_pair){ name, value };
	}
	params_change_all(table, &client->params, again, count);
}

static bool is_session(const struct client *client)
{
	return client->replication || client->borrower.pool->limits.mode == POOL_MODE_SESSION;
}

/* Without a server; goes on with what has come meanwhile. */
static void go_on_without(struct client *client)
{
	if (stream_unsent(&client->stream)) {
		stream_want(&client->stream, WANT_NOTHING); /* on_flushed() goes on */
		return;
	}
	if (stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
	drain_look(client);
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

	if (client->frame_left || !server->is_ready || server->status != 'I' ||
	    server->is_mid_response || stream_unsent(&server->stream))
		return false;
	if (!ledger_is_certain(&server->ledger)) {
		server_make_certain(server);
		return false;
	}
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
	client->borrower.waits_for = LEDGER_WAIT_NOT;
	if (stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
}

/* A server is there: sets it up, then goes on with what is kept. */
static void on_lent(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state == CLIENT_NEWCOMER) {
		welcome_send_dedicated(client);
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
	drain_look(client);
}

bool relay_get_server(struct client *client)
{
	struct borrower *borrower = &client->borrower;
	struct err err;

	relay_begin_batch(client);
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
	client_hurry(client);
	if (!pool_ask(borrower, &err)) {
		client_turn_away(client, &err);
		return false;
	}
	client_enter(client, CLIENT_WAITING);
	client->was_notified = false;
	client_wait_begin(client);
	stream_want(&client->stream, WANT_END);
	return false;
}

/* ---- from the client ---- */

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
	relay_end_batch(client, client->late ? 'E' : 'I');
	is_sent = client_send(client, buf_bytes(&out));
	buf_free(&out);
	if (!is_sent)
		return;
	if (!client->is_skipping) {
		client->frame_left = frame.length;
		client->forwards_rest = false;
	}
	if (!client->late) {
		rest(client);
		return;
	}
	late_begin_fail(client);
	go_on_without(client);
}

/* Nothing follows what was gathered: the server is to answer all of it. */
static void send_whole(struct server *server, struct batch *batch)
{
	static const char flush[] = { 'H', 0, 0, 0, 4 };

	if (ledger_flush(&server->ledger))
		batch_run(batch, bytes_of(flush, sizeof(flush)));
	batch_send(batch);
	server_push(server);
}

/* Sends what was gathered, and answers what needs nobody else. false: the client is gone. */
static bool send_gathered(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;

	batch->server = server;
	if (batch->waits_for == LEDGER_WAIT_NOT)
		batch_send(batch);
	else
		send_whole(server, batch);
	server->is_mid_request = client->frame_left && client->forwards_rest;
	if (!server_answer(server) && client->state == CLIENT_ACTIVE)
		stream_want(&client->stream, WANT_NOTHING); /* it has to read before */
	return client->state == CLIENT_ACTIVE;
}

/* Judges and sends. What we answer ourselves may be what the rest waited for. */
static enum judgement judge_and_send(struct client *client, struct bytes *in, struct batch *batch)
{
	enum judgement judgement;
	size_t left;

	do {
		left = in->count;
		batch->waits_for = LEDGER_WAIT_NOT;
		judgement = judge_all(client, in, batch);
		if (judgement == JUDGE_END || client->state != CLIENT_ACTIVE)
			return judgement;
		if (!send_gathered(client, batch))
			return JUDGE_END;
	} while (judgement == JUDGE_WAIT && in->count < left && client->stream.want == WANT_INPUT &&
	         server_can_take(client->borrower.server) &&
	         ledger_ends_wait(&client->borrower.server->ledger, batch->waits_for));
	return judgement;
}

bool relay_input(struct client *client, struct bytes in)
{
	struct batch batch;
	enum judgement judgement;
	struct server *server;

	batch_begin(&batch);
	if (client->late && client->state == CLIENT_ACTIVE &&
	    !late_begin_send(client, in.at[0], &batch)) {
		client_refuse(client, ERR_MEMORY, "out of memory");
		return false;
	}
	judgement = judge_and_send(client, &in, &batch);
	if (judgement == JUDGE_END)
		return false;
	unnamed_keep(client, &batch);
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
	if (stream_unsent(&server->stream) == 0 && judgement != JUDGE_WAIT) {
		if (server->is_ready && !is_session(client) && client->frame_left == 0)
			give_back(client); /* the rest of a frame was all that was missing */
		return client->state == CLIENT_ACTIVE && client->stream.want == WANT_INPUT;
	}
	client->borrower.waits_for = batch.waits_for;
	stream_want(&client->stream, WANT_NOTHING);
	return false;
}

/* ---- from the server ---- */

static void on_retry(struct borrower *borrower, struct bytes messages)
{
	struct client *client = client_of(borrower);
	struct batch batch;

	batch_begin(&batch);
	batch.is_again = true;
	if (judge_all(client, &messages, &batch) == JUDGE_END)
		return;
	assert(messages.count == 0); /* it was judged before, and nothing is owed any more */
	if (messages.count)
		client_refuse(client, ERR_INTERNAL, "a batch cannot be sent again");
	else if (send_gathered(client, &batch))
		unnamed_keep(client, &batch);
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

	if (!is_settled)
		return;
	relay_end_batch(client, status);
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
	if (client->stream.want == WANT_NOTHING && server_can_take(borrower->server))
		go_on(client);
	drain_look(client);
}

static void on_deallocated(struct borrower *borrower) { names_forget(client_of(borrower)); }

static void on_writable(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state != CLIENT_ACTIVE)
		return;
	if (borrower->server->is_ready && !is_session(client) && give_back(client))
		return;
	/* Whatever is missing yet, it comes with another call. */
	if (stream_unsent(&borrower->server->stream) == 0 &&
	    ledger_ends_wait(&borrower->server->ledger, borrower->waits_for))
		go_on(client);
}

static void on_lost(struct borrower *borrower, const struct err *err, bool got_fatal)
{
	struct client *client = client_of(borrower);

	if (got_fatal)
		client_leave(client, err->text);
	else
		client_fatal(client, err);
}

static void on_refused(struct borrower *borrower, const struct err *err)
{
	client_turn_away(client_of(borrower), err);
}

static void on_welcome(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	welcome_send(client);
	if (client->state == CLIENT_IDLE)
		client_judge_kept(client);
}

static void tell_who(const struct borrower *borrower, struct buf *out)
{
	const struct client *client = client_of_borrower(borrower);
	const char *name = params_find(client->params, "application_name");
	char buffer[ADDRESS_TEXT_SIZE], plain[CLIENT_PLAIN_SIZE];

	buf_printf(out, "%s@", client_plain(client_user(client), plain));
	buf_add_text(out, address_format_host(&client->peer, buffer, sizeof(buffer)));
	if (name && *name)
		buf_printf(out, " \"%s\"", client_plain(name, plain));
	buf_printf(out, " (id %llu)", (unsigned long long)client->id);
}

const struct borrower_ops client_borrower_ops = {
	.on_lent = on_lent,
	.on_refused = on_refused,
	.on_welcome = on_welcome,
	.on_bytes = on_bytes,
	.on_ready = on_ready,
	.on_deallocated = on_deallocated,
	.on_retry = on_retry,
	.on_writable = on_writable,
	.on_lost = on_lost,
	.on_expelled = on_refused,
	.tell_who = tell_who,
};

const struct client *client_of_borrower(const struct borrower *borrower)
{
	return borrower->ops == &client_borrower_ops ? CLIENT_OF(borrower, borrower) : NULL;
}
