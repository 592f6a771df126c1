/* SPDX-License-Identifier: ISC */
/*
 * A listening connection, the notifications that come there, and its channels: who listens to them,
 * marks, and the text that makes the connection listen to what its listeners have.
 *
 * Hard here: callbacks close clients, which leave from within a walk over listeners. So channels
 * are freed only when the next text is written.
 */
#include "listening_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/listening.h"

#include "server/server_priv.h"

/* ---- notifications ---- */

#define TEXT_AT (FRAME_HEADER_SIZE + 4) /* after the process id */

/* The start of the payload; NULL: the frame does not end with two texts. */
static const char *find_payload(struct bytes frame)
{
	struct bytes text;
	const char *end;

	if (frame.count <= TEXT_AT || frame.at[frame.count - 1] != 0)
		return NULL;
	text = bytes_skip(frame, TEXT_AT);
	end = memchr(text.at, 0, text.count);
	if (end + 1 == text.at + text.count)
		return NULL; /* one text */
	return memchr(end + 1, 0, (size_t)(text.at + text.count - end - 1)) ==
	               text.at + text.count - 1
	           ? end + 1
	           : NULL;
}

enum notification_result notification_read(struct bytes frame, struct notification **out)
{
	const char *payload = find_payload(frame);
	struct notification *notification;

	*out = NULL;
	if (!payload)
		return NOTIFICATION_BROKEN;
	notification = malloc(sizeof(*notification) + frame.count);
	if (!notification)
		return NOTIFICATION_NO_MEMORY;
	*notification = (struct notification){
		.hold_count = 1,
		.size = (uint32_t)frame.count,
		.pid = load_be32(frame.at + FRAME_HEADER_SIZE),
		.is_ascii = bytes_are_ascii(bytes_skip(frame, TEXT_AT)),
		.channel = notification->frame + TEXT_AT,
		.payload = notification->frame + (payload - frame.at),
	};
	memcpy(notification->frame, frame.at, frame.count);
	*out = notification;
	return NOTIFICATION_OK;
}

struct notification *notification_hold(struct notification *notification)
{
	notification->hold_count++;
	return notification;
}

void notification_release(struct notification **notificationp)
{
	struct notification *notification = *notificationp;

	*notificationp = NULL;
	if (notification && --notification->hold_count == 0)
		free(notification);
}

/* ---- the connection: opened, asked, closed ---- */

void listening_wake(struct listening *listening)
{
	loop_defer(pool_loop(listening->pool), &listening->task);
}

struct listening_link *listening_link_of(struct borrower *borrower)
{
	return container_of(borrower, struct listening_link, borrower);
}

struct listening *listening_of(struct borrower *borrower)
{
	return listening_link_of(borrower)->listening;
}

void listening_link_open(struct listening_link *link, struct server *server)
{
	struct pool *pool = server->pool;

	server->lease.borrower = &link->borrower;
	link->borrower.pool = pool;
	link->borrower.server = server;
	link->borrower.state = BORROWER_SERVED;
	pool->served_count++;
	server->lease.request_at = 0;
	listening_wake(link->listening);
}

struct buf *listening_link_begin(struct listening_link *link)
{
	struct buf *out = &link->listening->text;

	buf_reuse(out, LISTENING_TEXT_KEEP_MAX);
	message_begin(out, 'Q');
	return out;
}

void listening_link_send(struct listening_link *link, uint64_t number)
{
	struct server *server = link->borrower.server;
	usec_t now = loop_now(pool_loop(link->listening->pool));
	struct buf *out = &link->listening->text;

	buf_add_byte(out, 0);
	message_end(out, 0);
	link->is_running = true;
	link->query = number;
	server_begin_query(server, now, now);
	if (!buf_ok(out) || !server_note(server, LEDGER_QUERY))
		server_close_for(server, CLOSE_MEMORY);
	else
		server_send(server, buf_bytes(out)); /* if it fails, on_lost() is called */
	buf_reuse(out, LISTENING_TEXT_KEEP_MAX);
}

void listening_link_reset(struct listening_link *link)
{
	buf_free(&link->in);
	link->is_running = link->is_mark_here = link->has_error = false;
}

void listening_link_close(struct listening_link *link, enum err_code code, enum close_reason reason)
{
	struct server *server = link->borrower.server;
	struct server *expected = link->wish.expected;

	if (expected) {
		expected->lease.expected_by = NULL;
		link->wish.expected = NULL;
		server_close_as(expected, ERR_ADMIN_SHUTDOWN, reason);
	}
	if (server) {
		link->borrower.server = NULL;
		server->lease.borrower = NULL;
		link->listening->pool->served_count--;
		server_close_as(server, code, reason);
	}
	listening_link_reset(link);
}

void listening_fail(struct listening *listening, const struct err *err)
{
	struct err cause = listening->now->has_error ? listening->now->err : *err;

	if (listening->is_lost)
		return;
	listening->is_lost = true;
	err_close(&listening->err, CLOSE_LISTENING_LOST);
	err_suffix(&listening->err, ": %s", cause.text);
	listening_wake(listening);
}

/* ---- channels ---- */

#define LISTENS_MAX 1000 /* LISTEN statements in one query to a successor */

/* ---- text ---- */

void listening_add_name(struct buf *out, struct bytes name)
{
	buf_add_byte(out, '"');
	for (size_t i = 0; i < name.count; i++) {
		if (name.at[i] == '"')
			buf_add_byte(out, '"');
		buf_add_byte(out, name.at[i]);
	}
	buf_add_byte(out, '"');
}

static void add_statement(struct buf *out, const char *verb, struct bytes name)
{
	buf_add_text(out, verb);
	listening_add_name(out, name);
	buf_add_byte(out, ';');
}

/* ---- channels and subscriptions ---- */

static void set_stale(struct listening *listening, struct listened *channel)
{
	if (channel->is_stale)
		return;
	channel->is_stale = true;
	TAILQ_INSERT_TAIL(&listening->stale, channel, stale_node);
	listening_wake(listening);
}

void listening_free_channel(struct listening *listening, struct listened *channel)
{
	struct listening_replace *replace = &listening->replace;

	if (replace->at == channel)
		replace->at = channel->hh.next;
	if (replace->state != REPLACE_NONE && channel->successor == replace->number)
		add_statement(&replace->left, "UNLISTEN ", bytes_of(channel->name, channel->size));
	HASH_DEL(listening->channels, channel);
	if (channel->is_stale)
		TAILQ_REMOVE(&listening->stale, channel, stale_node);
	free(channel);
}

static struct listened *find_listened(const struct listening *listening, struct bytes name)
{
	struct listened *channel;

	TABLE_FIND(hh, &listening->secret, listening->channels, name.at, name.count, channel);
	return channel;
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
	TABLE_ADD(hh, &listening->secret, listening->channels, channel->name, name.count, channel);
	set_stale(listening, channel);
	return channel;
}

/* Walks the shorter list: a client may have many channels, and a channel many clients. */
static struct subscription *find_subscription(const struct listener *listener, struct bytes name)
{
	const struct listened *channel = find_listened(listener->listening, name);
	struct subscription *subscription;

	if (channel && channel->count < listener->count) {
		TAILQ_FOREACH (subscription, &channel->subscriptions, node) {
			if (subscription->listener == listener)
				return subscription;
		}
	} else if (channel) {
		TAILQ_FOREACH (subscription, &listener->subscriptions, other) {
			if (subscription->channel == channel)
				return subscription;
		}
	}
	return NULL;
}

static void drop_subscription(struct subscription *subscription)
{
	struct listener *listener = subscription->listener;
	struct listened *channel = subscription->channel;

	TAILQ_REMOVE(&channel->subscriptions, subscription, node);
	TAILQ_REMOVE(&listener->subscriptions, subscription, other);
	listener->count--;
	channel->count--;
	free(subscription);
	if (TAILQ_EMPTY(&channel->subscriptions))
		set_stale(listener->listening, channel);
}

bool listening_has(const struct listener *listener, struct bytes name)
{
	return listener->listening && find_subscription(listener, name);
}

bool listening_has_old(const struct listener *listener, struct bytes name)
{
	const struct subscription *subscription =
	    listener->listening ? find_subscription(listener, name) : NULL;

	return subscription && subscription->is_old;
}

void listening_confirm(struct listener *listener)
{
	struct subscription *subscription;

	TAILQ_FOREACH (subscription, &listener->subscriptions, other)
		subscription->is_old = subscription->is_active;
}

/* NULL: no memory. */
static struct subscription *subscribe(struct listener *listener, struct bytes name)
{
	struct listened *channel = get_listened(listener->listening, name);
	struct subscription *subscription = channel ? calloc(1, sizeof(*subscription)) : NULL;

	if (!subscription)
		return NULL;
	subscription->listener = listener;
	subscription->channel = channel;
	TAILQ_INSERT_TAIL(&channel->subscriptions, subscription, node);
	TAILQ_INSERT_TAIL(&listener->subscriptions, subscription, other);
	listener->count++;
	channel->count++;
	return subscription;
}

bool listening_add(struct listener *listener, struct bytes name)
{
	const struct subscription *subscription = subscribe(listener, name);

	if (subscription && !subscription->channel->is_on)
		set_stale(listener->listening, subscription->channel);
	return subscription;
}

bool listening_restore(struct listener *listener, struct bytes name)
{
	struct subscription *subscription = subscribe(listener, name);

	if (!subscription)
		return false;
	subscription->is_active = subscription->is_old = true;
	subscription->channel->is_on = true;
	return true;
}

void listening_remove(struct listener *listener, struct bytes name)
{
	struct subscription *subscription =
	    listener->listening ? find_subscription(listener, name) : NULL;

	if (subscription)
		drop_subscription(subscription);
}

void listening_remove_all(struct listener *listener)
{
	struct subscription *subscription;

	if (!listener->listening)
		return;
	while ((subscription = TAILQ_FIRST(&listener->subscriptions)))
		drop_subscription(subscription);
}

const char *listening_next(const struct listener *listener, const struct subscription **at)
{
	if (!listener->listening)
		return NULL;
	*at = *at ? TAILQ_NEXT(*at, other) : TAILQ_FIRST(&listener->subscriptions);
	return *at ? (*at)->channel->name : NULL;
}

/* ---- marks ---- */

static void draw(void *out, size_t size)
{
	struct hash_key key;

	hash_key_draw(&key);
	memcpy(out, &key, size);
}

void listening_forget_mark(struct listener *listener)
{
	if (listener->mark)
		HASH_DEL(listener->listening->marks, listener);
	listener->mark = 0;
}

uint64_t listening_new_mark(const struct listening *listening)
{
	struct listener *other;
	uint64_t mark;

	do {
		draw(&mark, sizeof(mark));
		HASH_FIND(hh, listening->marks, &mark, sizeof(mark), other);
	} while (mark == 0 || mark == listening->replace.mark || other);
	return mark;
}

void listening_expect(struct listener *listener)
{
	struct listening *listening = listener->listening;

	listening_forget_mark(listener);
	listener->mark = listening_new_mark(listening);
	HASH_ADD(hh, listening->marks, mark, sizeof(listener->mark), listener);
}

const char *listening_mark(const struct listener *listener, char out[LISTENING_MARK_SIZE])
{
	snprintf(out, LISTENING_MARK_SIZE, "%016llx", (unsigned long long)listener->mark);
	return out;
}

const char *listening_mark_channel(const struct listener *listener)
{
	return listener->listening->mark_channel;
}

void listening_take_mark(struct listening *listening, const char *payload)
{
	uint64_t mark = strtoull(payload, NULL, 16);
	struct subscription *subscription;
	struct listener *listener;

	HASH_FIND(hh, listening->marks, &mark, sizeof(mark), listener);
	if (!listener)
		return; /* the listener has left */
	listening_forget_mark(listener);
	TAILQ_FOREACH (subscription, &listener->subscriptions, other)
		subscription->is_active = true;
	listener->ops->on_mark(listener);
}

void listening_spread(struct listening *listening, struct notification *notification)
{
	struct listened *channel = find_listened(listening, bytes_text(notification->channel));
	struct subscription *subscription, *next;

	/* A callback may end its own subscription; the channel stays until the end of the turn. */
	for (subscription = channel ? TAILQ_FIRST(&channel->subscriptions) : NULL; subscription;
	     subscription = next) {
		struct listener *listener = subscription->listener;

		next = TAILQ_NEXT(subscription, node);
		if (subscription->is_active)
			listener->ops->on_notification(listener, notification);
	}
}

/* ---- LISTEN and UNLISTEN ---- */

void listening_write_query(struct listening *listening, struct buf *out)
{
	struct listened *channel;

	if (!listening->is_mark_on)
		add_statement(out, "LISTEN ", bytes_text(listening->mark_channel));
	listening->is_mark_on = true;
	while ((channel = TAILQ_FIRST(&listening->stale))) {
		struct bytes name = bytes_of(channel->name, channel->size);
		bool is_wanted = !TAILQ_EMPTY(&channel->subscriptions);

		TAILQ_REMOVE(&listening->stale, channel, stale_node);
		channel->is_stale = false;
		if (is_wanted != channel->is_on)
			add_statement(out, is_wanted ? "LISTEN " : "UNLISTEN ", name);
		channel->is_on = is_wanted;
		if (!is_wanted)
			listening_free_channel(listening, channel);
	}
}

void listening_walk(struct listening *listening)
{
	listening->replace.at = listening->channels;
	listening->replace.number++;
	buf_clear(&listening->replace.left);
}

void listening_write_mark_channel(const struct listening *listening, struct buf *out)
{
	add_statement(out, "LISTEN ", bytes_text(listening->mark_channel));
}

static bool add_for_successor(const struct listening *listening, struct listened *channel,
                              struct buf *out)
{
	if (!channel->is_on || channel->successor == listening->replace.number)
		return false;
	channel->successor = listening->replace.number;
	add_statement(out, "LISTEN ", bytes_of(channel->name, channel->size));
	return true;
}

void listening_write_some(struct listening *listening, struct buf *out)
{
	struct listening_replace *replace = &listening->replace;
	unsigned int count = 0;

	while (replace->at && count < LISTENS_MAX) {
		count += add_for_successor(listening, replace->at, out);
		replace->at = replace->at->hh.next;
	}
}

void listening_write_rest(struct listening *listening, struct buf *out)
{
	struct listening_replace *replace = &listening->replace;
	struct listened *channel, *next;

	buf_add(out, replace->left.at, replace->left.count);
	if (!buf_ok(&replace->left))
		out->is_broken = true;
	buf_free(&replace->left);
	HASH_ITER (hh, listening->channels, channel, next)
		add_for_successor(listening, channel, out);
}
