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

void unread_done(struct unread *unread)
{
	while (unread->count) {
		bool is_own;
		struct notification *notification = unread_take(unread, &is_own);

		notification_release(&notification);
	}
}

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
	if (listening->listener.count || listening->unread.count)
		return;
	listening_leave(&listening->listener);
	timer_clear(&listening->timer);
	if (listening->step == STEP_BEFORE) /* the message was not sent, as a Parse has failed */
		listening->step = STEP_NONE;
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
	if (client->state == CLIENT_IDLE) /* its next server is another one */
		listening->own_pid = 0;
	if (listening->unread.count && is_between_transactions(client))
		send_unread(client);
}

static void keep(struct client *client, struct notification *notification, bool is_own)
{
	struct unread *unread = &client->listening->unread;

	if (unread->bytes + unread_share(notification) > LISTENING_UNREAD_MAX)
		client_refuse_for(client, CLOSE_LISTENING_UNREAD);
	else if (!unread_add(unread, notification, is_own))
		client_refuse_for(client, CLOSE_MEMORY);
}

void listening_deliver_notification(struct listener *listener, struct notification *notification)
{
	struct client_listening *listening =
	    container_of(listener, struct client_listening, listener);
	struct client *client = listening->client;
	bool is_own = listening->own_pid && notification->pid == listening->own_pid;

	if (!listening->unread.count && is_between_transactions(client) &&
	    !stream_unsent(&client->stream))
		send_notification(client, notification, is_own);
	else
		keep(client, notification, is_own);
}

/* ---- of the lent server ---- */

void listening_deliver_add_own(const struct client *client, const struct notification *notification,
                               struct buf *out)
{
	size_t at = out->count;

	buf_add(out, notification->frame, notification->size);
	if (buf_ok(out))
		store_be32(out->at + at + FRAME_HEADER_SIZE, listening_pid(client_key(client)));
}

bool listening_takes(struct client *client, struct bytes frame, struct buf *instead)
{
	const struct client_listening *listening = client->listening;
	struct notification *notification;
	bool is_own, comes_twice;

	if (notification_read(frame, &notification) != NOTIFICATION_OK)
		return false;
	is_own = notification->pid == listening_server_pid(client->borrower.server);
	comes_twice =
	    listening && listening_has(&listening->listener, bytes_text(notification->channel));
	if (is_own && !comes_twice)
		listening_deliver_add_own(client, notification, instead);
	notification_release(&notification);
	return is_own || comes_twice;
}

/* ---- those that wait ---- */

bool listening_deliver_drop(struct client_listening *listening)
{
	struct unread old = listening->unread;
	bool is_kept = true, is_own;

	listening->unread = (struct unread){ 0 };
	while (old.count) {
		struct notification *notification = unread_take(&old, &is_own);
		struct bytes channel = bytes_text(notification->channel);

		if (listening_has(&listening->listener, channel) &&
		    !(is_own && listening_is_leaving(&listening->listener, channel)))
			is_kept &= unread_add(&listening->unread, notification, is_own);
		notification_release(&notification);
	}
	return is_kept;
}
