/* SPDX-License-Identifier: ISC */
/*
 * Session mode: what DISCARD ALL does not do between two clients.
 *
 * What some functions keep in the session (connections of dblink, a replication origin) outlives
 * DISCARD ALL. So a server on which a client may have called them is closed when the client leaves.
 *
 * And a client that resets a parameter of its startup packet gets that value again, as it would
 * from PostgreSQL.
 *
 * A server does not report most parameters, and "SET x TO DEFAULT" is confirmed as any other SET
 * is. So a text that resets parameters is noted, and the server is asked for its parameters when
 * that transaction is over.
 */
#include "session_mode_priv.h"

#include "pgweir/config/entries.h"
#include "pgweir/pool/vacancy.h"

#include "placeholders_priv.h"
#include "resets_priv.h"

void session_mode_note(struct client *client, const struct frame *frame, struct bytes in)
{
	struct bytes text;
	unsigned int touches = session_touches(client, frame, in, &text);

	if (touches & SQL_TOUCH_EXTENSION)
		server_need_close(client->borrower.server, CLOSE_SESSION_STATE);
	if (touches & SQL_TOUCH_DATABASE)
		vacancy_begin(client->borrower.server, text,
		              frame->type == 'P' ? VACANCY_PARSED : VACANCY_BOUND);
	if (!(touches & SQL_TOUCH_DEFAULT) || !params_count(client->startup))
		return;
	client->touched |= SQL_TOUCH_DEFAULT;
	if (session_get(client))
		resets_use(client, text, false, NULL);
}

void session_mode_ask(struct client *client)
{
	bool is_sample = client->touched & SESSION_TOUCH_SAMPLE;
	struct server *server = client->borrower.server;
	struct session *session = session_get(client);

	if (session) {
		placeholders_note_map(session, server->params);
		placeholders_note_map(session, client->startup);
	}
	server_ask_apart(server, is_sample ? QUESTION_ALL : QUESTION_PARAMS,
	                 session ? buf_bytes(&session->names.list) : bytes_of("", 0));
}

void session_mode_facts(struct client *client, const struct facts *facts)
{
	unsigned int touched = client->touched;

	client->touched = 0;
	if (touched & SESSION_TOUCH_SAMPLE)
		audit_facts(client, facts);
	/* Without the placeholders it is not known which of them were reset. */
	if ((touched & SQL_TOUCH_DEFAULT) && (facts->parts & QUESTION_PARAMS) &&
	    !facts->lacks_names)
		server_take_facts(client->borrower.server, facts, client->startup, NULL,
		                  resets_back(client));
	resets_settle(client);
	session_free(client);
}
