/* SPDX-License-Identifier: ISC */
/*
 * The audit of session mode. Only clients whose features have CLIENT_IS_AUDITED come here.
 */
#include "pgweir/client/audit.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/base/text.h"
#include "pgweir/client/calls.h"
#include "pgweir/config/config.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql_digest.h"

#include "session_priv.h"

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

/* ---- rows ---- */

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

/* Whether a row can be added; one without clients makes room. */
static bool has_room(struct audit *audit)
{
	if (HASH_COUNT(audit->table) < AUDIT_ROWS_MAX)
		return true;
	if (TAILQ_EMPTY(&audit->unused))
		return false;
	free_row(audit, TAILQ_FIRST(&audit->unused));
	return true;
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
		if (!has_room(audit)) { /* that of the others */
			key = bytes_of("", 0);
			row = find_key(audit, key);
		}
		row = row ? row : add_row(audit, key);
	}
	buf_free(&names);
	return row;
}

/* ---- clients ---- */

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

/* ---- statements ---- */

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

/* The first statement that touches a feature is its example. */
static void note_example(struct audit_client *own, unsigned int touches, struct bytes text,
                         const char *by)
{
	struct audit_row *row = feature_row(own);

	for (size_t i = 0; i < FEATURES; i++) {
		if (is_touched(i, touches) && !row->examples[i])
			row->examples[i] = example_of(text, by);
	}
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
	unsigned int touches, prepares = *name ? SQL_TOUCH_EXECUTE : 0;
	uint64_t hash = hash_of_name(client, name);
	const char *by;

	if (text.count > TEXT_MAX)
		text.count = TEXT_MAX;
	touches = touches_of(client, text, &by);
	note_example(client->audit, touches | prepares, text, by);
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

/* ---- what the server has ---- */

bool audit_is_sample(struct client *client)
{
	struct pool *pool = client->borrower.pool;
	unsigned int every = (unsigned int)client->clients->config->session_sample;

	if (!client->audit || every == 0 || client->replication || ++pool->sample_count < every)
		return false;
	pool->sample_count = 0;
	return true;
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
