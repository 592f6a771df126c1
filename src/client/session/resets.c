/* SPDX-License-Identifier: ISC */
/*
 * Parameters of the startup packet that are set back: see resets_priv.h.
 *
 * Hard here: what is set behind the statement must not overwrite a value that the client has set
 * since, so only statements are followed of which the text says all. And SELECT set_config() would
 * take a snapshot, after which SET TRANSACTION fails: so it is SET.
 */
#include "resets_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_resets.h"
#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/server/statements.h"

#include "../batch_priv.h"

#define ITEMS_MAX 100 /* parameters in one text; more are not followed */

struct session_resets {
	struct buf pending; /* to be set behind the statement that was sent: name\0 */
	struct buf local;   /* those of them that are to be set with SET LOCAL */
	struct buf
	    told; /* values reported to the client that are not the server's: name\0value\0 */
	bool is_discard;     /* the statement that was sent is DISCARD ALL */
	bool is_unread;      /* the text that was sent was not read */
	unsigned int errors; /* error_count of the server before it */
	struct buf back;     /* set back in this transaction, and not set since: name\0 */
};

/* NULL: no memory. */
static struct session_resets *resets_get(struct client *client)
{
	struct session *session = client->session;

	if (session && !session->resets)
		session->resets = calloc(1, sizeof(*session->resets));
	return session ? session->resets : NULL;
}

void resets_free(struct session_resets **resets)
{
	if (*resets) {
		buf_free(&(*resets)->pending);
		buf_free(&(*resets)->local);
		buf_free(&(*resets)->told);
		buf_free(&(*resets)->back);
	}
	free(*resets);
	*resets = NULL;
}

/* ---- a text ---- */

struct reading {
	const struct client *client;
	struct session_resets *resets;
	bool is_discard;
	const char *relevant; /* one whose value may change the result of a query; or NULL */
	unsigned int count;
};

static void remove_name(struct buf *names, const char *name)
{
	struct bytes rest = buf_bytes(names);
	struct buf others = { 0 };
	const char *other;

	while (bytes_take_text(&rest, &other)) {
		if (strcasecmp(other, name) != 0)
			buf_add_cstr(&others, other);
	}
	buf_free(names);
	*names = others;
}

static void remove_pending(struct session_resets *resets, const char *name)
{
	remove_name(&resets->pending, name);
	remove_name(&resets->local, name);
}

static void clear_pending(struct session_resets *resets)
{
	buf_free(&resets->pending);
	buf_free(&resets->local);
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

static void take_reset(void *context, const struct sql_reset *reset)
{
	struct reading *reading = context;
	struct session_resets *resets = reading->resets;
	const char *at = NULL, *name, *value;

	reading->is_discard |= reset->is_discard;
	if (++reading->count > ITEMS_MAX)
		return;
	if (!reset->name)
		clear_pending(resets);
	while (params_next(reading->client->startup, &at, &name, &value)) {
		if (reset->name ? strcasecmp(name, reset->name) != 0 : !is_of_all(name))
			continue;
		if (!reset->is_local)
			remove_name(&resets->back, name);
		if (!reset->is_set && !reset->is_local)
			buf_add_cstr(&resets->back, name);
		if (reset->name)
			remove_pending(resets, name);
		if (reset->is_set || !is_other(reading->client, name, value))
			continue;
		buf_add_cstr(&resets->pending, name);
		if (reset->is_local)
			buf_add_cstr(&resets->local, name);
		if (strcasecmp(name, "application_name") != 0)
			reading->relevant = name;
	}
}

static bool refuse(const char *name, struct err *err)
{
	char detail[ERR_DETAIL_SIZE];

	err_set(err, ERR_UNSUPPORTED,
	        "a startup parameter cannot be set back together with other statements in one "
	        "text");
	snprintf(detail, sizeof(detail),
	         "The statements behind it would run with the server's value of \"%.100s\", not "
	         "with the client's.",
	         name);
	err_detail(err, detail);
	err_hint(err, "Send the RESET alone.");
	return false;
}

/* Whether a text may set application_name in a way that is not reported to take_reset(). */
static bool may_set_name_inside(struct bytes text)
{
	return (sql_touch(text) & SQL_TOUCH_HIDDEN) ||
	       (bytes_contain(text, "'application_name") && bytes_contain(text, "set_config"));
}

bool resets_use(struct client *client, struct bytes text, bool may_refuse, struct err *err)
{
	struct session_resets *resets = resets_get(client);
	struct reading reading = { .client = client, .resets = resets };
	enum sql_resets result;
	bool is_last;

	if (params_count(client->startup))
		server_watch(client->borrower.server, SERVER_WATCHES_PARAMETERS);
	if (resets) {
		resets->is_unread = !text.count;
		resets->errors = client->borrower.server->lease.error_count;
	}
	if (!resets || resets->is_unread)
		return true;
	result = sql_resets(text, take_reset, &reading);
	if (may_refuse && reading.relevant && result != SQL_RESETS_LAST)
		return refuse(reading.relevant, err);
	resets->is_unread = result == SQL_RESETS_UNSURE;
	is_last = result == SQL_RESETS_LAST ||
	          (result == SQL_RESETS_USED && !reading.relevant && !may_set_name_inside(text));
	resets->is_discard = reading.is_discard;
	if (is_last && reading.count <= ITEMS_MAX && (resets->pending.count || reading.is_discard))
		client->touched |= RESETS_NOTED;
	else
		clear_pending(resets);
	return true;
}

/* ---- behind it ---- */

/* Adds statements (text;\0), in the protocol that is in use. */
static bool add_statements(struct server *server, struct batch *batch, struct bytes statements)
{
	struct buf out = { 0 };
	bool is_added = server->wire.ledger.is_open
	                    ? inject_text_extended(server, &out, statements, NULL)
	                    : inject_text_query(server, &out, statements, NULL);

	if (is_added)
		batch_copy(batch, buf_bytes(&out));
	buf_free(&out);
	return is_added;
}

/* Makes a list of SQL statements: text\0 */
static void make_statements(struct client *client, struct buf *out)
{
	const struct session_resets *resets = client->session->resets;
	struct bytes names = buf_bytes(&resets->pending);
	const char *name, *value;

	while (bytes_take_text(&names, &name)) {
		value = params_find(client->startup, name);
		if (!value)
			continue;
		server_set_text(name, value, bytes_list_has(buf_bytes(&resets->local), name), out);
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
	static const char sync[] = { 'S', 0, 0, 0, 4 };
	struct server *server = client->borrower.server;

	if (type == 'S')
		return JUDGE_SEND;
	if (!ledger_ends_wait(&server->wire.ledger, LEDGER_WAIT_EMPTY))
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	client->touched &= ~RESETS_DUE;
	if (!server->wire.ledger.is_open || server->wire.ledger.is_skipping)
		return JUDGE_SEND;
	batch_copy(batch, bytes_of(sync, sizeof(sync)));
	return server_note_change(server, LEDGER_SYNC, LEDGER_DROPPED, NULL)
	           ? batch_wait(batch, LEDGER_WAIT_READY)
	           : JUDGE_MEMORY;
}

enum judgement resets_follow(struct client *client, char type, struct batch *batch)
{
	struct server *server = client->borrower.server;
	bool is_open = server->wire.ledger.is_open, is_sent;
	struct buf statements = { 0 };

	if (client->touched & RESETS_NOTED) {
		client->touched ^= RESETS_NOTED;
		client->touched |= is_open ? RESETS_WAIT : RESETS_DUE;
	}
	if (!(client->touched & RESETS_DUE))
		return JUDGE_SEND;
	if (is_open && client->session && client->session->resets &&
	    client->session->resets->is_discard)
		return follow_discard(client, type, batch);
	/* If no transaction block is open, it is set after the question. */
	if (!is_open && !ledger_knows_status(&server->wire.ledger))
		return batch_wait(batch, LEDGER_WAIT_READY);
	client->touched &= ~RESETS_DUE;
	if (!client->session || !client->session->resets)
		return JUDGE_SEND;
	if (is_open || server->wire.status == 'T')
		make_statements(client, &statements);
	is_sent = buf_ok(&client->session->resets->pending) &&
	          buf_ok(&client->session->resets->local) && buf_ok(&statements) &&
	          (!statements.count || add_statements(server, batch, buf_bytes(&statements)));
	clear_pending(client->session->resets);
	buf_free(&statements);
	return is_sent ? JUDGE_SEND : JUDGE_MEMORY;
}

/* ---- reports ---- */

/*
 * The value of a parameter that was last reported to the client. reported: the server's map, with
 * the reports up to the last ReadyForQuery.
 */
static const char *told_of(const struct client *client, const struct params *reported,
                           const char *name)
{
	struct bytes list = bytes_of("", 0);
	const struct server *server = client->borrower.server;
	const char *told = params_find(reported, name), *other, *value;

	if (!told)
		told = params_find(server->session.baseline, name);
	if (client->session && client->session->resets)
		list = buf_bytes(&client->session->resets->told);
	while (bytes_take_text(&list, &other) && bytes_take_text(&list, &value)) {
		if (strcasecmp(other, name) == 0)
			told = value;
	}
	return told ? told : "";
}

/*
 * Whether the text that runs sets it back, so that the client's value follows. If the text was not
 * read, it may do so, and if no block is open, its transaction ends with it.
 */
static bool is_pending(const struct client *client, const struct session_resets *resets,
                       const char *name)
{
	if (resets->is_unread)
		return client->borrower.server->wire.status == 'I';
	return bytes_list_has(buf_bytes(&resets->pending), name);
}

/* Notes the value that is reported to the client, instead of the one reported before. */
static void note_told(struct session_resets *resets, const char *name, const char *value)
{
	struct bytes list = buf_bytes(&resets->told);
	struct buf others = { 0 };
	const char *other, *told;

	while (bytes_take_text(&list, &other) && bytes_take_text(&list, &told)) {
		if (strcasecmp(other, name) == 0)
			continue;
		buf_add_cstr(&others, other);
		buf_add_cstr(&others, told);
	}
	buf_add_cstr(&others, name);
	buf_add_cstr(&others, value);
	buf_free(&resets->told);
	resets->told = others;
}

bool resets_take_report(struct client *client, const char *name, const char *value,
                        struct buf *instead)
{
	const char *startup = params_find(client->startup, name), *shown = value;
	const char *normal = params_find(client->borrower.server->session.baseline, name);
	struct session_resets *resets = startup ? resets_get(client) : NULL;
	bool is_told;

	if (!resets || !(client->touched & SQL_TOUCH_DEFAULT))
		return false;
	if (normal && strcmp(normal, value) == 0 && is_pending(client, resets, name))
		shown = startup;
	is_told =
	    strcmp(told_of(client, client->borrower.server->session.params, name), shown) == 0;
	note_told(resets, name, shown);
	if (!is_told && shown == value)
		return false;
	if (!is_told)
		message_parameter(instead, name, shown);
	return true;
}

/* Whether it was set back by a SET LOCAL whose transaction has ended. */
static bool local_is_over(const struct session_resets *resets, const struct server *server,
                          const char *name)
{
	return server->wire.status == 'I' && bytes_list_has(buf_bytes(&resets->local), name);
}

void resets_tell(struct client *client, struct buf *ahead)
{
	const struct server *server = client->borrower.server;
	struct session_resets *resets = client->session ? client->session->resets : NULL;
	struct bytes names = resets ? buf_bytes(&resets->pending) : bytes_of("", 0);
	const char *name, *value;

	if (!resets || server->wire.status == 'E' || server->lease.error_count != resets->errors)
		return;
	while (bytes_take_text(&names, &name)) {
		value = params_find(client->startup, name);
		if (!value || !params_find(server->session.baseline, name) ||
		    local_is_over(resets, server, name) ||
		    strcmp(told_of(client, server->session.params, name), value) == 0)
			continue;
		note_told(resets, name, value);
		message_parameter(ahead, name, value);
	}
}

struct bytes resets_back(const struct client *client)
{
	const struct session *session = client->session;

	return session && session->resets ? buf_bytes(&session->resets->back) : bytes_of("", 0);
}

const struct params *resets_before(const struct client *client)
{
	const struct session *session = client->session;

	return session && session->resets && session->resets->is_unread ? NULL : client->params;
}

void resets_tell_hidden(struct client *client, const struct params *before)
{
	const struct server *server = client->borrower.server;
	const char *at = NULL, *name, *value, *now;
	struct buf out = { 0 };

	while (params_next(client->startup, &at, &name, &value)) {
		now = params_find(server->session.params, name);
		/* \001: it was set back, see server_take_facts() */
		if (now && *now == '\001' && params_find(server->session.baseline, name) &&
		    strcmp(told_of(client, before, name), value) != 0)
			message_parameter(&out, name, value);
	}
	if (out.count)
		client_send(client, buf_bytes(&out));
	buf_free(&out);
}

void resets_settle(struct client *client)
{
	struct server *server = client->borrower.server;
	struct bytes list = bytes_of("", 0);
	struct buf out = { 0 };
	const char *name, *told, *value;

	server_unwatch(server, SERVER_WATCHES_PARAMETERS);
	if (client->session && client->session->resets)
		list = buf_bytes(&client->session->resets->told);
	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &told)) {
		value = params_find(server->session.params, name);
		value = value ? value : params_find(server->session.baseline, name);
		/* \001: it is set back to the client's value next, see server_take_facts() */
		if (value && *value != '\001' && strcmp(value, told) != 0)
			message_parameter(&out, name, value);
	}
	if (out.count)
		client_send(client, buf_bytes(&out));
	buf_free(&out);
	if (client->session)
		resets_free(&client->session->resets);
}
