/* SPDX-License-Identifier: ISC */
/*
 * Parameters of the startup packet that are set back: see session_priv.h.
 *
 * Hard here: what is set behind the statement must not overwrite a value that the client has set
 * since, so only statements are followed of which the text says all. And SELECT set_config() would
 * take a snapshot, after which SET TRANSACTION fails: so it is SET.
 */
#include "session_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/statements.h"

#define ITEMS_MAX 100 /* parameters in one text; more are not followed */

struct session_resets {
	/* to be set behind the statement that was sent: with the value LOCAL by SET LOCAL */
	const struct params *pending;
	const struct params *told; /* those that PostgreSQL reports, as the client knows them */
	const struct params *back; /* set back in this transaction, and not set since */
	bool is_discard;           /* the statement that was sent is DISCARD ALL */
	bool is_unread;            /* the text that was sent was not read */
	unsigned int errors;       /* error_count of the server before it */
};

#define LOCAL "local"

static struct session_resets *resets_of(const struct client *client)
{
	return client->session ? client->session->resets : NULL;
}

static struct params_table *table_of(const struct client *client)
{
	return client->clients->pools->shared.params;
}

/* Until it is settled, reports of these are not forwarded: the client is told here. */
static bool begin_told(const struct client *client, const struct params **told)
{
	const struct server *server = client->borrower.server;
	bool is_done = true;

	PARAMS_EACH (name, value, client->startup) {
		if (params_find(server->session.baseline, name))
			is_done &=
			    params_change(table_of(client), told, name,
			                  server_value(server, server->session.params, name));
	}
	return is_done;
}

/* NULL: no memory. */
static struct session_resets *resets_get(struct client *client)
{
	const struct params *none = params_none(table_of(client));
	struct session *session = session_get(client);

	if (!session || session->resets)
		return resets_of(client);
	session->resets = malloc(sizeof(*session->resets));
	if (!session->resets)
		return NULL;
	*session->resets = (struct session_resets){ .pending = none, .told = none, .back = none };
	if (params_count(client->startup))
		server_watch(client->borrower.server, SERVER_WATCHES_PARAMETERS);
	return begin_told(client, &session->resets->told) ? session->resets : NULL;
}

void resets_free(struct client *client)
{
	struct session_resets *resets = resets_of(client);

	if (!resets)
		return;
	params_release(table_of(client), &resets->pending);
	params_release(table_of(client), &resets->told);
	params_release(table_of(client), &resets->back);
	free(resets);
	client->session->resets = NULL;
}

/* ---- a text ---- */

/*
 * What follows in a text behind what it sets back: that is executed before anybody can set a
 * parameter to another default.
 */
enum rest {
	REST_NOTHING,  /* nothing is set back */
	REST_HARMLESS, /* it does not depend on parameters */
	REST_USES,     /* it may depend on them */
	REST_UNDOES,   /* ROLLBACK or the like: it is not known what is set back */
	REST_UNSURE    /* it may depend on standard_conforming_strings */
};

struct reading {
	const struct client *client;
	struct session_resets *resets;
	bool is_discard;
	bool is_broken;       /* there was no memory for what is pending */
	const char *relevant; /* one whose value may change the result of a query; or NULL */
	unsigned int count;
	enum rest rest;
};

/* value: NULL: it is not pending any more. */
static void set_pending(struct reading *reading, const char *name, const char *value)
{
	reading->is_broken |=
	    !params_change(table_of(reading->client), &reading->resets->pending, name, value);
}

/* Whether PostgreSQL sets it back to another value than the client's. */
static bool is_other(const struct client *client, const char *name, const char *value)
{
	const char *normal = params_find(client->borrower.server->session.baseline, name);

	return !normal || strcmp(normal, value) != 0;
}

/* RESET ALL leaves the role as it is. */
static bool is_of_all(const char *name)
{
	return strcasecmp(name, "role") != 0 && strcasecmp(name, SESSION_AUTHORIZATION) != 0;
}

static void take_reset(struct reading *reading, const struct sql_item *item)
{
	struct session_resets *resets = reading->resets;
	bool is_set = item->kind == SQL_ITEM_SET;

	if (++reading->count > ITEMS_MAX)
		return;
	if (!*item->name)
		params_release(table_of(reading->client), &resets->pending);
	PARAMS_EACH (name, value, reading->client->startup) {
		if (*item->name ? strcasecmp(name, item->name) != 0 : !is_of_all(name))
			continue;
		if (!item->is_local)
			reading->is_broken |= !params_change(
			    table_of(reading->client), &resets->back, name, is_set ? NULL : "");
		if (is_set || !is_other(reading->client, name, value)) {
			set_pending(reading, name, NULL);
			continue;
		}
		set_pending(reading, name, item->is_local ? LOCAL : "");
		if (strcasecmp(name, "application_name") != 0)
			reading->relevant = name;
	}
}

static void take_item(void *context, const struct sql_item *item)
{
	struct reading *reading = context;

	switch (item->kind) {
	case SQL_ITEM_DISCARD:
	case SQL_ITEM_RESET:
		reading->is_discard |= item->kind == SQL_ITEM_DISCARD;
		if (reading->rest == REST_NOTHING)
			reading->rest = REST_HARMLESS;
		take_reset(reading, item);
		break;
	case SQL_ITEM_SET:
		take_reset(reading, item);
		break;
	case SQL_ITEM_ROLLBACK:
		if (reading->rest != REST_NOTHING)
			reading->rest = REST_UNDOES;
		break;
	case SQL_ITEM_LIBRARY:
	case SQL_ITEM_UNSURE:
	case SQL_ITEM_OTHER:
		if (reading->rest == REST_HARMLESS)
			reading->rest = REST_USES;
		break;
	case SQL_ITEM_LISTEN:
	case SQL_ITEM_UNLISTEN:
	case SQL_ITEM_UNLISTEN_ALL:
		break;
	}
}

static bool refuse(const char *name, struct err *err)
{
	err_set(err, ERR_UNSUPPORTED,
	        "a startup parameter cannot be set back together with other statements in one "
	        "text");
	err_detail(err,
	           "The statements behind it would run with the server's value of \"%.100s\", not "
	           "with the client's.",
	           name);
	return err_hint(err, "Send the RESET alone.");
}

/* Whether a text may set application_name in a way that is not reported to take_item(). */
static bool may_set_name_inside(struct bytes text)
{
	return (sql_touch(text) & SQL_TOUCH_HIDDEN) ||
	       (bytes_contain(text, "'application_name") && bytes_contain(text, "set_config"));
}

bool resets_use(struct client *client, struct bytes text, bool is_query, bool may_refuse,
                struct err *err)
{
	struct session_resets *resets = resets_get(client);
	struct reading reading = { .client = client, .resets = resets };
	bool is_last;

	if (!resets)
		return err_close(err, CLOSE_MEMORY);
	resets->is_unread = !text.count;
	resets->errors = client->borrower.server->lease.error_count;
	if (resets->is_unread)
		return true;
	if (!sql_items(text, take_item, &reading) && reading.rest != REST_NOTHING)
		reading.rest = REST_UNSURE;
	if (reading.is_broken)
		return err_close(err, CLOSE_MEMORY);
	if (may_refuse && reading.relevant && reading.rest != REST_HARMLESS)
		return refuse(reading.relevant, err);
	resets->is_unread = reading.rest == REST_UNSURE;
	is_last = reading.rest == REST_HARMLESS ||
	          (reading.rest == REST_USES && !reading.relevant && !may_set_name_inside(text));
	resets->is_discard = reading.is_discard;
	if (is_last && reading.count <= ITEMS_MAX &&
	    (params_count(resets->pending) || reading.is_discard))
		client->touched |= is_query ? RESETS_DUE : RESETS_WAIT;
	else
		params_release(table_of(client), &resets->pending);
	return true;
}

/* ---- behind it ---- */

/* Makes a list of SQL statements: text\0 */
static void make_statements(const struct client *client, struct buf *out)
{
	PARAMS_EACH (name, local, resets_of(client)->pending) {
		const char *value = params_find(client->startup, name);

		if (!value)
			continue;
		server_set_text(name, value, *local, out);
		buf_add_byte(out, 0);
	}
}

/*
 * DISCARD ALL commits at once, and nothing of the session is left. In the extended protocol the
 * transaction ends behind it, so that what comes next finds what the client has: before that, the
 * names of its statements are not known, nor whether it has failed. If it is the client's Sync that
 * follows, what comes behind that waits for its ReadyForQuery.
 */
static enum judgement follow_discard(struct client *client, char type, struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (type == 'S')
		return JUDGE_SEND;
	if (!ledger_ends_wait(&server->wire.ledger, LEDGER_WAIT_EMPTY))
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	client->touched &= ~RESETS_DUE;
	if (!server->wire.ledger.is_open || server->wire.ledger.is_skipping)
		return JUDGE_SEND;
	return batch_sync(batch, server, LEDGER_DROPPED) ? batch_wait(batch, LEDGER_WAIT_READY)
	                                                 : JUDGE_MEMORY;
}

enum judgement resets_follow(struct client *client, char type, struct batch *batch)
{
	struct session_resets *resets = resets_of(client);
	struct server *server = client->borrower.server;
	bool is_open = server->wire.ledger.is_open, is_sent;
	struct buf statements = { 0 };

	if (!(client->touched & RESETS_DUE))
		return JUDGE_SEND;
	if (is_open && resets && resets->is_discard)
		return follow_discard(client, type, batch);
	/* If no transaction block is open, it is set after the question. */
	if (!is_open && !ledger_ends_wait(&server->wire.ledger, LEDGER_WAIT_READY))
		return batch_wait(batch, LEDGER_WAIT_READY);
	/* The text has a COPY, of which this message is a part: it comes behind that. */
	if (!is_open && !ledger_knows_status(&server->wire.ledger))
		return JUDGE_SEND;
	client->touched &= ~RESETS_DUE;
	if (!resets)
		return JUDGE_SEND;
	if (is_open || server->wire.status == 'T')
		make_statements(client, &statements);
	is_sent = buf_ok(&statements) &&
	          (!statements.count ||
	           batch_add_statements(batch, server, !is_open, buf_bytes(&statements), NULL));
	params_release(table_of(client), &resets->pending);
	buf_free(&statements);
	return is_sent ? JUDGE_SEND : JUDGE_MEMORY;
}

/*
 * ---- reports ----
 *
 * PostgreSQL reports what has changed ahead of its ReadyForQuery. There the client is told what
 * differs from what it knows: of a parameter that the text has set back, its own value.
 */

bool resets_take_report(struct borrower *borrower, const char *name)
{
	const struct session_resets *resets = resets_of(client_of(borrower));

	return resets && params_find(resets->told, name);
}

/*
 * Whether the text that has run has set it back, so that the client's value follows. If the text
 * was not read, it may have done so, and if no block is open, its transaction has ended with it.
 */
static bool is_back(const struct client *client, const char *name, const char *now)
{
	const struct session_resets *resets = resets_of(client);
	const struct server *server = client->borrower.server;
	const char *local = params_find(resets->pending, name);

	if (server->wire.status == 'E' || server->lease.error_count != resets->errors)
		return false;
	if (resets->is_unread)
		return server->wire.status == 'I' && !is_other(client, name, now);
	return local && !(*local && server->wire.status == 'I');
}

/* Adds a ParameterStatus, if it is news for the client. */
static void tell(const struct client *client, const struct params **told, const char *name,
                 const char *value, struct buf *out)
{
	const char *known = server_value(client->borrower.server, *told, name);

	if (known && strcmp(known, value) == 0)
		return;
	message_parameter(out, name, value);
	params_change(table_of(client), told, name, value);
}

/* The server's value of a parameter that it reports; else NULL. */
static const char *reported(const struct server *server, const char *name)
{
	return params_find(server->session.baseline, name)
	           ? server_value(server, server->session.params, name)
	           : NULL;
}

void resets_tell(struct borrower *borrower, struct buf *ahead)
{
	struct client *client = client_of(borrower);
	struct session_resets *resets = resets_of(client);
	const char *at = NULL, *name, *value, *now;

	while (resets && params_next(client->startup, &at, &name, &value)) {
		now = reported(borrower->server, name);
		if (now)
			tell(client, &resets->told, name, is_back(client, name, now) ? value : now,
			     ahead);
	}
}

const struct params *resets_back(const struct client *client)
{
	const struct session_resets *resets = resets_of(client);

	return resets ? resets->back : params_none(table_of(client));
}

const struct params *resets_before(const struct client *client)
{
	const struct session_resets *resets = resets_of(client);

	return session_keeps_server(client) || (resets && resets->is_unread) ? NULL
	                                                                     : client->params;
}

void resets_settle(struct client *client, const struct params *before)
{
	const struct session_resets *resets = resets_of(client);
	struct server *server = client->borrower.server;
	const struct params *told = params_hold(resets ? resets->told : before);
	const char *now;
	struct buf out = { 0 };

	server_unwatch(server, SERVER_WATCHES_PARAMETERS);
	PARAMS_EACH (name, value, client->startup) {
		now = reported(server, name);
		/* \001: it is set back to the client's value next, see server_take_facts() */
		if (now && *now == '\001')
			tell(client, &told, name, value, &out);
		else if (now && resets && bytes_are_ascii(bytes_text(now)))
			tell(client, &told, name, now, &out);
	}
	params_release(table_of(client), &told);
	client_send_all(client, &out);
}
