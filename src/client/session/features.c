/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state: how each is asked for, whether the server must stay because of it,
 * and what its refusal says.
 */
#include "features_priv.h"

#include <stdio.h>

#include "pgweir/config/entries.h"

static const struct feature features[] = {
	{ SQL_TOUCH_PARAMS, 0, QUESTION_PARAMS, "SET for the session",
	  "Use SET LOCAL, or set the parameter at startup or with ALTER ROLE." },
	/* A library removes placeholders of its name. */
	{ SQL_TOUCH_LIBRARY, 0, QUESTION_PARAMS, "LOAD", "Use session_preload_libraries." },
	{ SQL_TOUCH_LISTEN, 0, QUESTION_CHANNELS, "LISTEN",
	  "Use a database with pool_mode = session." },
	{ SQL_TOUCH_UNLISTEN, 0, QUESTION_CHANNELS, NULL, NULL },
	{ SQL_TOUCH_CURSOR, SESSION_PIN_CURSOR, QUESTION_CURSORS, "a cursor WITH HOLD",
	  "Declare it WITHOUT HOLD, and fetch within the transaction." },
	{ SQL_TOUCH_TEMP, SESSION_PIN_TEMP, QUESTION_TEMP, "a temporary object",
	  "Create the table with ON COMMIT DROP." },
	{ SQL_TOUCH_LOCK, SESSION_PIN_LOCK, QUESTION_LOCKS, "a session advisory lock",
	  "Use pg_advisory_xact_lock()." },
	{ SQL_TOUCH_SEQUENCE, 0, 0, "currval() or lastval()", "Use INSERT ... RETURNING." },
	{ SQL_TOUCH_EXTENSION, SESSION_PIN_EXTENSION, 0,
	  "a function that keeps something in the session",
	  "Use a database with pool_mode = session." },
	{ SQL_TOUCH_PREPARE, SESSION_PIN_STATEMENT, QUESTION_STATEMENTS,
	  "PREPARE together with other statements in one text", "Send it alone." },
};

#define FEATURES (sizeof(features) / sizeof(features[0]))

const struct feature *features_first(unsigned int touches)
{
	for (size_t i = 0; i < FEATURES; i++) {
		if (features[i].name && (features[i].touch & touches))
			return &features[i];
	}
	return NULL;
}

unsigned int features_parts(unsigned int touches, unsigned int pins)
{
	unsigned int parts = 0;

	for (size_t i = 0; i < FEATURES; i++) {
		if ((features[i].touch & touches) || (features[i].pin & pins))
			parts |= features[i].parts;
	}
	return parts;
}

unsigned int features_unasked(unsigned int parts)
{
	unsigned int pins = 0;

	for (size_t i = 0; i < FEATURES; i++) {
		if (features[i].parts && !(features[i].parts & parts))
			pins |= features[i].pin;
	}
	return pins;
}

/* ---- refusing ---- */

/* One text for the client and for the log. Returns false. */
static bool refuse(const struct client *client, const struct feature *feature,
                   const struct err *why, struct err *err)
{
	struct log_facts facts = { .event = "error",
		                   .sqlstate = why->sqlstate,
		                   .reason = why->text };

	*err = *why;
	err_hint(err, feature->way_out);
	if (client->clients->config->log_pooler_errors)
		log_event(&client->log, LOG_LEVEL_WARNING, &facts, "pooler error: %s: %s",
		          why->text, why->detail);
	return false;
}

bool features_refuse(const struct client *client, const struct feature *feature, struct err *err)
{
	bool is_statement_mode = client->borrower.pool->limits.mode == POOL_MODE_STATEMENT;
	struct err why;

	client->borrower.pool->state_refused++;
	err_set(&why, ERR_UNSUPPORTED, "%s is not available here (%s)", feature->name,
	        is_statement_mode ? "pool_mode = statement" : "session_state = refuse");
	err_detail(&why, is_statement_mode
	                     ? "It concerns the session, and the client's next statement may run "
	                       "on another server."
	                     : "It concerns the session, and the client's next transaction may run "
	                       "on another server.");
	return refuse(client, feature, &why, err);
}

bool features_refuse_pin(const struct client *client, const struct feature *feature,
                         struct err *err)
{
	const struct pool *pool = client->borrower.pool;
	char detail[ERR_DETAIL_SIZE];
	struct err why;

	err_set(&why, ERR_LIMIT, "%s needs a server of its own (max_pinned_servers)",
	        feature->name);
	snprintf(detail, sizeof(detail),
	         "Servers of this pool that stay with clients: %u of %d. SHOW PINNED in the "
	         "console lists them.",
	         share_pins(&pool->share), pool->limits.max_pinned);
	err_detail(&why, detail);
	return refuse(client, feature, &why, err);
}
