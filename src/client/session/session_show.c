/* SPDX-License-Identifier: ISC */
/*
 * The session state of a client in words, for the console and the log.
 */
#include <string.h>

#include "pgweir/client/session.h"
#include "pgweir/pool/server/params.h"

#include "../client_records_priv.h"
#include "session_priv.h"

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
	const char *item;

	while (bytes_take_text(&left, &item)) {
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

void session_list_pins(const struct client *client, struct buf *out)
{
	size_t begin = out->count;

	for (size_t i = 0; client->session && i < FEATURES; i++) {
		if (client->session->pins & session_features[i].pin)
			add_item(out, begin, ", ", session_features[i].why);
	}
}

void session_list_held(const struct client *client, struct buf *out)
{
	const struct session *session = client->session;
	size_t begin = out->count;

	for (size_t i = 0; session && i < FEATURES; i++) {
		const struct feature *feature = &session_features[i];
		const char *text = find_kind(session, feature);

		if (session->pins & feature->pin)
			add_item(out, begin, "; ", text ? text + 1 : feature->why);
	}
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
	const char *at = NULL, *name, *value;

	while (params_next(some, &at, &name, &value)) {
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
	const char *at = NULL, *name, *value;
	size_t begin = out->count;

	while (params_next(client->params, &at, &name, &value)) {
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
		err_detail_take(err, &detail);
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
