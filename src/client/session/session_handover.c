/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of session state: a client whose server stays with it passes to the other process
 * together with that server, and so does a transaction that has touched session state.
 */
#include <string.h>

#include "../client_records_priv.h"
#include "session_priv.h"

bool session_has_record(const struct client *client) { return client->session || client->touched; }

void session_write(const struct client *client, struct client_record *values)
{
	const struct session *session = client->session;

	values->has_session = session_has_record(client);
	values->touched = client->touched;
	values->asks_sequences =
	    client->asks_sequences && !client->clients->pools->is_handover_plain;
	if (!session)
		return;
	values->pins = session->pins;
	/* too many names were not all noted: session_ask() */
	values->pinning =
	    session->pinning | (session->names.is_unknown ? (unsigned int)SESSION_PIN_PARAMS : 0);
	values->has_slot = client->borrower.has_place && !session_keeps_server(client);
	values->was_discarded = session->was_discarded;
	values->was_told = session->was_told;
	values->pinned_at = session->pinned_at;
	values->text = bytes_text(session->text ? session->text : "");
	values->names = buf_bytes(&session->names.list);
	if (buf_ok(&session->held))
		values->held = buf_bytes(&session->held);
}

static void restore_pins(struct client *client, const struct client_record *values)
{
	struct session *session = client->session;

	session->pins = values->pins;
	session->pinning = values->pinning;
	session->pinned_at = values->pinned_at;
	session->was_told = values->was_told;
	if (values->text.count)
		session->text = strndup(values->text.at, values->text.count);
	buf_add(&session->held, values->held.at, values->held.count);
	if (values->has_slot)
		pool_take_place_anyway(&client->borrower);
	if (session_is_pinned(client) && !session->was_told)
		session_watch_stay(client);
	if (session->pins == SESSION_PIN_SEQUENCE)
		sequences_idle_begin(client);
}

bool session_read(struct client *client, const struct client_record *values)
{
	bool is_lent = client->borrower.server != NULL;
	struct bytes names = values->names;
	const char *name;

	client->asks_sequences = values->asks_sequences;
	if (values->asks_sequences)
		pool_ask_sequences(client->borrower.pool);
	if (!values->has_session)
		return true;
	/* What its only statement is (session->set) is not handed over: the server is asked. */
	if (is_lent && values->touched)
		client->touched = values->touched | SQL_TOUCH_HIDDEN;
	if (!session_get(client))
		return false;
	client->session->was_discarded = values->was_discarded;
	if (is_lent)
		restore_pins(client, values);
	while (bytes_take_text(&names, &name))
		sql_names_add(&client->session->names, bytes_text(name));
	return true;
}
