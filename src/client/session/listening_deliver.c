/* SPDX-License-Identifier: ISC */
/*
 * Delivery of notifications to a client that listens: see listening_state_priv.h.
 *
 * Hard here: a client may be closed whenever something is sent to it, and its `listening` is freed
 * with that.
 */
#include "pgweir/pgwire/message.h"

#include "listening_state_priv.h"
#include "session_priv.h"

/* ---- notifications that wait ---- */

bool listening_deliver_next(struct bytes *unread, struct notification *notification)
{
	struct frame frame;

	if (frame_peek(*unread, UINT32_MAX, &frame) != WIRE_OK || unread->count < frame.length ||
	    !notification_read(bytes_of(unread->at, frame.length), notification))
		return false;
	*unread = bytes_skip(*unread, frame.length);
	return true;
}

void listening_deliver_keep(struct client_listening *listening,
                            const struct notification *notification)
{
	buf_add(&listening->unread, notification->frame.at, notification->frame.count);
	listening->has_letters |= !notification->is_ascii;
}

/* With the process id of the client's cancel key. */
static void add_own(const struct client *client, const struct notification *notification,
                    struct buf *out)
{
	size_t at = out->count;

	buf_add(out, notification->frame.at, notification->frame.count);
	if (buf_ok(out))
		store_be32(out->at + at + FRAME_HEADER_SIZE, listening_pid(client_key(client)));
}

static bool is_between_transactions(const struct client *client)
{
	if (client->state == CLIENT_IDLE)
		return !client->is_skipping;
	return client->state == CLIENT_ACTIVE && session_stays(client) && !client->request_at &&
	       !client->xact_at && server_rest(client->borrower.server) == REST_FULL;
}

/* It would get the text in the wrong encoding. */
static bool is_foreign(const struct client_listening *listening)
{
	return listening->has_letters && strcmp(listening_encoding_of(listening->client->params),
	                                        listening_encoding(&listening->listener)) != 0;
}

/* Even if the client reads slowly: they are at most LISTENING_UNREAD_MAX. */
bool listening_deliver_all(struct client *client)
{
	struct client_listening *listening = client->listening;
	struct buf unread = listening->unread;
	bool is_sent = true;

	if (unread.count && is_foreign(listening))
		return client_refuse_for(client, CLOSE_LISTENING_ENCODING);
	listening->unread = (struct buf){ 0 };
	listening->has_letters = false;
	if (unread.count)
		is_sent = client_send(client, buf_bytes(&unread));
	buf_free(&unread);
	if (is_sent)
		listening_deliver_leave(listening);
	return is_sent;
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

/* If the client is between two transactions, and has read what it was sent. */
static void deliver_now(struct client *client)
{
	if (client->listening->unread.count && is_between_transactions(client) &&
	    !stream_unsent(&client->stream))
		listening_deliver_all(client);
}

void listening_deliver(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening)
		return;
	if (client->state == CLIENT_IDLE) /* its next server is another one */
		listening->own_pid = 0;
	deliver_now(client);
}

void listening_deliver_notification(struct listener *listener,
                                    const struct notification *notification)
{
	struct client_listening *listening =
	    container_of(listener, struct client_listening, listener);
	struct client *client = listening->client;
	size_t size = listening->unread.count + stream_unsent(&client->stream);

	if (size + notification->frame.count > LISTENING_UNREAD_MAX) {
		client_refuse_for(client, CLOSE_LISTENING_UNREAD);
		return;
	}
	if (listening->own_pid && notification->pid == listening->own_pid) {
		add_own(client, notification, &listening->unread);
		listening->has_letters |= !notification->is_ascii;
	} else {
		listening_deliver_keep(listening, notification);
	}
	if (buf_ok(&listening->unread))
		deliver_now(client);
	else
		client_refuse_for(client, CLOSE_MEMORY);
}

bool listening_deliver_drop(struct client_listening *listening)
{
	uint32_t own_pid = listening_pid(client_key(listening->client));
	struct buf old = listening->unread;
	struct bytes unread = buf_bytes(&old);
	struct notification notification;

	listening->unread = (struct buf){ 0 };
	listening->has_letters = false;
	while (listening_deliver_next(&unread, &notification)) {
		struct bytes channel = bytes_text(notification.channel);
		bool is_own = notification.pid == own_pid;

		if (listening_has(&listening->listener, channel) &&
		    !(is_own && listening_is_leaving(&listening->listener, channel)))
			listening_deliver_keep(listening, &notification);
	}
	buf_free(&old);
	return buf_ok(&listening->unread);
}

/* ---- of the lent server ---- */

bool listening_takes(struct borrower *borrower, struct bytes frame, struct buf *instead)
{
	struct client *client = client_of(borrower);
	const struct client_listening *listening = client->listening;
	struct notification notification;
	bool is_own, comes_twice;

	if (!notification_read(frame, &notification))
		return false;
	is_own = notification.pid == listening_server_pid(borrower->server);
	comes_twice =
	    listening && listening_has(&listening->listener, bytes_text(notification.channel));
	if (is_own && !comes_twice)
		add_own(client, &notification, instead);
	return is_own || comes_twice;
}
