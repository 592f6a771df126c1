/* SPDX-License-Identifier: ISC */
/*
 * The listening connections of a pool.
 *
 *   WANTED --> LAUNCHED --> OPEN --> freed at the end of a turn without listeners
 *     ^           |           |
 *     +-- again --+           +--> lost: all listeners get the error
 *
 * One query is in progress at a time; what is asked while it runs is collected for the next one. So
 * a crowd of clients costs few queries, and an answer says that all that was asked before that
 * query was sent has been done.
 *
 * A client that executes LISTEN keeps its server until the listening connection has the channels.
 * If such clients hold all permits, the last one is refused: else each would wait for the others.
 *
 * Hard here: callbacks close clients, which leave from within a walk over listeners. Channels are
 * therefore freed only when the next text is written, connections at the end of the turn, and a
 * loss is reported from the loop.
 */
#include "pgweir/pool/listening.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"

#include "handover_priv.h"
#include "listening_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

#define APPLICATION_NAME "pgweir LISTEN"
#define KEPT_MAX ((size_t)8 * 1024 * 1024) /* bytes of what waits of a successor */

/* ---- notifications ---- */

#define TEXT_AT (FRAME_HEADER_SIZE + 4) /* after the process id */

bool notification_take(struct bytes *in, struct notification *notification)
{
	const char *channel, *payload;
	struct bytes frame, rest;
	struct frame header;

	if (frame_peek(*in, UINT32_MAX, &header) != WIRE_OK || header.length < TEXT_AT ||
	    in->count < header.length)
		return false;
	frame = bytes_of(in->at, header.length);
	rest = bytes_skip(frame, TEXT_AT);
	if (!bytes_take_text(&rest, &channel) || !bytes_take_text(&rest, &payload) || rest.count)
		return false;
	*notification = (struct notification){
		.frame = frame,
		.pid = load_be32(frame.at + FRAME_HEADER_SIZE),
		.is_ascii = bytes_are_ascii(bytes_skip(frame, TEXT_AT)),
		.channel = channel,
		.payload = payload,
	};
	*in = bytes_skip(*in, header.length);
	return true;
}

/* ---- the connection ---- */

static void wake(struct listening *listening)
{
	loop_defer(listening->pool->pools->shared.loop, &listening->task);
}

void listening_count_stuck(struct pool *pool)
{
	unsigned int count = pool->listening_count - pool->listening_login_count;
	int change;

	TAILQ_EACH (listening, &pool->listenings, node) {
		if (!listening->now->borrower.server)
			count += listening->listener_count;
	}
	change = (int)(count - pool->stuck_count);
	pool->stuck_count = count;
	pool->database->cap.share.tally->stuck_count += (unsigned int)change;
	pool->role->cap.share.tally->stuck_count += (unsigned int)change;
	pool->pools->cap.share.tally->stuck_count += (unsigned int)change;
}

static void end_replacing(struct listening *listening)
{
	timer_clear(&listening->replace.timer);
	listening->replace.state = REPLACE_NONE;
	listening->now->is_mark_here = false;
}

void listening_replace(struct server *server)
{
	struct listening *listening;

	if (!server->lease.borrower)
		return; /* it is being closed */
	if (!pool_is_current(server->pool)) {
		server_close_as(server, ERR_ADMIN_SHUTDOWN, server->close_reason);
		return;
	}
	listening =
	    container_of(server->lease.borrower, struct listening_link, borrower)->listening;
	if (listening->replace.state == REPLACE_LATER)
		end_replacing(listening);
	listening->replace.is_told = false;
	wake(listening);
}

/* ---- text ---- */

static void add_statement(struct buf *out, const char *verb, struct bytes name)
{
	buf_add_text(out, verb);
	buf_add_byte(out, '"');
	for (size_t i = 0; i < name.count; i++) {
		if (name.at[i] == '"')
			buf_add_byte(out, '"');
		buf_add_byte(out, name.at[i]);
	}
	buf_add_text(out, "\";");
}

/* ---- channels and subscriptions ---- */

static void set_stale(struct listening *listening, struct listened *channel)
{
	if (channel->is_stale)
		return;
	channel->is_stale = true;
	TAILQ_INSERT_TAIL(&listening->stale, channel, stale_node);
	wake(listening);
}

static void free_channel(struct listening *listening, struct listened *channel)
{
	HASH_DEL(listening->channels, channel);
	if (channel->is_stale)
		TAILQ_REMOVE(&listening->stale, channel, stale_node);
	free(channel);
}

static struct listened *find_listened(const struct listening *listening, struct bytes name)
{
	return TABLE_GET(hh, &listening->pool->pools->secret, listening->channels, name.at,
	                 name.count);
}

static struct listened *get_listened(struct listening *listening, struct bytes name)
{
	struct listened *channel = find_listened(listening, name);

	if (channel)
		return channel;
	channel = calloc(1, sizeof(*channel) + name.count + 1);
	if (!channel)
		return NULL;
	TAILQ_INIT(&channel->subscriptions);
	channel->size = (uint32_t)name.count;
	memcpy(channel->name, name.at, name.count);
	TABLE_ADD(hh, &listening->pool->pools->secret, listening->channels, channel->name,
	          name.count, channel);
	set_stale(listening, channel);
	return channel;
}

static struct subscription *find_subscription(struct listener *listener, struct bytes name)
{
	const struct listening *listening = listener->listening;
	struct subscription_of of = { listener, listening ? find_listened(listening, name) : NULL };

	return of.channel ? TABLE_GET_OWN(hh, listening->subscriptions, &of, sizeof(of)) : NULL;
}

static void drop_subscription(struct subscription *subscription)
{
	struct listener *listener = subscription->of.listener;
	struct listened *channel = subscription->of.channel;

	HASH_DEL(listener->listening->subscriptions, subscription);
	TAILQ_REMOVE(&channel->subscriptions, subscription, node);
	TAILQ_REMOVE(&listener->subscriptions[subscription->state], subscription, other);
	listener->count--;
	free(subscription);
	if (TAILQ_EMPTY(&channel->subscriptions))
		set_stale(listener->listening, channel);
}

enum subscription_state listening_state(struct listener *listener, struct bytes name)
{
	const struct subscription *subscription = find_subscription(listener, name);

	return subscription ? subscription->state : SUBSCRIPTION_NONE;
}

bool listening_add(struct listener *listener, struct bytes name, enum subscription_state state)
{
	struct listening *listening = listener->listening;
	struct listened *channel = get_listened(listening, name);
	struct subscription *subscription = channel ? calloc(1, sizeof(*subscription)) : NULL;

	if (!subscription)
		return false;
	subscription->of = (struct subscription_of){ listener, channel };
	subscription->state = state;
	HASH_ADD(hh, listening->subscriptions, of, sizeof(subscription->of), subscription);
	TAILQ_INSERT_TAIL(&channel->subscriptions, subscription, node);
	TAILQ_INSERT_TAIL(&listener->subscriptions[state], subscription, other);
	listener->count++;
	channel->is_on |= state == SUBSCRIPTION_ON;
	if (!channel->is_on)
		set_stale(listening, channel);
	return true;
}

/* The LISTEN of a new one has not counted yet, so an UNLISTEN ends nothing. */
static bool may_become(enum subscription_state from, enum subscription_state to)
{
	return from != to && !(from == SUBSCRIPTION_NEW && to == SUBSCRIPTION_LEAVING);
}

static void set_state(struct subscription *subscription, enum subscription_state state)
{
	struct subscription_list *lists = subscription->of.listener->subscriptions;

	TAILQ_REMOVE(&lists[subscription->state], subscription, other);
	subscription->state = state;
	TAILQ_INSERT_TAIL(&lists[state], subscription, other);
}

void listening_set(struct listener *listener, struct bytes name, enum subscription_state state)
{
	struct subscription *subscription = find_subscription(listener, name);

	if (subscription && may_become(subscription->state, state))
		set_state(subscription, state);
}

void listening_set_all(struct listener *listener, enum subscription_state state)
{
	struct subscription *subscription;

	for (unsigned int from = SUBSCRIPTION_NEW; from < SUBSCRIPTION_STATES; from++) {
		while ((subscription = TAILQ_FIRST(&listener->subscriptions[from])) &&
		       may_become(from, state))
			set_state(subscription, state);
	}
}

void listening_remove(struct listener *listener, enum subscription_state state)
{
	struct subscription *subscription;

	while ((subscription = TAILQ_FIRST(&listener->subscriptions[state])))
		drop_subscription(subscription);
}

const char *listening_next(const struct listener *listener, const struct subscription **at)
{
	unsigned int state = *at ? (*at)->state : SUBSCRIPTION_NONE;

	*at = *at ? TAILQ_NEXT(*at, other) : NULL;
	while (!*at && ++state < SUBSCRIPTION_STATES)
		*at = TAILQ_FIRST(&listener->subscriptions[state]);
	return *at ? (*at)->of.channel->name : NULL;
}

static void spread(struct listening *listening, const struct notification *notification)
{
	struct listened *channel = find_listened(listening, bytes_text(notification->channel));
	struct subscription *subscription, *next;

	/* A callback may end its own subscription; the channel stays until the end of the turn. */
	if (!channel)
		return;
	TAILQ_FOREACH_SAFE (subscription, &channel->subscriptions, node, next)
		subscription->of.listener->ops->on_notification(subscription->of.listener,
		                                                notification);
}

/* ---- LISTEN and UNLISTEN ---- */

static void write_query(struct listening *listening, struct buf *out)
{
	for (struct listened *channel; (channel = TAILQ_FIRST(&listening->stale));) {
		struct bytes name = bytes_of(channel->name, channel->size);
		bool is_wanted = !TAILQ_EMPTY(&channel->subscriptions);

		TAILQ_REMOVE(&listening->stale, channel, stale_node);
		channel->is_stale = false;
		if (is_wanted != channel->is_on)
			add_statement(out, is_wanted ? "LISTEN " : "UNLISTEN ", name);
		channel->is_on = is_wanted;
		if (!is_wanted)
			free_channel(listening, channel);
	}
}

static void write_all(const struct listening *listening, struct buf *out)
{
	struct listened *channel, *next;

	add_statement(out, "LISTEN ", bytes_text(listening->mark_channel));
	HASH_ITER (hh, listening->channels, channel, next) {
		if (channel->is_on)
			add_statement(out, "LISTEN ", bytes_of(channel->name, channel->size));
	}
}

/* ---- a link: opened, asked, closed ---- */

static struct listening_link *link_of(struct borrower *borrower)
{
	return container_of(borrower, struct listening_link, borrower);
}

/* This server, which is SERVER_LENT, is the link's from now on. */
static void link_open(struct listening_link *link, struct server *server)
{
	struct pool *pool = server->pool;

	server->lease.borrower = &link->borrower;
	link->borrower.server = server;
	link->borrower.state = BORROWER_SERVED;
	pool_count_served(pool, 1);
	server->lease.request_at = 0;
	server_watch(server, SERVER_WATCHES_NOTIFICATIONS);
	wake(link->listening);
}

/* Where the next query is written. */
static struct buf *text_of(const struct listening *listening)
{
	return &listening->pool->pools->order_text;
}

/* Sends the query whose text was written. */
static void link_send(struct listening_link *link)
{
	struct server *server = link->borrower.server;
	struct buf *text = text_of(link->listening);
	struct order order = { ORDER_CHANNELS, SENT_NOW, .text = buf_text(text) };
	usec_t now = pool_now(link->listening->pool);

	server_begin_query(server, now, now);
	if (!buf_ok(text))
		server_close_for(server, CLOSE_MEMORY);
	else
		server_order(server, &order); /* if it fails, on_lost() is called */
	buf_reuse(text, ORDER_KEEP_MAX);
}

/* Closes the server that it has or expects. */
static void link_close(struct listening_link *link, enum err_code code, enum close_reason reason)
{
	struct server *server = link->borrower.server;
	struct server *expected = link->wish.expected;

	if (expected) {
		pool_wait_again(expected);
		server_close_as(expected, ERR_ADMIN_SHUTDOWN, reason);
	}
	if (server) {
		link->borrower.server = NULL;
		server->lease.borrower = NULL;
		pool_count_served(link->listening->pool, -1);
		server_close_as(server, code, reason);
	}
	link->is_mark_here = false;
}

/* At the end of the turn, all listeners get the error: their clients cannot be closed here. */
static void fail(struct listening *listening, const struct err *err)
{
	if (listening->is_lost)
		return;
	listening->is_lost = true;
	err_close(&listening->err, CLOSE_LISTENING_LOST);
	err_suffix(&listening->err, ": %s", err->text);
	wake(listening);
}

/*
 * ---- replacement of a connection by a successor: see listening_priv.h ----
 *
 * Hard here: each connection may end at any time, and a notification must come from one of them
 * only. PostgreSQL sends all notifications to all sessions of a database in the same order, so what
 * comes before the mark on the one connection is what comes before it on the other.
 */

static bool replace_is_wanted(const struct listening *listening)
{
	const struct server *server = listening->now->borrower.server;
	const struct listening_link *next = listening->next;

	return server && server->close_reason && !listening->is_lost && !next->borrower.server &&
	       !next->wish.expected && listening->replace.state == REPLACE_NONE;
}

/* ---- time limits ---- */

static void wait_at_most(struct listening *listening, usec_t limit,
                         void (*on_due)(struct timer *timer))
{
	struct loop *loop = pool_loop(listening->pool);

	timer_begin(&listening->replace.timer, loop, limit, on_due);
}

static void on_next_attempt(struct timer *timer)
{
	struct listening *listening = container_of(timer, struct listening, replace.timer);

	end_replacing(listening);
	wake(listening);
}

static void fail_for(struct listening *listening, const char *text)
{
	struct err err;

	err_set(&err, ERR_SERVER_LOST, "%s", text);
	fail(listening, &err);
}

static void on_limit(struct timer *timer)
{
	struct listening *listening = container_of(timer, struct listening, replace.timer);

	/* During a SUSPEND nobody answers. */
	if (listening->pool->pools->suspend != SUSPEND_NONE)
		wait_at_most(listening, USEC_PER_SEC, on_limit);
	else if (listening->next->is_mark_here)
		fail_for(listening, "it did not answer while it was replaced");
	else
		server_close_with(listening->next->borrower.server, ERR_SERVER_LOST,
		                  "LISTEN was not completed within server_connect_timeout");
}

/* ---- the steps ---- */

/* Both listen to the same channels from now on, as no query is sent to the old connection. */
static void replace_open(struct listening *listening)
{
	struct buf *out = text_of(listening);
	struct hash_key key;

	hash_key_draw(&key);
	listening->replace.state = REPLACE_MARK;
	snprintf(listening->replace.mark, sizeof(listening->replace.mark), "%016" PRIx64,
	         key.half[0]);
	write_all(listening, out);
	buf_printf(out, "NOTIFY %s,'%s'", listening->mark_channel, listening->replace.mark);
	wait_at_most(listening, listening->pool->pools->config->server_connect_timeout, on_limit);
	link_send(listening->next);
}

static bool is_mark(const struct listening *listening, const struct notification *notification)
{
	return listening->replace.state >= REPLACE_MARK &&
	       strcmp(notification->channel, listening->mark_channel) == 0 &&
	       strcmp(notification->payload, listening->replace.mark) == 0;
}

/* What has come behind the mark. */
static void spread_kept(struct listening *listening)
{
	struct bytes kept = buf_bytes(&listening->kept);
	struct notification notification;

	while (notification_take(&kept, &notification))
		spread(listening, &notification);
	buf_free(&listening->kept);
}

static void switch_links(struct listening *listening)
{
	struct listening_link *old = listening->now;
	const struct server *server = old->borrower.server;

	listening->now = listening->next;
	listening->next = old;
	end_replacing(listening);
	link_close(old, ERR_ADMIN_SHUTDOWN, server ? server->close_reason : CLOSE_LISTENING_OVER);
	log_info(&listening->pool->log, "the listening connection was replaced");
	TAILQ_EACH (listener, &listening->asking, ask_node)
		listener->awaits = listening->query_number + 1; /* not the answer of the old one */
	spread_kept(listening);
}

static void replace_go_on(struct listening *listening)
{
	if (listening->replace.state < REPLACE_MARK || !listening->next->is_mark_here)
		return;
	if (listening->now->is_mark_here) {
		switch_links(listening);
	} else if (listening->now->borrower.server->wire.is_ready) {
		/* The mark comes before the answer to this, or it never comes. */
		listening->replace.state = REPLACE_PROVING;
		link_send(listening->now);
	}
}

static void replace_failed(struct listening *listening, const struct err *err)
{
	if (listening->now->is_mark_here) {
		fail(listening, err); /* what came after the mark was dropped */
		return;
	}
	end_replacing(listening);
	listening->next->is_mark_here = false;
	buf_free(&listening->kept);
	wake(listening);
	if (err->code == ERR_ADMIN_SHUTDOWN || listening->is_lost)
		return; /* we closed it */
	log_warning(&listening->pool->log,
	            "the listening connection was not replaced, it stays in use: %s", err->text);
	listening->replace.state = REPLACE_LATER;
	wait_at_most(listening, listening->pool->site.limits.retry_gap, on_next_attempt);
}

/* ---- joining and leaving ---- */

static void run_task(struct task *task);
static const struct borrower_ops listening_borrower_ops;

static bool set_params(struct listening *listening)
{
	struct params_table *table = listening->pool->pools->shared.params;
	const struct params_pair pairs[] = {
		{ "application_name", APPLICATION_NAME },
		{ "client_encoding", *listening->encoding ? listening->encoding : NULL },
	};

	listening->params = params_none(table);
	return params_change_all(table, &listening->params, pairs,
	                         sizeof(pairs) / sizeof(pairs[0]));
}

static void free_listening(struct listening *listening)
{
	struct listened *channel, *next;

	assert(TAILQ_EMPTY(&listening->listeners));
	loop_undefer(pool_loop(listening->pool), &listening->task);
	HASH_ITER (hh, listening->channels, channel, next)
		free_channel(listening, channel);
	TAILQ_REMOVE(&listening->pool->listenings, listening, node);
	params_release(listening->pool->pools->shared.params, &listening->params);
	timer_clear(&listening->replace.timer);
	buf_free(&listening->kept);
	free(listening);
}

/* Makes one that has no server and no listeners. NULL: no memory. */
static struct listening *listening_new(struct pool *pool, const char *encoding)
{
	struct listening *listening = calloc(1, sizeof(*listening));
	struct hash_key name;

	if (!listening)
		return NULL;
	listening->pool = pool;
	listening->task.run = run_task;
	TAILQ_INIT(&listening->listeners);
	TAILQ_INIT(&listening->asking);
	TAILQ_INIT(&listening->stale);
	hash_key_draw(&name);
	snprintf(listening->mark_channel, sizeof(listening->mark_channel),
	         MARK_CHANNEL_PREFIX "%016llx%016llx", (unsigned long long)name.half[0],
	         (unsigned long long)name.half[1]);
	snprintf(listening->encoding, sizeof(listening->encoding), "%s", encoding);
	TAILQ_INSERT_TAIL(&pool->listenings, listening, node);
	if (!set_params(listening)) {
		free_listening(listening);
		return NULL;
	}
	for (size_t i = 0; i < LISTENING_LINKS; i++) {
		struct listening_link *link = &listening->links[i];

		link->listening = listening;
		link->borrower.ops = &listening_borrower_ops;
		link->borrower.pool = pool;
		link->borrower.wish = &link->wish;
		link->wish = (struct server_wish){ .params = listening->params };
	}
	listening->now = &listening->links[0];
	listening->next = &listening->links[1];
	return listening;
}

void listening_enter(struct listening *listening, struct listener *listener)
{
	for (int state = 0; state < SUBSCRIPTION_STATES; state++)
		TAILQ_INIT(&listener->subscriptions[state]);
	listener->listening = listening;
	TAILQ_INSERT_TAIL(&listening->listeners, listener, node);
	listening->listener_count++;
	wake(listening);
}

const char *listening_encoding(const struct listener *listener)
{
	return listener->listening->encoding;
}

bool listening_join(struct listener *listener, struct pool *pool, const char *encoding)
{
	struct listening *listening;

	if (listener->listening)
		return true;
	TAILQ_FOREACH (listening, &pool->listenings, node) {
		if (!listening->is_lost && strcmp(listening->encoding, encoding) == 0)
			break;
	}
	if (!listening)
		listening = listening_new(pool, encoding);
	if (!listening)
		return false;
	listening_enter(listening, listener);
	return true;
}

static void stop_asking(struct listener *listener)
{
	if (listener->awaits)
		TAILQ_REMOVE(&listener->listening->asking, listener, ask_node);
	listener->awaits = 0;
}

void listening_leave(struct listener *listener)
{
	struct listening *listening = listener->listening;

	if (!listening)
		return;
	for (int state = SUBSCRIPTION_NEW; state < SUBSCRIPTION_STATES; state++)
		listening_remove(listener, (enum subscription_state)state);
	stop_asking(listener);
	TAILQ_REMOVE(&listening->listeners, listener, node);
	listening->listener_count--;
	listener->listening = NULL;
	listening_count_stuck(listening->pool);
	wake(listening);
}

/* ---- the query ---- */

void listening_ask(struct listener *listener)
{
	struct listening *listening = listener->listening;

	stop_asking(listener);
	listener->awaits = listening->query_number + 1;
	TAILQ_INSERT_TAIL(&listening->asking, listener, ask_node);
	wake(listening);
}

static void send_query(struct listening *listening, bool is_first)
{
	struct buf *out = text_of(listening);

	if (is_first)
		write_all(listening, out);
	write_query(listening, out);
	if (!out->count && TAILQ_EMPTY(&listening->asking))
		return; /* what was due was taken back */
	listening->query_number++;
	link_send(listening->now);
}

/* The last query is done. A callback may ask again, or leave. */
static void answer_asked(struct listening *listening)
{
	struct listener *listener;

	while ((listener = TAILQ_FIRST(&listening->asking)) &&
	       listener->awaits <= listening->query_number) {
		stop_asking(listener);
		listener->ops->on_answer(listener);
	}
}

/* ---- the end ---- */

static bool is_query_due(const struct listening *listening)
{
	const struct server *server = listening->now->borrower.server;

	return server && server->wire.is_ready && listening->replace.state < REPLACE_MARK &&
	       (!TAILQ_EMPTY(&listening->stale) || !TAILQ_EMPTY(&listening->asking));
}

static void run_task(struct task *task)
{
	struct listening *listening = container_of(task, struct listening, task);
	struct pool *pool = listening->pool;
	struct listener *listener;

	listening_count_stuck(pool);
	while (listening->is_lost && (listener = TAILQ_FIRST(&listening->listeners))) {
		listening_leave(listener);
		listener->ops->on_lost(listener, &listening->err);
	}
	if (TAILQ_EMPTY(&listening->listeners)) {
		for (size_t i = 0; i < LISTENING_LINKS; i++)
			link_close(&listening->links[i], ERR_SERVER_LOST, CLOSE_LISTENING_OVER);
		free_listening(listening);
		pool_arm_expiry(pool);
		return;
	}
	replace_go_on(listening);
	if (is_query_due(listening))
		send_query(listening, false);
	if (!listening->now->borrower.server || replace_is_wanted(listening))
		pool_wake(pool);
}

void listening_forget_all(struct pool *pool)
{
	struct listening *listening;

	while ((listening = TAILQ_FIRST(&pool->listenings)))
		free_listening(listening);
}

/* ---- from the server ---- */

/* Behind its mark: it waits for the mark on the other one. */
static void keep(struct listening *listening, struct bytes frame)
{
	struct server *server = listening->next->borrower.server;
	struct buf *kept = &listening->kept;

	buf_add(kept, frame.at, frame.count);
	if (!buf_ok(kept))
		server_close_for(server, CLOSE_MEMORY);
	else if (kept->count > KEPT_MAX)
		server_close_with(server, ERR_LIMIT,
		                  "too much has come before the mark of the old connection");
}

static bool on_listening_notification(struct borrower *borrower, struct bytes frame,
                                      struct buf *instead)
{
	struct listening_link *link = link_of(borrower);
	struct listening *listening = link->listening;
	struct notification notification;

	(void)instead;
	if (!notification_take(&frame, &notification)) {
		server_close_for(borrower->server, CLOSE_BAD_HEADER);
	} else if (is_mark(listening, &notification)) {
		link->is_mark_here = true;
		wake(listening);
	} else if (link == listening->now && !link->is_mark_here) {
		spread(listening, &notification);
	} else if (link == listening->next && link->is_mark_here) {
		keep(listening, notification.frame);
	} /* else the other one has it, too */
	return true;
}

/* Notices, and parameters that were changed by a reload of PostgreSQL. */
static bool on_listening_bytes(struct borrower *borrower, struct bytes bytes)
{
	(void)borrower;
	(void)bytes;
	return true;
}

static void on_listening_ready(struct borrower *borrower, char status, bool is_settled)
{
	struct listening_link *link = link_of(borrower);
	struct listening *listening = link->listening;

	(void)status;
	if (!is_settled || listening->is_lost)
		return;
	wake(listening);
	/* Behind the mark of a replacement, it says nothing about what the successor delivers. */
	if (link != listening->now || link->is_mark_here)
		return;
	answer_asked(listening);
	if (listening->replace.state == REPLACE_PROVING)
		fail_for(listening, "its successor is connected to another server or database");
}

static void on_listening_lost(struct borrower *borrower, const struct err *err, bool got_fatal)
{
	struct listening_link *link = link_of(borrower);
	struct listening *listening = link->listening;

	(void)got_fatal;
	if (link == listening->next)
		replace_failed(listening, err);
	else if (listening->now->is_mark_here && listening->next->is_mark_here)
		wake(listening);
	else
		fail(listening, err);
}

static void on_listening_nothing(struct borrower *borrower) { (void)borrower; }

static void tell_listening(const struct borrower *borrower, struct buf *out)
{
	(void)borrower;
	buf_add_text(out, "LISTEN");
}

/* It is in no wait queue, gets no parameters and sends no batch: the others do not come. */
static const struct borrower_ops listening_borrower_ops = {
	.on_bytes = on_listening_bytes,
	.takes_notification = on_listening_notification,
	.on_ready = on_listening_ready,
	.on_deallocated = on_listening_nothing,
	.on_writable = on_listening_nothing,
	.on_lost = on_listening_lost,
	.tell_who = tell_listening,
};

/* ---- launching: see pool_grow.c ---- */

struct listening_link *listening_wanted_link(struct listening *listening)
{
	struct listening_link *now = listening->now;

	if (listening->is_lost || TAILQ_EMPTY(&listening->listeners))
		return NULL;
	if (!now->borrower.server)
		return now->wish.expected ? NULL : now;
	return replace_is_wanted(listening) ? listening->next : NULL;
}

void listening_login_done(struct borrower *borrower, struct server *server)
{
	struct listening_link *link = link_of(borrower);

	server_enter(server, SERVER_LENT);
	link_open(link, server);
	if (link == link->listening->next)
		replace_open(link->listening);
	else
		send_query(link->listening, true);
}

void listening_login_failed(struct borrower *borrower, const struct err *err, bool is_again)
{
	struct listening_link *link = link_of(borrower);

	if (link == link->listening->next)
		replace_failed(link->listening, err);
	else if (!is_again || !borrower->pool->database->entry)
		fail(link->listening, err);
}

/* ---- hand-over ---- */

void listening_describe(const struct server *server, struct server_record *record)
{
	const struct listening *listening = link_of(server->lease.borrower)->listening;

	text_copy(record->mark_channel, sizeof(record->mark_channel), listening->mark_channel);
	text_copy(record->encoding, sizeof(record->encoding), listening->encoding);
}

void listening_take(struct server *server, const struct server_record *record)
{
	struct listening *listening = listening_new(server->pool, record->encoding);

	if (!listening) {
		server_close_for(server, CLOSE_MEMORY);
		return;
	}
	listening->number = record->id;
	text_copy(listening->mark_channel, sizeof(listening->mark_channel), record->mark_channel);
	link_open(listening->now, server);
}
