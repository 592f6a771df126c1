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

#include "pgweir/pgwire/message.h"

#include "../session/listening_change_priv.h"
#include "../session/resets_priv.h"
#include "../session/session_priv.h"
#include "../statements/names_priv.h"
#include "../statements/statements_priv.h"
#include "causal_priv.h"
#include "relay_priv.h"
#include "late_begin_priv.h"

/* ---- from the client ---- */

/* No more input follows this batch: makes the server answer all of it. */
static void send_whole(struct server *server, struct batch *batch)
{
	static const char flush[] = { 'H', 0, 0, 0, 4 };

	if (ledger_flush(&server->wire.ledger))
		batch_run(batch, bytes_of(flush, sizeof(flush)));
	batch_send(batch);
	server_push(server);
}

/* Sends the batch, and the replies that are generated here. false: the client was closed. */
static bool send_batch(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;

	batch->server = server;
	if (batch->ends)
		causal_ask_behind(client, batch);
	batch->ends = false;
	if (batch->waits_for == LEDGER_WAIT_NOT)
		batch_send(batch);
	else
		send_whole(server, batch);
	server_set_mid_request(server, client->frame_left && client->forwards_rest);
	batch->is_answered |= ledger_owes(&server->wire.ledger, LEDGER_ANSWER);
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
static void keep_statements(struct client *client, const struct batch *batch)
{
	const struct server *server = client->borrower.server;

	if (batch->unnamed.count)
		unnamed_keep(client, batch);
	if (server && server->ask_size)
		statements_leave_server(client);
}

bool relay_input(struct client *client, struct bytes in)
{
	const struct bytes whole = in;
	bool may_resend = client_features(client) & CLIENT_HAS_HOSTS;
	bool is_first = !client->borrower.server && !client->late;
	struct resend resend;
	struct batch batch;
	enum judgement judgement;
	struct server *server;

	if (may_resend)
		resend_begin(client, &resend);
	batch_begin(&batch);
	if (client->late && client->state == CLIENT_ACTIVE &&
	    !late_begin_send(client, in.at[0], &batch)) {
		client_refuse_for(client, CLOSE_MEMORY);
		return false;
	}
	judgement = judge_and_send(client, &in, &batch);
	if (judgement == JUDGE_END)
		return false;
	keep_statements(client, &batch);
	if (is_first && !may_resend && client->borrower.server &&
	    client->borrower.server->is_cleaning) {
		resend_begin_behind(client, &resend);
		may_resend = true;
	}
	/* now, as `whole` may be in the buffer of the stream */
	if (may_resend && resend.is_first && client->state == CLIENT_ACTIVE && !batch.is_answered &&
	    (judgement == JUDGE_SEND || judgement == JUDGE_MORE))
		resend_keep(client, &resend, bytes_of(whole.at, whole.count - in.count),
		            batch.late);
	server = client->borrower.server;
	if (judgement == JUDGE_LEAVE) {
		client->borrower.has_quit = true;
		client_close(client, CLOSE_CLIENT_QUIT);
		return false;
	}
	if (!stream_keep(&client->stream, in)) {
		client_close(client, CLOSE_MEMORY);
		return false;
	}
	if (client->state != CLIENT_ACTIVE)
		return client->state == CLIENT_IDLE || client->state == CLIENT_LATE;
	if (stream_unsent(&server->wire.stream) == 0 && judgement != JUDGE_WAIT) {
		if (server->wire.is_ready && !relay_is_session(client) && client->frame_left == 0)
			relay_give_back(client); /* only the rest of a frame was missing */
		return client->state == CLIENT_ACTIVE && client->stream.want == WANT_INPUT;
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

	if (client->state == CLIENT_WAITING || client->state == CLIENT_IDLE) {
		timer_clear(&client->timer);
		if (client->is_position_due && !causal_is_caught_up(client))
			return;
	}
	if (client->state == CLIENT_WAITING || client->state == CLIENT_IDLE ||
	    client->state == CLIENT_CATCHING_UP) {
		session_begin_sample(client);
		if (!pool_prepare(borrower, client->params, true)) {
			client_enter(client, CLIENT_PREPARING);
			return;
		}
	}
	client_enter(client, CLIENT_ACTIVE);
	if (!relay_respell_params(client))
		return;
	if (client->request_at)
		server_begin_query(borrower->server, client->request_at, client->xact_at);
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

	relay_take_params(client);
	server_settle_rest(borrower->server);
	if (pool_prepare(borrower, client->params, false))
		return true;
	client_enter(client, CLIENT_PREPARING);
	stream_want(&client->stream, WANT_END);
	return false;
}

/*
 * A session may have reset parameters: asks the server for them. false: it cannot be asked now.
 */
static bool ask_session(struct client *client)
{
	struct server *server = client->borrower.server;

	if (client->frame_left || server_rest(server) != REST_FULL || server->lease.cancel_count ||
	    !ledger_is_certain(&server->wire.ledger))
		return false;
	session_mode_ask(client);
	client_enter(client, CLIENT_SETTLING);
	stream_want(&client->stream, WANT_END);
	return true;
}

void relay_ready(struct borrower *borrower, char status, bool is_settled)
{
	struct client *client = client_of(borrower);

	if (!is_settled)
		return;
	relay_end_batch(client, status);
	if (borrower->pool->limits.mode == POOL_MODE_STATEMENT && status != 'I' &&
	    !client->replication) {
		client_refuse_for(client, CLOSE_STATEMENT_MODE);
		return;
	}
	if (server_is_asked(borrower->server)) {
		relay_take_params(client); /* known also if the server is lost now */
		causal_await(client);
		return;
	}
	if (!relay_is_session(client) && relay_give_back(client))
		return;
	if (client->audit && relay_is_session(client) && status == 'I' && audit_is_sample(client))
		client->touched |= SESSION_TOUCH_SAMPLE;
	if (relay_is_session(client) && client->touched && status == 'I' && ask_session(client))
		return;
	/*
	 * A dedicated server was started with the client's parameters, so it resets to them itself.
	 */
	if (relay_is_session(client) && !client->replication &&
	    server_has_reset(borrower->server) && status == 'I' && !restart_session(client))
		return;
	if (client->stream.want == WANT_NOTHING && server_can_take(borrower->server))
		read_on_with_server(client);
	drain_look(client);
}

void relay_deallocated(struct borrower *borrower)
{
	names_forget(client_of(borrower));
	session_deallocated(client_of(borrower));
}

static void take_facts(struct client *client, const struct facts *facts)
{
	bool is_session = relay_is_session(client);

	if (facts->parts == QUESTION_POSITION) {
		if (!causal_facts(client, facts))
			return;
		if (client->state == CLIENT_CATCHING_UP)
			relay_lent(&client->borrower);
		else
			relay_settled(client);
		return;
	}
	if (is_session)
		session_mode_facts(client, facts);
	else
		session_facts(client, facts);
	exposed_settle(client, facts);
	if (client->state == CLIENT_SETTLING && (is_session || listening_settle(client, facts)))
		relay_settled(client);
}

void relay_answer(struct borrower *borrower, enum errand_kind errand, const struct facts *facts)
{
	struct client *client = client_of(borrower);

	switch (errand) {
	case ERRAND_ASK:
		take_facts(client, facts);
		return;
	case ERRAND_CATALOG:
		session_go_on(client, !statements_spare_unnamed(client));
		return;
	case ERRAND_CHANNELS:
		listening_errand_done(client);
		return;
	default: /* ERRAND_CLOSES: exposed_withdraw() */
		relay_settled(client);
	}
}

void relay_settled(struct client *client)
{
	if (exposed_withdraw(client))
		return;
	client_enter(client, CLIENT_ACTIVE);
	if (!relay_is_session(client) && relay_give_back(client))
		return;
	if (client->is_gone) {
		client_close(client, CLOSE_CLIENT_EOF);
		return;
	}
	if (relay_is_session(client) && client->listening && !listening_release(client))
		return;
	if (server_has_reset(client->borrower.server) && !restart_session(client))
		return;
	read_on_with_server(client);
	drain_look(client);
}

bool relay_holds_ready(struct borrower *borrower) { return listening_holds(client_of(borrower)); }

bool relay_takes_notification(struct borrower *borrower, struct bytes frame, struct buf *instead)
{
	return listening_takes(client_of(borrower), frame, instead);
}

bool relay_takes_parameter(struct borrower *borrower, const char *name, const char *value,
                           struct buf *instead)
{
	return resets_take_report(client_of(borrower), name, value, instead);
}

void relay_before_ready(struct borrower *borrower, struct buf *ahead)
{
	resets_tell(client_of(borrower), ahead);
}

void relay_writable(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state != CLIENT_ACTIVE)
		return;
	if (borrower->server->wire.is_ready && !relay_is_session(client) && relay_give_back(client))
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

void relay_preparing_flushed(struct client *client) { server_read_on(client->borrower.server); }

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
