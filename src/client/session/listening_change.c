/* SPDX-License-Identifier: ISC */
/*
 * What a client's messages do because of LISTEN, UNLISTEN and NOTIFY, and the change of connections
 * at a mark: see listening_change_priv.h and listening_state_priv.h.
 *
 * Hard here: three connections take part, and each may end at any time. The client's own state is
 * one step that it waits for; its server and the listening connection call back from the loop.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/server/question.h"

#include "listening_change_priv.h"
#include "listening_state_priv.h"
#include "session_priv.h"

/* Whether the client has channels, or is getting some. */
static bool listening_has_any(const struct client *client)
{
	return client->listening && client->listening->listener.count;
}

static struct loop *loop_of(const struct client *client) { return client->clients->with.loop; }

/* PostgreSQL's own loss of a connection looks the same. */
static void on_listener_lost(struct listener *listener, const struct err *err)
{
	client_fatal(listening_client(listener), err);
}

/* The client's channels are on the listening connection, and its server listens to nothing. */
static void end_settling(struct client *client)
{
	struct client_listening *listening = client->listening;

	timer_clear(&listening->timer);
	if (listening->step == STEP_MARK && !listening_deliver_merge(listening)) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	unread_done(&listening->lent);
	listening->step = STEP_NONE;
	listening->may_notify = listening->may_notify && !listening->is_mark_there;
	listening->is_mark_here = listening->is_mark_there = false;
	if (listening->listener.listening)
		listening_confirm(&listening->listener);
	listening_deliver_leave(listening);
	server_set_dirty(client->borrower.server, session_is_pinned(client));
	client->clients->ops->on_settled(client);
}

/* Its server listens to all channels, and has the mark; the listening connection has it, too. */
static void end_home(struct client *client)
{
	struct client_listening *listening = client->listening;

	timer_clear(&listening->timer);
	listening->step = STEP_NONE;
	listening->is_server_done = listening->is_mark_here = listening->is_mark_there = false;
	client->borrower.server->lease.watches &= (uint8_t)~SERVER_WATCHES_NOTIFICATIONS;
	listening_leave(&listening->listener);
	if (!unread_move(&listening->lent, &listening->unread, listening->lent.count)) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	if (listening_deliver_all(client))
		client->clients->ops->on_settled(client);
}

static void look_for_end_of_mark(struct client *client)
{
	const struct client_listening *listening = client->listening;

	if (!listening->is_server_done || !listening->is_mark_there)
		return;
	if (listening->step == STEP_LEAVE)
		end_home(client);
	else
		end_settling(client);
}

static void on_settle_due(struct timer *timer)
{
	struct client_listening *listening = container_of(timer, struct client_listening, timer);
	struct client *client = listening->client;

	/* During a SUSPEND nobody answers. */
	if (client->clients->with.pools->suspend != SUSPEND_NONE)
		timer_set(timer, loop_timer_queue(loop_of(client), USEC_PER_SEC, on_settle_due),
		          loop_now(loop_of(client)));
	else
		client_refuse_for(client, CLOSE_LISTENING_TIMEOUT);
}

static void arm_settling(struct client *client)
{
	usec_t limit = client->clients->config->server_connect_timeout;

	timer_set(&client->listening->timer,
	          loop_timer_queue(loop_of(client), limit, on_settle_due),
	          loop_now(loop_of(client)));
}

/* The listening connection has the new channels: the change is made at the mark. */
static void begin_mark(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct listener *listener = &listening->listener;
	struct buf text = { 0 };

	listening_expect(listener);
	listening_mark(listener, listening->mark);
	listening->step = STEP_MARK;
	listening->is_server_done = listening->is_mark_here = listening->is_mark_there = false;
	buf_printf(&text, "LISTEN %s;NOTIFY %s,'%s'", listening_mark_channel(listener),
	           listening_mark_channel(listener), listening->mark);
	server_change_channels(client->borrower.server, buf_text(&text), "UNLISTEN *");
	buf_free(&text);
}

static void begin_clean(struct client *client)
{
	client->listening->step = STEP_CLEAN;
	server_change_channels(client->borrower.server, NULL, "UNLISTEN *");
}

static void leave_mark(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf text = { 0 };

	listening->step = STEP_LEAVE;
	buf_printf(&text, "UNLISTEN %s", listening_mark_channel(&listening->listener));
	server_change_channels(client->borrower.server, NULL, buf_text(&text));
	buf_free(&text);
}

bool listening_goes_home(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct server *server = client->borrower.server;
	const struct subscription *at = NULL;
	struct buf text = { 0 };
	const char *name;

	if (!listening_has_any(client) || listening->step != STEP_NONE || client->frame_left ||
	    server->wire.status != 'I' || server->lease.cancel_count ||
	    server->wire.ledger.is_open || ledger_needs_more(&server->wire.ledger) ||
	    ledger_owes_borrower(&server->wire.ledger) || !ledger_is_certain(&server->wire.ledger))
		return false;
	while ((name = listening_next(&listening->listener, &at))) {
		buf_add_text(&text, "LISTEN ");
		listening_add_name(&text, bytes_text(name));
		buf_add_byte(&text, ';');
	}
	listening_expect(&listening->listener);
	listening_mark(&listening->listener, listening->mark);
	name = listening_mark_channel(&listening->listener);
	buf_printf(&text, "LISTEN %s;NOTIFY %s,'%s'", name, name, listening->mark);
	listening->step = STEP_HOME;
	listening->is_server_done = listening->is_mark_here = listening->is_mark_there = false;
	server->lease.watches |= SERVER_WATCHES_NOTIFICATIONS;
	arm_settling(client);
	client_enter(client, CLIENT_SETTLING);
	stream_want(&client->stream, WANT_END);
	server_push(server);
	if (buf_ok(&text))
		server_change_channels(server, NULL, buf_text(&text));
	else
		client_refuse_for(client, CLOSE_MEMORY);
	buf_free(&text);
	return true;
}

void listening_errand_done(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (listening->step == STEP_HOME) {
		leave_mark(client);
		return;
	}
	if (listening->step == STEP_CLEAN) {
		end_settling(client);
		return;
	}
	listening->is_server_done = true;
	look_for_end_of_mark(client);
}

static void on_listener_mark(struct listener *listener)
{
	struct client *client = listening_client(listener);

	client->listening->is_mark_there = true;
	client->listening->early_count = client->listening->unread.count;
	look_for_end_of_mark(client);
}

static void on_listener_answer(struct listener *listener)
{
	struct client *client = listening_client(listener);
	struct client_listening *listening = client->listening;

	switch (listening->step) {
	case STEP_BEFORE:
		listening->step = STEP_NONE;
		if (client->state != CLIENT_ACTIVE)
			return;
		listening->is_clear = listening->is_caught_up = true;
		listening->sure_count = listening->unread.count;
		listening->own_pid = listening_server_pid(client->borrower.server);
		client_read_on(client);
		return;
	case STEP_AFTER:
		listening->step = STEP_NONE;
		client->clients->ops->on_settled(client);
		return;
	case STEP_CONNECT:
		begin_mark(client);
		return;
	default:
		return;
	}
}

static const struct listener_ops client_listener_ops = {
	.on_answer = on_listener_answer,
	.on_mark = on_listener_mark,
	.on_notification = listening_deliver_notification,
	.on_lost = on_listener_lost,
};

struct client_listening *listening_change_get(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (listening)
		return listening;
	listening = calloc(1, sizeof(*listening));
	if (!listening)
		return NULL;
	listening->client = client;
	listening->listener.ops = &client_listener_ops;
	TAILQ_INIT(&listening->unlistens);
	TAILQ_INIT(&listening->aheads);
	client->listening = listening;
	return listening;
}

/* Adds the channels that the client does not have. false: it was closed. */
static bool add_channels(struct client *client, const struct listening_names *names)
{
	struct client_listening *listening = listening_change_get(client);
	struct listener *listener = listening ? &listening->listener : NULL;
	bool is_added = listener && listening_join(listener, client->borrower.pool,
	                                           listening_encoding_of(client->params));

	for (size_t i = 0; is_added && i < names->count; i++) {
		struct bytes name = bytes_text(names->list[i]);

		if (listener->count >= LISTENING_CHANNELS_MAX) {
			client_refuse_for(client, CLOSE_LISTENING_CHANNELS);
			return false;
		}
		if (!listening_is_ours(listening, name.at) && !listening_has(listener, name))
			is_added = listening_add(listener, name);
	}
	if (!is_added)
		client_refuse_for(client, CLOSE_MEMORY);
	return is_added;
}

/* Whether the server listens to what the client has listened to before. */
static bool has_all_old(const struct client_listening *listening,
                        const struct listening_names *names)
{
	const struct subscription *at = NULL;
	const char *name;

	while ((name = listening_next(&listening->listener, &at))) {
		if (listening_has_old(&listening->listener, bytes_text(name)) &&
		    !listening_names_have(names, name))
			return false;
	}
	return true;
}

/* The server listens to some channels. */
static void settle_channels(struct client *client, const struct listening_names *names)
{
	unsigned int before = client->listening ? client->listening->listener.count : 0;
	struct client_listening *listening;

	server_set_dirty(client->borrower.server, true);
	/* The mark will come; in session mode nobody has watched. */
	client->borrower.server->lease.watches |= SERVER_WATCHES_NOTIFICATIONS;
	if (!add_channels(client, names))
		return;
	listening = client->listening;
	listening->had_channels = before > 0;
	listening->is_lent_complete = has_all_old(listening, names);
	if (listening->listener.count == before) {
		begin_clean(client);
		return;
	}
	arm_settling(client);
	if (listening_is_ready(&listening->listener)) {
		begin_mark(client);
		return;
	}
	listening->step = STEP_CONNECT;
	listening->is_mark_here = false; /* of an earlier LISTEN */
	listening_ask(&listening->listener);
}

bool listening_settle(struct client *client, const struct facts *facts)
{
	struct bytes channels = buf_bytes(&facts->channels);
	struct listening_names names;

	if (!(facts->parts & QUESTION_CHANNELS))
		return true;
	if (!listening_names_read(&names, channels) ||
	    (client->listening && !listening_unlisten_judge(client->listening, &names))) {
		client_refuse_for(client, CLOSE_MEMORY);
		listening_names_free(&names);
		return false;
	}
	if (names.count)
		settle_channels(client, &names);
	else if (client->listening)
		listening_deliver_leave(client->listening);
	listening_names_free(&names);
	return channels.count == 0;
}

/* ---- before a message, and behind it ---- */

#define MAY_NOTIFY (SQL_TOUCH_NOTIFY | SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE) /* by triggers */

/*
 * Waits for all notifications that were committed before. For NOTIFY: those of the server's former
 * borrower must have come before those of this one. For UNLISTEN: PostgreSQL would have sent them
 * before it reads the text.
 */
static enum listening_go catch_up(struct client *client, struct batch *batch)
{
	struct client_listening *listening = client->listening;

	if (listening->step == STEP_NONE) {
		listening->step = STEP_BEFORE;
		listening_ask(&listening->listener);
	}
	return listening_wait(batch, LEDGER_WAIT_NOT);
}

/*
 * DISCARD ALL runs outside of transaction blocks only, so nothing can be sent with it, and it has
 * an effect if it succeeds.
 */
static bool is_discard(unsigned int touches)
{
	return (touches & SQL_TOUCH_UNLISTEN) && (touches & SQL_TOUCH_FORGET);
}

void listening_discarded(struct client *client)
{
	if (client->listening && client->listening->is_discarding)
		client->listening->is_discarded = true;
}

/* Begins to withhold the ReadyForQuery. */
static enum listening_go hold_ready(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (client->touched & LISTENING_HOLDS)
		return LISTENING_SEND;
	/* Not one of an earlier transaction: it would be withheld while this one is answered. */
	if (!ledger_knows_status(&server->wire.ledger))
		return listening_wait(batch, LEDGER_WAIT_READY);
	if (!listening_change_get(client))
		return LISTENING_END;
	client->touched |= LISTENING_HOLDS;
	server->lease.watches |= SERVER_WATCHES_READY;
	return LISTENING_SEND;
}

/* The ReadyForQuery is withheld, and the client has notifications of its own before it. */
static enum listening_go before_any(struct client *client, unsigned int touches,
                                    struct batch *batch)
{
	bool has_any = listening_has_any(client), may_notify = has_any && (touches & MAY_NOTIFY);
	bool unlistens = has_any && (touches & SQL_TOUCH_UNLISTEN);
	enum listening_go go = LISTENING_SEND;

	if ((touches & SQL_TOUCH_LISTEN) || may_notify || unlistens)
		go = hold_ready(client, batch);
	if (go != LISTENING_SEND || !has_any)
		return go;
	client->listening->may_notify |= may_notify;
	if ((unlistens && !client->listening->is_caught_up) ||
	    (may_notify && !client->listening->is_clear))
		return catch_up(client, batch);
	return LISTENING_SEND;
}

enum listening_go listening_follow(struct client *client, char type, struct batch *batch)
{
	/* This message would be answered before the ReadyForQuery that is withheld. */
	if ((client->touched & LISTENING_HOLDS) &&
	    !ledger_ends_wait(&client->borrower.server->wire.ledger, LEDGER_WAIT_READY))
		return listening_wait(batch, LEDGER_WAIT_READY);
	return listening_unlisten_follow(client, type, batch);
}

enum listening_go listening_before(struct client *client, char type, unsigned int touches,
                                   struct bytes text, struct batch *batch)
{
	struct server *server = client->borrower.server;
	enum listening_go go = before_any(client, touches, batch);

	if (go != LISTENING_SEND)
		return go;
	if (touches & (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN))
		server->lease.watches |= SERVER_WATCHES_NOTIFICATIONS;
	if (!listening_has_any(client))
		return LISTENING_SEND;
	if (is_discard(touches)) {
		client->listening->is_discarding = true;
		return LISTENING_SEND;
	}
	if (touches & (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN))
		go = listening_unlisten_before(client, type, touches, text, batch);
	return go;
}

void listening_sent(struct client *client)
{
	if (client->listening)
		client->listening->is_ahead = false;
}

bool listening_holds(struct client *client)
{
	if (!client->listening || !(client->touched & LISTENING_HOLDS))
		return false;
	client->listening->is_withheld = true;
	return true;
}

bool listening_waits(struct client *client)
{
	struct client_listening *listening = client->listening;
	bool may_notify = listening && listening->may_notify;

	if (!listening)
		return false;
	client->borrower.server->lease.watches &= (uint8_t)~SERVER_WATCHES_READY;
	listening->may_notify = false;
	unread_done(&listening->lent);
	if (!may_notify || !listening->is_withheld || !listening_has_any(client))
		return false;
	listening->step = STEP_AFTER;
	listening_ask(&listening->listener);
	return true;
}

void listening_free(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening)
		return;
	client->listening = NULL;
	timer_clear(&listening->timer);
	listening_leave(&listening->listener);
	listening_unlisten_free(listening);
	unread_done(&listening->unread);
	unread_done(&listening->lent);
	buf_free(&listening->ahead);
	free(listening);
}
