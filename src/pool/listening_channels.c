/* SPDX-License-Identifier: ISC */
/*
 * Channels of a listening connection: who listens to them, marks, and the text that makes the
 * connection listen to what its listeners have.
 *
 * Hard here: callbacks close clients, which leave from within a walk over listeners. So channels
 * are freed only when the next text is written.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/pool/notification.h"

#include "listening_priv.h"

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
