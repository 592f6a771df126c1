/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of session state: a client whose server stays with it passes to the other process
 * together with that server, and so does a transaction that has touched session state.
 */
#include <string.h>

#include "pgweir/pgwire/frame.h"

#include "../client_records_priv.h"
#include "listening_state_priv.h"
#include "features_priv.h"

bool session_has_record(const struct client *client) { return client->session || client->touched; }

void session_write(const struct client *client, struct buf *record)
{
	static const struct session nothing;
	const struct session *session = client->session ? client->session : &nothing;
	bool is_plain = client->clients->with.pools->is_handover_plain;
	struct session_record values = {
		.touched = client->touched,
		.pins = session->pins,
		/* too many names were not all noted: session_ask() */
		.pinning = session->pinning |
		           (session->names.is_unknown ? (unsigned int)SESSION_PIN_PARAMS : 0),
		.has_slot = session->slot != NULL,
		.was_discarded = session->was_discarded,
		.was_told = session->was_told,
		.asks_sequences = client->asks_sequences,
		.pinned_at = session->pinned_at,
		.text = bytes_text(session->text ? session->text : ""),
		.names = buf_bytes(&session->names.list),
		.held = buf_ok(&session->held) ? buf_bytes(&session->held) : bytes_of("", 0),
	};

	if (session_has_record(client) || (client->asks_sequences && !is_plain))
		record_write(record, &session_record_table, &values);
}

static void restore_pins(struct client *client, const struct session_record *values)
{
	struct session *session = client->session;

	session->pins = (unsigned int)values->pins;
	session->pinning = (unsigned int)values->pinning;
	session->pinned_at = values->pinned_at;
	session->was_told = values->was_told;
	if (values->text.count)
		session->text = strndup(values->text.at, values->text.count);
	buf_add(&session->held, values->held.at, values->held.count);
	if (values->has_slot) {
		session->slot = client->borrower.pool;
		pool_pin_anyway(session->slot);
	}
	if (session_is_pinned(client) && !session->was_told)
		session_watch_stay(client);
	if (session->pins == SESSION_PIN_SEQUENCE)
		sequences_idle_begin(client);
}

/* false: no memory. */
static bool restore(struct client *client, const struct session_record *values)
{
	bool is_lent = client->borrower.server != NULL;
	struct bytes names = values->names;
	const char *name;

	client->asks_sequences = values->asks_sequences;
	if (values->asks_sequences)
		pool_ask_sequences(client->borrower.pool);
	/* What its only statement is (session->set) is not handed over: the server is asked. */
	if (is_lent && values->touched)
		client->touched = (unsigned int)values->touched | SQL_TOUCH_HIDDEN;
	if (!session_get(client))
		return false;
	client->session->was_discarded = values->was_discarded;
	if (is_lent)
		restore_pins(client, values);
	while (bytes_take_text(&names, &name))
		sql_names_add(&client->session->names, bytes_text(name));
	return true;
}

bool session_read(struct client *client, struct record *record)
{
	struct session_record values;

	if (!record_has_table(record, &session_record_table))
		return true;
	record_read(record, &session_record_table, &values);
	return !client || record->is_bad || restore(client, &values);
}

/* ---- a client that listens ---- */

bool listening_is_at_rest(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	if (!listening)
		return true;
	return listening->step == STEP_NONE && !listening_is_followed(client) &&
	       !listening->is_withheld && !listening->may_notify &&
	       (listening->listener.listening ? listening->listener.count > 0
	                                      : listening->unread.count == 0);
}

void listening_record(const struct client *client, struct buf *record)
{
	const struct listener *listener = listening_listener(client);
	struct buf channels = { 0 };
	const struct subscription *at = NULL;
	const char *name;

	if (!listener)
		return;
	while ((name = listening_next(listener, &at)))
		buf_add_cstr(&channels, name);
	record_write(record, &client_listening_record_table,
	             &(struct client_listening_record){
			 .number = listening_number(listener),
			 .channels = buf_bytes(&channels),
			 .unread = buf_bytes(&client->listening->unread),
		     });
	if (!buf_ok(&channels))
		record->is_broken = true;
	buf_free(&channels);
}

/* false: no memory, or one is broken. */
static bool restore_unread(struct client_listening *listening, struct bytes unread)
{
	struct notification notification;

	while (listening_deliver_next(&unread, &notification))
		listening_deliver_keep(listening, &notification);
	return unread.count == 0 && buf_ok(&listening->unread);
}

static enum close_reason restore_channels(struct client *client,
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
	reason = client && !record->is_bad ? restore_channels(client, &values) : CLOSE_NONE;
	if (reason)
		client_refuse_for(client, reason);
	return !reason;
}
