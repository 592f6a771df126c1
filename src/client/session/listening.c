/* SPDX-License-Identifier: ISC */
/*
 * A client that listens: see listening_priv.h.
 *
 * Hard here: three connections take part, and each may end at any time. The client's own state is
 * one step that it waits for; its server and the listening connection call back from the loop.
 */
#include "listening_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_items.h"
#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/listening.h"
#include "pgweir/pool/listening_handover.h"
#include "pgweir/pool/notification.h"
#include "pgweir/pool/server/question.h"

#include "../handover_priv.h"
#include "session_priv.h"
#include "unread_priv.h"

#include "pgweir/base/banned.h"

/* A client with more channels is not asked what DO and functions unlisten: that costs too much. */
#define HIDDEN_MAX 200
#define MAY_NOTIFY (SQL_TOUCH_NOTIFY | SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE) /* by triggers */
#define UNLISTENS_MAX 1000 /* texts with UNLISTEN in one transaction */

#define MARK_SIZE 64 /* the name of a mark: of the channel of marks, and a number */

/* What a text that may have executed UNLISTEN left on the lent server. */
struct unlisten {
	TAILQ_ENTRY(unlisten) node;
	unsigned int number; /* of its marks */
	bool is_in_block;    /* two marks; else one, and it was committed */
	bool has_failed;     /* the marks were not set: nothing is known */
	bool is_all;         /* the text has UNLISTEN * */
	bool is_unsure;      /* it may have others than those it names */
	bool has_savepoint;  /* it may undo a part of itself */
	bool is_watched;     /* it may end its transaction itself: server_watch_end() */
	bool is_committed;   /* it has done so, before it undid anything */
	struct buf named;    /* the channels that it names: name\0 */
	struct buf channels; /* those that the server was made to listen to */
};
TAILQ_HEAD(unlisten_list, unlisten);
TAILQ_HEAD(ahead_list, ahead);

/* What the client waits for. */
enum listening_step {
	STEP_NONE,
	STEP_BEFORE,  /* a NOTIFY: the listening connection delivers what was committed before it */
	STEP_AFTER,   /* the end of its transaction: the same again */
	STEP_HOME,    /* its server begins to listen, and the mark comes on both connections */
	STEP_LEAVE,   /* the same; the server stops to listen to the mark */
	STEP_CONNECT, /* the listening connection gets the new channels */
	STEP_MARK,    /* the mark, on both connections */
	STEP_CLEAN    /* only UNLISTEN * on the lent server */
};

struct client_listening {
	struct listener listener;
	struct client *client;
	enum listening_step step;
	struct timer timer;             /* from STEP_CONNECT on */
	char mark[LISTENING_MARK_SIZE]; /* in STEP_MARK */
	bool had_channels;              /* before those that are being settled */
	bool may_notify;                /* the transaction may have notified the client itself */
	bool is_withheld;               /* the ReadyForQuery of the transaction, */
	bool is_server_done; /* in STEP_MARK: the lent server listens to nothing any more */
	bool is_mark_here;   /* the mark has come from the lent server, */
	bool is_mark_there;  /* and from the listening connection */
	bool is_clear;       /* STEP_BEFORE is over for this server */
	uint32_t own_pid;    /* notifications of this process are the client's own; 0: none are */
	unsigned int number; /* of the last unlisten */
	struct unlisten_list unlistens;
	unsigned int unlisten_count;
	struct ahead_list aheads;
	bool is_discarding;   /* DISCARD ALL was sent in this transaction, */
	bool is_discarded;    /* and has run */
	struct buf ahead;     /* goes ahead of the text of the batch in progress */
	struct unread unread; /* notifications to be sent */
	/*
	 * those of the lent server since the last transaction began, which are not sent yet because
	 * others may come before them
	 */
	struct unread lent;
	size_t early_count;    /* in STEP_MARK: how many in `unread` came before the mark */
	bool is_lent_complete; /* `lent` has what came for all channels of the client */
};

static struct client *client_of(struct listener *listener)
{
	return container_of(listener, struct client_listening, listener)->client;
}

static struct loop *loop_of(const struct client *client) { return client->clients->with.loop; }

static uint32_t pid_of(struct bytes key) { return key.count >= 4 ? load_be32(key.at) : 0; }

static uint32_t server_pid(const struct server *server)
{
	return pid_of(bytes_of(server->key, server->key_size));
}

bool listening_has_any(const struct client *client)
{
	return client->listening && client->listening->listener.count;
}

const char *listening_next_channel(const struct client *client, const struct subscription **at)
{
	return client->listening ? listening_next(&client->listening->listener, at) : NULL;
}

/* ---- to the client ---- */

static const char *encoding_of(const struct params *params)
{
	const char *value = params_find(params, "client_encoding");

	return value ? value : "";
}

/* It would get the text in the wrong encoding. */
static bool is_foreign(const struct client *client, const struct notification *notification)
{
	return !notification->is_ascii &&
	       strcmp(encoding_of(client->params),
	              listening_encoding(&client->listening->listener)) != 0;
}

static bool send_notification(struct client *client, const struct notification *notification,
                              bool is_own)
{
	char front[FRAME_HEADER_SIZE + 4];
	struct iovec pieces[] = {
		{ front, sizeof(front) },
		{ (char *)notification->frame + sizeof(front), notification->size - sizeof(front) },
	};

	if (is_foreign(client, notification)) {
		client_refuse_for(client, CLOSE_LISTENING_ENCODING);
		return false;
	}
	if (!is_own)
		return client_send(client, bytes_of(notification->frame, notification->size));
	memcpy(front, notification->frame, FRAME_HEADER_SIZE);
	store_be32(front + FRAME_HEADER_SIZE, pid_of(client_key(client)));
	if (stream_sendv(&client->stream, pieces, 2))
		return true;
	client_close(client, CLOSE_CLIENT_EOF);
	return false;
}

static bool is_between_transactions(const struct client *client)
{
	if (client->state == CLIENT_IDLE)
		return !client->is_skipping;
	return client->state == CLIENT_ACTIVE && session_stays(client) && !client->request_at &&
	       !client->xact_at && server_rest(client->borrower.server) == REST_FULL;
}

/* false: the client is closed, and its `listening` is freed. */
static bool send_next_unread(struct client *client)
{
	bool is_own;
	struct notification *notification = unread_take(&client->listening->unread, &is_own);
	bool is_sent = send_notification(client, notification, is_own);

	notification_release(&notification);
	return is_sent;
}

static void send_unread(struct client *client)
{
	while (client->listening->unread.count && !stream_unsent(&client->stream)) {
		if (!send_next_unread(client))
			return;
	}
}

bool listening_release(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf out = { 0 };
	bool is_sent;

	if (!listening || !listening->is_withheld)
		return true;
	listening->is_withheld = false;
	/* All of them, even if the client reads slowly: at most LISTENING_UNREAD_MAX. */
	while (listening->unread.count) {
		if (!send_next_unread(client))
			return false;
	}
	message_ready(&out, 'I');
	is_sent = client_send(client, buf_bytes(&out));
	buf_free(&out);
	return is_sent;
}

void listening_deliver(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening)
		return;
	if (client->state == CLIENT_IDLE) { /* its next server is another one */
		listening->is_clear = false;
		listening->own_pid = 0;
	}
	if (listening->unread.count && is_between_transactions(client))
		send_unread(client);
}

/* false: the client is closed. */
static bool keep(struct client *client, struct unread *unread, struct notification *notification,
                 bool is_own)
{
	const struct client_listening *listening = client->listening;

	if (listening->unread.bytes + listening->lent.bytes + unread_share(notification) >
	    LISTENING_UNREAD_MAX)
		client_refuse_for(client, CLOSE_LISTENING_UNREAD);
	else if (!unread_add(unread, notification, is_own))
		client_refuse_for(client, CLOSE_MEMORY);
	else
		return true;
	return false;
}

static void on_notification(struct listener *listener, struct notification *notification)
{
	struct client *client = client_of(listener);
	struct client_listening *listening = client->listening;
	bool is_own = listening->own_pid && notification->pid == listening->own_pid;
	bool is_home = listening->step == STEP_HOME || listening->step == STEP_LEAVE;

	if (is_home && listening->is_mark_there)
		return; /* its own server has it */
	if (!listening->unread.count && is_between_transactions(client) &&
	    !stream_unsent(&client->stream))
		send_notification(client, notification, is_own);
	else
		keep(client, &listening->unread, notification, is_own);
}

/* ---- messages of our own to the lent server ---- */

/* Says that a query ahead of the client's text has failed. Owned by the ledger. */
struct ahead {
	struct ledger_change change;
	TAILQ_ENTRY(ahead) node;
	struct client_listening *listening; /* NULL: the client was closed */
};

static void settle_ahead_of_unlisten(struct ledger_change *change, bool is_done)
{
	struct ahead *ahead = container_of(change, struct ahead, change);
	struct unlisten *unlisten;

	if (ahead->listening) {
		TAILQ_REMOVE(&ahead->listening->aheads, ahead, node);
		TAILQ_FOREACH (unlisten, &ahead->listening->unlistens, node)
			unlisten->has_failed |= !is_done;
	}
	free(ahead);
}

static void forget_aheads(struct client_listening *listening)
{
	struct ahead *ahead;

	while ((ahead = TAILQ_FIRST(&listening->aheads))) {
		TAILQ_REMOVE(&listening->aheads, ahead, node);
		ahead->listening = NULL;
	}
}

static bool note_injected(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                          struct ledger_change *change)
{
	return server_note_change(server, kind, fate, change) != LEDGER_NO_MEMORY;
}

static bool note_ahead(struct client_listening *listening, struct server *server)
{
	struct ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return false;
	ahead->change.settle = settle_ahead_of_unlisten;
	ahead->listening = listening;
	TAILQ_INSERT_TAIL(&listening->aheads, ahead, node);
	return note_injected(server, LEDGER_QUERY, LEDGER_IGNORE, &ahead->change);
}

static void add_close(struct buf *out, char what)
{
	size_t at = message_begin(out, 'C');

	buf_add_byte(out, what);
	buf_add_cstr(out, SCRATCH_NAME);
	message_end(out, at);
}

/*
 * LISTEN in the extended protocol: within messages that end with the client's Sync. A statement of
 * the scratch name may be left from a PREPARE of SQL.
 */
static bool add_extended(struct server *server, struct buf *out, struct bytes channel)
{
	static const enum ledger_kind kinds[] = { LEDGER_CLOSE,   LEDGER_PARSE, LEDGER_BIND,
		                                  LEDGER_EXECUTE, LEDGER_CLOSE, LEDGER_CLOSE };
	size_t at;

	add_close(out, 'S');
	at = message_begin(out, 'P');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_text(out, "LISTEN ");
	listening_add_name(out, channel);
	buf_add_byte(out, 0);
	buf_add_be16(out, 0);
	message_end(out, at);
	at = message_begin(out, 'B');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_be16(out, 0);
	buf_add_be16(out, 0);
	buf_add_be16(out, 0);
	message_end(out, at);
	at = message_begin(out, 'E');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_be32(out, 0);
	message_end(out, at);
	add_close(out, 'P');
	add_close(out, 'S');
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!note_injected(server, kinds[i], LEDGER_INJECT, NULL))
			return false;
	}
	return true;
}

/* Adds LISTEN for each name of a list (name\0). false: no memory. */
static bool add_listens(struct client_listening *listening, struct buf *out, struct bytes names)
{
	struct server *server = listening->client->borrower.server;
	bool is_extended = server->ledger.is_open;
	const char *name;
	size_t at = 0;

	if (!is_extended)
		at = message_begin(out, 'Q');
	while (bytes_take_text(&names, &name)) {
		if (is_extended && !add_extended(server, out, bytes_text(name)))
			return false;
		if (is_extended)
			continue;
		buf_add_text(out, "LISTEN ");
		listening_add_name(out, bytes_text(name));
		buf_add_byte(out, ';');
	}
	if (is_extended)
		return buf_ok(out);
	buf_add_byte(out, 0);
	message_end(out, at);
	return buf_ok(out) && note_ahead(listening, server);
}

/* ---- UNLISTEN ---- */

/* which: 'b' ahead of the text, 'a' after it. */
static const char *mark_name(const struct client_listening *listening, unsigned int number,
                             char which, char out[MARK_SIZE])
{
	snprintf(out, MARK_SIZE, "%s%c%u", listening_mark_channel(&listening->listener), which,
	         number);
	return out;
}

static bool is_of_ours(const struct client_listening *listening, const char *name)
{
	const char *channel = listening_mark_channel(&listening->listener);

	return strncmp(name, channel, strlen(channel)) == 0;
}

static void forget_unlistens(struct client_listening *listening)
{
	struct unlisten *unlisten;

	while ((unlisten = TAILQ_FIRST(&listening->unlistens))) {
		TAILQ_REMOVE(&listening->unlistens, unlisten, node);
		listening->unlisten_count--;
		buf_free(&unlisten->named);
		buf_free(&unlisten->channels);
		free(unlisten);
	}
}

static void take_item(void *context, const struct sql_item *item)
{
	struct unlisten *unlisten = context;

	if (item->kind == SQL_ITEM_UNLISTEN) {
		buf_add(&unlisten->named, item->name.at, item->name.count);
		buf_add_byte(&unlisten->named, 0);
	} else if (item->kind == SQL_ITEM_UNLISTEN_ALL) {
		unlisten->is_all = true;
	} else if (item->kind == SQL_ITEM_SAVEPOINT) {
		unlisten->has_savepoint = true;
	} else if (item->kind == SQL_ITEM_UNSURE || item->kind == SQL_ITEM_LISTEN) {
		unlisten->is_unsure = true;
	}
}

static bool has_text(struct bytes list, struct bytes text)
{
	const char *other;

	while (bytes_take_text(&list, &other)) {
		if (bytes_equal(bytes_text(other), text))
			return true;
	}
	return false;
}

/*
 * Whether the transaction may have unlistened this channel before, or the server listens to it
 * already.
 */
static bool was_unlistened(const struct client_listening *listening, struct bytes name)
{
	const struct unlisten *unlisten;

	TAILQ_FOREACH (unlisten, &listening->unlistens, node) {
		if (unlisten->is_all || unlisten->is_unsure ||
		    has_text(buf_bytes(&unlisten->named), name))
			return true;
	}
	return false;
}

/*
 * Which channels the server is made to listen to. Not those that the transaction may have
 * unlistened before: they would come back.
 */
static bool is_needed(const struct client_listening *listening, const struct unlisten *unlisten,
                      struct bytes name)
{
	if (unlisten->is_unsure)
		return listening->listener.count <= HIDDEN_MAX && !was_unlistened(listening, name);
	if (!has_text(buf_bytes(&unlisten->named), name))
		return false;
	/* Within a block the mark says enough, unless the text undoes a part of itself. */
	return !unlisten->is_in_block ||
	       (unlisten->has_savepoint && !was_unlistened(listening, name));
}

static void choose_channels(struct client_listening *listening, struct unlisten *unlisten)
{
	const struct subscription *at = NULL;
	const char *name;

	while ((name = listening_next(&listening->listener, &at))) {
		if (is_needed(listening, unlisten, bytes_text(name)))
			buf_add_cstr(&unlisten->channels, name);
	}
}

static struct unlisten *unlisten_new(struct client *client, bool is_in_block, struct bytes text)
{
	struct unlisten *unlisten = calloc(1, sizeof(*unlisten));

	if (!unlisten)
		return NULL;
	unlisten->number = ++client->listening->number;
	unlisten->is_in_block = is_in_block;
	sql_items(text, take_item, unlisten);
	/* DO, a function, or a text that is not known */
	unlisten->is_unsure |= !unlisten->is_all && !unlisten->named.count;
	choose_channels(client->listening, unlisten);
	client->listening->unlisten_count++;
	TAILQ_INSERT_TAIL(&client->listening->unlistens, unlisten, node);
	return unlisten;
}

static void set_after(struct client *client, char type)
{
	client->touched |= type == 'Q' ? LISTENING_AFTER : LISTENING_AFTER_EXECUTE;
}

/* Whether the server listens to all that is needed to find out what this text does. */
static bool needs_only_mark(const struct client *client, bool is_in_block, unsigned int touches)
{
	const struct unlisten *last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);

	return is_in_block && last && last->is_unsure && !(touches & SQL_TOUCH_UNLISTEN);
}

static bool add_unlisten(struct client *client, bool is_in_block, struct bytes text,
                         struct batch *batch)
{
	struct client_listening *listening = client->listening;
	struct unlisten *unlisten = unlisten_new(client, is_in_block, text);
	struct buf names = { 0 };
	char mark[MARK_SIZE];
	bool is_added;

	if (!unlisten)
		return false;
	buf_add_cstr(&names, mark_name(listening, unlisten->number, 'b', mark));
	buf_add(&names, unlisten->channels.at, unlisten->channels.count);
	buf_clear(&listening->ahead);
	is_added = buf_ok(&names) && buf_ok(&unlisten->channels) && buf_ok(&unlisten->named) &&
	           add_listens(listening, &listening->ahead, buf_bytes(&names));
	buf_free(&names);
	batch_run(batch, buf_bytes(&listening->ahead));
	return is_added;
}

static bool add_after(struct client *client, struct batch *batch)
{
	struct client_listening *listening = client->listening;
	struct buf out = { 0 };
	char mark[MARK_SIZE];
	bool is_added;

	if (!listening || !listening->listener.listening)
		return true;
	mark_name(listening, listening->number, 'a', mark);
	is_added = add_listens(listening, &out, bytes_of(mark, strlen(mark) + 1));
	if (is_added)
		batch_copy(batch, buf_bytes(&out));
	buf_free(&out);
	return is_added;
}

static enum listening_go wait_for_ledger(struct batch *batch, enum ledger_wait wait)
{
	batch->waits_for = wait;
	return LISTENING_WAIT;
}

/* The text that may have unlistened is over. */
static void note_end(struct client *client)
{
	struct unlisten *last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);

	if (!last || !last->is_watched)
		return;
	last->is_watched = false;
	last->is_committed = server_end_seen(client->borrower.server) == SERVER_END_COMMIT;
}

/* A text of several statements may end the transaction: then no second mark can follow it. */
static void watch_end(struct client *client)
{
	struct unlisten *last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);

	last->is_watched = true;
	server_watch_end(client->borrower.server);
}

enum listening_go listening_follow(struct client *client, char type, struct batch *batch)
{
	const struct server *server = client->borrower.server;
	bool is_due = client->touched & LISTENING_AFTER;

	/* This message would be answered before the ReadyForQuery that is withheld. */
	if ((client->touched & LISTENING_HOLDS) &&
	    !ledger_ends_wait(&server->ledger, LEDGER_WAIT_READY))
		return wait_for_ledger(batch, LEDGER_WAIT_READY);
	if (!is_due && type == 'E' && (client->touched & LISTENING_AFTER_EXECUTE))
		client->touched ^= LISTENING_AFTER_EXECUTE | LISTENING_AFTER;
	if (!is_due)
		return LISTENING_SEND;
	/* The text may have ended its transaction block: then the mark would say too much. */
	if (!server->ledger.is_open && !ledger_knows_status(&server->ledger))
		return wait_for_ledger(batch, LEDGER_WAIT_READY);
	client->touched &= ~LISTENING_AFTER;
	note_end(client);
	if (!server->ledger.is_open && server->status != 'T')
		return LISTENING_SEND;
	return add_after(client, batch) ? LISTENING_SEND : LISTENING_END;
}

static enum listening_go before_unlisten(struct client *client, char type, unsigned int touches,
                                         struct bytes text, struct batch *batch)
{
	const struct ledger *ledger = &client->borrower.server->ledger;
	bool is_in_block =
	    ledger->is_open || ledger->is_begun || client->borrower.server->status != 'I';
	bool may_unlisten = touches & (SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN);
	const struct unlisten *last;
	bool is_added;

	if (!may_unlisten && client->listening->listener.count > HIDDEN_MAX)
		return LISTENING_SEND;
	/* Until then it is not known whether a transaction block is open. */
	if (!ledger_knows_status(ledger))
		return wait_for_ledger(batch, LEDGER_WAIT_READY);
	if (batch->count) /* what is added must stay where it is until it is sent */
		return wait_for_ledger(batch, LEDGER_WAIT_SPACE);
	if (client->borrower.server->status == 'E')
		return LISTENING_SEND; /* nothing is executed */
	is_added = !needs_only_mark(client, is_in_block, touches);
	if (is_added && (client->listening->unlisten_count == UNLISTENS_MAX ||
	                 !add_unlisten(client, is_in_block, text, batch)))
		return LISTENING_END;
	last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);
	if (is_in_block && may_unlisten && (last->is_all || last->is_unsure))
		set_after(client, type);
	if (is_added && is_in_block && type == 'Q' && !ledger->is_open)
		watch_end(client);
	return LISTENING_SEND;
}

static struct client_listening *get_listening(struct client *client);

/* Notifications of the server's former borrower must have come before those of this one. */
static enum listening_go before_notify(struct client *client, struct batch *batch)
{
	struct client_listening *listening = client->listening;

	if (listening->is_clear)
		return LISTENING_SEND;
	if (listening->step == STEP_NONE) {
		listening->step = STEP_BEFORE;
		listening_ask(&listening->listener);
	}
	return wait_for_ledger(batch, LEDGER_WAIT_NOT);
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
	if (!ledger_knows_status(&server->ledger))
		return wait_for_ledger(batch, LEDGER_WAIT_READY);
	if (!get_listening(client))
		return LISTENING_END;
	client->touched |= LISTENING_HOLDS;
	server->watches |= SERVER_WATCHES_READY;
	return LISTENING_SEND;
}

/* The ReadyForQuery is withheld, and the client has notifications of its own before it. */
static enum listening_go before_any(struct client *client, unsigned int touches,
                                    struct batch *batch)
{
	bool has_any = listening_has_any(client), may_notify = has_any && (touches & MAY_NOTIFY);
	enum listening_go go = LISTENING_SEND;

	if ((touches & SQL_TOUCH_LISTEN) || may_notify ||
	    (has_any && (touches & SQL_TOUCH_UNLISTEN)))
		go = hold_ready(client, batch);
	if (go != LISTENING_SEND || !may_notify)
		return go;
	client->listening->may_notify = true;
	return before_notify(client, batch);
}

enum listening_go listening_before(struct client *client, char type, unsigned int touches,
                                   struct bytes text, struct batch *batch)
{
	struct server *server = client->borrower.server;
	enum listening_go go = before_any(client, touches, batch);

	if (go != LISTENING_SEND)
		return go;
	if (touches & (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN))
		server->watches |= SERVER_WATCHES_NOTIFICATIONS;
	if (!listening_has_any(client))
		return LISTENING_SEND;
	if (is_discard(touches)) {
		client->listening->is_discarding = true;
		return LISTENING_SEND;
	}
	if (touches & (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN))
		go = before_unlisten(client, type, touches, text, batch);
	return go;
}

/* The channels that a server listens to, in order. */
struct names {
	const char **list;
	size_t count;
};

static int by_name(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* false: no memory. */
static bool read_names(struct names *names, struct bytes channels)
{
	const char *name;
	size_t count = 0;

	for (size_t i = 0; i < channels.count; i++)
		count += channels.at[i] == 0;
	names->list = calloc(count + 1, sizeof(*names->list));
	names->count = 0;
	if (!names->list)
		return false;
	while (bytes_take_text(&channels, &name))
		names->list[names->count++] = name;
	qsort(names->list, names->count, sizeof(*names->list), by_name);
	return true;
}

static bool has_name(const struct names *names, const char *name)
{
	return bsearch(&name, names->list, names->count, sizeof(*names->list), by_name);
}

/* Removes those channels of a list that the server does not listen to now. */
static void remove_missing(struct client_listening *listening, struct bytes channels,
                           const struct names *names)
{
	const char *name;

	while (bytes_take_text(&channels, &name)) {
		if (!has_name(names, name))
			listening_remove(&listening->listener, bytes_text(name));
	}
}

static void remove_others(struct client_listening *listening, const struct names *names)
{
	struct listener *listener = &listening->listener;
	const struct subscription *at = NULL;
	const char *name = listening_next(listener, &at);

	while (name) {
		struct bytes removed = bytes_text(name);

		name = listening_next(listener, &at);
		if (!has_name(names, removed.at))
			listening_remove(listener, removed);
	}
}

/* What arrived during the transaction that unlistened: PostgreSQL would not send it either. */
static bool drop_unread(struct client_listening *listening)
{
	struct unread old = listening->unread;
	bool is_kept = true;

	listening->unread = (struct unread){ 0 };
	while (old.count) {
		const char *channel = unread_look(&old, 0)->channel;

		if (listening_has(&listening->listener, bytes_text(channel)))
			is_kept &= unread_move(&old, &listening->unread, 1);
		else
			unread_drop(&old, 1);
	}
	return is_kept;
}

/* What one text has done, according to the marks among the server's channels. */
static void judge_unlisten(struct client_listening *listening, const struct unlisten *unlisten,
                           const struct names *names)
{
	char mark[MARK_SIZE];
	bool is_before = has_name(names, mark_name(listening, unlisten->number, 'b', mark));
	bool is_after = has_name(names, mark_name(listening, unlisten->number, 'a', mark));

	bool is_committed = unlisten->is_committed && (unlisten->is_all || unlisten->is_unsure);

	if (unlisten->has_failed)
		return; /* better one notification too many than one lost */
	if (is_before) {
		remove_missing(listening, buf_bytes(&unlisten->channels), names);
		if (unlisten->is_in_block)
			remove_missing(listening, buf_bytes(&unlisten->named), names);
	} else if (is_after || !unlisten->is_in_block || is_committed) {
		remove_others(listening, names);
	}
}

static bool judge_unlistens(struct client_listening *listening, const struct names *names)
{
	const struct unlisten *unlisten;
	unsigned int count = listening->listener.count;

	if (listening->is_discarded)
		listening_remove_all(&listening->listener);
	listening->is_discarding = listening->is_discarded = false;
	note_end(listening->client);
	TAILQ_FOREACH (unlisten, &listening->unlistens, node)
		judge_unlisten(listening, unlisten, names);
	forget_unlistens(listening);
	return listening->listener.count == count || drop_unread(listening);
}

/* ---- the end of a transaction ---- */

/* PostgreSQL's own loss of a connection looks the same. */
static void on_listener_lost(struct listener *listener, const struct err *err)
{
	client_fatal(client_of(listener), err);
}

static void leave_if_silent(struct client_listening *listening)
{
	if (listening->listener.count == 0)
		listening_leave(&listening->listener);
}

/* How many of the lent server's notifications have come from the listening connection, too. */
static size_t count_twice(const struct client_listening *listening)
{
	size_t count = 0;

	for (size_t i = 0; i < listening->lent.count; i++) {
		const char *channel = unread_look(&listening->lent, i)->channel;

		count += listening_has_old(&listening->listener, bytes_text(channel));
	}
	return count;
}

/* What the client does not listen to any more, or, if is_new_only, has listened to before. */
static bool drop_lent(struct client_listening *listening, bool is_new_only)
{
	struct unread old = listening->lent;
	bool is_kept = true;

	listening->lent = (struct unread){ 0 };
	while (old.count) {
		struct bytes channel = bytes_text(unread_look(&old, 0)->channel);

		if (listening_has(&listening->listener, channel) &&
		    !(is_new_only && listening_has_old(&listening->listener, channel)))
			is_kept &= unread_move(&old, &listening->lent, 1);
		else
			unread_drop(&old, 1);
	}
	return is_kept;
}

/*
 * Both connections have delivered what came before the mark. The lent server knows the order among
 * old and new channels, if it has listened to all of them; then the end of what the listening
 * connection has delivered is a part of that.
 */
static bool merge(struct client_listening *listening)
{
	struct unread all = { 0 };
	size_t early = listening->early_count, twice;
	bool is_kept = drop_lent(listening, !listening->is_lent_complete);

	twice = listening->is_lent_complete ? count_twice(listening) : 0;
	if (twice > early)
		twice = early;
	is_kept &= unread_move(&listening->unread, &all, early - twice);
	unread_drop(&listening->unread, twice);
	is_kept &= unread_move(&listening->lent, &all, listening->lent.count);
	is_kept &= unread_move(&listening->unread, &all, listening->unread.count);
	listening->unread = all;
	return is_kept;
}

/* The client's channels are on the listening connection, and its server listens to nothing. */
static void end_settling(struct client *client)
{
	struct client_listening *listening = client->listening;

	timer_clear(&listening->timer);
	if (listening->step == STEP_MARK && !merge(listening)) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	unread_done(&listening->lent);
	listening->step = STEP_NONE;
	listening->may_notify = listening->may_notify && !listening->is_mark_there;
	listening->is_mark_here = listening->is_mark_there = false;
	if (listening->listener.listening)
		listening_confirm(&listening->listener);
	leave_if_silent(listening);
	server_set_dirty(client->borrower.server, session_is_pinned(client));
	client->clients->ops->on_settled(client);
}

static void end_home(struct client *client);

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
	server_clear_channels(client->borrower.server, buf_text(&text));
	buf_free(&text);
}

static void begin_clean(struct client *client)
{
	client->listening->step = STEP_CLEAN;
	server_clear_channels(client->borrower.server, NULL);
}

/* Its server listens to all channels, and has the mark; the listening connection has it, too. */
static void end_home(struct client *client)
{
	struct client_listening *listening = client->listening;

	timer_clear(&listening->timer);
	listening->step = STEP_NONE;
	listening->is_server_done = listening->is_mark_here = listening->is_mark_there = false;
	client->borrower.server->watches &= (uint8_t)~SERVER_WATCHES_NOTIFICATIONS;
	listening_leave(&listening->listener);
	if (!unread_move(&listening->lent, &listening->unread, listening->lent.count)) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	while (listening->unread.count) {
		if (!send_next_unread(client))
			return;
	}
	client->clients->ops->on_settled(client);
}

static void leave_mark(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf text = { 0 };

	listening->step = STEP_LEAVE;
	buf_printf(&text, "UNLISTEN %s", listening_mark_channel(&listening->listener));
	server_change_channels(client->borrower.server, buf_text(&text));
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
	    server->status != 'I' || server->cancel_count || server->ledger.is_open ||
	    ledger_needs_more(&server->ledger) || ledger_owes_borrower(&server->ledger) ||
	    !ledger_is_certain(&server->ledger))
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
	server->watches |= SERVER_WATCHES_NOTIFICATIONS;
	arm_settling(client);
	client_enter(client, CLIENT_SETTLING);
	stream_want(&client->stream, WANT_END);
	server_push(server);
	if (buf_ok(&text))
		server_change_channels(server, buf_text(&text));
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
	struct client *client = client_of(listener);

	client->listening->is_mark_there = true;
	client->listening->early_count = client->listening->unread.count;
	look_for_end_of_mark(client);
}

static void on_listener_answer(struct listener *listener)
{
	struct client *client = client_of(listener);
	struct client_listening *listening = client->listening;

	switch (listening->step) {
	case STEP_BEFORE:
		listening->step = STEP_NONE;
		if (client->state != CLIENT_ACTIVE)
			return;
		listening->is_clear = true;
		listening->own_pid = server_pid(client->borrower.server);
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
	client->borrower.server->watches &= (uint8_t)~SERVER_WATCHES_READY;
	listening->may_notify = false;
	unread_done(&listening->lent);
	if (!may_notify || !listening->is_withheld || !listening_has_any(client))
		return false;
	listening->step = STEP_AFTER;
	listening_ask(&listening->listener);
	return true;
}

/* ---- notifications of the lent server ---- */

/* Whether notifications of other channels may wait: then this one waits behind them. */
static bool has_older(const struct client_listening *listening)
{
	return listening->step >= STEP_CONNECT ? listening->had_channels
	                                       : listening->listener.count > 0;
}

static void add_own(const struct client *client, const struct notification *notification,
                    struct buf *out)
{
	size_t at = out->count;

	buf_add(out, notification->frame, notification->size);
	if (buf_ok(out))
		store_be32(out->at + at + FRAME_HEADER_SIZE, pid_of(client_key(client)));
}

/* What comes before the mark, the listening connection delivers, too. */
static void take_at_home(struct client *client, struct notification *notification)
{
	struct client_listening *listening = client->listening;

	if (is_of_ours(listening, notification->channel))
		listening->is_mark_here |= strcmp(notification->payload, listening->mark) == 0;
	else if (listening->is_mark_here)
		keep(client, &listening->lent, notification, false);
}

/* The mark of this client; those of other clients come too. */
static bool is_own_mark(const struct client_listening *listening,
                        const struct notification *notification)
{
	return listening->step == STEP_MARK && is_of_ours(listening, notification->channel) &&
	       strcmp(notification->payload, listening->mark) == 0;
}

bool listening_takes(struct client *client, struct bytes frame, struct buf *instead)
{
	struct client_listening *listening = client->listening;
	struct notification *notification;
	bool is_own, is_forwarded;

	if (notification_read(frame, &notification) != NOTIFICATION_OK)
		return false;
	is_own = notification->pid == server_pid(client->borrower.server);
	if (listening && (listening->step == STEP_HOME || listening->step == STEP_LEAVE)) {
		take_at_home(client, notification);
		notification_release(&notification);
		return true;
	}
	if (listening && is_own_mark(listening, notification))
		listening->is_mark_here = true;
	is_forwarded = !listening || !listening->listener.listening ||
	               (!is_of_ours(listening, notification->channel) && !listening->is_mark_here &&
	                listening->step != STEP_CLEAN);
	if (is_forwarded && listening && has_older(listening)) {
		keep(client, &listening->lent, notification, is_own);
		is_forwarded = is_own = false;
	}
	if (is_forwarded && is_own)
		add_own(client, notification, instead);
	notification_release(&notification);
	return !is_forwarded || is_own;
}

/* ---- the new channels ---- */

static const struct listener_ops client_listener_ops = {
	.on_answer = on_listener_answer,
	.on_mark = on_listener_mark,
	.on_notification = on_notification,
	.on_lost = on_listener_lost,
};

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
	TAILQ_INIT(&listening->unlistens);
	TAILQ_INIT(&listening->aheads);
	client->listening = listening;
	return listening;
}

/* Adds the channels that the client does not have. false: it was closed. */
static bool add_channels(struct client *client, const struct names *names)
{
	struct client_listening *listening = get_listening(client);
	struct listener *listener = listening ? &listening->listener : NULL;
	bool is_added = listener && listening_join(listener, client->borrower.pool,
	                                           encoding_of(client->params));

	for (size_t i = 0; is_added && i < names->count; i++) {
		struct bytes name = bytes_text(names->list[i]);

		if (listener->count >= LISTENING_CHANNELS_MAX) {
			client_refuse_for(client, CLOSE_LISTENING_CHANNELS);
			return false;
		}
		if (!is_of_ours(listening, name.at) && !listening_has(listener, name))
			is_added = listening_add(listener, name);
	}
	if (!is_added)
		client_refuse_for(client, CLOSE_MEMORY);
	return is_added;
}

/* Whether the server listens to what the client has listened to before. */
static bool has_all_old(const struct client_listening *listening, const struct names *names)
{
	const struct subscription *at = NULL;
	const char *name;

	while ((name = listening_next(&listening->listener, &at))) {
		if (listening_has_old(&listening->listener, bytes_text(name)) &&
		    !has_name(names, name))
			return false;
	}
	return true;
}

/* The server listens to some channels. */
static void settle_channels(struct client *client, const struct names *names)
{
	unsigned int before = client->listening ? client->listening->listener.count : 0;
	struct client_listening *listening;

	server_set_dirty(client->borrower.server, true);
	/* The mark will come; in session mode nobody has watched. */
	client->borrower.server->watches |= SERVER_WATCHES_NOTIFICATIONS;
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
	struct names names;

	if (!(facts->parts & QUESTION_CHANNELS))
		return true;
	if (!read_names(&names, channels) ||
	    (client->listening && !judge_unlistens(client->listening, &names))) {
		client_refuse_for(client, CLOSE_MEMORY);
		free(names.list);
		return false;
	}
	if (names.count)
		settle_channels(client, &names);
	else if (client->listening)
		leave_if_silent(client->listening);
	free(names.list);
	return channels.count == 0;
}

/* ---- hand-over ---- */

const struct listener *listening_listener(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	return listening && listening->listener.listening ? &listening->listener : NULL;
}

bool listening_is_at_rest(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	if (!listening)
		return true;
	return listening->step == STEP_NONE && !listening_is_followed(client) &&
	       !listening->is_withheld && !listening->may_notify && !listening->is_discarding &&
	       !listening->unlisten_count && TAILQ_EMPTY(&listening->aheads) &&
	       !listening->lent.count &&
	       (listening->listener.listening ? listening->listener.count > 0
	                                      : listening->unread.count == 0);
}

/* As the client will get them: its own ones have the process id of its cancel key. */
static void add_unread(const struct client *client, struct buf *out)
{
	const struct unread *unread = &client->listening->unread;

	for (size_t i = 0; i < unread->count; i++) {
		bool is_own;
		const struct notification *notification = unread_look_at(unread, i, &is_own);

		if (is_own)
			add_own(client, notification, out);
		else
			buf_add(out, notification->frame, notification->size);
	}
}

void listening_record(const struct client *client, struct buf *record)
{
	const struct listener *listener = listening_listener(client);
	struct buf channels = { 0 }, unread = { 0 };
	const struct subscription *at = NULL;
	const char *name;

	if (!listener)
		return;
	while ((name = listening_next(listener, &at)))
		buf_add_cstr(&channels, name);
	add_unread(client, &unread);
	record_write(record, &client_listening_record_table,
	             &(struct client_listening_record){
			 .number = listening_number(listener),
			 .channels = buf_bytes(&channels),
			 .unread = buf_bytes(&unread),
		     });
	if (!buf_ok(&channels) || !buf_ok(&unread))
		record->is_broken = true;
	buf_free(&channels);
	buf_free(&unread);
}

/* false: no memory, or one is broken. */
static bool restore_unread(struct client_listening *listening, struct bytes in)
{
	struct frame frame;
	bool is_kept = true;

	while (is_kept && frame_peek(in, UINT32_MAX, &frame) == WIRE_OK &&
	       in.count >= frame.length) {
		struct bytes whole = bytes_of(in.at, frame.length);
		struct notification *notification;

		if (notification_read(whole, &notification) != NOTIFICATION_OK)
			return false;
		is_kept = unread_add(&listening->unread, notification, false);
		notification_release(&notification);
		in = bytes_skip(in, frame.length);
	}
	return is_kept && in.count == 0;
}

static enum close_reason restore(struct client *client,
                                 const struct client_listening_record *values)
{
	struct client_listening *listening = get_listening(client);
	struct bytes channels = values->channels;
	const char *name;

	if (!listening)
		return CLOSE_MEMORY;
	if (!listening_rejoin(&listening->listener, client->borrower.pool, values->number))
		return CLOSE_LISTENING_LOST;
	while (bytes_take_text(&channels, &name)) {
		if (!listening_restore(&listening->listener, bytes_text(name)))
			return CLOSE_MEMORY;
	}
	return restore_unread(listening, values->unread) ? CLOSE_NONE : CLOSE_MEMORY;
}

bool listening_read(struct client *client, struct record *record)
{
	struct client_listening_record values;
	enum close_reason reason;

	if (!record_has_table(record, &client_listening_record_table))
		return true;
	record_read(record, &client_listening_record_table, &values);
	reason = client && !record->is_bad ? restore(client, &values) : CLOSE_NONE;
	if (reason)
		client_refuse_for(client, reason);
	return !reason;
}

/* ---- the end ---- */

void listening_free(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening)
		return;
	client->listening = NULL;
	timer_clear(&listening->timer);
	listening_leave(&listening->listener);
	forget_aheads(listening);
	forget_unlistens(listening);
	unread_done(&listening->unread);
	unread_done(&listening->lent);
	buf_free(&listening->ahead);
	free(listening);
}
