/* SPDX-License-Identifier: ISC */
/*
 * Delivery of notifications to a client that listens: see listening_state_priv.h.
 *
 * Hard here: a client may be closed whenever something is sent to it, and its `listening` is freed
 * with that.
 */
#include <stdint.h>
#include <stdlib.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pool/listening.h"

#include "listening_state_priv.h"
#include "session_priv.h"

/* ---- notifications that wait ---- */

#define FIRST_CAPACITY 16

static struct notification *tag(struct notification *notification, bool is_own)
{
	return (struct notification *)((uintptr_t)notification | is_own);
}

static struct notification *untag(struct notification *tagged, bool *is_own)
{
	*is_own = (uintptr_t)tagged & 1;
	return (struct notification *)((uintptr_t)tagged & ~(uintptr_t)1);
}

/* The memory that a notification needs there. */
static size_t unread_share(const struct notification *notification)
{
	return notification->size + sizeof(struct notification *);
}

static struct notification **slot_of(const struct unread *unread, size_t index)
{
	return &unread->ring[(unread->at + index) % unread->capacity];
}

static bool grow(struct unread *unread)
{
	size_t capacity = unread->capacity ? 2 * unread->capacity : FIRST_CAPACITY;
	struct notification **ring = calloc(capacity, sizeof(*ring));

	if (!ring)
		return false;
	for (size_t i = 0; i < unread->count; i++)
		ring[i] = *slot_of(unread, i);
	free(unread->ring);
	unread->ring = ring;
	unread->at = 0;
	unread->capacity = capacity;
	return true;
}

bool unread_add(struct unread *unread, struct notification *notification, bool is_own)
{
	if (unread->count == unread->capacity && !grow(unread))
		return false;
	*slot_of(unread, unread->count++) = tag(notification_hold(notification), is_own);
	unread->bytes += unread_share(notification);
	return true;
}

struct notification *unread_look_at(const struct unread *unread, size_t index, bool *is_own)
{
	return untag(*slot_of(unread, index), is_own);
}

static struct notification *unread_look(const struct unread *unread, size_t index)
{
	bool is_own;

	return unread_look_at(unread, index, &is_own);
}

/* Removes the oldest one; the caller owns it. NULL: it is empty. */
static struct notification *unread_take(struct unread *unread, bool *is_own)
{
	struct notification *notification;

	if (!unread->count)
		return NULL;
	notification = untag(*slot_of(unread, 0), is_own);
	unread->at = (unread->at + 1) % unread->capacity;
	unread->count--;
	unread->bytes -= unread_share(notification);
	if (!unread->count) {
		free(unread->ring);
		*unread = (struct unread){ 0 };
	}
	return notification;
}

bool unread_move(struct unread *from, struct unread *to, size_t count)
{
	bool is_moved = true;

	while (count-- && from->count) {
		bool is_own;
		struct notification *notification = unread_take(from, &is_own);

		is_moved &= unread_add(to, notification, is_own);
		notification_release(&notification);
	}
	return is_moved;
}

/* Removes the oldest `count` entries. */
static void unread_drop(struct unread *unread, size_t count)
{
	while (count-- && unread->count) {
		bool is_own;
		struct notification *notification = unread_take(unread, &is_own);

		notification_release(&notification);
	}
}

void unread_done(struct unread *unread) { unread_drop(unread, unread->count); }

/* ---- of the listening connection ---- */

/* It would get the text in the wrong encoding. */
static bool is_foreign(const struct client *client, const struct notification *notification)
{
	return !notification->is_ascii &&
	       strcmp(listening_encoding_of(client->params),
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
	store_be32(front + FRAME_HEADER_SIZE, listening_pid(client_key(client)));
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
	listening_deliver_leave(client->listening);
}

void listening_deliver_leave(struct client_listening *listening)
{
	if (listening->listener.count == 0 && listening->unread.count == 0)
		listening_leave(&listening->listener);
}

/* Even if the client reads slowly: they are at most LISTENING_UNREAD_MAX. */
bool listening_deliver_all(struct client *client)
{
	while (client->listening->unread.count) {
		if (!send_next_unread(client))
			return false;
	}
	listening_deliver_leave(client->listening);
	return true;
}

bool listening_release(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf out = { 0 };
	bool is_sent;

	if (!listening || !listening->is_withheld)
		return true;
	listening->is_withheld = false;
	if (!listening_deliver_all(client))
		return false;
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
		listening->is_clear = listening->is_caught_up = false;
		listening->sure_count = 0;
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

void listening_deliver_notification(struct listener *listener, struct notification *notification)
{
	struct client *client = listening_client(listener);
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

/* ---- of the lent server ---- */

/* Whether notifications of other channels may wait: then this one waits behind them. */
static bool has_older(const struct client_listening *listening)
{
	return listening->step >= STEP_CONNECT ? listening->had_channels
	                                       : listening->listener.count > 0;
}

void listening_deliver_add_own(const struct client *client, const struct notification *notification,
                               struct buf *out)
{
	size_t at = out->count;

	buf_add(out, notification->frame, notification->size);
	if (buf_ok(out))
		store_be32(out->at + at + FRAME_HEADER_SIZE, listening_pid(client_key(client)));
}

/* What comes before the mark, the listening connection delivers, too. */
static void take_at_home(struct client *client, struct notification *notification)
{
	struct client_listening *listening = client->listening;

	if (listening_is_ours(listening, notification->channel))
		listening->is_mark_here |= strcmp(notification->payload, listening->mark) == 0;
	else if (listening->is_mark_here)
		keep(client, &listening->lent, notification, false);
}

/* The mark of this client; those of other clients come too. */
static bool is_own_mark(const struct client_listening *listening,
                        const struct notification *notification)
{
	return listening->step == STEP_MARK &&
	       listening_is_ours(listening, notification->channel) &&
	       strcmp(notification->payload, listening->mark) == 0;
}

bool listening_takes(struct client *client, struct bytes frame, struct buf *instead)
{
	struct client_listening *listening = client->listening;
	struct notification *notification;
	bool is_own, is_forwarded;

	if (notification_read(frame, &notification) != NOTIFICATION_OK)
		return false;
	is_own = notification->pid == listening_server_pid(client->borrower.server);
	if (listening && (listening->step == STEP_HOME || listening->step == STEP_LEAVE)) {
		take_at_home(client, notification);
		notification_release(&notification);
		return true;
	}
	if (listening && is_own_mark(listening, notification))
		listening->is_mark_here = true;
	is_forwarded = !listening || !listening->listener.listening ||
	               (!listening_is_ours(listening, notification->channel) &&
	                !listening->is_mark_here && listening->step != STEP_CLEAN);
	if (is_forwarded && listening && has_older(listening)) {
		keep(client, &listening->lent, notification, is_own);
		is_forwarded = is_own = false;
	}
	if (is_forwarded && is_own)
		listening_deliver_add_own(client, notification, instead);
	notification_release(&notification);
	return !is_forwarded || is_own;
}

/* ---- those that wait ---- */

/* What arrived after the UNLISTEN was executed: PostgreSQL would not send it either. */
bool listening_deliver_drop(struct client_listening *listening)
{
	struct unread old = listening->unread;
	bool is_kept = true;

	listening->unread = (struct unread){ 0 };
	is_kept = unread_move(&old, &listening->unread, listening->sure_count);
	while (old.count) {
		const char *channel = unread_look(&old, 0)->channel;

		if (listening_has(&listening->listener, bytes_text(channel)))
			is_kept &= unread_move(&old, &listening->unread, 1);
		else
			unread_drop(&old, 1);
	}
	return is_kept;
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
bool listening_deliver_merge(struct client_listening *listening)
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
