/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state, and that of a client in words, for the console and the log; and the
 * audit of session mode.
 */
#include "pgweir/client/session.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/pgwire/sql_digest.h"
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

/* How many of it the server has; parameters are not counted. */
static unsigned int feature_count(const struct feature *feature, const struct facts *facts)
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

/* ---- the audit of session mode: only clients with CLIENT_IS_AUDITED come here ---- */

#define TEXT_MAX 65536 /* bytes of a text that are looked at */

/* Any bit of these makes a statement worth a note. */
#define FEATURES_OF_TEXT                                                               \
	(SQL_TOUCH_PARAMS | SQL_TOUCH_LIBRARY | SQL_TOUCH_EXECUTE | SQL_TOUCH_LISTEN | \
	 SQL_TOUCH_SEQUENCE | SQL_TOUCH_HIDDEN | SQL_TOUCH_PINS | SQL_TOUCH_FORGET)

/* It makes a server like a new one, and is no feature that a client needs. */
#define DISCARD_ALL ((unsigned int)(SQL_TOUCH_PARAMS | SQL_TOUCH_FORGET))

struct audit_client {
	/* of the pool, and of the application; NULL: both are the row of the others */
	struct audit_row *rows[2];
	struct calls_names names; /* what its prepared statements touch */
	unsigned int used;        /* features, as bits of their places in the table */
	bool stays;               /* it has used a feature with which the server stays */
	bool is_needed;           /* it needs a server: counted in both rows */
};

/* ---- audit: rows ---- */

void audit_init(struct audit *audit)
{
	*audit = (struct audit){ .next_number = 1 };
	hash_key_draw(&audit->secret);
	TAILQ_INIT(&audit->rows);
	TAILQ_INIT(&audit->unused);
}

static void forget_counts(struct audit_row *row)
{
	row->sessions_peak = row->sessions;
	row->servers_peak = row->servers;
	for (size_t i = 0; i < FEATURES; i++) {
		row->counts[i] = row->found[i] = 0;
		free(row->examples[i]);
		row->examples[i] = NULL;
	}
}

static void free_row(struct audit *audit, struct audit_row *row)
{
	assert(row->sessions == 0);
	forget_counts(row);
	TAILQ_REMOVE(&audit->unused, row, unused);
	TAILQ_REMOVE(&audit->rows, row, node);
	HASH_DEL(audit->table, row);
	free(row);
}

void audit_done(struct audit *audit)
{
	audit_restart(audit);
	assert(TAILQ_EMPTY(&audit->rows));
}

void audit_restart(struct audit *audit)
{
	while (!TAILQ_EMPTY(&audit->unused))
		free_row(audit, TAILQ_FIRST(&audit->unused));
	TAILQ_EACH (row, &audit->rows, node)
		forget_counts(row);
}

const struct audit_row *audit_find(const struct audit *audit, uint64_t number)
{
	TAILQ_EACH (row, &audit->rows, node) {
		if (row->number >= number)
			return row;
	}
	return NULL;
}

static struct audit_row *find_key(const struct audit *audit, struct bytes key)
{
	return TABLE_GET(hh, &audit->secret, audit->table, key.at, key.count);
}

const struct audit_row *audit_like(const struct audit *audit, const struct audit_row *row)
{
	return find_key(audit, bytes_of(row->key, row->key_size));
}

/* NULL: no memory. */
static struct audit_row *add_row(struct audit *audit, struct bytes key)
{
	struct audit_row *row = calloc(1, sizeof(*row) + key.count);
	struct bytes names;

	if (!row)
		return NULL;
	row->key_size = key.count;
	memcpy(row->key, key.at, key.count);
	names = bytes_of(row->key, key.count);
	if (bytes_take_text(&names, &row->database) && bytes_take_text(&names, &row->user))
		bytes_take_text(&names, &row->application_name);
	row->number = audit->next_number++;
	TAILQ_INSERT_TAIL(&audit->rows, row, node);
	TAILQ_INSERT_TAIL(&audit->unused, row, unused);
	TABLE_ADD(hh, &audit->secret, audit->table, row->key, row->key_size, row);
	return row;
}

/* application_name: NULL for the row of the pool. Returns NULL without memory. */
static struct audit_row *find_row(struct client *client, const char *application_name)
{
	const struct pool *pool = client->borrower.pool;
	struct audit *audit = &client->clients->audit;
	struct audit_row *row = NULL;
	struct buf names = { 0 };
	struct bytes key;

	buf_add_cstr(&names, pool->database->name);
	buf_add_cstr(&names, application_name ? client_user(client) : pool->role->name);
	if (application_name)
		buf_add_cstr(&names, application_name);
	key = buf_bytes(&names);
	if (buf_ok(&names))
		row = find_key(audit, key);
	if (buf_ok(&names) && !row) {
		bool is_full = HASH_COUNT(audit->table) >= AUDIT_ROWS_MAX;

		if (is_full && !TAILQ_EMPTY(&audit->unused)) {
			free_row(audit, TAILQ_FIRST(&audit->unused));
		} else if (is_full) { /* that of the others */
			key = bytes_of("", 0);
			row = find_key(audit, key);
		}
		row = row ? row : add_row(audit, key);
	}
	buf_free(&names);
	return row;
}

/* ---- audit: clients ---- */

static void drop_sessions(struct audit *audit, struct audit_client *own)
{
	for (int i = 0; i < 2 && own->rows[i]; i++) {
		if (--own->rows[i]->sessions == 0)
			TAILQ_INSERT_TAIL(&audit->unused, own->rows[i], unused);
	}
}

/* NULL: no memory; the next frame tries again. */
static struct audit_client *attach(struct client *client)
{
	struct audit *audit = &client->clients->audit;
	struct audit_client *own = calloc(1, sizeof(*own));
	const char *name = params_find(client->params, "application_name");

	if (!own)
		return NULL;
	/* The first row has a client before the second one may need its place. */
	for (int i = 0; i < 2; i++) {
		struct audit_row *row = find_row(client, i == 0 ? NULL : name ? name : "");

		if (!row) {
			drop_sessions(audit, own);
			free(own);
			return NULL;
		}
		if (row == own->rows[0])
			continue;
		own->rows[i] = row;
		if (row->sessions++ == 0)
			TAILQ_REMOVE(&audit->unused, row, unused);
		if (row->sessions > row->sessions_peak)
			row->sessions_peak = row->sessions;
	}
	client->audit = own;
	return own;
}

static void set_needed(struct audit_client *own, bool is_needed)
{
	if (is_needed == own->is_needed)
		return;
	own->is_needed = is_needed;
	for (int i = 0; i < 2 && own->rows[i]; i++) {
		struct audit_row *row = own->rows[i];

		row->servers += is_needed ? 1 : -1u;
		if (row->servers > row->servers_peak)
			row->servers_peak = row->servers;
	}
}

/* The row whose features are counted. */
static struct audit_row *feature_row(const struct audit_client *own)
{
	return own->rows[1] ? own->rows[1] : own->rows[0];
}

void audit_transaction(struct client *client)
{
	set_needed(client->audit, client->xact_at || client->audit->stays);
}

void audit_leave(struct client *client)
{
	struct audit *audit = &client->clients->audit;
	struct audit_client *own = client->audit;

	if (!own)
		return;
	set_needed(own, false);
	drop_sessions(audit, own);
	calls_names_done(&own->names);
	free(own);
	client->audit = NULL;
}

/* ---- audit: statements ---- */

/* by: the name that touches what the text does not show; or NULL. */
static char *example_of(struct bytes text, const char *by)
{
	char out[AUDIT_EXAMPLE_MAX + 1];
	struct strbuf strbuf = strbuf_begin(out, sizeof(out));

	if (by) {
		strbuf_add(&strbuf, by);
		strbuf_add(&strbuf, ": ");
	}
	sql_digest_text(text, &strbuf);
	return strdup(out);
}

static void use(struct audit_client *own, size_t feature)
{
	own->used |= 1u << feature;
	own->stays |= (session_features[feature].touch & SQL_TOUCH_PINS) != 0;
}

static bool is_touched(size_t feature, unsigned int touches)
{
	if ((touches & DISCARD_ALL) == DISCARD_ALL)
		touches &= ~DISCARD_ALL;
	return session_features[feature].used && (touches & session_features[feature].touch);
}

/* A statement that touches this is executed. */
static void count(struct audit_client *own, unsigned int touches)
{
	if ((touches & DISCARD_ALL) == DISCARD_ALL)
		own->stays = false;
	for (size_t i = 0; i < FEATURES; i++) {
		if (!is_touched(i, touches))
			continue;
		feature_row(own)->counts[i]++;
		use(own, i);
	}
}

/*
 * What a text touches: by itself, and by the names in it. *by: the first name that touches more
 * than the text shows; or NULL.
 */
static unsigned int touches_of(const struct client *client, struct bytes text, const char **by)
{
	unsigned int touches = sql_touch(text), named = 0;
	bool is_current;

	*by = NULL;
	if (pool_has_names(client->borrower.pool, NULL))
		named = pool_touches(client->borrower.pool, NULL, text, by);
	/* Until the catalog was read, nothing is known of names but those of the settings. */
	if (!pool_catalog(client->borrower.pool, &is_current))
		named &= SQL_TOUCH_EXTENSION;
	if (!*by)
		named = 0; /* any text may do anything: that says nothing about this one */
	if (!(named & ~touches & FEATURES_OF_TEXT))
		*by = NULL;
	return (touches | named) & FEATURES_OF_TEXT;
}

static uint64_t hash_of_name(const struct client *client, const char *name)
{
	return hash_bytes(&client->clients->audit.secret, name, strlen(name)) | 1;
}

static void see_text(struct client *client, char type, const char *name, struct bytes text)
{
	struct calls_names *names = &client->audit->names;
	struct audit_row *row = feature_row(client->audit);
	unsigned int touches, prepares = *name ? SQL_TOUCH_EXECUTE : 0;
	uint64_t hash = hash_of_name(client, name);
	const char *by;

	if (text.count > TEXT_MAX)
		text.count = TEXT_MAX;
	touches = touches_of(client, text, &by);
	/* The first statement that touches a feature is its example. */
	for (size_t i = 0; i < FEATURES; i++) {
		if (is_touched(i, touches | prepares) && !row->examples[i])
			row->examples[i] = example_of(text, by);
	}
	count(client->audit, type == 'Q' ? touches : prepares);
	if (type == 'P' && (touches || calls_names_get(names, hash)))
		calls_names_put(names, hash, touches);
}

void audit_frame(struct client *client, const struct frame *frame, struct bytes in)
{
	struct bytes body = frame_received(in, frame), text;
	struct object_names names;
	const char *name;

	if (client_rules(client)->mode != POOL_MODE_SESSION || client->replication ||
	    (!client->audit && !attach(client)))
		return;
	if (fields_sql(frame, in, &name, &text))
		see_text(client, frame->type, name, text);
	else if (frame->type == 'B' && fields_names('B', body, body.count, &names) == WIRE_OK)
		count(client->audit,
		      (unsigned int)calls_names_get(&client->audit->names,
		                                    hash_of_name(client, names.statement)));
	else if (frame->type == 'F')
		count(client->audit, SQL_TOUCH_HIDDEN);
	audit_transaction(client);
}

/* ---- audit: what the server has ---- */

bool audit_is_sample(struct client *client)
{
	unsigned int every = (unsigned int)client->clients->config->session_sample;

	return client->audit && !client->replication && session_is_sample(client, every);
}

/* Whether a parameter is set that neither the client's startup nor a report explains. */
static bool has_more_params(const struct client *client, const struct facts *facts)
{
	struct bytes params = buf_bytes(&facts->params);
	const char *name, *value;

	while (bytes_take_text(&params, &name) && bytes_take_text(&params, &value)) {
		if (!params_find(client->borrower.server->session.params, name) &&
		    !params_find(client->startup, name))
			return true;
	}
	return false;
}

void audit_facts(struct client *client, const struct facts *facts)
{
	struct audit_client *own = client->audit;

	for (size_t i = 0; own && i < FEATURES; i++) {
		const struct feature *feature = &session_features[i];
		bool has = feature->touch == SQL_TOUCH_PARAMS ? has_more_params(client, facts)
		                                              : feature_count(feature, facts) > 0;

		if (!feature->used || !has || (own->used & (1u << i)))
			continue;
		use(own, i);
		feature_row(own)->found[i]++;
	}
	if (own)
		audit_transaction(client);
}
