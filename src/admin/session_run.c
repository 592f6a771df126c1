/* SPDX-License-Identifier: ISC */
/*
 * Runs a portal: runs its command, or begins to send its rows.
 */
#include "admin_priv.h"

#include "pgweir/base/banned.h"

static void log_command(struct console_session *session, const struct request *request)
{
	const struct command *command = request->command;
	const struct words *words = &request->words;
	const struct log_facts facts = { .kept = command->words,
		                         .event = "command",
		                         .command = command->words };

	if (!command_is_event(command))
		return;
	if (command->argument == ARG_NONE || words->count < 2)
		log_event(&session->client->log, LOG_LEVEL_INFO, &facts, "%s command issued",
		          command->words);
	else
		log_event(&session->client->log, LOG_LEVEL_INFO, &facts, "%s '%s' command issued",
		          command->words,
		          command->argument == ARG_HOST ? words->value : words->argument);
}

static enum outcome run_talk(struct console_session *session, const struct request *request)
{
	switch (request->talk->effect) {
	case TALK_BEGIN:
		session->status = 'T';
		break;
	case TALK_END:
		session->status = 'I';
		break;
	case TALK_FORGET:
		session_drop_statement(session, request->words.value);
		break;
	case TALK_FORGET_ALL:
		session_drop_statements(session);
		break;
	case TALK_IGNORED:
		session_notice(session, "SET ignored", NULL);
		break;
	default:
		break;
	}
	return OUTCOME_DONE;
}

static enum outcome run(struct console_session *session, struct err *err)
{
	const struct request *request = &session->portal->request;

	if (request->kind == REQUEST_TALK)
		return run_talk(session, request);
	if (request->kind != REQUEST_COMMAND)
		return OUTCOME_DONE;
	if (session->role < request->command->role) {
		err_set(err, ERR_RIGHTS, "admin access needed");
		return OUTCOME_FAILED;
	}
	log_command(session, request);
	return request->command->run(session, err);
}

static void begin_rows(struct console_session *session, struct portal *portal)
{
	cursor_begin(&portal->cursor, &session->console->source, request_asked(&portal->request));
	portal->cursor.is_owner = session_is_owner(session);
	portal->cursor.role = session->role;
}

bool session_execute(struct console_session *session, struct portal *portal, uint32_t row_limit)
{
	struct err err;

	session->portal = portal;
	session->row_limit = row_limit;
	session->row_count = 0;
	if (!session_may_see(session, &portal->request)) {
		err_set(&err, ERR_RIGHTS, "admin access needed");
		session_fail(session, &err);
		return true;
	}
	if (!request_check(&portal->request, session, &err)) {
		session_fail(session, &err);
		return true;
	}
	if (request_columns(&portal->request).count) {
		session->state = SESSION_ROWS;
		if (!portal->is_started)
			begin_rows(session, portal);
		portal->is_started = true;
		if (!portal->is_ended)
			session_add_rows(session);
		else
			session_complete(session);
		return true;
	}
	session->state = SESSION_WAITING;
	/* As in PostgreSQL, a portal without rows runs only once. */
	if (portal->is_started) {
		err_set(&err, ERR_STATE, "portal \"%s\" cannot be run", portal->name);
		session_fail(session, &err);
		return true;
	}
	portal->is_started = true;
	switch (run(session, &err)) {
	case OUTCOME_DONE:
		session_complete(session);
		return true;
	case OUTCOME_FAILED:
		session_fail(session, &err);
		return true;
	case OUTCOME_WAIT:
		return true;
	case OUTCOME_OVER:
	default:
		return false;
	}
}
