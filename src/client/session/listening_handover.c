/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of a client that listens: its channels, and the notifications that wait for it.
 */
#include "pgweir/pgwire/frame.h"
#include "pgweir/pool/handover.h"
#include "pgweir/pool/listening.h"

#include "../handover_priv.h"
#include "listening_change_priv.h"
#include "listening_deliver_priv.h"

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
			listening_deliver_add_own(client, notification, out);
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
	struct client_listening *listening = listening_change_get(client);
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
