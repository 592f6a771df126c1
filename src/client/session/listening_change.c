/* SPDX-License-Identifier: ISC */
/*
 * What a client's messages do because of LISTEN, UNLISTEN and NOTIFY: see listening_change_priv.h
 * and listening_state_priv.h.
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

bool listening_has_any(const struct client *client)
{
	return client->listening && client->listening->listener.count;
}

const char *listening_next_channel(const struct client *client, const struct subscription **at)
{
	return client->listening ? listening_next(&client->listening->listener, at) : NULL;
}

const struct listener *listening_listener(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	return listening && listening->listener.listening ? &listening->listener : NULL;
}

/* ---- the step that it waits for ---- */

static void on_step_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client_listening, timer)->client;
	struct loop *loop = client->clients->with.loop;

	/* During a SUSPEND nobody answers. */
	if (client->clients->with.pools->suspend != SUSPEND_NONE)
		timer_begin(timer, loop, USEC_PER_SEC, on_step_due);
	else
		client_refuse_for(client, CLOSE_LISTENING_TIMEOUT);
}

/* Waits until the listening connection has delivered what was committed before. */
static void ask(struct client *client, enum listening_step step)
{
	struct client_listening *listening = client->listening;
	usec_t limit = client->clients->config->server_connect_timeout;
	struct loop *loop = client->clients->with.loop;

	listening->step = step;
	listening->has_new = false;
	timer_begin(&listening->timer, loop, limit, on_step_due);
	listening_ask(&listening->listener);
}

static void remove_leaving(struct client_listening *listening)
{
	if (listening->has_leaving)
		listening_remove_leaving(&listening->listener);
	listening->has_leaving = false;
	listening_deliver_leave(listening);
}

static void on_listener_answer(struct listener *listener)
{
	struct client_listening *listening =
	    container_of(listener, struct client_listening, listener);
	struct client *client = listening->client;
	enum listening_step step = listening->step;

	timer_clear(&listening->timer);
	if (step != STEP_CLEAN)
		listening->step = STEP_NONE;
	if (step == STEP_BEFORE && client->state == CLIENT_ACTIVE) {
		listening->own_pid = listening_server_pid(client->borrower.server);
		client_read_on(client);
	}
	if (step != STEP_AFTER)
		return;
	if (listening->has_leaving && !listening_deliver_drop(listening)) {
		client_refuse_for(client, CLOSE_MEMORY);
	} else if (listening_deliver_all(client)) {
		remove_leaving(listening);
		client->clients->ops->on_settled(client);
	}
}

/* PostgreSQL's own loss of a connection looks the same. */
static void on_listener_lost(struct listener *listener, const struct err *err)
{
	client_fatal(container_of(listener, struct client_listening, listener)->client, err);
}

static const struct listener_ops client_listener_ops = {
	.on_answer = on_listener_answer,
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
	client->listening = listening;
	return listening;
}

/* ---- the channels of a text ---- */

#define MAY_CHANGE (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN)

struct reading {
	struct client *client;
	unsigned int ends;       /* COMMIT and ROLLBACK so far, */
	unsigned int ends_ahead; /* and before the last UNLISTEN */
	bool is_undone;          /* what was unlistened so far */
	bool unlistens;
	bool is_short; /* of memory */
};

static void forget_unlisten(struct unlisten *unlisten)
{
	buf_free(&unlisten->named);
	*unlisten = (struct unlisten){ 0 };
}

/* Their tags come, too, perhaps later. */
static void undo_unlisten(struct unlisten *unlisten)
{
	unsigned int before = unlisten->before + unlisten->count;

	forget_unlisten(unlisten);
	unlisten->before = before;
}

/* The connection must listen to it when the text runs. */
static void take_listen(struct reading *reading, struct bytes name)
{
	struct client *client = reading->client;
	struct client_listening *listening = client->listening;
	struct listener *listener = &listening->listener;

	/* If its own server listens, that has all new ones. */
	if (session_listens(client) || listener->count >= LISTENING_CHANNELS_MAX ||
	    listening_has(listener, name))
		return;
	reading->is_short |= !listening_join(listener, client->borrower.pool,
	                                     listening_encoding_of(client->params)) ||
	                     !listening_add(listener, name);
	buf_add(&listening->added, name.at, name.count);
	buf_add_byte(&listening->added, 0);
	listening->has_new = true;
}

static void take_unlisten(struct reading *reading, const struct sql_item *item)
{
	const struct server *server = reading->client->borrower.server;
	struct unlisten *unlisten = &reading->client->listening->unlisten;

	if (reading->is_undone)
		undo_unlisten(unlisten);
	if (unlisten->count++ == 0) {
		if (unlisten->before < server->lease.watched.unlisten_count)
			unlisten->before = server->lease.watched.unlisten_count;
		unlisten->errors = server->lease.error_count;
	}
	if (item->kind == SQL_ITEM_UNLISTEN_ALL) {
		unlisten->is_all = true;
	} else {
		buf_add(&unlisten->named, item->name.at, item->name.count);
		buf_add_byte(&unlisten->named, 0);
	}
	reading->unlistens = true;
	reading->is_undone = false;
	reading->ends_ahead = reading->ends;
}

static void take_item(void *context, const struct sql_item *item)
{
	struct reading *reading = context;

	switch (item->kind) {
	case SQL_ITEM_LISTEN:
		take_listen(reading, item->name);
		break;
	case SQL_ITEM_UNLISTEN:
	case SQL_ITEM_UNLISTEN_ALL:
		take_unlisten(reading, item);
		break;
	case SQL_ITEM_COMMIT:
	case SQL_ITEM_ROLLBACK:
		reading->ends++;
		reading->is_undone |= item->kind == SQL_ITEM_ROLLBACK;
		break;
	default:
		break;
	}
}

static void set_all_leaving(struct client_listening *listening, struct bytes channels,
                            bool are_leaving)
{
	const char *name;

	while (bytes_take_text(&channels, &name))
		listening_set_leaving(&listening->listener, bytes_text(name), are_leaving);
}

/* What was unlistened has been committed, or may have been undone. */
static void judge_unlisten(struct client_listening *listening)
{
	struct server *server = listening->client->borrower.server;
	struct unlisten *unlisten = &listening->unlisten;
	bool is_certain =
	    unlisten->count && (server->lease.watches & SERVER_WATCHES_END) &&
	    server->lease.watched.unlisten_count == unlisten->before + unlisten->count &&
	    server->lease.error_count == unlisten->errors && server->lease.watched.ahead == 0;
	enum server_end end = server_end_seen(server);
	const struct subscription *at = NULL;
	const char *name;

	if (is_certain &&
	    (end == SERVER_END_COMMIT || (end == SERVER_END_NONE && server->wire.status == 'I'))) {
		while (unlisten->is_all && (name = listening_next(&listening->listener, &at)))
			listening_set_leaving(&listening->listener, bytes_text(name), true);
		set_all_leaving(listening, buf_bytes(&unlisten->named), true);
		listening->has_leaving = true;
	}
	forget_unlisten(unlisten);
}

/* A procedure may roll back what an open batch has executed before it. */
static bool may_roll_back(const struct server *server, struct bytes text)
{
	return server->wire.ledger.is_open && server->wire.status == 'I' &&
	       (!text.count || bytes_contain(text, "call") || bytes_contain(text, "rollback"));
}

/* Notes what a text does. false: no memory. */
static bool note_text(struct client *client, unsigned int touches, struct bytes text)
{
	struct client_listening *listening = client->listening;
	struct server *server = client->borrower.server;
	struct reading reading = { .client = client };

	if (listening->is_noted)
		return true; /* it has waited */
	listening->is_noted = true;
	client->touched |= touches & MAY_CHANGE; /* also if a Parse fails, and it is not sent */
	if ((touches & SQL_TOUCH_HIDDEN) && may_roll_back(server, text))
		undo_unlisten(&listening->unlisten);
	if (listening->unlisten.count && server->lease.watched.end != SERVER_END_NONE)
		judge_unlisten(listening);
	sql_items(text, take_item, &reading);
	if (reading.unlistens)
		server_watch_end(server, reading.ends_ahead);
	return !reading.is_short && buf_ok(&listening->added) && buf_ok(&listening->unlisten.named);
}

/* ---- before a message ---- */

#define MAY_NOTIFY (SQL_TOUCH_NOTIFY | SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE) /* by triggers */

/* Whether the transaction may have notified a client that listens, at the latest by this text. */
static bool may_notify(const struct client *client, unsigned int touches)
{
	const struct server *server = client->borrower.server;

	if (!(touches & SQL_TOUCH_LISTEN))
		return touches & MAY_NOTIFY;
	/* It may have done so before it listened. */
	return touches != SQL_TOUCH_LISTEN || server->wire.status != 'I' ||
	       server->wire.ledger.is_open;
}

/* Begins to withhold the ReadyForQuery. */
static enum judgement hold_ready(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (client->touched & LISTENING_HOLDS)
		return JUDGE_SEND;
	/* Not one of an earlier transaction: it would be withheld while this one is answered. */
	if (!ledger_knows_status(&server->wire.ledger))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (!listening_change_get(client))
		return JUDGE_MEMORY;
	client->touched |= LISTENING_HOLDS;
	server_watch(server, SERVER_WATCHES_READY);
	return JUDGE_SEND;
}

enum judgement listening_follow(struct client *client, struct batch *batch)
{
	/* This message would be answered before the ReadyForQuery that is withheld. */
	return ledger_ends_wait(&client->borrower.server->wire.ledger, LEDGER_WAIT_READY)
	           ? JUDGE_SEND
	           : batch_wait(batch, LEDGER_WAIT_READY);
}

enum judgement listening_before(struct client *client, unsigned int touches, struct bytes text,
                                struct batch *batch)
{
	unsigned int relevant = SQL_TOUCH_LISTEN;
	struct client_listening *listening;
	enum judgement go;

	if (touches & (MAY_CHANGE | SQL_TOUCH_HIDDEN))
		server_watch(client->borrower.server, SERVER_WATCHES_NOTIFICATIONS);
	if (listening_has_any(client))
		relevant |= MAY_CHANGE | MAY_NOTIFY;
	if (!(touches & relevant))
		return JUDGE_SEND;
	go = hold_ready(client, batch);
	if (go != JUDGE_SEND)
		return go;
	listening = client->listening;
	if ((touches & (MAY_CHANGE | SQL_TOUCH_HIDDEN)) && !note_text(client, touches, text))
		return JUDGE_MEMORY;
	listening->may_notify |= listening_has_any(client) && may_notify(client, touches);
	if (!listening->has_new && (listening->own_pid || !listening->may_notify) &&
	    listening->step == STEP_NONE)
		return JUDGE_SEND;
	if (listening->step == STEP_NONE)
		ask(client, STEP_BEFORE);
	return batch_wait(batch, LEDGER_WAIT_NOT);
}

void listening_sent(struct client *client) { client->listening->is_noted = false; }

/* ---- the end of the transaction ---- */

/* channels: those that the server listens to. false: no memory. */
static bool settle_channels(struct client_listening *listening, struct bytes channels)
{
	struct listener *listener = &listening->listener;
	unsigned int count = listener->count;
	struct bytes added = buf_bytes(&listening->added);
	const char *name;

	set_all_leaving(listening, added, true);
	set_all_leaving(listening, channels, false);
	while (bytes_take_text(&added, &name)) {
		if (listening_has(listener, bytes_text(name)) &&
		    listening_is_leaving(listener, bytes_text(name)))
			listening_remove(listener, bytes_text(name)); /* LISTEN was undone */
	}
	buf_free(&listening->added);
	judge_unlisten(listening);
	if (listening->has_leaving)
		set_all_leaving(listening, channels, false);
	return listener->count == count || listening_deliver_drop(listening);
}

bool listening_is_hidden(const struct client *client, const struct facts *facts)
{
	struct bytes channels = buf_bytes(&facts->channels);
	const char *name;

	if (facts->too_long & QUESTION_CHANNELS)
		return true;
	while (bytes_take_text(&channels, &name)) {
		if (!client->listening ||
		    !listening_has(&client->listening->listener, bytes_text(name)))
			return true;
	}
	return false;
}

bool listening_settle(struct client *client, const struct facts *facts)
{
	struct bytes channels = buf_bytes(&facts->channels);
	struct server *server = client->borrower.server;

	if (!(facts->parts & QUESTION_CHANNELS) || !client->listening)
		return true;
	if (facts->too_long & QUESTION_CHANNELS) /* it stays, and has what was added, too */
		buf_free(&client->listening->added);
	if (!settle_channels(client->listening, channels))
		return client_refuse_for(client, CLOSE_MEMORY);
	listening_deliver_leave(client->listening);
	if (!channels.count || session_listens(client))
		return true;
	client->listening->step = STEP_CLEAN;
	server_set_dirty(server, true);
	server_order(server, &(struct order){ .kind = ORDER_CHANNELS, .text = "UNLISTEN *" });
	return false;
}

void listening_order_done(struct client *client)
{
	client->listening->step = STEP_NONE;
	server_set_dirty(client->borrower.server, session_is_pinned(client));
	client->clients->ops->on_settled(client);
}

bool listening_holds(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (!client->listening || !(client->touched & LISTENING_HOLDS))
		return false;
	client->listening->is_withheld = true;
	return true;
}

bool listening_waits(struct client *client)
{
	struct client_listening *listening = client->listening;
	bool may_notify = listening->may_notify;

	server_unwatch(client->borrower.server, SERVER_WATCHES_READY);
	listening->may_notify = false;
	if ((!may_notify && !listening->has_leaving) || !listening->is_withheld ||
	    !listening_has_any(client)) {
		remove_leaving(listening);
		return false;
	}
	ask(client, STEP_AFTER);
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
	forget_unlisten(&listening->unlisten);
	buf_free(&listening->added);
	buf_free(&listening->unread);
	free(listening);
}
