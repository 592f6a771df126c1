/* SPDX-License-Identifier: ISC */
/*
 * LISTEN, UNLISTEN and NOTIFY of a client in transaction mode.
 *
 * The client's statements run on the server lent to it, with all their rules: an error, a ROLLBACK
 * and a ROLLBACK TO undo them. The functions are called in the order in which the header has them.
 *
 * LISTEN. Before a text is sent, the pool's listening connection (pool/listening.h) listens to the
 * channels that it names. When the transaction has ended, the lent server says to which it listens:
 * those remain the client's, and the server forgets them. A channel that no text has named (LISTEN
 * in a function or a DO block) stays on that server, and so the server stays with the client.
 *
 * UNLISTEN changes nothing on the lent server that could be asked for. So it is followed as far as
 * texts and tags show what has become of it: it counts if it was executed, and nothing has failed
 * or was rolled back since. In doubt the client goes on to get the notifications.
 *
 * ReadyForQuery. It is not forwarded after a transaction that may have executed LISTEN, nor after
 * one of a client that listens, if it may have executed UNLISTEN or NOTIFY, by a trigger too. The
 * client gets it when all is settled, and the listening connection has delivered what was committed
 * before. So its own notifications come first, as with PostgreSQL. They have the process id of its
 * cancel key.
 *
 * That a function in a SELECT notifies is known from the catalog.
 *
 * Hard here: three connections take part, and each may end at any time. The client's own state is
 * one step that it waits for; its server and the listening connection call back from the loop. A
 * client may be closed whenever something is sent to it, and its `listening` is freed with that.
 */
#include "session_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/handover.h"

/*
 * What the client waits for.
 *
 *   NONE --> BEFORE   a text may change channels, or notify the client: see listening_before()
 *   NONE --> AFTER    the transaction has ended: the listening connection delivers what was
 *                     committed before
 *
 * From both back to NONE, by the answer of the listening connection.
 */
enum step { STEP_NONE, STEP_BEFORE, STEP_AFTER };

/* The ReadyForQuery that ends a transaction. */
enum ready {
	READY_FORWARDED,
	READY_WITHHELD,
	READY_DUE /* the same, and the listening connection was asked to deliver what comes first */
};

/* How many names a transaction may unlisten, in doubt beyond: as many as a client can have. */
#define UNLISTENED_MAX LISTENING_CHANNELS_MAX

/* What the transaction unlistens. */
struct unlisten {
	struct buf names; /* name\0, in the order of the texts; "" is UNLISTEN * or DISCARD ALL */
	unsigned int name_count;
	unsigned int tag_count; /* of those that were executed */
	unsigned int before;    /* of these, ahead of the batch */
	unsigned int errors;    /* error_count of the server before the first name */
	bool is_doubtful;       /* they may be undone, or are too many */
};

struct client_listening {
	struct listener listener;
	struct client *client;
	enum step step;
	struct timer timer; /* of the step */
	enum ready ready;   /* of the transaction */
	bool is_noted;      /* the text that is about to be sent */
	bool has_new;       /* the listening connection was not asked yet about all channels */
	/*
	 * Notifications of this process are the client's own. 0: none are, as some of the server's
	 * former borrower may still come.
	 */
	uint32_t own_pid;
	struct unlisten unlisten;
	/* notifications to be sent, in order; its own ones have the process id of its cancel key */
	struct buf unread;
};

bool listening_has_any(const struct client *client)
{
	return client->listening && client->listening->listener.count;
}

const struct listener *listening_listener(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	return listening && listening->listener.listening ? &listening->listener : NULL;
}

/* The client_encoding of these parameters; "": that of the server. */
static const char *encoding_of(const struct params *params)
{
	const char *value = params_find(params, "client_encoding");

	return value ? value : "";
}

/* The process id that begins a cancel key. */
static uint32_t pid_of(struct bytes key) { return key.count >= 4 ? load_be32(key.at) : 0; }

static uint32_t pid_of_server(const struct server *server)
{
	return pid_of(bytes_of(server->key.bytes, server->key.size));
}

static bool has_channel(struct client_listening *listening, const char *name)
{
	return listening_state(&listening->listener, bytes_text(name)) != SUBSCRIPTION_NONE;
}

/* ---- notifications that wait ---- */

/* is_own: it gets the process id of the client's cancel key. */
static void add_notification(const struct client *client, const struct notification *notification,
                             bool is_own, struct buf *out)
{
	size_t at = out->count;

	buf_add(out, notification->frame.at, notification->frame.count);
	if (is_own && buf_ok(out))
		store_be32(out->at + at + FRAME_HEADER_SIZE, pid_of(client_key(client)));
}

static bool is_between_transactions(const struct client *client)
{
	if (client->state == CLIENT_IDLE)
		return !client->is_skipping;
	return client->state == CLIENT_ACTIVE && session_stays(client) && !client->request_at &&
	       !client->xact_at && server_rest(client->borrower.server) == REST_FULL;
}

/* Without channels, and without notifications to be sent, it needs no listening connection. */
static void leave_unless_needed(struct client_listening *listening)
{
	if (listening->listener.count || listening->unread.count)
		return;
	listening_leave(&listening->listener);
	timer_clear(&listening->timer);
	if (listening->step == STEP_BEFORE) /* the message was not sent, as a Parse has failed */
		listening->step = STEP_NONE;
}

/* Not of a channel that it has no more, nor its own one of a channel that it leaves. */
static bool is_wanted(struct client_listening *listening, const struct notification *notification)
{
	enum subscription_state state =
	    listening_state(&listening->listener, bytes_text(notification->channel));

	return state != SUBSCRIPTION_NONE &&
	       !(state == SUBSCRIPTION_LEAVING &&
	         notification->pid == pid_of(client_key(listening->client)));
}

/*
 * Sends all that wait, even if the client reads slowly: they are at most LISTENING_UNREAD_MAX.
 * false: the client is closed.
 */
static bool deliver_all(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf waiting = listening->unread;
	struct bytes rest = buf_bytes(&waiting);
	struct notification notification;
	/* it would get texts in the wrong encoding */
	bool is_foreign = rest.count && strcmp(encoding_of(client->params),
	                                       listening_encoding(&listening->listener)) != 0;
	bool is_sent = true;
	size_t count = 0;

	listening->unread = (struct buf){ 0 };
	while (is_sent && notification_take(&rest, &notification)) {
		if (!is_wanted(listening, &notification))
			continue;
		is_sent = !is_foreign || notification.is_ascii;
		memmove(waiting.at + count, notification.frame.at, notification.frame.count);
		count += notification.frame.count;
	}
	if (!is_sent)
		client_refuse_for(client, CLOSE_LISTENING_ENCODING);
	else if (count)
		is_sent = client_send(client, bytes_of(waiting.at, count));
	buf_free(&waiting);
	if (is_sent)
		leave_unless_needed(listening);
	return is_sent;
}

bool listening_release(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf out = { 0 };

	if (!listening || listening->ready == READY_FORWARDED)
		return true;
	listening->ready = READY_FORWARDED;
	if (!deliver_all(client))
		return false;
	message_ready(&out, 'I');
	return client_send_all(client, &out);
}

/* If the client is between two transactions, and has read what it was sent. */
static void deliver_now(struct client *client)
{
	if (client->listening->unread.count && is_between_transactions(client) &&
	    !stream_unsent(&client->stream))
		deliver_all(client);
}

void listening_deliver(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening)
		return;
	if (client->state == CLIENT_IDLE && !listening->listener.listening) {
		listening_free(client);
		return;
	}
	if (client->state == CLIENT_IDLE) /* its next server is another one */
		listening->own_pid = 0;
	deliver_now(client);
}

static void on_notification(struct listener *listener, const struct notification *notification)
{
	struct client_listening *listening =
	    container_of(listener, struct client_listening, listener);
	struct client *client = listening->client;
	size_t size = listening->unread.count + stream_unsent(&client->stream);

	if (size + notification->frame.count > LISTENING_UNREAD_MAX) {
		client_refuse_for(client, CLOSE_LISTENING_UNREAD);
		return;
	}
	add_notification(client, notification,
	                 listening->own_pid && notification->pid == listening->own_pid,
	                 &listening->unread);
	if (buf_ok(&listening->unread))
		deliver_now(client);
	else
		client_refuse_for(client, CLOSE_MEMORY);
}

bool listening_takes(struct borrower *borrower, struct bytes frame, struct buf *instead)
{
	struct client *client = client_of(borrower);
	struct notification notification;
	bool is_own, comes_twice;

	if (!notification_take(&frame, &notification))
		return false;
	is_own = notification.pid == pid_of_server(borrower->server);
	comes_twice = client->listening && has_channel(client->listening, notification.channel);
	if (is_own && !comes_twice)
		add_notification(client, &notification, true, instead);
	return is_own || comes_twice;
}

/* ---- the step that it waits for ---- */

static void on_step_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client_listening, timer)->client;
	struct loop *loop = client->clients->loop;

	/* During a SUSPEND nobody answers. */
	if (client->clients->pools->suspend != SUSPEND_NONE)
		timer_begin(timer, loop, USEC_PER_SEC, on_step_due);
	else
		client_refuse_for(client, CLOSE_LISTENING_TIMEOUT);
}

/* Waits until the listening connection has delivered what was committed before. */
static void ask(struct client *client, enum step step)
{
	struct client_listening *listening = client->listening;
	usec_t limit = client->clients->config->server_connect_timeout;
	struct loop *loop = client->clients->loop;

	listening->step = step;
	listening->has_new = false;
	timer_begin(&listening->timer, loop, limit, on_step_due);
	listening_ask(&listening->listener);
}

static void on_listener_answer(struct listener *listener)
{
	struct client_listening *listening =
	    container_of(listener, struct client_listening, listener);
	struct client *client = listening->client;
	enum step step = listening->step;

	timer_clear(&listening->timer);
	listening->step = STEP_NONE;
	if (step == STEP_BEFORE && client->state == CLIENT_ACTIVE) {
		listening->own_pid = pid_of_server(client->borrower.server);
		client_read_on(client);
	}
	if (step != STEP_AFTER)
		return;
	if (!deliver_all(client))
		return;
	listening_remove(listener, SUBSCRIPTION_LEAVING);
	leave_unless_needed(listening);
	client->clients->ops->on_settled(client);
}

/* PostgreSQL's own loss of a connection looks the same. */
static void on_listener_lost(struct listener *listener, const struct err *err)
{
	client_fatal(container_of(listener, struct client_listening, listener)->client, err);
}

static const struct listener_ops client_listener_ops = {
	.on_answer = on_listener_answer,
	.on_notification = on_notification,
	.on_lost = on_listener_lost,
};

/* Made if the client has none. NULL: no memory. */
static struct client_listening *get_listening(struct client *client)
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

/* ---- UNLISTEN: texts name the channels, tags say what has become of it ---- */

static bool is_one_of(struct bytes tag, const char *first, const char *second)
{
	return bytes_equal(tag, bytes_of(first, strlen(first) + 1)) ||
	       bytes_equal(tag, bytes_of(second, strlen(second) + 1));
}

void listening_see_tag(struct borrower *borrower, struct bytes tag)
{
	struct client_listening *listening = client_of(borrower)->listening;
	struct unlisten *unlisten = listening ? &listening->unlisten : NULL;

	if (!unlisten)
		return;
	if (is_one_of(tag, "UNLISTEN", "DISCARD ALL"))
		unlisten->tag_count++;
	else if (is_one_of(tag, "ROLLBACK", "PREPARE TRANSACTION")) /* ROLLBACK TO, too */
		unlisten->is_doubtful |= unlisten->tag_count > 0;
	/* In a batch, but not in a Query, a procedure may roll back what was executed before it. */
	else if (is_one_of(tag, "CALL", "DO"))
		unlisten->is_doubtful |= unlisten->tag_count > unlisten->before &&
		                         !borrower->server->wire.ledger.has_result;
}

static void forget_unlisten(struct unlisten *unlisten)
{
	buf_free(&unlisten->names);
	*unlisten = (struct unlisten){ 0 };
}

/*
 * The transaction has ended. In doubt nothing is unlistened: behind an error or a ROLLBACK, and if
 * an UNLISTEN has no tag, or a tag no text.
 */
static void settle_unlisten(struct client_listening *listening)
{
	struct unlisten *unlisten = &listening->unlisten;
	struct bytes names = buf_bytes(&unlisten->names);
	bool is_certain = !unlisten->is_doubtful && unlisten->tag_count == unlisten->name_count &&
	                  unlisten->errors == listening->client->borrower.server->lease.error_count;

	for (const char *name; is_certain && bytes_take_text(&names, &name);) {
		if (*name)
			listening_set(&listening->listener, bytes_text(name), SUBSCRIPTION_LEAVING);
		else
			listening_set_all(&listening->listener, SUBSCRIPTION_LEAVING);
	}
	forget_unlisten(unlisten);
}

/* ---- the channels of a text ---- */

#define MAY_CHANGE (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN)

/*
 * Whether PostgreSQL executes LISTEN with this name: what it refuses would end the listening
 * connection, and with that all its listeners. A name outside of ASCII it may refuse there, or read
 * otherwise than the client's own server does.
 */
static bool can_listen(const struct client *client, struct bytes name)
{
	const struct params *baseline = client->borrower.server->session.baseline;
	const char *standby = params_find(baseline, "in_hot_standby");

	return client->borrower.pool->purpose != POOL_FOR_READS &&
	       !(standby && strcmp(standby, "on") == 0) && bytes_are_ascii(name);
}

/* The connection must listen to it when the text runs. */
static void take_listen(struct client *client, struct bytes name)
{
	struct client_listening *listening = client->listening;
	struct listener *listener = &listening->listener;

	/* If its own server listens, that has all new ones. */
	if (session_listens(client) || !can_listen(client, name) ||
	    listener->count >= LISTENING_CHANNELS_MAX ||
	    listening_state(listener, name) != SUBSCRIPTION_NONE)
		return;
	if (!listening_join(listener, client->borrower.pool, encoding_of(client->params)) ||
	    !listening_add(listener, name, SUBSCRIPTION_NEW))
		listening->unlisten.names.is_broken = true;
	listening->has_new = true;
}

static void take_item(void *context, const struct sql_item *item)
{
	struct client *client = context;
	struct unlisten *unlisten = &client->listening->unlisten;

	switch (item->kind) {
	case SQL_ITEM_LISTEN:
		take_listen(client, bytes_text(item->name));
		break;
	case SQL_ITEM_UNLISTEN:
	case SQL_ITEM_UNLISTEN_ALL:
	case SQL_ITEM_DISCARD:
		if (!unlisten->name_count)
			unlisten->errors = client->borrower.server->lease.error_count;
		unlisten->is_doubtful |= unlisten->name_count >= UNLISTENED_MAX;
		if (unlisten->is_doubtful)
			break;
		unlisten->name_count++;
		buf_add_cstr(&unlisten->names, item->name);
		break;
	default:
		break;
	}
}

/* Notes what a text does. false: no memory. */
static bool note_text(struct client *client, unsigned int touches, struct bytes text)
{
	struct client_listening *listening = client->listening;

	if (listening->is_noted)
		return true; /* it has waited */
	listening->is_noted = true;
	client->touched |= touches & MAY_CHANGE; /* also if a Parse fails, and it is not sent */
	if (sql_is_alike(text))
		sql_items(text, take_item, client);
	return buf_ok(&listening->unlisten.names);
}

/* ---- before a message ---- */

#define MAY_NOTIFY (SQL_TOUCH_NOTIFY | SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE) /* by triggers */

/* Begins to withhold the ReadyForQuery. */
static enum judgement hold_ready(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (client->touched & LISTENING_HOLDS)
		return JUDGE_SEND;
	/* Not one of an earlier transaction: it would be withheld while this one is answered. */
	if (!ledger_knows_status(&server->wire.ledger))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (!get_listening(client))
		return JUDGE_MEMORY;
	client->touched |= LISTENING_HOLDS;
	forget_unlisten(&client->listening->unlisten);
	server_watch(server, SERVER_WATCHES_READY);
	return JUDGE_SEND;
}

enum judgement listening_follow(struct client *client, struct batch *batch)
{
	const struct ledger *ledger = &client->borrower.server->wire.ledger;

	/* This message would be answered before the ReadyForQuery that is withheld. */
	if (!ledger_ends_wait(ledger, LEDGER_WAIT_READY))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (!ledger->is_open)
		client->listening->unlisten.before = client->listening->unlisten.tag_count;
	return JUDGE_SEND;
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
	if (!listening->has_new && (listening->own_pid || !listening_has_any(client)) &&
	    listening->step == STEP_NONE)
		return JUDGE_SEND;
	if (listening->step == STEP_NONE)
		ask(client, STEP_BEFORE);
	return batch_wait(batch, LEDGER_WAIT_NOT);
}

void listening_sent(struct client *client) { client->listening->is_noted = false; }

/* ---- the end of the transaction ---- */

/* `facts` have the channels that the server listens to. */
static void settle_channels(struct client_listening *listening, const struct facts *facts)
{
	struct listener *listener = &listening->listener;
	struct bytes channels = buf_bytes(&facts->channels);

	settle_unlisten(listening);
	if (facts->too_long & QUESTION_CHANNELS) /* the server stays: there may be all */
		listening_set_all(listener, SUBSCRIPTION_ON);
	for (const char *name; bytes_take_text(&channels, &name);)
		listening_set(listener, bytes_text(name), SUBSCRIPTION_ON);
	listening_remove(listener, SUBSCRIPTION_NEW); /* LISTEN was undone */
	leave_unless_needed(listening);
}

bool listening_is_hidden(const struct client *client, const struct facts *facts)
{
	struct bytes channels = buf_bytes(&facts->channels);

	if (facts->too_long & QUESTION_CHANNELS)
		return true;
	for (const char *name; bytes_take_text(&channels, &name);) {
		if (!client->listening || !has_channel(client->listening, name))
			return true;
	}
	return false;
}

bool listening_settle(struct client *client, const struct facts *facts)
{
	struct server *server = client->borrower.server;

	if (!(facts->parts & QUESTION_CHANNELS) || !client->listening)
		return true;
	settle_channels(client->listening, facts);
	if (!facts->channels.count || session_listens(client))
		return true;
	server_hold(server, HELD_STATE);
	server_order(server, &(struct order){ .kind = ORDER_CHANNELS, .text = "UNLISTEN *" });
	return false;
}

void listening_order_done(struct client *client)
{
	if (!session_is_pinned(client))
		server_held_after(client->borrower.server, HELD_SETTLED);
	client->clients->ops->on_settled(client);
}

bool listening_holds(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (!client->listening || !(client->touched & LISTENING_HOLDS))
		return false;
	client->listening->ready = READY_WITHHELD;
	return true;
}

bool listening_waits(struct client *client)
{
	struct client_listening *listening = client->listening;

	server_unwatch(client->borrower.server, SERVER_WATCHES_READY);
	if (!listening_has_any(client) ||
	    (listening->ready != READY_WITHHELD &&
	     TAILQ_EMPTY(&listening->listener.subscriptions[SUBSCRIPTION_LEAVING]))) {
		leave_unless_needed(listening);
		return false;
	}
	if (listening->ready == READY_WITHHELD)
		listening->ready = READY_DUE;
	ask(client, STEP_AFTER);
	client_enter(client, CLIENT_SETTLING);
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
	buf_free(&listening->unread);
	free(listening);
}

/* ---- hand-over ---- */

bool listening_is_at_rest(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	if (!listening)
		return true;
	return listening->step == STEP_NONE && !listening_is_followed(client) &&
	       listening->ready == READY_FORWARDED &&
	       (listening->listener.listening ? listening->listener.count > 0
	                                      : listening->unread.count == 0);
}

void listening_write_channels(const struct client *client, struct client_record *values,
                              struct buf *channels)
{
	const struct listener *listener = listening_listener(client);
	const struct subscription *at = NULL;
	const char *name;

	if (!listener)
		return;
	while ((name = listening_next(listener, &at)))
		buf_add_cstr(channels, name);
	values->listening = listening_number(listener);
	values->channels = buf_bytes(channels);
	values->unread = buf_bytes(&client->listening->unread);
}

enum close_reason listening_read(struct client *client, const struct client_record *values)
{
	struct client_listening *listening = values->listening ? get_listening(client) : NULL;
	struct bytes channels = values->channels, unread = values->unread;
	struct notification notification;

	if (!listening)
		return values->listening ? CLOSE_MEMORY : CLOSE_NONE;
	if (!listening_rejoin(&listening->listener, client->borrower.pool, values->listening))
		return CLOSE_LISTENING_LOST;
	for (const char *name; bytes_take_text(&channels, &name);) {
		if (!listening_add(&listening->listener, bytes_text(name), SUBSCRIPTION_ON))
			return CLOSE_MEMORY;
	}
	while (notification_take(&unread, &notification))
		add_notification(client, &notification, false, &listening->unread);
	return unread.count == 0 && buf_ok(&listening->unread) ? CLOSE_NONE : CLOSE_MEMORY;
}
