/* SPDX-License-Identifier: ISC */
/*
 * A server's parameters: the SQL that sets them to what a client wants, and what the server's
 * reports mean.
 *
 * A map contains only what differs from the server's defaults. A parameter that a client does not
 * have is set back: to the value that the server reported at its login, or by RESET if the server
 * does not report it.
 *
 * Hard here: a client may RESET what it had set. The server reports that only for some names; the
 * others are unknown from then on, and the map gets a value for them that no client can want. And a
 * server may report as much as it likes: reports during a borrower's work are collected, and merged
 * into the maps at once when the work is done or the buffer is large.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pgweir/pool/server/tracked.h"

#include "server_priv.h"

#include "pgweir/base/banned.h"

/*
 * The value of a parameter that is not known. No client asks for it: a control character has no
 * meaning in any parameter of PostgreSQL.
 */
#define UNKNOWN "\001"

/* Parameters that are lists of quoted names: SET would read the whole text as one name. */
static const char *const name_lists[] = { "search_path", "temp_tablespaces",
	                                  "local_preload_libraries", "session_preload_libraries" };

static bool is_name_list(const char *name)
{
	for (size_t i = 0; i < sizeof(name_lists) / sizeof(name_lists[0]); i++) {
		if (strcasecmp(name_lists[i], name) == 0)
			return true;
	}
	return false;
}

/*
 * Parameters whose values PostgreSQL compares without regard to case, and reports in its own
 * spelling.
 */
static const char *const caseless[] = { "client_encoding", "DateStyle", "IntervalStyle",
	                                "standard_conforming_strings", "TimeZone" };

/* Whether a value need not be set. "Foo" and "foo" are two schemas in a search_path. */
static bool is_same(const char *name, const char *have, const char *want)
{
	if (strcmp(have, want) == 0)
		return true;
	for (size_t i = 0; i < sizeof(caseless) / sizeof(caseless[0]); i++) {
		if (strcasecmp(caseless[i], name) == 0)
			return strcasecmp(have, want) == 0;
	}
	return false;
}

/*
 * In some client encodings (SJIS, BIG5, GBK) a backslash may be the second byte of a character. If
 * it were doubled, the second one would be a backslash of its own and escape the closing quote. In
 * a dollar-quoted text no byte is special except the closing tag.
 */
static void add_dollar_literal(struct buf *text, const char *value)
{
	char tag[24];
	unsigned int number = 0;

	do
		snprintf(tag, sizeof(tag), "$w%u", number++);
	/* without its last $, since the end of the value could be a part of the tag */
	while (strstr(value, tag));
	buf_printf(text, "%s$%s%s$", tag, value, tag);
}

static bool is_ascii(const char *value)
{
	while (*value && (unsigned char)*value < 0x80)
		value++;
	return *value == 0;
}

/* Adds an SQL literal that is safe with any standard_conforming_strings and client_encoding. */
static void add_literal(struct buf *text, const char *value)
{
	if (strchr(value, '\\') && !is_ascii(value)) {
		add_dollar_literal(text, value);
		return;
	}
	buf_add_text(text, strchr(value, '\\') ? "E'" : "'");
	for (; *value; value++) {
		if (*value == '\'' || *value == '\\')
			buf_add_byte(text, *value);
		buf_add_byte(text, *value);
	}
	buf_add_byte(text, '\'');
}

/* A parameter's name: identifiers with dots between them. */
static void add_name(struct buf *text, const char *name)
{
	buf_add_byte(text, '"');
	for (; *name; name++) {
		if (*name == '.') {
			buf_add_text(text, "\".\"");
			continue;
		}
		if (*name == '"')
			buf_add_byte(text, '"');
		buf_add_byte(text, *name);
	}
	buf_add_byte(text, '"');
}

static void add_set(struct buf *text, const char *name, const char *value)
{
	if (is_name_list(name)) {
		buf_add_text(text, "SELECT pg_catalog.set_config(");
		add_literal(text, name);
		buf_add_text(text, ",");
		add_literal(text, value);
		buf_add_text(text, ",false);");
		return;
	}
	buf_add_text(text, "SET ");
	add_name(text, name);
	buf_add_byte(text, '=');
	add_literal(text, value);
	buf_add_byte(text, ';');
}

static void add_set_back(struct buf *text, const struct server *server, const char *name)
{
	const char *value = params_find(server->baseline, name);

	if (value) {
		add_set(text, name, value);
		return;
	}
	buf_add_text(text, "RESET ");
	add_name(text, name);
	buf_add_byte(text, ';');
}

/* Whether the parameter cannot change the result of any query. */
static bool is_harmless(const char *name) { return strcasecmp(name, "application_name") == 0; }

static bool is_authorization(const char *name)
{
	return strcasecmp(name, SESSION_AUTHORIZATION) == 0;
}

/* All changes except that of session_authorization. */
static bool add_changes(const struct server *server, const struct params *want, struct buf *text)
{
	struct params_seek in_want = { 0 }, in_have = { 0 }, in_baseline = { 0 };
	const char *at = NULL, *name, *value, *have;
	bool all_harmless = true;

	while (params_next(server->params, &at, &name, &value)) {
		if (params_seek(want, &in_want, name, &have) || is_authorization(name))
			continue;
		add_set_back(text, server, name);
		all_harmless &= is_harmless(name);
	}
	at = NULL;
	while (params_next(want, &at, &name, &value)) {
		if (((params_seek(server->params, &in_have, name, &have) ||
		      params_seek(server->baseline, &in_baseline, name, &have)) &&
		     is_same(name, have, value)) ||
		    is_authorization(name))
			continue;
		add_set(text, name, value);
		all_harmless &= is_harmless(name);
	}
	return all_harmless;
}

bool server_replay_text(const struct server *server, const struct params *want, struct buf *text)
{
	const char *login = params_find(server->baseline, SESSION_AUTHORIZATION);
	const char *have = params_find(server->params, SESSION_AUTHORIZATION);
	const char *wanted = params_find(want, SESSION_AUTHORIZATION);
	bool all_harmless = add_changes(server, want, text);

	wanted = wanted ? wanted : login;
	if (have && (text->count || !wanted || strcmp(have, wanted) != 0)) {
		buf_clear(text);
		add_set_back(text, server, SESSION_AUTHORIZATION);
		add_changes(server, want, text);
		have = NULL;
		all_harmless = false;
	}
	have = have ? have : login;
	if (wanted && (!have || strcmp(have, wanted) != 0)) {
		add_set(text, SESSION_AUTHORIZATION, wanted);
		all_harmless = false;
	}
	return all_harmless;
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

/* If a map does not match the server's parameters any more, the server must not be lent again. */
static void check_map(struct server *server, bool is_done)
{
	if (!is_done)
		server_set_close_needed(server, CLOSE_TOO_MANY_PARAMETERS);
}

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

	if (server->errand == ERRAND_CONNECT) { /* connect_query sets defaults */
		check_map(server, params_change(table, &server->baseline, name, value));
		pair.value = NULL;
		is_session = true;
	}
	check_map(server, params_change(table, is_session ? &server->params : &server->baseline,
	                                pair.name, pair.value));
	return is_news;
}

/* Whether the server runs requests of the borrower, not ours. */
static bool is_at_work(const struct server *server)
{
	return server->state == SERVER_LENT && server->errand == ERRAND_NONE &&
	       !ledger_is_empty(&server->ledger) && !ledger_owes_ignored(&server->ledger);
}

bool server_report(struct server *server, const char *name, const char *value, bool *is_news)
{
	*is_news = true;
	if (!is_at_work(server)) {
		server_settle_reports(server);
		*is_news = file_now(server, name, value);
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
	check_map(server, buf_ok(&server->reports) && buf_ok(&session) && buf_ok(&rest));
	check_map(server, params_change_all(table, &server->params, (void *)session.at,
	                                    session.count / sizeof(pair)));
	check_map(server, params_change_all(table, &server->baseline, (void *)rest.at,
	                                    rest.count / sizeof(pair)));
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
		if (!params_seek(server->baseline, &seek, name, &normal))
			rest[count++] = (struct params_pair){ name, is_all ? NULL : UNKNOWN };
	}
	check_map(server, params_change_all(table, &server->params, rest, count));
	params_release(table, &server->forgotten);
	server->forgotten = params_hold(server->params);
}

bool server_scope(struct server *server, struct bytes *scope)
{
	if (server->reports.count)
		server_settle_reports(server);
	return text_scope_read(&server->scope, server->site->shared->params, server->params, scope);
}

bool server_take_facts(struct server *server, const struct facts *facts,
                       const struct params *startup)
{
	struct params_table *table = server->site->shared->params;
	struct bytes list = buf_bytes(&facts->params);
	const char *name, *value, *normal;
	bool is_good = true;

	(void)startup;
	params_release(table, &server->params);
	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &value)) {
		normal = params_find(server->baseline, name);
		if (!normal || strcmp(normal, value) != 0)
			is_good &= params_change(table, &server->params, name, value);
	}
	return is_good;
}
