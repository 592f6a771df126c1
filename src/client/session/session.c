/* SPDX-License-Identifier: ISC */
/*
 * What a client's texts touch, the question at the end of its transaction, and pins.
 *
 * Hard here: a text may be refused only before it runs, but only PostgreSQL knows what it did. So a
 * statement that may make the server stay gets a slot of max_pinned_servers first, and gives it
 * back if the server need not stay after all. And from the moment when session state may exist
 * until it is known that none is left, the server is dirty: however the client ends, the server is
 * reset before anybody else gets it.
 */
#include "session_priv.h"

#include "../handover_priv.h"
#include "libraries_priv.h"
#include "placeholders_priv.h"
#include "resets_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/container_of.h"
#include "pgweir/client/session.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql.h"
#include "pgweir/pool/server/text_scope.h"

#include "sample_priv.h"
#include "sequences_priv.h"

#include "pgweir/base/banned.h"

/* What a DISCARD ALL touches. */
#define DISCARDS (SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_UNLISTEN | SQL_TOUCH_RELEASE)

/* The server may have to stay. */
#define PINS (SQL_TOUCH_PINS | SQL_TOUCH_PREPARE)

/* What is noted of a client that is not pinned. */
#define NOTED                                                                                   \
	(SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_LIBRARY | SQL_TOUCH_LISTEN |          \
	 SQL_TOUCH_UNLISTEN | SQL_TOUCH_NOTIFY | PINS | SQL_TOUCH_SEQUENCE | SQL_TOUCH_HIDDEN | \
	 SESSION_TOUCH_LEARNT | SESSION_TOUCH_UNKNOWN)

/* A function may have set placeholders, whose names need not be in any text. */
#define INSIDE (SQL_TOUCH_HIDDEN | SESSION_TOUCH_SAMPLE | SESSION_TOUCH_LEARNT)

/* A kind of session state: which pin it is, how it is asked for, how to do without it. */
static const struct feature {
	unsigned int touch; /* enum sql_touch */
	unsigned int pin;   /* enum session_pin; 0: carried */
	unsigned int parts; /* enum question_part */
	const char *name;
	const char *way_out;
} features[] = {
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

/* Pins that the question cannot find. */
#define LASTING ((unsigned int)(SESSION_PIN_EXTENSION | SESSION_PIN_PARAMS | SESSION_PIN_LIBRARY))

#define FEATURES (sizeof(features) / sizeof(features[0]))

struct session *session_get(struct client *client)
{
	if (!client->session)
		client->session = calloc(1, sizeof(*client->session));
	if (client->session)
		client->session->client = client;
	return client->session;
}

/* ---- what texts touch ---- */

/* Whether placeholders may be set. */
static inline bool has_names(unsigned int touches)
{
	return touches & (SQL_TOUCH_PARAMS | SQL_TOUCH_HIDDEN);
}

/* Adds SESSION_TOUCH_UNKNOWN. */
static unsigned int with_unknown(unsigned int touches, struct bytes text)
{
	return has_names(touches) && !placeholders_are_known(text) ? touches | SESSION_TOUCH_UNKNOWN
	                                                           : touches;
}

/* Adds what the settings say of a text (pin_functions), and what samples have shown. */
static unsigned int with_invisible(const struct client *client, unsigned int touches,
                                   struct bytes text)
{
	const struct buf *names = &client->borrower.pool->pin_functions;

	unsigned int learnt = sample_touches(client, text);

	touches |= learnt;
	if (learnt & ~(unsigned int)SQL_TOUCH_NOTIFY)
		touches |= SESSION_TOUCH_LEARNT;
	return names->count && sql_touch_calls(text, buf_bytes(names))
	           ? touches | SQL_TOUCH_EXTENSION
	           : touches;
}

/* Not inlined, as parse_text(): most texts need neither. */
__attribute__((noinline)) static unsigned int with_all(const struct client *client,
                                                       unsigned int touches, struct bytes text)
{
	return with_unknown(with_invisible(client, touches, text), text);
}

unsigned int session_touches_of(struct client *client, const struct statement *statement)
{
	struct bytes text = bytes_text(statement_text(statement).at);

	if (!session_is_watched(client))
		return 0;
	if (sample_is_running(client))
		sample_note(client, text);
	return with_invisible(client, statement->touches, text);
}

/* The text of a whole Parse. false: there is none, and PostgreSQL reports that. */
__attribute__((noinline)) static bool parse_text(struct bytes body, struct bytes *text)
{
	const char *end;

	/* The name of the statement, which is most often empty, comes first. */
	if (body.count == 0)
		return false;
	end = *body.at ? memchr(body.at, 0, body.count) : body.at;
	if (!end)
		return false;
	body = bytes_skip(body, (size_t)(end - body.at) + 1);
	end = body.count ? memchr(body.at, 0, body.count) : NULL;
	*text = bytes_of(body.at, end ? (size_t)(end - body.at) : 0);
	return end;
}

/* The same of a Query, in which PostgreSQL accepts a zero byte at the end only. */
static bool query_text(struct bytes body, struct bytes *text)
{
	*text = bytes_of(body.at, body.count ? body.count - 1 : 0);
	return body.count && body.at[body.count - 1] == 0;
}

unsigned int session_touches(const struct client *client, const struct frame *frame,
                             struct bytes in, struct bytes *text)
{
	const struct pool *pool = client->borrower.pool;
	unsigned int touches;
	bool is_there;

	*text = bytes_of("", 0);
	if (frame->type == 'F')
		return SQL_TOUCH_HIDDEN;
	if (in.count < frame->length)
		return SQL_TOUCH_HIDDEN | SQL_TOUCH_RELEASE; /* nobody knows what follows */
	is_there = frame->type == 'Q' ? query_text(frame_body(in, frame), text)
	                              : parse_text(frame_body(in, frame), text);
	if (!is_there)
		return 0;
	touches = sql_touch(*text);
	return sample_has_learnt(client) || pool->pin_functions.count || has_names(touches)
	           ? with_all(client, touches, *text)
	           : touches;
}

/* ---- refusing ---- */

static const struct feature *first_feature(unsigned int touches)
{
	for (size_t i = 0; i < FEATURES; i++) {
		if (features[i].name && (features[i].touch & touches))
			return &features[i];
	}
	return NULL;
}

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

static bool refuse_feature(const struct client *client, const struct feature *feature,
                           struct err *err)
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

static bool refuse_pin(const struct client *client, const struct feature *feature, struct err *err)
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

/* ---- a statement is used ---- */

/* Whether a text is one RESET or DISCARD. */
static bool is_reset(struct bytes text)
{
	const char *end = text.count ? memchr(text.at, ';', text.count) : NULL;

	while (text.count && text.at[0] <= ' ')
		text = bytes_skip(text, 1);
	for (const char *at = end; at && at < text.at + text.count; at++) {
		if (*at > ' ' && *at != ';')
			return false;
	}
	return (text.count > 6 && strncasecmp(text.at, "reset ", 6) == 0) ||
	       (text.count > 8 && strncasecmp(text.at, "discard ", 8) == 0);
}

/*
 * Whether a text may run although session state is refused: what sets parameters back does no harm,
 * and parameters that PostgreSQL reports follow their client anyway.
 */
static bool is_harmless(const struct client *client, unsigned int touches, struct bytes text)
{
	char name[SQL_SET_NAME_MAX + 1];

	if (first_feature(touches & ~(unsigned int)SQL_TOUCH_PARAMS))
		return false;
	return is_reset(text) ||
	       (sql_set_name(text, name) && params_find(client->borrower.server->baseline, name));
}

static void keep_text(struct session *session, struct bytes text)
{
	free(session->text);
	session->text = NULL;
	if (text.count)
		session->text =
		    strndup(text.at, text.count < SESSION_TEXT_MAX ? text.count : SESSION_TEXT_MAX);
}

/*
 * The server may have to stay: takes a slot. false: refuse with *err. own: what the text itself
 * touches.
 */
static bool take_slot(struct client *client, unsigned int touches, unsigned int own,
                      struct bytes text, struct err *err)
{
	struct session *session = session_get(client);

	if (!session)
		return err_close(err, CLOSE_MEMORY);
	if (!session->slot) {
		bool has_slot = pool_pin(client->borrower.pool);

		if (!has_slot && (own & PINS))
			return refuse_pin(client, first_feature(own & PINS), err);
		session->slot = has_slot ? client->borrower.pool : NULL;
	}
	if (!session->pins)
		keep_text(session, text);
	if (touches & SQL_TOUCH_EXTENSION)
		session->pinning |= SESSION_PIN_EXTENSION;
	return true;
}

/* Whether what a CREATE makes is temporary, or may be, because search_path says so. */
static bool creates_temporary(const struct client *client, unsigned int touches)
{
	const char *path = params_find(client->borrower.server->params, "search_path");

	return (path && strstr(path, "pg_temp")) ||
	       ((client->touched | touches) & SQL_TOUCH_PARAMS);
}

/* Whether a text is one PREPARE or EXECUTE, which is followed or refused elsewhere: sql.c. */
static bool is_followed(const struct client *client, struct bytes text, enum sql_kind kind)
{
	struct sql_statement sql;

	if (client->clients->config->max_prepared_statements <= 0)
		return false;
	sql_read(text, &sql);
	return sql.kind == kind || (sql.kind == SQL_UNSURE && !session_is_followed(client));
}

/* Notes the placeholders in a text: a Bind may come without it. */
static bool note_names(struct client *client, struct bytes text)
{
	struct session *session = session_get(client);

	if (session)
		placeholders_note(session, text);
	return session;
}

/*
 * Without what samples have shown: that may be true of another statement of the same transaction,
 * so it is no reason to refuse.
 */
static unsigned int own_touches(unsigned int touches, struct bytes text)
{
	return touches & SESSION_TOUCH_LEARNT ? touches & (sql_touch(text) | SQL_TOUCH_EXTENSION)
	                                      : touches;
}

/* Which bits are noted of a statement of this client. */
static unsigned int noted(const struct client *client)
{
	unsigned int bits = NOTED;

	if (session_stays(client))
		bits |= SQL_TOUCH_RELEASE;
	if (client->borrower.pool->guards_sequences)
		bits |= SQL_TOUCH_WRITE;
	return bits;
}

bool session_use(struct client *client, unsigned int touches, struct bytes text, bool is_run,
                 struct err *err)
{
	const struct feature *feature;
	unsigned int bits, own;
	bool refuses = client->borrower.pool->limits.session_state == SESSION_STATE_REFUSE;

	if ((touches & SQL_TOUCH_PREPARE) && is_followed(client, text, SQL_PREPARE))
		touches &= ~(unsigned int)SQL_TOUCH_PREPARE;
	if ((touches & SQL_TOUCH_CREATE) && creates_temporary(client, touches))
		touches |= SQL_TOUCH_TEMP;
	touches = with_unknown(touches, text);
	if (touches == SQL_TOUCH_EXECUTE && is_followed(client, text, SQL_EXECUTE))
		return true; /* the statement that it executes counts: sql.c */
	if (touches & SQL_TOUCH_EXECUTE)
		touches |= SQL_TOUCH_HIDDEN;
	own = own_touches(touches, text);
	feature = first_feature(own);
	if (refuses && feature && !is_harmless(client, own, text))
		return refuse_feature(client, feature, err);
	if ((touches & (SQL_TOUCH_PARAMS | SQL_TOUCH_HIDDEN)) && !note_names(client, text))
		return err_close(err, CLOSE_MEMORY);
	if ((touches & SQL_TOUCH_SEQUENCE) && !sequences_use(client, touches, is_run, err))
		return false;
	if (!is_run)
		return true;
	/* SET LOCAL ... TO DEFAULT: PostgreSQL has all defaults but those of the startup packet. */
	if (!params_count(client->startup) && !(touches & SQL_TOUCH_PARAMS))
		touches &= ~(unsigned int)SQL_TOUCH_DEFAULT;
	if ((touches & SQL_TOUCH_DEFAULT) &&
	    (params_count(client->startup) || (touches & SQL_TOUCH_FORGET)) &&
	    session_get(client) && !resets_use(client, text, true, err))
		return false;
	if (touches & SQL_TOUCH_WRITE)
		sequences_note_write(client, text);
	bits = noted(client);
	if ((touches & SQL_TOUCH_CREATE) && placeholders_are_added(text))
		bits |= SQL_TOUCH_CREATE;
	touches &= bits;
	if ((touches & PINS) && !take_slot(client, touches, own, text, err))
		return false;
	if ((touches & SESSION_TOUCH_UNKNOWN) && session_get(client))
		client->session->pinning |= SESSION_PIN_PARAMS;
	if (touches && client->session && client->session->set)
		client->session->set->is_alone = false;
	if (touches & SQL_TOUCH_LIBRARY) {
		if (!session_get(client))
			return err_close(err, CLOSE_MEMORY);
		libraries_note(client->session, text);
		if (touches & SQL_TOUCH_HIDDEN) /* the server does not say what a DO block loads */
			client->session->pinning |= SESSION_PIN_LIBRARY;
	}
	if ((touches & SQL_TOUCH_HIDDEN) ||
	    ((touches & SQL_TOUCH_PARAMS) && text_scope_is_named(text)))
		server_open_scope(client->borrower.server);
	client->touched |= touches;
	if (touches & ~(unsigned int)(SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE | SQL_TOUCH_CREATE))
		server_set_dirty(client->borrower.server, true);
	return true;
}

void session_bind(struct client *client, const struct frame *frame, struct bytes in)
{
	struct session *session = session_get(client);

	if (session && in.count >= frame->length)
		placeholders_note_values(session, frame_body(in, frame));
	else if (session)
		session->pinning |= SESSION_PIN_PARAMS; /* a name may be in what follows */
}

static void settle_set(struct ledger_change *change, bool is_done)
{
	container_of(change, struct session_set, change)->is_done = is_done;
}

struct ledger_change *session_note_alone(struct client *client, struct bytes text)
{
	struct session *session = client->session;
	struct sql_set set;

	if (client->touched != SQL_TOUCH_PARAMS || session->set || !sql_set_read(text, &set))
		return NULL;
	session->set = malloc(sizeof(*session->set));
	if (!session->set)
		return NULL;
	*session->set = (struct session_set){ .change = { .settle = settle_set },
		                              .set = set,
		                              .is_alone = true };
	return &session->set->change;
}

/* Takes the effect of the only statement from its text. false: the server must be asked. */
static bool take_set(struct client *client)
{
	const struct session_set *set = client->session ? client->session->set : NULL;

	if (!set || !set->is_alone || client->touched != SQL_TOUCH_PARAMS ||
	    client->session->pinning || client->session->pins)
		return false;
	return !set->is_done ||
	       server_take_set(client->borrower.server, set->set.name, set->set.value);
}

void session_run_unknown(struct client *client)
{
	if (!session_is_watched(client))
		return;
	client->touched |= SQL_TOUCH_HIDDEN;
	server_set_dirty(client->borrower.server, true);
}

void session_deallocated(struct client *client)
{
	if ((client->touched & DISCARDS) == DISCARDS && client->session)
		client->session->was_discarded = true;
}

/* ---- the question ---- */

/* Which parts of the session state may have changed. */
static unsigned int parts_of(const struct client *client)
{
	unsigned int touched = client->touched, parts = 0;

	if (touched & SESSION_TOUCH_EXPOSED)
		parts |= QUESTION_EXPOSED;
	if (touched & (SQL_TOUCH_HIDDEN | SESSION_TOUCH_SAMPLE))
		return parts | QUESTION_ALL;
	for (size_t i = 0; i < FEATURES; i++) {
		bool is_released = (touched & SQL_TOUCH_RELEASE) && client->session &&
		                   (client->session->pins & features[i].pin);

		if ((touched & features[i].touch) || is_released)
			parts |= features[i].parts;
	}
	return parts;
}

static void release_slot(struct session *session)
{
	if (session->slot)
		pool_unpin(session->slot);
	session->slot = NULL;
}

static void forget_transaction(struct session *session)
{
	session->was_discarded = false;
	session->pinning = 0;
	buf_free(&session->names);
	buf_free(&session->libraries);
	free(session->set);
	free(session->sample);
	resets_free(&session->resets);
	session->set = NULL;
	session->sample = NULL;
}

/* ---- pins ---- */

static void on_stay_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct session, told)->client;
	usec_t stay = loop_now(client->clients->with.loop) - client->session->pinned_at;
	struct buf why = { 0 };
	char line[CLIENT_PLAIN_SIZE + 32] = "";
	struct strbuf name = strbuf_begin(line, sizeof(line));

	client->session->was_told = true;
	session_list_pins(client, &why);
	client_add_application_name(client, &name);
	log_warning(&client->log,
	            "its server has stayed with it for %lld s because of session state: %s%s",
	            (long long)(stay / USEC_PER_SEC), buf_text(&why), line);
	buf_free(&why);
}

void session_watch_stay(struct client *client)
{
	usec_t limit = client->clients->config->log_pin_duration;
	struct session *session = client->session;

	timer_set(&session->told, loop_timer_queue(client->clients->with.loop, limit, on_stay_due),
	          session->pinned_at);
}

/* The transaction has ended with these pins, which are known. */
static void settle_pins(struct client *client, unsigned int pins)
{
	struct session *session;
	struct server *server = client->borrower.server;
	unsigned int held = sequences_pin(client);

	/* It is still there if nothing was executed since. */
	held |= client->session ? client->session->pins & SESSION_PIN_SEQUENCE : 0;
	pins &= ~(unsigned int)SESSION_PIN_SEQUENCE;
	if (client->touched & INSIDE)
		server_doubt_params(server);
	if (client->touched & SQL_TOUCH_CREATE)
		placeholders_forget_sources(client);
	client->touched = 0;
	server_set_dirty(server, pins != 0);
	if (server->is_scope_open)
		server_close_scope(server);
	/* This cannot be removed, or is not known: nobody else may get this server. */
	if (pins & LASTING)
		server_need_close(server, CLOSE_SESSION_STATE);
	session = held ? session_get(client) : client->session;
	if (!session)
		return;
	if (!pins && !held) {
		session_free(client);
		return;
	}
	forget_transaction(session);
	if (pins && !session_is_pinned(client)) {
		session->pinned_at = loop_now(client->clients->with.loop);
		if (!session->slot) {
			session->slot = client->borrower.pool;
			pool_pin_anyway(session->slot);
		}
		session->was_told = false;
		session_watch_stay(client);
	}
	if (!pins) {
		release_slot(session);
		timer_clear(&session->told);
	}
	session->pins = pins | held;
}

static unsigned int lasting_pins(const struct client *client)
{
	const struct session *session = client->session;
	unsigned int pins;

	if (!session)
		return 0;
	/* DISCARD ALL leaves all but parameters as it is. */
	pins = session->pins &
	       (session->was_discarded ? LASTING & ~(unsigned int)SESSION_PIN_PARAMS : LASTING);
	return pins | session->pinning;
}

/*
 * Asks, also for the placeholders that the server had before: their values may have been changed by
 * statements that do not name them. And for those of the startup packet: one that is not in the
 * answer counts as set back, and a map may lack it because it cannot have its value.
 */
static void ask(struct client *client, unsigned int parts)
{
	struct server *server = client->borrower.server;
	struct session *session = session_get(client);

	if (session && (parts & QUESTION_PARAMS)) {
		placeholders_note_map(session, server->params);
		placeholders_note_map(session, client->startup);
	}
	if (session && (parts & QUESTION_PARAMS) && (client->touched & INSIDE) &&
	    !placeholders_note_sources(session))
		parts |= QUESTION_SOURCES;
	if (session && !buf_ok(&session->names))
		session->pinning |= SESSION_PIN_PARAMS;
	server_ask(server, parts, session ? buf_bytes(&session->names) : bytes_of("", 0));
}

/* What was loaded becomes part of the server's parameters, or the server stays. */
static void take_libraries(struct client *client)
{
	struct server *server = client->borrower.server;

	if (!server->load_count && !(client->touched & SQL_TOUCH_LIBRARY))
		return;
	/* Without memory for that, the load_count that is left closes the server. */
	if (session_get(client) && !libraries_take(client->session, server))
		client->session->pinning |= SESSION_PIN_LIBRARY;
}

bool session_ask(struct client *client)
{
	unsigned int parts = parts_of(client), pins;

	take_libraries(client);
	pins = lasting_pins(client);
	if (!parts || take_set(client)) {
		if (client->touched & SQL_TOUCH_DEFAULT)
			resets_settle(client);
		settle_pins(client, pins | (client->session ? client->session->pins : 0));
		return false;
	}
	ask(client, parts);
	return true;
}

void session_facts(struct client *client, const struct facts *facts)
{
	struct session *session = client->session;
	unsigned int unasked = session ? session->pins : 0, pins = lasting_pins(client);
	const struct params *had;

	for (size_t i = 0; i < FEATURES; i++) {
		if (features[i].parts && !(features[i].parts & facts->parts))
			pins |= unasked & features[i].pin;
	}
	pins |= facts->cursor_count ? SESSION_PIN_CURSOR : 0;
	pins |= facts->temp_count ? SESSION_PIN_TEMP : 0;
	pins |= facts->lock_count ? SESSION_PIN_LOCK : 0;
	pins |= facts->statement_count ? SESSION_PIN_STATEMENT : 0;
	had = params_hold(client->borrower.server->params);
	if (facts->parts & QUESTION_PARAMS && client->touched & INSIDE)
		placeholders_take_sources(client, facts);
	if (facts->parts & QUESTION_PARAMS &&
	    (facts->lacks_names ||
	     !server_take_facts(client->borrower.server, facts, client->startup,
	                        resets_before(client), resets_back(client))))
		pins |= SESSION_PIN_PARAMS;
	if ((facts->parts & QUESTION_PARAMS) && params_count(client->startup))
		resets_tell_hidden(client, had);
	if (client->touched & SQL_TOUCH_DEFAULT)
		resets_settle(client);
	if (sample_is_running(client))
		sample_end(client, facts, client->borrower.server->params != had);
	params_release(client->clients->with.params, &had);
	if (pins && !session_get(client)) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	settle_pins(client, pins);
	server_end_session(client->borrower.server);
}

/* ---- idle ---- */

static void on_pin_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	struct buf detail = { 0 };
	struct err err;

	buf_add_text(&detail, "Its server stayed with it because of session state: ");
	session_list_pins(client, &detail);
	err_close(&err, CLOSE_PIN_IDLE_TIMEOUT);
	err_detail(&err, buf_text(&detail));
	buf_free(&detail);
	client_fatal(client, &err);
}

void session_idle_begin(struct client *client)
{
	struct loop *loop = client->clients->with.loop;
	usec_t limit = config_pin_idle_timeout(client->clients->config, client->role->entry);

	if (client->session->pins == SESSION_PIN_SEQUENCE) {
		sequences_idle_begin(client);
		return;
	}
	if (limit || timer_is_set(&client->timer))
		timer_set(&client->timer, loop_timer_queue(loop, limit, on_pin_due),
		          loop_now(loop));
}

void session_rearm(struct client *client)
{
	const struct config *config = client->clients->config;
	struct loop *loop = client->clients->with.loop;
	usec_t limit = config_pin_idle_timeout(config, client->role->entry);

	if (!session_is_pinned(client))
		return;
	if (!client->request_at && !client->xact_at)
		timer_change(&client->timer, loop_timer_queue(loop, limit, on_pin_due));
	if (!client->session->was_told)
		timer_change(&client->session->told,
		             loop_timer_queue(loop, config->log_pin_duration, on_stay_due));
}

static bool only_deallocates(struct bytes text)
{
	struct sql_statement statement;

	if (!text.count || sql_is_other(text))
		return false;
	sql_read(bytes_of(text.at, text.count - 1), &statement);
	return statement.kind == SQL_DEALLOCATE;
}

/*
 * Whether this is the next statement. Drivers prepare it in a batch of its own, and drop the one
 * before by DEALLOCATE: neither is yet.
 */
static bool is_statement(const struct frame *frame, struct bytes in)
{
	switch (frame->type) {
	case 'Q':
		return in.count < frame->length || !only_deallocates(frame_body(in, frame));
	case 'B':
	case 'E':
	case 'F':
		return true;
	default:
		return false;
	}
}

void session_idle_end(struct client *client, const struct frame *frame, struct bytes in)
{
	timer_clear(&client->timer);
	if (is_statement(frame, in))
		client->session->pins &= ~(unsigned int)SESSION_PIN_SEQUENCE;
}

/* ---- end ---- */

void session_free(struct client *client)
{
	struct session *session = client->session;

	if (!session)
		return;
	client->session = NULL;
	timer_clear(&session->told);
	release_slot(session);
	forget_transaction(session);
	free(session->text);
	free(session);
}
