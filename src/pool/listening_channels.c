/* SPDX-License-Identifier: ISC */
/*
 * A listening connection, the notifications that come there, and its channels: who listens to them,
 * and the text that makes the connection listen to what its listeners have.
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

void listening_wake(struct listening *listening)
{
	loop_defer(listening->pool->pools->shared.loop, &listening->task);
}

void listening_count_stuck(struct pool *pool)
{
	unsigned int count = pool->listening_count - pool->listening_login_count;
	const struct listening *listening;
	int change;

	TAILQ_FOREACH (listening, &pool->listenings, node) {
		if (!listening->now->borrower.server)
			count += listening->listener_count;
	}
	change = (int)(count - pool->stuck_count);
	pool->stuck_count = count;
	pool->database->cap.share.tally->stuck_count += (unsigned int)change;
	pool->role->cap.share.tally->stuck_count += (unsigned int)change;
	pool->pools->cap.share.tally->stuck_count += (unsigned int)change;
}

void listening_end_replacing(struct listening *listening)
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
		listening_end_replacing(listening);
	listening->replace.is_told = false;
	listening_wake(listening);
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
	listening_wake(listening);
}

void listening_free_channel(struct listening *listening, struct listened *channel)
{
	HASH_DEL(listening->channels, channel);
	if (channel->is_stale)
		TAILQ_REMOVE(&listening->stale, channel, stale_node);
	free(channel);
}

static struct listened *find_listened(const struct listening *listening, struct bytes name)
{
	return TABLE_GET(hh, &listening->secret, listening->channels, name.at, name.count);
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

void listening_spread(struct listening *listening, const struct notification *notification)
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

void listening_write_query(struct listening *listening, struct buf *out)
{
	struct listened *channel;

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

void listening_write_all(const struct listening *listening, struct buf *out)
{
	struct listened *channel, *next;

	add_statement(out, "LISTEN ", bytes_text(listening->mark_channel));
	HASH_ITER (hh, listening->channels, channel, next) {
		if (channel->is_on)
			add_statement(out, "LISTEN ", bytes_of(channel->name, channel->size));
	}
}
