/* SPDX-License-Identifier: ISC */
/*
 * A server's parameters: what the server's reports mean, which libraries it has, and the scope of
 * its statements. server_params_sql.c has the SQL that sets them, server_params_facts.c what the
 * server says when it is asked.
 *
 * A map contains only what differs from the server's defaults.
 *
 * Hard here: a client may RESET what it had set. The server reports that only for some names; the
 * others are unknown from then on, and the map gets a value for them that no client can want. And a
 * server may report as much as it likes: reports during a borrower's work are collected, and merged
 * into the maps at once when the work is done or the buffer is large.
 */
#include <string.h>
#include <strings.h>

#include "pgweir/pool/server/tracked.h"

#include "server_params_priv.h"

/*
 * Parameters whose values PostgreSQL compares without regard to case, and reports in its own
 * spelling.
 */
static const char *const caseless[] = { "client_encoding", "DateStyle", "IntervalStyle",
	                                "standard_conforming_strings", "TimeZone" };

bool server_param_is_same(const char *name, const char *have, const char *want)
{
	if (strcmp(have, want) == 0)
		return true;
	for (size_t i = 0; i < sizeof(caseless) / sizeof(caseless[0]); i++) {
		if (strcasecmp(caseless[i], name) == 0)
			return strcasecmp(have, want) == 0;
	}
	return false;
}

const char *server_value(const struct server *server, const struct params *params, const char *name)
{
	const char *own = params_find(params, name);

	return own ? own : params_find(server->baseline, name);
}

bool server_is_native(const struct server *server, const struct params *params, const char *value)
{
	const char *encoding = server_value(server, params, "client_encoding");
	const char *native = params_find(server->baseline, "server_encoding");

	return bytes_are_ascii(bytes_text(value)) ||
	       (encoding && native && strcasecmp(encoding, native) == 0);
}

void server_check_map(struct server *server, bool is_done)
{
	if (!is_done)
		server_set_close_needed(server, CLOSE_TOO_MANY_PARAMETERS);
}

/* ---- reports ---- */

/*
 * Limits reports that no borrower's work explains: of an idle server, or while we set parameters.
 * PostgreSQL has about fifteen names to report when its files are reloaded.
 */
#define REPORTS_MAX 200

/* Bytes of reports that are collected before they are merged into the maps. */
#define REPORTS_KEEP_MAX ((size_t)16 * 1024)
#define REPORTS_KEPT ((size_t)256) /* bytes of the buffer that are kept */

/* Whether a report changes `params`, else `baseline`. *pair: the change, which may be a removal. */
static bool is_of_session(const struct server *server, struct params_pair *pair)
{
	const char *tracked = tracked_find(server->site->shared->config, pair->name);
	const char *normal = params_find(server->baseline, pair->name);

	if (!tracked && !params_find(server->params, pair->name))
		return false;
	if (tracked)
		pair->name = tracked;
	if (normal && strcmp(normal, pair->value) == 0)
		pair->value = NULL;
	return true;
}

/* Merges one report into the maps at once. */
static bool file_now(struct server *server, const char *name, const char *value)
{
	struct params_table *table = server->site->shared->params;
	struct params_pair pair = { name, value };
	const char *had = params_find(server->params, name);
	const char *normal = params_find(server->baseline, name);
	bool is_news = strcmp(had ? had : normal ? normal : "", value) != 0;
	bool is_session = is_of_session(server, &pair);

	/* In another encoding, but it is what we have just set. */
	if (is_session && had && pair.value && !server_is_native(server, server->params, value))
		return is_news;
	if (server->errand == ERRAND_CONNECT) { /* connect_query sets defaults */
		server_check_map(server, params_change(table, &server->baseline, name, value));
		pair.value = NULL;
		is_session = true;
	}
	server_check_map(server,
	                 params_change(table, is_session ? &server->params : &server->baseline,
	                               pair.name, pair.value));
	return is_news;
}

/* Whether the server runs requests of the borrower, not ours. */
static bool is_at_work(const struct server *server)
{
	return server->state == SERVER_LENT && server->errand == ERRAND_NONE &&
	       !ledger_is_empty(&server->ledger) && !ledger_owes_ignored(&server->ledger);
}

/*
 * What we have set. What is spelled in another way than the client has asked for, the relay tells
 * it when all is set; what follows from a role, the client knows since it has set that role itself.
 */
static bool is_of_replay(const struct server *server, const char *name)
{
	return server->errand == ERRAND_REPLAY &&
	       (tracked_find(server->site->shared->config, name) ||
	        strcmp(name, "is_superuser") == 0);
}

bool server_report(struct server *server, const char *name, const char *value, bool *is_news)
{
	*is_news = true;
	if (!is_at_work(server)) {
		server_settle_reports(server);
		*is_news = file_now(server, name, value) && !is_of_replay(server, name);
		return ++server->report_count <= REPORTS_MAX;
	}
	buf_add_cstr(&server->reports, name);
	buf_add_cstr(&server->reports, value);
	if (server->reports.count >= REPORTS_KEEP_MAX || !buf_ok(&server->reports)) {
		server->has_flooded = true;
		server_settle_reports(server);
	}
	return true;
}

/* Whether PostgreSQL reports the value as it was set, or in a form that cannot be taken. */
static bool is_taken_as_it_is(const char *name, const char *value)
{
	return strcmp(name, "application_name") == 0 || strcmp(name, SESSION_AUTHORIZATION) == 0 ||
	       !bytes_are_ascii(bytes_text(value));
}

void server_expect_reports(struct server *server)
{
	const struct server_shared *shared = server->site->shared;
	const char *name, *normal, *now, *want;

	for (size_t i = 0; (name = tracked_at(shared->config, i)); i++) {
		normal = params_find(server->baseline, name);
		want = params_find(server->params, name);
		if (!normal || !want || is_taken_as_it_is(name, want))
			continue;
		now = params_find(server->before, name);
		if (!now || strcmp(now, PARAM_UNKNOWN) == 0) /* it was set back */
			now = normal;
		server_check_map(server, params_change(shared->params, &server->params, name, now));
	}
}

/* Whether a value of these came in another encoding than that of the database. */
static bool is_any_unclear(const struct server *server, const struct params_pair *pairs,
                           size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (pairs[i].value && !server_is_native(server, server->params, pairs[i].value))
			return true;
	}
	return false;
}

void server_settle_reports(struct server *server)
{
	struct params_table *table = server->site->shared->params;
	struct bytes list = buf_bytes(&server->reports);
	struct buf session = { 0 }, rest = { 0 };
	struct params_pair pair;

	if (!list.count && buf_ok(&server->reports))
		return;
	while (bytes_take_text(&list, &pair.name) && bytes_take_text(&list, &pair.value))
		buf_add(is_of_session(server, &pair) ? &session : &rest, &pair, sizeof(pair));
	server_check_map(server, buf_ok(&server->reports) && buf_ok(&session) && buf_ok(&rest));
	server_check_map(server, params_change_all(table, &server->params, (void *)session.at,
	                                           session.count / sizeof(pair)));
	server_check_map(server, params_change_all(table, &server->baseline, (void *)rest.at,
	                                           rest.count / sizeof(pair)));
	server->has_unclear_report |=
	    is_any_unclear(server, (void *)session.at, session.count / sizeof(pair));
	buf_free(&session);
	buf_free(&rest);
	buf_reuse(&server->reports, REPORTS_KEPT);
}

void server_forget_rest(struct server *server, bool is_all)
{
	struct params_table *table = server->site->shared->params;
	struct params_pair rest[PARAMS_NAMES_MAX];
	struct params_seek seek = { 0 };
	const char *at = NULL, *name, *value, *normal;
	size_t count = 0;

	server_settle_reports(server);
	server->is_rest_unknown = true;
	if (!is_all && server->forgotten == server->params)
		return; /* one of many RESETs, and nothing was set since the last one */
	while (params_next(server->params, &at, &name, &value)) {
		if (!params_seek(server->baseline, &seek, name, &normal) &&
		    !tracked_is_library(name))
			rest[count++] = (struct params_pair){ name, is_all ? NULL : PARAM_UNKNOWN };
	}
	server_check_map(server, params_change_all(table, &server->params, rest, count));
	params_release(table, &server->forgotten);
	server->forgotten = params_hold(server->params);
}

/* ---- libraries ---- */

bool server_libraries_are_in(const struct params *params, const struct params *others)
{
	const char *at = NULL, *name, *value;

	while (params_next(params, &at, &name, &value)) {
		if (tracked_is_library(name) && !params_find(others, name))
			return false;
	}
	return true;
}

void server_find_libraries(struct server *server)
{
	const struct params *none = params_none(server->site->shared->params);

	if (server->has_library || server_libraries_are_in(server->params, none))
		return;
	server->has_library = true;
	server->site->ops->on_library(server);
}

/*
 * The name in the map. Names of a map are compared without regard to case, those of libraries are
 * not: an upper-case letter is marked, and so is the mark.
 */
static void add_library_name(struct buf *text, const char *name)
{
	buf_add_text(text, LIBRARY_PREFIX);
	for (; *name; name++) {
		if ((*name >= 'A' && *name <= 'Z') || *name == '^')
			buf_add_byte(text, '^');
		buf_add_byte(text, *name);
	}
}

bool server_add_library(struct server *server, const char *name)
{
	struct params_table *table = server->site->shared->params;
	struct buf text = { 0 };
	bool is_done;

	server_settle_reports(server);
	add_library_name(&text, name);
	buf_add_byte(&text, 0);
	is_done = bytes_are_ascii(bytes_text(name)) && buf_ok(&text) &&
	          params_change(table, &server->params, text.at, name);
	buf_free(&text);
	server_find_libraries(server);
	return is_done;
}

void server_close_scope(struct server *server)
{
	if (server->has_used_scope)
		server_statements_distrust_sent(&server->statements);
	server->is_scope_open = server->has_used_scope = false;
}

bool server_scope(struct server *server, struct bytes *scope)
{
	if (server->is_scope_open && !server->has_used_scope) {
		server_statements_distrust_sent(&server->statements);
		server->has_used_scope = true;
	}
	if (server->reports.count)
		server_settle_reports(server);
	return text_scope_read(&server->scope, server->site->shared->params, server->params, scope);
}
