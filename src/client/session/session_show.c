/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state, and that of a client in words, for the console and the log.
 */
#include "pgweir/pool/server/params.h"

#include "session_priv.h"

/* ---- the kinds ---- */

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

/*
 * ---- names of what keeps a server ----
 *
 * What keeps a server, with names, for the console and the log: "temporary table cart and 7 more".
 *
 * session->held has a text for each kind that there is: its letter in the facts, the text, and a
 * zero. An answer replaces those of the kinds that were asked for.
 */

#define NAMES_SIZE_MAX 200 /* bytes of the names of a kind; there is always the first one */

/* Adds the names of a kind. Returns how many there are. */
static unsigned int add_names(struct buf *out, const struct facts *facts,
                              const struct feature *kind)
{
	struct bytes left = buf_bytes(&facts->held);
	size_t begin = out->count;
	unsigned int count = 0;

	for (const char *item; bytes_take_text(&left, &item);) {
		if (*item != kind->letter ||
		    (count && out->count - begin + strlen(item) > NAMES_SIZE_MAX))
			continue;
		buf_add_text(out, count++ ? ", " : " ");
		buf_add_text(out, item + 1);
	}
	return count;
}

/* Without any name, the name of the pin says as much. */
static void add_kind(struct buf *out, const struct facts *facts, const struct feature *kind)
{
	unsigned int total = feature_count(kind, facts), count;
	size_t begin = out->count;

	buf_add_byte(out, kind->letter);
	buf_add_text(out, kind->held ? kind->held : kind->why);
	count = add_names(out, facts, kind);
	if (total > count)
		buf_printf(out, " and %u more", total - count);
	buf_add_byte(out, 0);
	if (!count && buf_ok(out))
		out->count = begin;
}

/* The text of a kind in session->held. NULL: there is none. */
static const char *find_kind(const struct session *session, const struct feature *kind)
{
	struct bytes left = buf_bytes(&session->held);
	const char *item;

	while (kind->letter && buf_ok(&session->held) && bytes_take_text(&left, &item)) {
		if (*item == kind->letter)
			return item;
	}
	return NULL;
}

void held_take(struct session *session, const struct facts *facts)
{
	struct buf held = { .limit = SESSION_HELD_MAX };

	for (size_t i = 0; i < FEATURES; i++) {
		const struct feature *kind = &session_features[i];
		const char *before = find_kind(session, kind);

		if (kind->letter && (facts->parts & kind->parts))
			add_kind(&held, facts, kind);
		else if (before)
			buf_add_cstr(&held, before);
	}
	buf_free(&session->held);
	session->held = held;
}

usec_t session_pinned_at(const struct client *client)
{
	return session_is_pinned(client) ? client->session->pinned_at : 0;
}

const char *session_pin_text(const struct client *client)
{
	return session_is_pinned(client) ? client->session->text : NULL;
}

/* Adds an item to a list that begins there. */
static void add_item(struct buf *out, size_t begin, const char *between, const char *item)
{
	if (out->count > begin)
		buf_add_text(out, between);
	buf_add_text(out, item);
}

static void list_kinds(const struct client *client, const char *between, bool has_names,
                       struct buf *out)
{
	const struct session *session = client->session;
	size_t begin = out->count;

	for (size_t i = 0; session && i < FEATURES; i++) {
		const struct feature *feature = &session_features[i];
		const char *text = has_names ? find_kind(session, feature) : NULL;

		if (session->pins & feature->pin)
			add_item(out, begin, between, text ? text + 1 : feature->why);
	}
}

void session_list_pins(const struct client *client, struct buf *out)
{
	list_kinds(client, ", ", false, out);
}

void session_list_held(const struct client *client, struct buf *out)
{
	list_kinds(client, "; ", true, out);
}

void session_tell_pins(const struct client *client, struct buf *out)
{
	size_t begin = out->count;

	session_list_held(client, out);
	for (size_t i = begin; buf_ok(out) && i < out->count; i++) {
		if (out->at[i] < ' ' || out->at[i] > '~' || out->at[i] == '"')
			out->at[i] = '?';
	}
}

/* Adds the names of `some` that `others` does not have, or not with this value. */
static void add_others(struct buf *out, size_t begin, const struct params *some,
                       const struct params *others, bool is_value_compared)
{
	PARAMS_EACH (name, value, some) {
		const char *other = params_find(others, name);

		if (tracked_is_library(name) ||
		    (other && (!is_value_compared || strcmp(value, other) == 0)))
			continue;
		add_item(out, begin, ", ", name);
	}
}

void session_list_parameters(const struct client *client, struct buf *out)
{
	size_t begin = out->count;

	if (client->params == client->startup)
		return;
	add_others(out, begin, client->params, client->startup, true);
	add_others(out, begin, client->startup, client->params, false);
}

void session_list_libraries(const struct client *client, struct buf *out)
{
	size_t begin = out->count;

	PARAMS_EACH (name, value, client->params) {
		if (tracked_is_library(name))
			add_item(out, begin, ", ", name + strlen(LIBRARY_PREFIX));
	}
}

void session_list_channels(const struct client *client, struct buf *out)
{
	const struct listener *listener = listening_listener(client);
	const struct subscription *at = NULL;
	size_t begin = out->count;
	const char *channel;

	while (listener && (channel = listening_next(listener, &at)))
		add_item(out, begin, ", ", channel);
}
