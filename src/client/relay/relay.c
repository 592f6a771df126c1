/* SPDX-License-Identifier: ISC */
/*
 * Relay: carries frames between a client and the server lent to it.
 *
 *   client --> [checked and noted (judge.c)] --> server    unchanged frames are
 *   client <-- [the ledger, in pool/] <-- server           not copied
 *
 * Consecutive frames that are forwarded are sent in one write. A client without a server gets one
 * at the first frame that needs one, and returns the server when nothing is owed any more: in
 * transaction mode at the end of each transaction, in session mode when the client disconnects.
 *
 * Hard here: back-pressure. A client is not read while its server does not accept the client's
 * bytes; a server is not read while its client does not accept the server's bytes.
 *
 * And waiting. A client that has to wait for replies of its server sets borrower.waits_for. Then
 * the server must be able to send them: the prefix that was to precede the client's next message is
 * sent at once, with a Flush if necessary.
 */
#include <assert.h>

#include "pgweir/base/probes.h"
#include "pgweir/pgwire/message.h"

#include "../statements/statements_priv.h"
#include "relay_priv.h"

/*
 * ---- batches, and the server that is lent for them ----
 *
 * A client has a server from the first message of a batch that needs one. In transaction mode it is
 * returned at the end of each transaction, as soon as neither side owes the other anything.
 */

void relay_begin_batch(struct client *client)
{
	struct stats *stats = &client->borrower.pool->stats;

	if (client->request_at)
		return;
	client->request_at = client_now(client);
	client->borrower.waited = 0;
	client->resent = 0;
	stats->query_count++;
	PROBE_STATEMENT_START(client->id, client_database(client), client_user(client));
	if (client->xact_at)
		return;
	client->xact_at = client->request_at;
	stats->xact_count++;
	if (client->audit)
		audit_transaction(client);
}

static inline void note_time(struct pool *pool, enum latency_kind kind, usec_t since, usec_t now)
{
	latency_note(&pool->latency, &pool->pools->latency, kind, now - since, now);
}

/* Notes the times of a batch and of a transaction, either of which may be 0. */
__attribute__((noinline)) static void note_apart(struct pool *pool, usec_t since, usec_t xact_since,
                                                 usec_t now)
{
	if (since)
		note_time(pool, LATENCY_STATEMENT, since, now);
	if (xact_since)
		note_time(pool, LATENCY_XACT, xact_since, now);
}

/* Counts the batch, and the transaction that ends with it, which may have begun with it. */
static inline void note_times(struct client *client, bool ends_xact, usec_t now)
{
	struct pool *pool = client->borrower.pool;
	usec_t since = client->request_at, xact_since = ends_xact ? client->xact_at : 0;

	if (since)
		pool->stats.query_time += (uint64_t)(now - since);
	if (ends_xact)
		pool->stats.xact_time += (uint64_t)(now - xact_since);
	if (since && since == xact_since)
		note_time(pool, LATENCY_STATEMENT_XACT, since, now);
	else
		note_apart(pool, since, xact_since, now);
}

void relay_end_batch(struct client *client, char status)
{
	usec_t now = client_now(client), since = client->request_at;
	bool ends_xact = status == 'I' && client->xact_at;

	note_times(client, ends_xact, now);
	if (since)
		PROBE_STATEMENT_END(client->id, client_database(client), client_user(client),
		                    server_backend_pid(client->borrower.server), now - since,
		                    client->borrower.waited, track_batch_digest(client));
	if (since && (client->slow || (client_features(client) & CLIENT_NOTES_SLOW)))
		slow_end(client, now - since, status != 'I');
	client->request_at = 0;
	if (!ends_xact)
		return;
	client->xact_at = 0;
	if (client->audit)
		audit_transaction(client);
}

/* ---- getting and returning a server ---- */

/*
 * After RESET or DISCARD ALL, parameters that were not set since are again those of the client's
 * startup packet. If the server was asked, it is exact: those are marked. Not inlined: the array
 * needs 8 KB of stack, and few transactions call this.
 */
__attribute__((noinline)) static void restore_startup_params(struct client *client)
{
	bool is_exact = !server_holds(client->borrower.server, HELD_REST);
	struct params_pair again[PARAMS_NAMES_MAX];
	size_t count = 0;

	PARAMS_EACH (name, value, client->startup) {
		const char *now = params_find(client->params, name);

		/* \001 is the value of unknown parameters: see UNKNOWN in server_params.c. */
		if (now ? *now == '\001' : !is_exact)
			again[count++] = (struct params_pair){ name, value };
	}
	params_change_all(client->clients->pools->shared.params, &client->params, again, count);
	/* The client has no value of its own for others that are unknown. */
	count = 0;
	PARAMS_EACH (name, value, client->params) {
		if (*value == '\001')
			again[count++] = (struct params_pair){ name, NULL };
	}
	params_change_all(client->clients->pools->shared.params, &client->params, again, count);
}

/* The client's parameters become those that were changed on its server. */
static void take_params(struct client *client)
{
	const struct server *server = client->borrower.server;

	if (client->params != server->session.params) {
		const struct params *old = client->params;

		client->params = params_hold(server->session.params);
		params_release(client->clients->pools->shared.params, &old);
	}
	if (server_has_reset(server))
		restore_startup_params(client);
}

/*
 * The client's parameters are set on its server. What PostgreSQL spells in another way than the
 * client did, it is told. false: the client was closed.
 */
__attribute__((noinline)) static bool tell_spelling(struct client *client)
{
	const struct server *server = client->borrower.server;
	const struct params *old = client->params;
	const char *now;
	struct buf out = { 0 };

	PARAMS_EACH (name, value, old) {
		now = server_value(server, server->session.params, name);
		if (params_find(server->session.baseline, name) && strcmp(now, value) != 0)
			message_parameter(&out, name, now);
	}
	client->params = params_hold(server->session.params);
	params_release(client->clients->pools->shared.params, &old);
	return client_send_all(client, &out);
}

static inline bool respell_params(struct client *client)
{
	return client->params == client->borrower.server->session.params || tell_spelling(client);
}

/* Without a server: it must read what it was answered before more is read of it. */
static bool may_read_without(struct client *client)
{
	if (!stream_unsent(&client->stream))
		return true;
	stream_want(&client->stream, WANT_NOTHING); /* on_flushed() reads again */
	return false;
}

/* Without a server: handles input that was buffered in the meantime. */
static void read_on_without(struct client *client)
{
	if (!may_read_without(client))
		return;
	client_read_on(client);
	drain_look(client);
}

static inline void go_idle(struct client *client)
{
	client_enter(client, CLIENT_IDLE);
	if (client->is_gone) {
		client_close(client, CLOSE_CLIENT_EOF);
		return;
	}
	client_idle_begin(client);
	if (client->listening) {
		listening_deliver(client);
		if (client->state != CLIENT_IDLE)
			return;
	}
	read_on_without(client);
}

void relay_go_on_without(struct client *client)
{
	causal_ends_without(client);
	client->touched = 0;
	session_free(client);
	statements_leave_server(client);
	go_idle(client);
}

/*
 * Asks the server what the transaction has left in the session. false: it was not asked. Then
 * client->touched is 0 if there was no need, else it cannot be asked now.
 */
static bool ask(struct client *client)
{
	/* It could cancel our query. When it has ended, on_writable() comes. */
	if (client->borrower.server->lease.cancel_count)
		return false;
	if (!session_ask(client))
		return false;
	client_enter(client, CLIENT_SETTLING);
	return true;
}

/*
 * Returns the server if neither side owes the other anything; the client continues without one, or
 * when its server has answered what the transaction has left in the session. false: it keeps the
 * server.
 */
static bool give_back(struct client *client)
{
	struct server *server = client->borrower.server;

	if (session_keeps_server(client) || client->frame_left || server_rest(server) != REST_FULL)
		return false;
	/*
	 * After a failed COPY a Sync may still be answered: the next client must not get that. The
	 * answer to a Close behind it, of a name that nobody uses, makes it certain.
	 */
	if (!ledger_is_certain(&server->wire.ledger)) {
		server_order(server, &(struct order){
					 .kind = ORDER_CLOSES,
					 .where = SENT_NOW,
					 .names = bytes_of(SCRATCH_NAME, sizeof(SCRATCH_NAME)) });
		return false;
	}
	/*
	 * pool_mode was session until now: the server may have anything of the client. Or a value
	 * is not known in the encoding of the database.
	 */
	if (server_holds(server, HELD_SESSION | HELD_REPORT))
		session_run_unknown(client);
	if (client->touched && ask(client))
		return true;
	if (client->touched)
		return false;
	if (client->listening && (listening_waits(client) || !listening_release(client)))
		return true;
	if (session_stays(client)) {
		session_idle_begin(client);
		listening_deliver(client);
		return false;
	}
	if (client->is_position_due && !causal_ends_unasked(client)) {
		if (server->lease.cancel_count)
			return false; /* as in ask() */
		take_params(client);  /* known also if the server is lost now */
		causal_ask(client);
		return true;
	}
	take_params(client);
	statements_leave_server(client);
	pool_return(&client->borrower);
	go_idle(client);
	return true;
}

/*
 * The client has got a server. is_new: only now. false: that is not ready: it may show too little
 * (causal.c), or its parameters are being set.
 */
static inline bool make_ready(struct client *client, bool is_new)
{
	if (is_new) {
		timer_clear(&client->timer);
		if (client->is_position_due && !causal_is_caught_up(client))
			return false;
	}
	session_begin_sample(client);
	if (pool_prepare(&client->borrower, client->params, true))
		return true;
	client_enter(client, CLIENT_PREPARING);
	return false;
}

bool relay_get_server(struct client *client, struct err *err)
{
	struct borrower *borrower = &client->borrower;

	relay_begin_batch(client);
	if (pool_take(borrower)) {
		if (!make_ready(client, true))
			return false;
		client_enter(client, CLIENT_ACTIVE);
		relay_begin_query(client, client->request_at);
		return respell_params(client);
	}
	client_hurry(client);
	if (!pool_ask(borrower, err))
		return false;
	client_enter(client, CLIENT_WAITING);
	client->was_notified = false;
	client->borrower.patience_now = 0;
	client_wait_begin(client);
	return false;
}

/* ---- waiting for a server ---- */

/*
 * Whether a message that no server has got can fail alone. What is behind one that begins a
 * transaction is meant for that, and may be under way: it must not be committed alone. So with a
 * BEGIN in front the transaction has begun, and failed, as it has in PostgreSQL when a later
 * statement of such a text fails. Of other texts that may begin one nobody knows whether they have;
 * of one that has not been received in full, it has not.
 */
static bool can_fail(struct client *client, const struct frame *frame, struct bytes in)
{
	struct said said = said_read(client, frame, in);

	if (said.type == 'B' && said.name && !*said.name)
		said.text = unnamed_known(client);
	return client->late || !said.text.at || late_begin_in_vain(client, said.text) ||
	       !said.is_whole || sql_is_no_block(said.text);
}

enum judgement relay_fail(struct client *client, const struct frame *frame, struct bytes in,
                          const struct err *err, struct batch *batch)
{
	struct bytes body = frame_received(in, frame);
	struct buf out = { 0 };
	char type = frame->type;
	bool is_sent;

	relay_begin_batch(client);
	/* As PostgreSQL drops the unnamed statement. */
	if (type == 'Q' || (type == 'P' && body.count && !body.at[0]))
		statements_forget_unnamed(client, batch);
	batch->is_answered = true;
	message_err(&out, "ERROR", err);
	client_note_said(client, err, "ERROR");
	if (type == 'Q' || type == 'F' || type == 'S')
		message_ready(&out, client->late ? 'E' : 'I');
	else
		client->is_skipping = true;
	relay_end_batch(client, client->late ? 'E' : 'I');
	is_sent = client_send_all(client, &out);
	if (is_sent && client->late)
		late_begin_fail(client);
	else if (is_sent && client->state == CLIENT_IDLE)
		client_idle_begin(client);
	return is_sent ? JUDGE_DROP : JUDGE_END;
}

/*
 * The message that the client waits with fails, and it waits no longer. err: NULL: it has waited
 * for a place for too long. false: it cannot fail alone.
 */
static bool fail_waiting(struct client *client, const struct err *err)
{
	struct bytes in = stream_kept(&client->stream);
	struct frame frame;
	struct batch batch;
	struct err lacks;

	if (frame_peek(in, UINT32_MAX, &frame) != WIRE_OK || !can_fail(client, &frame, in))
		return false;
	if (!err)
		relay_lacks_place(client, &frame, in, &lacks);
	batch_begin(&batch);
	pool_give_up(&client->borrower);
	pool_drop_place(&client->borrower);
	if (relay_fail(client, &frame, in, err ? err : &lacks, &batch) == JUDGE_END)
		return true;
	if (!client->is_skipping) {
		client->frame_left = frame.length;
		client->forwards_rest = false;
	}
	if (client->late)
		read_on_without(client);
	else
		go_idle(client);
	return true;
}

bool relay_cancel_waiting(struct client *client)
{
	struct err err;

	err_set(&err, ERR_QUERY_CANCELED, "canceling statement due to user request");
	fail_waiting(client, &err);
	return true;
}

bool relay_fails_alone(struct client *client, const struct frame *frame, struct bytes in,
                       const struct err *err)
{
	return (err->reason == CLOSE_QUEUE_FULL || err->reason == CLOSE_SHED) &&
	       in.count >= frame->length && can_fail(client, frame, in);
}

void relay_refused(struct borrower *borrower, const struct err *err)
{
	struct client *client = client_of(borrower);
	struct bytes in = stream_kept(&client->stream);
	struct frame frame;

	if (client->state != CLIENT_WAITING || frame_peek(in, UINT32_MAX, &frame) != WIRE_OK ||
	    !relay_fails_alone(client, &frame, in, err) || !fail_waiting(client, err))
		client_turn_away(client, err);
}

bool relay_refuse_place(struct client *client)
{
	return client_rules(client)->mode != POOL_MODE_SESSION && fail_waiting(client, NULL);
}

/* ---- from the client ---- */

/* Sends the batch, and the replies that are generated here. false: the client was closed. */
static bool send_batch(struct client *client, struct batch *batch)
{
	static const char flush[] = { 'H', 0, 0, 0, 4 };
	struct server *server = client->borrower.server;
	bool is_all = batch->waits_for != LEDGER_WAIT_NOT;

	batch->server = server;
	if (batch->ends)
		causal_ask_behind(client, batch);
	batch->ends = false;
	/* No more input follows: the server must answer all of it. */
	if (is_all && ledger_flush(&server->wire.ledger))
		batch_run(batch, bytes_of(flush, sizeof(flush)));
	batch_send(batch);
	if (is_all && server->orders.ahead.count)
		server_sendv(server, NULL, 0); /* nothing more goes with it */
	server->wire.is_mid_request = client->frame_left && client->forwards_rest;
	batch->is_answered |= ledger_owes_answer(&server->wire.ledger);
	if (!server_answer(server) && client->state == CLIENT_ACTIVE)
		stream_want(&client->stream, WANT_NOTHING); /* the client must read first */
	return client->state == CLIENT_ACTIVE;
}

/* Handles and sends frames. A reply that we generate may end the wait of the next frame. */
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
		if (!send_batch(client, batch))
			return JUDGE_END;
	} while (judgement == JUDGE_WAIT && in->count < left && client->stream.want == WANT_INPUT &&
	         server_can_take(client->borrower.server) &&
	         ledger_ends_wait(&client->borrower.server->wire.ledger, batch->waits_for));
	return judgement;
}

/* The batch was sent. A question behind it, as any Query, ends the unnamed statement there. */
static void keep_statements(struct client *client, struct batch *batch)
{
	const struct server *server = client->borrower.server;

	if (batch->unnamed.count)
		unnamed_keep(client, batch);
	if (server && server->orders.behind_size)
		statements_leave_server(client);
}

bool relay_input(struct client *client, struct bytes in)
{
	const char *start = in.at;
	bool has_hosts = client_features(client) & CLIENT_HAS_HOSTS;
	bool may_keep = has_hosts && resend_begin(client);
	const struct server *server;
	struct batch batch;
	enum judgement judgement;

	batch_begin(&batch);
	if (client->late && client->state == CLIENT_ACTIVE &&
	    !late_begin_send(client, in.at[0], &batch))
		return client_refuse_for(client, CLOSE_MEMORY);
	judgement = judge_and_send(client, &in, &batch);
	if (judgement == JUDGE_END)
		return false;
	keep_statements(client, &batch);
	/* now, as the input may be in the buffer of the stream */
	if (has_hosts && client->state == CLIENT_ACTIVE) {
		start = batch.rest ? batch.rest : start;
		resend_keep(client, bytes_of(start, (size_t)(in.at - start)),
		            may_keep && !batch.is_answered &&
		                (judgement == JUDGE_SEND || judgement == JUDGE_MORE),
		            batch.write_count == 1);
	}
	if (judgement == JUDGE_LEAVE) {
		client->borrower.has_quit = true;
		return client_close(client, CLOSE_CLIENT_QUIT);
	}
	if (!stream_keep(&client->stream, in))
		return client_close(client, CLOSE_MEMORY);
	if (client->state != CLIENT_ACTIVE)
		return (client->state == CLIENT_IDLE || client->state == CLIENT_LATE) &&
		       may_read_without(client);
	server = client->borrower.server;
	if (stream_unsent(&server->wire.stream) == 0 && judgement != JUDGE_WAIT) {
		if (server->wire.is_ready)
			give_back(client); /* only the rest of a frame was missing */
		return client->state == CLIENT_ACTIVE && client->stream.want == WANT_INPUT;
	}
	/*
	 * Nothing would end the wait, as what it is for is there: the server waits for the rest of
	 * a COPY, and the client has sent something else.
	 */
	if (batch.waits_for != LEDGER_WAIT_NOT &&
	    ledger_ends_wait(&server->wire.ledger, batch.waits_for) &&
	    client->stream.want == WANT_INPUT && server_can_take(server)) {
		assert(server->wire.ledger.copy);
		return client_refuse(client, ERR_PROTOCOL, "unexpected message within a COPY");
	}
	client->borrower.waits_for = batch.waits_for;
	if (batch.waits_for == LEDGER_WAIT_PLACE)
		place_await(client);
	else
		stream_want(&client->stream, WANT_NOTHING);
	return false;
}

/* ---- from the server ---- */

/* Reads again, and handles buffered input. */
static void read_on_with_server(struct client *client)
{
	client->borrower.waits_for = LEDGER_WAIT_NOT;
	client_read_on(client);
}

void relay_lent(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	client->borrower.patience_now = 0;
	if (client->state != CLIENT_PREPARING &&
	    !make_ready(client, client->state != CLIENT_CATCHING_UP))
		return;
	client_enter(client, CLIENT_ACTIVE);
	if (!respell_params(client))
		return;
	if (client->request_at)
		relay_begin_query(client, client->request_at);
	read_on_with_server(client);
	drain_look(client);
}

void relay_retry(struct borrower *borrower, struct bytes messages)
{
	struct client *client = client_of(borrower);
	struct batch batch;

	batch_begin(&batch);
	batch.is_again = true;
	if (judge_all(client, &messages, &batch) == JUDGE_END)
		return;
	/* all frames were handled before, and nothing is owed any more */
	assert(messages.count == 0);
	if (messages.count)
		client_refuse(client, ERR_INTERNAL, "a batch cannot be sent again");
	else if (send_batch(client, &batch))
		keep_statements(client, &batch);
}

bool relay_bytes(struct borrower *borrower, struct bytes bytes)
{
	struct client *client = client_of(borrower);

	return client_send(client, bytes) && stream_unsent(&client->stream) == 0;
}

/*
 * A session that has reset its parameters gets those of its startup packet again. false: they are
 * being set.
 */
static bool restart_session(struct client *client)
{
	struct borrower *borrower = &client->borrower;

	take_params(client);
	server_held_after(borrower->server, HELD_RESTARTED);
	if (pool_prepare(borrower, client->params, false))
		return true;
	client_enter(client, CLIENT_PREPARING);
	return false;
}

/* A session's transaction has ended. false: what it has left is being asked, or set. */
static bool end_in_session(struct client *client)
{
	struct server *server = client->borrower.server;

	if (client->audit && audit_is_sample(client))
		client->touched |= SESSION_TOUCH_SAMPLE;
	if (client->touched && !client->frame_left && server_rest(server) == REST_FULL &&
	    ledger_is_certain(&server->wire.ledger) && ask(client))
		return false;
	/*
	 * A dedicated server was started with the client's parameters, so it resets to them itself.
	 */
	return client->replication || !server_has_reset(server) || restart_session(client);
}

void relay_ready(struct borrower *borrower, char status, bool is_settled)
{
	struct client *client = client_of(borrower);

	if (!is_settled)
		return;
	relay_end_batch(client, status);
	if (pool_rules(borrower)->mode == POOL_MODE_STATEMENT && status != 'I' &&
	    !client->replication) {
		client_refuse_for(client, CLOSE_STATEMENT_MODE);
		return;
	}
	if (borrower->server->orders.running == ORDER_ASK) {
		take_params(client); /* known also if the server is lost now */
		client_enter(client, CLIENT_SETTLING);
		return;
	}
	if (give_back(client))
		return;
	if (session_keeps_server(client) && status == 'I' && !end_in_session(client))
		return;
	if (client->stream.want == WANT_NOTHING && server_can_take(borrower->server))
		read_on_with_server(client);
	drain_look(client);
}

static void take_facts(struct client *client, const struct facts *facts)
{
	bool is_session = session_keeps_server(client);

	if (facts->parts == QUESTION_POSITION) {
		if (!causal_facts(client, facts))
			return;
		if (client->state == CLIENT_CATCHING_UP)
			relay_lent(&client->borrower);
		else
			relay_settled(client);
		return;
	}
	session_facts(client, facts);
	exposed_settle(client, facts);
	if (client->state == CLIENT_SETTLING && (is_session || listening_settle(client, facts)))
		relay_settled(client);
}

void relay_answer(struct borrower *borrower, enum order_kind order, const struct facts *facts)
{
	struct client *client = client_of(borrower);

	switch (order) {
	case ORDER_ASK:
		take_facts(client, facts);
		return;
	case ORDER_CATALOG:
		session_go_on(client);
		return;
	case ORDER_CHANNELS:
		listening_order_done(client);
		return;
	default: /* ORDER_CLOSES: exposed_withdraw() */
		relay_settled(client);
	}
}

void relay_settled(struct client *client)
{
	if (exposed_withdraw(client))
		return;
	client_enter(client, CLIENT_ACTIVE);
	if (give_back(client))
		return;
	if (client->is_gone) {
		client_close(client, CLOSE_CLIENT_EOF);
		return;
	}
	if (session_keeps_server(client) && client->listening && !listening_release(client))
		return;
	if (server_has_reset(client->borrower.server) && !restart_session(client))
		return;
	read_on_with_server(client);
	drain_look(client);
}

void relay_writable(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state != CLIENT_ACTIVE)
		return;
	if (borrower->server->wire.is_ready && give_back(client))
		return;
	/* If the wait is not over, there will be another call. */
	if (stream_unsent(&borrower->server->wire.stream) == 0 &&
	    ledger_ends_wait(&borrower->server->wire.ledger, borrower->waits_for))
		read_on_with_server(client);
}

/* ---- the client's output was flushed ---- */

void relay_idle_flushed(struct client *client)
{
	listening_deliver(client);
	if (client->state == CLIENT_IDLE && !stream_unsent(&client->stream))
		client_read_on(client);
}

void relay_flushed(struct client *client)
{
	server_read_on(client->borrower.server);
	/*
	 * The client may have got a server by a message that it sent before our reply was flushed.
	 */
	if (client->state == CLIENT_ACTIVE && client->stream.want == WANT_NOTHING &&
	    server_can_take(client->borrower.server))
		relay_writable(&client->borrower);
}
