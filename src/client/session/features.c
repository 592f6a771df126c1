/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state, and what is refused of them.
 */
#include "session_priv.h"

#include <stdio.h>

const struct feature session_features[FEATURES] = {
	{ .touch = SQL_TOUCH_CURSOR,
	  .pin = SESSION_PIN_CURSOR,
	  .parts = QUESTION_CURSORS,
	  .letter = 'u',
	  .why = "held cursor",
	  .state = "held cursors",
	  .used = "cursor WITH HOLD",
	  .fate = "the server stays until the cursor is closed",
	  .end = "CLOSE, DISCARD ALL",
	  .error = "a cursor WITH HOLD",
	  .way_out = "Declare it WITHOUT HOLD, and fetch within the transaction." },
	{ .touch = SQL_TOUCH_TEMP,
	  .pin = SESSION_PIN_TEMP,
	  .parts = QUESTION_TEMP,
	  .letter = 't',
	  .why = "temporary object",
	  .held = "temporary",
	  .state = "temporary objects",
	  .used = "temporary object",
	  .fate = "the server stays until the last one is dropped",
	  .end = "DROP, DISCARD TEMP, DISCARD ALL",
	  .error = "a temporary object",
	  .way_out = "Create the table with ON COMMIT DROP." },
	{ .touch = SQL_TOUCH_LOCK,
	  .pin = SESSION_PIN_LOCK,
	  .parts = QUESTION_LOCKS,
	  .letter = 'l',
	  .why = "session lock",
	  .state = "session locks",
	  .used = "session advisory lock",
	  .fate = "the server stays until the last one is released",
	  .end = "pg_advisory_unlock(), pg_advisory_unlock_all(), DISCARD ALL",
	  .error = "a session advisory lock",
	  .way_out = "Use pg_advisory_xact_lock()." },
	{ .touch = SQL_TOUCH_EXTENSION,
	  .pin = SESSION_PIN_EXTENSION,
	  .why = "function of an extension",
	  .state = "what cannot be asked for",
	  .used = "function that keeps something",
	  .fate = "the server stays until the client disconnects",
	  .error = "a function that keeps something in the session",
	  .way_out = "Use a database with pool_mode = session." },
	{ .touch = SQL_TOUCH_PARAMS,
	  .pin = SESSION_PIN_PARAMS,
	  .parts = QUESTION_PARAMS,
	  .why = "parameters",
	  .state = "parameters",
	  .used = "SET, RESET",
	  .fate = "carried",
	  .end = "RESET, DISCARD ALL",
	  .error = "SET for the session",
	  .way_out = "Use SET LOCAL, or set the parameter at startup or with ALTER ROLE." },
	/* A library removes placeholders of its name. */
	{ .touch = SQL_TOUCH_LIBRARY,
	  .pin = SESSION_PIN_LIBRARY,
	  .parts = QUESTION_PARAMS,
	  .why = "library",
	  .used = "LOAD",
	  .fate = "carried",
	  .error = "LOAD",
	  .way_out = "Use session_preload_libraries." },
	{ .touch = SQL_TOUCH_EXECUTE,
	  .parts = QUESTION_STATEMENTS,
	  .used = "prepared statement",
	  .fate = "carried, up to max_prepared_statements on each server",
	  .end = "DEALLOCATE, DISCARD ALL" },
	{ .touch = SQL_TOUCH_PREPARE,
	  .pin = SESSION_PIN_STATEMENT,
	  .parts = QUESTION_STATEMENTS,
	  .letter = 's',
	  .why = "prepared statement",
	  .error = "PREPARE together with other statements in one text",
	  .way_out = "Send it alone." },
	{ .touch = SQL_TOUCH_SEQUENCE,
	  .pin = SESSION_PIN_SEQUENCE,
	  .why = "sequence",
	  .used = "currval(), lastval()",
	  .fate = "right, or waits, or has no value if another client has used the server",
	  .end = "DISCARD SEQUENCES, DISCARD ALL",
	  .error = "currval() or lastval()",
	  .way_out = "Use INSERT ... RETURNING." },
	{ .touch = SQL_TOUCH_LISTEN,
	  .pin = SESSION_PIN_LISTEN,
	  .parts = QUESTION_CHANNELS,
	  .why = "channels",
	  .state = "channels",
	  .used = "LISTEN",
	  .fate = "carried",
	  .end = "UNLISTEN, DISCARD ALL",
	  .error = "LISTEN",
	  .way_out = "Use a database with pool_mode = session." },
	{ .touch = SQL_TOUCH_UNLISTEN, .parts = QUESTION_CHANNELS },
	{ .touch = SQL_TOUCH_NOTIFY, .state = "notifications" },
	{ .touch = SQL_TOUCH_HIDDEN,
	  .state = "anything",
	  .used = "DO, CALL",
	  .fate = "the server is asked what it did" },
	/* It may be temporary, by a search_path of its own. */
	{ .touch = SQL_TOUCH_CREATE, .parts = QUESTION_TEMP },
	{ .touch = SQL_TOUCH_SCOPE, .state = "meaning of statements" },
};

unsigned int feature_count(const struct feature *feature, const struct facts *facts)
{
	switch (feature->parts) {
	case QUESTION_CURSORS:
		return facts->cursor_count;
	case QUESTION_TEMP:
		return facts->temp_count;
	case QUESTION_LOCKS:
		return facts->lock_count;
	case QUESTION_STATEMENTS:
		return facts->statement_count;
	case QUESTION_CHANNELS:
		return facts->channels.count > 0;
	default:
		return 0;
	}
}

const struct feature *features_first(unsigned int touches)
{
	for (size_t i = 0; i < FEATURES; i++) {
		if (session_features[i].error && (session_features[i].touch & touches))
			return &session_features[i];
	}
	return NULL;
}

unsigned int features_parts(unsigned int touches, unsigned int pins)
{
	unsigned int parts = 0;

	for (size_t i = 0; i < FEATURES; i++) {
		if ((session_features[i].touch & touches) || (session_features[i].pin & pins))
			parts |= session_features[i].parts;
	}
	return parts;
}

unsigned int features_pins(unsigned int before, const struct facts *facts)
{
	unsigned int pins = 0;

	for (size_t i = 0; i < FEATURES; i++) {
		const struct feature *feature = &session_features[i];

		if (feature->parts && !(feature->parts & facts->parts))
			pins |= before & feature->pin;
		else if (feature->letter && feature_count(feature, facts))
			pins |= feature->pin;
	}
	return pins;
}

/* ---- refusing ---- */

/* One text for the client and for the log: *err. Returns false. */
static bool refuse(const struct client *client, const struct feature *feature, struct err *err)
{
	struct log_facts facts = { .event = "error",
		                   .sqlstate = err->sqlstate,
		                   .reason = err->text };

	if (client->clients->config->log_pooler_errors)
		log_event(&client->log, LOG_LEVEL_WARNING, &facts, "pooler error: %s: %s",
		          err->text, err->detail);
	return err_hint(err, feature->way_out);
}

bool features_refuse(const struct client *client, const struct feature *feature, struct err *err)
{
	bool is_statement_mode = client_rules(client)->mode == POOL_MODE_STATEMENT;

	client->borrower.pool->state_refused++;
	err_set(err, ERR_UNSUPPORTED, "%s is not available here (%s)", feature->error,
	        is_statement_mode ? "pool_mode = statement" : "session_state = refuse");
	err_detail(err,
	           "It concerns the session, and the client's next %s may run on another server.",
	           is_statement_mode ? "statement" : "transaction");
	return refuse(client, feature, err);
}

bool features_refuse_pin(const struct client *client, const struct feature *feature,
                         struct err *err)
{
	const struct pool *pool = client->borrower.pool;

	err_set(err, ERR_LIMIT, "%s needs a server of its own (max_pinned_servers)",
	        feature->error);
	err_detail(err,
	           "Servers of this pool that stay with clients: %u of %d. SHOW PINNED in the "
	           "console lists them.",
	           pool->share.tally->pinned_count, pool->limits.max_pinned);
	return refuse(client, feature, err);
}
