/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state, and what is refused of them.
 */
#include "features_priv.h"

#include <stdio.h>

#include "pgweir/client/session.h"

const struct feature features[FEATURES] = {
	{ SQL_TOUCH_CURSOR, SESSION_PIN_CURSOR, QUESTION_CURSORS, "held cursor", 'u', "held cursor",
	  "a cursor WITH HOLD", "Declare it WITHOUT HOLD, and fetch within the transaction." },
	{ SQL_TOUCH_TEMP, SESSION_PIN_TEMP, QUESTION_TEMP, "temporary object", 't', "temporary",
	  "a temporary object", "Create the table with ON COMMIT DROP." },
	{ SQL_TOUCH_LOCK, SESSION_PIN_LOCK, QUESTION_LOCKS, "session lock", 'l', "session lock",
	  "a session advisory lock", "Use pg_advisory_xact_lock()." },
	{ SQL_TOUCH_EXTENSION, SESSION_PIN_EXTENSION, 0, "function of an extension", 0, NULL,
	  "a function that keeps something in the session",
	  "Use a database with pool_mode = session." },
	{ SQL_TOUCH_PARAMS, SESSION_PIN_PARAMS, QUESTION_PARAMS, "parameters", 0, NULL,
	  "SET for the session",
	  "Use SET LOCAL, or set the parameter at startup or with ALTER ROLE." },
	/* A library removes placeholders of its name. */
	{ SQL_TOUCH_LIBRARY, SESSION_PIN_LIBRARY, QUESTION_PARAMS, "library", 0, NULL, "LOAD",
	  "Use session_preload_libraries." },
	{ SQL_TOUCH_PREPARE, SESSION_PIN_STATEMENT, QUESTION_STATEMENTS, "prepared statement", 's',
	  "prepared statement", "PREPARE together with other statements in one text",
	  "Send it alone." },
	{ SQL_TOUCH_SEQUENCE, SESSION_PIN_SEQUENCE, 0, "sequence", 0, NULL,
	  "currval() or lastval()", "Use INSERT ... RETURNING." },
	{ SQL_TOUCH_LISTEN, SESSION_PIN_LISTEN, QUESTION_CHANNELS, "channels", 0, NULL, "LISTEN",
	  "Use a database with pool_mode = session." },
	{ SQL_TOUCH_UNLISTEN, 0, QUESTION_CHANNELS, NULL, 0, NULL, NULL, NULL },
};

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
	bool is_statement_mode = client_rules(client)->mode == POOL_MODE_STATEMENT;
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

/*
 * ---- on a standby ----
 *
 * Clients with a server on a standby, because their transaction was a read.
 *
 * Hard here: where a transaction runs is decided before its first statement (relay/route.c). What
 * comes later, and is for the primary, cannot go there. An advisory lock would be another one than
 * on the primary, which nobody would notice, so it is refused. All else PostgreSQL refuses itself.
 */

#define LOCKS (SQL_TOUCH_LOCK | SQL_TOUCH_XACT_LOCK)

/* Whether the client did not choose this for its session as a whole. */
static bool is_routed(const struct client *client)
{
	return client->borrower.pool->purpose == POOL_FOR_READS &&
	       client_rules(client)->mode != POOL_MODE_SESSION;
}

/* The server stays with its client, and does not become the primary. */
static const char release_hint[] =
    "End what keeps the server (DISCARD ALL ends most of it), and begin such a transaction with "
    "READ WRITE: it runs on the primary.";

static void say_why_it_stays(const struct client *client, struct buf *out)
{
	buf_add_text(out, "The client's server is a standby, and stays with the client because of "
	                  "session state that a read has left there: ");
	session_tell_pins(client, out);
	buf_add_text(out, ".");
}

bool standby_allows(const struct client *client, unsigned int touches, struct err *err)
{
	struct buf detail = { 0 };

	if (!(touches & LOCKS) || !is_routed(client))
		return true;
	err_set(err, ERR_UNSUPPORTED,
	        "an advisory lock is not available on a standby (route_reads)");
	if (session_stays(client)) {
		say_why_it_stays(client, &detail);
		err_detail(err, buf_text(&detail));
		buf_free(&detail);
		return err_hint(err, release_hint);
	}
	err_detail(err, "The client's transaction began as a read and runs on a standby, whose "
	                "locks are not those of the primary.");
	return err_hint(err, "Take the lock in the first statement of the transaction, or begin it "
	                     "with READ WRITE.");
}

const char *standby_explains(struct borrower *borrower, struct buf *detail)
{
	const struct client *client = client_of(borrower);

	if (!is_routed(client))
		return NULL;
	if (session_stays(client)) {
		say_why_it_stays(client, detail);
		return release_hint;
	}
	if (borrower->server->wire.status != 'I')
		return NULL; /* the client has said READ ONLY */
	buf_add_text(detail, "It ran on a standby, as a read (route_reads).");
	return "Send it in a transaction that begins with READ WRITE: it runs on the primary.";
}
