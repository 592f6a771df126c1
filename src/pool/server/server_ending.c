/* SPDX-License-Identifier: ISC */
/*
 * Servers that nobody waits for any more: what runs there is cancelled, and then the server is
 * cleaned and kept, or closed.
 *
 *   LENT --> ENDING --> cancel request --> cleaning --> its mark --> RESETTING --> home
 *                              |              |
 *                              |              +--> it fails, or cancel_grace is over --> CLOSING
 *                              +--> Terminate --> PostgreSQL ends the connection ------> CLOSING
 *
 * So does a server at rest, if there are limits that PostgreSQL may have as well: until its process
 * has ended, PostgreSQL counts it.
 *
 * Hard here: what the server owes may be uncertain, and the borrower may have left in the middle of
 * a COPY or of a batch. So the replies are not matched with requests. The cleaning ends whatever
 * there is, and its last answer is a row that nobody else could have sent: a random mark. Behind
 * that, nothing is owed.
 */
#include "server_priv.h"

#include <string.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

/* ---- whether, and how ---- */

/* Whether the server works for somebody: PostgreSQL would notice the end only with its answer. */
static bool works(const struct server *server)
{
	return server_rest(server) == REST_WORKING && !ledger_is_empty(&server->wire.ledger);
}

/* By the reason why the server is closed. */
enum ending_rule {
	STOPS = 1, /* what runs there must not go on */
	SPARES = 2 /* it is only the borrower, or its time, that has ended */
};

static const unsigned char rules[CLOSE_REASONS] = {
	[CLOSE_QUERY_TIMEOUT] = STOPS | SPARES, [CLOSE_TRANSACTION_TIMEOUT] = STOPS | SPARES,
	[CLOSE_CLIENT_LEFT] = STOPS | SPARES,   [CLOSE_DATABASE_REMOVED] = STOPS,
	[CLOSE_SUSPEND_TIMEOUT] = STOPS,        [CLOSE_RESET_TIMEOUT] = STOPS,
	[CLOSE_IDLE_TRANSACTION] = SPARES,      [CLOSE_CLIENT_QUIT_EARLY] = SPARES,
};

/* Whether DISCARD ALL restores what its login left, and the administrator wants no other reset. */
static bool can_be_cleaned(const struct server *server)
{
	const struct config *config = server->site->shared->config;
	const char *reset = config->server_reset_query;

	return config->cancel_grace && server->state == SERVER_LENT && !server->close_reason &&
	       !server->site->cannot_clean && !server->site->entry->connect_query &&
	       !held_after(server->session.held, HELD_KEPT) && !server->wire.is_mid_request &&
	       !stream_unsent(&server->wire.stream) &&
	       !(server->wire.ledger.copy >= LEDGER_BOTH_OPEN) &&
	       (!*reset || strcasecmp(reset, "DISCARD ALL") == 0);
}

/*
 * Whether it matters when PostgreSQL has ended the connection: until then it counts it, and may
 * commit a definition.
 */
static bool must_leave(const struct server *server)
{
	const struct config *config = server->site->shared->config;

	return (config->max_server_connections || config->max_host_connections ||
	        (server->lease.definition.is_under_way && works(server))) &&
	       server->state >= SERVER_IDLE && server->state < SERVER_ENDING &&
	       !stream_has_hung_up(&server->wire.stream);
}

enum ending_how server_ending(const struct server *server, enum close_reason reason)
{
	bool is_running = works(server);
	bool is_at_work = server->state == SERVER_RESETTING ||
	                  (server->state == SERVER_LENT && server->orders.running == ORDER_NONE);

	if (server_got_fatal(server) || server->wire.stream.error || server_is_dedicated(server))
		return ENDING_NOT;
	if (is_at_work && (!is_running || (server->key.size && (rules[reason] & STOPS)))) {
		if ((rules[reason] & SPARES) && can_be_cleaned(server))
			return ENDING_KEEPS;
		if (is_running)
			return ENDING_CLOSES;
	}
	return must_leave(server) ? ENDING_LEAVES : ENDING_NOT;
}

/* ---- the mark ---- */

bool server_draw_mark(struct server *server)
{
	unsigned char random[ENDING_MARK_SIZE / 2];

	if (!digest_random(random, sizeof(random)))
		return false;
	text_hex(server->wire.ending.mark, random, sizeof(random));
	return true;
}

bool server_is_mark(const struct server *server, struct bytes row)
{
	static const char head[] = { 0, 1, 0, 0, 0, ENDING_MARK_SIZE };

	return row.count == sizeof(head) + ENDING_MARK_SIZE &&
	       memcmp(row.at, head, sizeof(head)) == 0 &&
	       memcmp(row.at + sizeof(head), server->wire.ending.mark, ENDING_MARK_SIZE) == 0;
}

/* ---- the cleaning ---- */

/* ROLLBACK before the Sync, which would commit; and again, if that was skipped after an error. */
static void send_cleaning(struct server *server)
{
	struct buf text = { 0 }, out = { 0 };
	size_t at;

	server->wire.ending.how = ENDING_CLEANS;
	server->wire.ending.cleaned = CLEANED_NOT;
	if (!server_draw_mark(server)) {
		server_give_up(server);
		return;
	}
	buf_printf(&text, "SELECT '%s'FROM ", server->wire.ending.mark);
	server_add_seed(&text);
	at = message_begin(&out, 'f'); /* CopyFail */
	buf_add_cstr(&out, "canceled");
	message_end(&out, at);
	message_query(&out, "ROLLBACK");
	message_bare(&out, 'S');
	message_query(&out, "ROLLBACK");
	message_query(&out, "DISCARD ALL");
	message_query(&out, buf_text(&text));
	if (!buf_ok(&text) || !buf_ok(&out) || !stream_send(&server->wire.stream, buf_bytes(&out)))
		server_give_up(server);
	buf_free(&text);
	buf_free(&out);
}

/* All that the session had is gone, and nothing is owed: as after the login. */
static void keep(struct server *server)
{
	const struct server_shared *shared = server->site->shared;

	log_debug(&server->log, "canceled and cleaned: the server is kept");
	server_end_definition(server);
	params_release(shared->params, &server->session.params);
	server_renew_session(server);
	server->wire.ending = (struct server_ending){ 0 };
	server->wire.is_ready = true;
	server->wire.is_mid_response = false;
	server->orders.behind_size = 0;
	server->orders.failure = CLOSE_NONE;
	server->lease.sequences = (struct server_sequences){ .state = SEQUENCES_NONE };
	server->lease.watches = 0;
	server->lease.request_at = server->lease.xact_at = 0;
	timer_clear(&server->xact);
	server_end_runs(server);
	server_need_close(server, CLOSE_NONE);
	server_enter(server, SERVER_RESETTING);
	server->site->ops->on_home(server);
}

/* ---- what arrives ---- */

enum frame_fate server_ending_frame(struct server *server, char type, struct bytes body)
{
	enum ending_cleaned *cleaned = &server->wire.ending.cleaned;

	/* What a borrower has sent may still be answered, with any row and any tag. */
	if (server->wire.ending.how != ENDING_CLEANS)
		return FRAME_DROP;
	switch (type) {
	case 'C':
		*cleaned = bytes_equal(body, bytes_of("DISCARD ALL", 12)) ? CLEANED_DISCARDED
		           : *cleaned == CLEANED_MARKED                   ? CLEANED_MARKED
		                                                          : CLEANED_NOT;
		return FRAME_DROP;
	case 'D':
		if (!server_is_mark(server, body))
			return FRAME_DROP;
		if (*cleaned != CLEANED_DONE)
			break; /* the request may have canceled the cleaning */
		*cleaned = CLEANED_MARKED;
		return FRAME_DROP;
	case 'Z':
		if (fields_ready(body, &server->wire.status) != WIRE_OK)
			break;
		if (*cleaned == CLEANED_MARKED && server->wire.status == 'I')
			keep(server);
		else
			*cleaned = *cleaned == CLEANED_DISCARDED && server->wire.status == 'I'
			               ? CLEANED_DONE
			               : CLEANED_NOT;
		return FRAME_DROP;
	default:
		return FRAME_DROP;
	}
	server_give_up(server);
	return FRAME_STOP;
}

/* ---- the beginning ---- */

bool server_begin_ending(struct server *server, enum ending_how how)
{
	bool must_cancel = how != ENDING_LEAVES && works(server);

	/* What is unsent may begin with the rest of a frame: Terminate would be read as that. */
	server->wire.is_mid_request |= stream_drop_unsent(&server->wire.stream);
	server->used_at = loop_now(server->site->shared->loop);
	timer_clear(&server->xact);
	server->wire.ending.how = how;
	server_enter(server, SERVER_ENDING);
	server_release_work(server);
	if (stream_is_halted(&server->wire.stream))
		stream_go_on(&server->wire.stream);
	return stream_want(&server->wire.stream, WANT_INPUT) && must_cancel;
}

void server_canceled(struct server *server)
{
	switch (server->wire.ending.how) {
	case ENDING_KEEPS:
		send_cleaning(server);
		return;
	case ENDING_LEAVES:
	case ENDING_CLOSES:
		if (server->wire.farewell == FAREWELL_OURS)
			return;
		server->wire.farewell = FAREWELL_OURS;
		server_say_goodbye(server);
		if (!stream_unsent(&server->wire.stream))
			stream_finish(&server->wire.stream);
		return;
	default:
		return;
	}
}
