/* SPDX-License-Identifier: ISC */
/*
 * A Query: one statement, or several of small talk that a driver sends together.
 *
 * Hard here: ReadyForQuery follows only the last of several statements, and none of them
 * may continue in a later turn. So all must be small talk, which is checked before the
 * first one is run.
 */
#include "admin_priv.h"

#include "pgweir/pgwire/fields.h"

#include "pgweir/base/banned.h"

/* Maximum statements of small talk in one Query. Their answers together must fit into one piece. */
#define TALKS_MAX 32

/*
 * Runs one statement of a Query. It is answered within the call, or its answer continues
 * later. is_last: ReadyForQuery follows. false: the session was freed.
 */
static bool run(struct console_session *session, const struct request *request, bool is_last)
{
	session->is_simple = is_last;
	session_portal_free(&session->simple);
	session->simple = session_portal_new("", request);
	if (!session->simple) {
		session->out.is_broken = true;
		return true;
	}
	if (request_columns(request).count && session_may_see(session, request) &&
	    request_check(request, session, NULL))
		rows_describe(&session->out, request_columns(&session->simple->request), 0);
	return session_execute(session, session->simple, 0);
}

/* How many statements of small talk the text has. 0: some statement is something else. */
static unsigned int count_talks(struct bytes text)
{
	struct bytes statement;
	struct request request;
	unsigned int count = 0;

	while (grammar_next_statement(&text, &statement)) {
		if (!request_read_talk(statement, &request) || count == TALKS_MAX ||
		    (request.kind == REQUEST_TALK && small_talk_rows(request.talk)))
			return 0;
		count += request.kind != REQUEST_EMPTY;
	}
	return count;
}

/* Runs a Query of several statements. */
static void run_talks(struct console_session *session, struct bytes text, unsigned int count)
{
	struct bytes statement;
	struct request request;

	while (grammar_next_statement(&text, &statement)) {
		request_read_talk(statement, &request);
		if (request.kind != REQUEST_EMPTY)
			run(session, &request, --count == 0);
	}
}

bool simple_query(struct console_session *session, struct bytes body)
{
	struct request request;
	unsigned int count;
	const char *text;
	struct err err;

	session->console->source.own.query_count++;
	session->console->source.own.xact_count++;
	if (fields_text(body, &text) != WIRE_OK) {
		err_set(&err, ERR_PROTOCOL, "bad packet");
	} else if (request_read(bytes_text(text), &request, &err)) {
		return run(session, &request, true);
	} else if ((count = count_talks(bytes_text(text)))) {
		run_talks(session, bytes_text(text), count);
		return true;
	}
	session->is_simple = true;
	if (err.code == ERR_SYNTAX) {
		request_suggest(bytes_text(text), session->hint, sizeof(session->hint));
		request_hide(bytes_text(text), session->logged, sizeof(session->logged));
	}
	session_fail(session, &err);
	return true;
}
