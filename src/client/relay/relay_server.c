/* SPDX-License-Identifier: ISC */
/*
 * A client's batches and transactions, and the server that is lent to it for them.
 *
 * In transaction mode a server is returned at the end of each transaction, as soon as neither side
 * owes the other anything.
 */
#include "pgweir/base/probes.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_block.h"

#include "../session/listening_change_priv.h"
#include "../session/session_priv.h"
#include "../statements/statements_priv.h"
#include "causal_priv.h"
#include "late_begin_priv.h"
#include "relay_priv.h"
#include "track_priv.h"

static usec_t now_of(const struct client *client) { return loop_now(client->clients->with.loop); }

/* ---- batches and transactions ---- */

void relay_begin_batch(struct client *client)
{
	struct stats *stats = &client->borrower.pool->stats;

	if (client->request_at)
		return;
	client->request_at = now_of(client);
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

/* Notes the times of a batch and of a transaction, either of which may be 0. */
__attribute__((noinline)) static void note_apart(struct pool *pool, usec_t since, usec_t xact_since,
                                                 usec_t now)
{
	if (since)
		pools_note_time(pool, LATENCY_STATEMENT, since, now);
	if (xact_since)
		pools_note_time(pool, LATENCY_XACT, xact_since, now);
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
		pools_note_time(pool, LATENCY_STATEMENT_XACT, since, now);
	else
		note_apart(pool, since, xact_since, now);
}

void relay_end_batch(struct client *client, char status)
{
	usec_t now = now_of(client), since = client->request_at;
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
	bool is_exact = !client->borrower.server->session.is_rest_unknown;
	struct params_pair again[PARAMS_NAMES_MAX];
	struct params_seek seek = { 0 };
	const char *at = NULL, *name, *value, *now;
	size_t count = 0;

	while (params_next(client->startup, &at, &name, &value)) {
		/* \001 is the value of unknown parameters: see UNKNOWN in server_params.c. */
		if (params_seek(client->params, &seek, name, &now) ? *now == '\001' : !is_exact)
			again[count++] = (struct params_pair){ name, value };
	}
	params_change_all(client->clients->with.params, &client->params, again, count);
	/* The client has no value of its own for others that are unknown. */
	at = NULL;
	count = 0;
	while (params_next(client->params, &at, &name, &value)) {
		if (*value == '\001')
			again[count++] = (struct params_pair){ name, NULL };
	}
	params_change_all(client->clients->with.params, &client->params, again, count);
}

void relay_take_params(struct client *client)
{
	const struct server *server = client->borrower.server;

	if (client->params != server->session.params) {
		const struct params *old = client->params;

		client->params = params_hold(server->session.params);
		params_release(client->clients->with.params, &old);
	}
	if (server_has_reset(server))
		restore_startup_params(client);
}

__attribute__((noinline)) static bool respell_params(struct client *client)
{
	const struct server *server = client->borrower.server;
	const struct params *old = client->params;
	const char *at = NULL, *name, *value, *now;
	struct buf out = { 0 };
	bool is_sent = true;

	while (params_next(old, &at, &name, &value)) {
		now = server_value(server, server->session.params, name);
		if (params_find(server->session.baseline, name) && strcmp(now, value) != 0)
			message_parameter(&out, name, now);
	}
	client->params = params_hold(server->session.params);
	params_release(client->clients->with.params, &old);
	if (out.count)
		is_sent = client_send(client, buf_bytes(&out));
	buf_free(&out);
	return is_sent;
}

bool relay_respell_params(struct client *client)
{
	return client->params == client->borrower.server->session.params || respell_params(client);
}

/* Without a server: handles input that was buffered in the meantime. */
static void read_on_without(struct client *client)
{
	if (stream_unsent(&client->stream)) {
		stream_want(&client->stream, WANT_NOTHING); /* on_flushed() reads again */
		return;
	}
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
	if (!session_ask(client, !statements_spare_unnamed(client)))
		return false;
	client_enter(client, CLIENT_SETTLING);
	stream_want(&client->stream, WANT_END);
	return true;
}

bool relay_give_back(struct client *client)
{
	struct server *server = client->borrower.server;

	if (client->frame_left || server_rest(server) != REST_FULL)
		return false;
	/* After a failed COPY a Sync may still be answered: the next client must not get that. */
	if (!ledger_is_certain(&server->wire.ledger)) {
		server_make_certain(server);
		return false;
	}
	/*
	 * pool_mode was session until now: the server may have anything of the client. Or a value
	 * is not known in the encoding of the database.
	 */
	if ((server->session.has_session || server->session.has_unclear_report) &&
	    session_is_watched(client))
		session_run_unknown(client);
	if (client->touched && ask(client))
		return true;
	if (client->touched)
		return false;
	if (client->listening && listening_waits(client)) {
		client_enter(client, CLIENT_SETTLING);
		stream_want(&client->stream, WANT_END);
		return true;
	}
	if (client->listening && !listening_release(client))
		return true;
	if (session_stays(client)) {
		session_idle_begin(client);
		listening_deliver(client);
		return false;
	}
	if (client->is_position_due && !causal_ends_unasked(client)) {
		if (server->lease.cancel_count)
			return false;      /* as in ask() */
		relay_take_params(client); /* known also if the server is lost now */
		causal_ask(client);
		return true;
	}
	relay_take_params(client);
	statements_leave_server(client);
	pool_return(&client->borrower);
	go_idle(client);
	return true;
}

bool relay_get_server(struct client *client)
{
	struct borrower *borrower = &client->borrower;
	struct err err;

	relay_begin_batch(client);
	if (pool_take(borrower)) {
		timer_clear(&client->timer);
		if (client->is_position_due && !causal_is_caught_up(client))
			return false;
		session_begin_sample(client);
		if (pool_prepare(borrower, client->params, true)) {
			client_enter(client, CLIENT_ACTIVE);
			server_begin_query(borrower->server, client->request_at, client->xact_at);
			return relay_respell_params(client);
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

/* ---- waiting for a server ---- */

/*
 * Whether a client waits that is about to begin a transaction. What it sends behind that is meant
 * for the transaction, and may not have arrived yet: if only the beginning were canceled, the rest
 * would be committed alone.
 */
static bool begins_block(const struct client *client, const struct frame *frame, struct bytes in)
{
	struct bytes text;

	if (client->late || in.count < frame->length)
		return false;
	return route_frame_text(client, frame, in, &text) && !sql_is_no_block(text);
}

bool relay_cancel_waiting(struct client *client)
{
	struct bytes in = stream_kept(&client->stream);
	struct buf out = { 0 };
	struct frame frame;
	struct err err;
	bool is_sent;

	if (frame_peek(in, UINT32_MAX, &frame) != WIRE_OK)
		return true; /* the client waits, so a whole header is available */
	if (begins_block(client, &frame, in))
		return true;
	err_set(&err, ERR_QUERY_CANCELED, "canceling statement due to user request");
	message_err(&out, "ERROR", &err);
	client_note_said(client, &err, "ERROR");
	if (frame.type == 'Q' || frame.type == 'F')
		message_ready(&out, client->late ? 'E' : 'I');
	else
		client->is_skipping = true;
	pool_give_up(&client->borrower);
	pool_drop_place(&client->borrower);
	relay_end_batch(client, client->late ? 'E' : 'I');
	is_sent = client_send(client, buf_bytes(&out));
	buf_free(&out);
	if (!is_sent)
		return true;
	if (!client->is_skipping) {
		client->frame_left = frame.length;
		client->forwards_rest = false;
	}
	if (!client->late) {
		go_idle(client);
		return true;
	}
	late_begin_fail(client);
	read_on_without(client);
	return true;
}
