/* SPDX-License-Identifier: ISC */
/*
 * A server's parameters: what the server's reports mean, which libraries it has, and the scope of
 * its statements; and the SQL that sets them.
 *
 * A map contains only what differs from the server's defaults.
 *
 * Hard here: a client may RESET what it had set. The server reports that only for some names; the
 * others are unknown from then on, and the map gets a value for them that no client can want. And a
 * server may report as much as it likes: reports during a borrower's work are collected, and merged
 * into the maps at once when the work is done or the buffer is large.
 */
#include "server_priv.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "pgweir/auth/digest.h"
#include "pgweir/pool/server/question.h"
#include "pgweir/pool/server/params.h"

/* ---- names and values ---- */

/* A value that is not known: no client asks for a control character. */
#define PARAM_UNKNOWN "\001"

/* Whether it is one of these, whatever its case. NULL ends them. */
static bool is_one_of(const char *const *names, const char *name)
{
	while (*names && strcasecmp(*names, name) != 0)
		names++;
	return *names;
}

/* PostgreSQL compares their values without regard to case, and has its own spelling. */
static const char *const caseless[] = { "client_encoding", "DateStyle",
	                                "IntervalStyle",   "standard_conforming_strings",
	                                "TimeZone",        NULL };

/* Whether a value need not be set. "Foo" and "foo" are two schemas in a search_path. */
static bool is_same_value(const char *name, const char *have, const char *want)
{
	return strcmp(have, want) == 0 ||
	       (is_one_of(caseless, name) && strcasecmp(have, want) == 0);
}

const char *server_value(const struct server *server, const struct params *params, const char *name)
{
	const char *own = params_find(params, name);

	return own ? own : params_find(server->session.baseline, name);
}

/* Whether a value that was reported with these parameters has the bytes that the server has. */
static bool is_native(const struct server *server, const struct params *params, const char *value)
{
	const char *encoding = server_value(server, params, "client_encoding");
	const char *native = params_find(server->session.baseline, "server_encoding");

	return bytes_are_ascii(bytes_text(value)) ||
	       (encoding && native && strcasecmp(encoding, native) == 0);
}

static bool is_role(const char *name) { return strcasecmp(name, "role") == 0; }

/* A default that connect_query has set and the server does not report. */
static const char *find_unreported(const struct server *server, const char *name)
{
	return params_find(server->session.unreported, name);
}

/* If a map does not match the server's parameters any more, the server must not be lent again. */
static void check_map(struct server *server, bool is_done)
{
	if (!is_done)
		server_need_close(server, CLOSE_TOO_MANY_PARAMETERS);
}

/* ---- changes of a map ---- */

static void add_change(struct buf *changes, const char *name, const char *value)
{
	buf_add(changes, &(struct params_pair){ name, value }, sizeof(struct params_pair));
}

static bool change_by(struct server *server, const struct params **params, struct buf *changes)
{
	bool is_done = buf_ok(changes) &&
	               params_change_all(server->site->shared->params, params, (void *)changes->at,
	                                 changes->count / sizeof(struct params_pair));

	buf_free(changes);
	return is_done;
}

/* ---- reports ---- */

/* Of an idle server, or while we set parameters: PostgreSQL reports fifteen at a reload. */
#define REPORTS_MAX 200

/* Bytes of reports that are collected before they are merged into the maps. */
#define REPORTS_KEEP_MAX ((size_t)16 * 1024)
#define REPORTS_KEPT ((size_t)256) /* bytes of the buffer that are kept */

/* Whether a report changes `params`, else `baseline`. *pair: the change, which may be a removal. */
static bool is_of_session(const struct server *server, struct params_pair *pair)
{
	const char *tracked = tracked_find(server->site->shared->config, pair->name);
	const char *normal = params_find(server->session.baseline, pair->name);

	if (!tracked && !params_find(server->session.params, pair->name))
		return false;
	if (tracked)
		pair->name = tracked;
	if (normal && strcmp(normal, pair->value) == 0)
		pair->value = NULL;
	return true;
}

/*
 * Whether a report in another encoding is of what we have just set. While we set them, the report
 * of the encoding itself may come later.
 */
static bool is_set_already(const struct server *server, const struct params_pair *pair)
{
	const char *had = params_find(server->session.params, pair->name);

	return had &&
	       ((server->orders.running == ORDER_REPLAY && !bytes_are_ascii(bytes_text(had))) ||
	        !is_native(server, server->session.params, pair->value));
}

/* is_ours: no request of the borrower explains the reports. */
static void settle_reports(struct server *server, bool is_ours)
{
	struct bytes list = buf_bytes(&server->session.reports.list);
	struct buf session = { 0 }, rest = { 0 };
	const char *unclear = NULL; /* a value that encodings differ in */
	struct params_pair pair;

	if (!list.count && buf_ok(&server->session.reports.list))
		return;
	while (bytes_take_text(&list, &pair.name) && bytes_take_text(&list, &pair.value)) {
		struct params_pair normal = pair;
		bool is_session = is_of_session(server, &pair);

		if (is_session && pair.value && !bytes_are_ascii(bytes_text(pair.value))) {
			if (is_ours && is_set_already(server, &pair))
				continue;
			unclear = pair.value;
		}
		if (server->orders.running == ORDER_CONNECT) { /* connect_query sets defaults */
			add_change(&rest, normal.name, normal.value);
			pair.value = NULL;
			is_session = true;
		}
		if (!is_ours)
			add_change(is_session ? &session : &rest, pair.name, pair.value);
		else /* one at a time, which needs no memory */
			check_map(server, params_change(server->site->shared->params,
			                                is_session ? &server->session.params
			                                           : &server->session.baseline,
			                                pair.name, pair.value));
	}
	check_map(server, buf_ok(&server->session.reports.list));
	check_map(server, change_by(server, &server->session.params, &session));
	check_map(server, change_by(server, &server->session.baseline, &rest));
	/* It came in another encoding than that of the database. */
	if (unclear && !is_native(server, server->session.params, unclear))
		server_hold(server, HELD_REPORT);
	buf_reuse(&server->session.reports.list, REPORTS_KEPT);
	if (server_is_over(server)) /* its work has been released */
		buf_free(&server->session.reports.list);
}

void server_settle_reports(struct server *server) { settle_reports(server, false); }

/* Whether the server runs requests of the borrower, not ours. */
static bool is_at_work(const struct server *server)
{
	return server->state == SERVER_LENT && server->orders.running == ORDER_NONE &&
	       !ledger_is_empty(&server->wire.ledger) &&
	       !ledger_owes(&server->wire.ledger, LEDGER_OURS);
}

/*
 * What we have set. What is spelled in another way than the client has asked for, the relay tells
 * it when all is set; what follows from a role, the client knows since it has set that role itself.
 */
static bool is_of_replay(const struct server *server, const char *name)
{
	return server->orders.running == ORDER_REPLAY &&
	       (tracked_find(server->site->shared->config, name) ||
	        strcmp(name, "is_superuser") == 0);
}

bool server_report(struct server *server, const char *name, const char *value, bool *is_news)
{
	bool is_ours = !is_at_work(server);
	struct buf *list = &server->session.reports.list;
	const char *had;

	if (is_ours)
		server_settle_reports(server);
	had = server_value(server, server->session.params, name);
	*is_news = !is_ours || (strcmp(had ? had : "", value) != 0 && !is_of_replay(server, name));
	buf_add_cstr(list, name);
	buf_add_cstr(list, value);
	if (is_ours) {
		settle_reports(server, true);
		return ++server->session.reports.count <= REPORTS_MAX;
	}
	if (list->count >= REPORTS_KEEP_MAX || !buf_ok(list)) {
		server->wire.has_flooded = true;
		server_settle_reports(server);
	}
	return true;
}

void server_replace_params(struct server *server, const struct params *want)
{
	params_release(server->site->shared->params, &server->session.before);
	server->session.before = server->session.params;
	server->session.params = params_hold(want);
}

void server_confirm_params(struct server *server)
{
	params_release(server->site->shared->params, &server->session.before);
}

void server_refuse_params(struct server *server, struct err *err)
{
	struct params_table *table = server->site->shared->params;

	if (server->orders.refusal)
		*err = *server->orders.refusal;
	free(server->orders.refusal);
	server->orders.refusal = NULL;
	/* A library stays, even if what followed it was refused. */
	if (!server_libraries_are_in(server->session.params, server->session.before))
		server_need_close(server, CLOSE_LIBRARY);
	params_release(table, &server->session.params);
	server->session.params = server->session.before;
	server->session.before = params_none(table);
}

void server_expect_reports(struct server *server)
{
	const struct server_shared *shared = server->site->shared;
	const char *name, *normal, *now, *want;

	for (size_t i = 0; (name = tracked_at(shared->config, i)); i++) {
		normal = params_find(server->session.baseline, name);
		want = params_find(server->session.params, name);
		/* some are reported as they were set, or in a form that cannot be taken */
		if (!normal || !want || strcmp(name, "application_name") == 0 ||
		    strcmp(name, SESSION_AUTHORIZATION) == 0 || !bytes_are_ascii(bytes_text(want)))
			continue;
		now = params_find(server->session.before, name);
		if (!now || strcmp(now, PARAM_UNKNOWN) == 0) /* it was set back */
			now = normal;
		check_map(server,
		          params_change(shared->params, &server->session.params, name, now));
	}
}

void server_forget_rest(struct server *server, bool is_all)
{
	struct params_table *table = server->site->shared->params;
	struct params_pair rest[PARAMS_NAMES_MAX];
	size_t count = 0;

	server_settle_reports(server);
	server_hold(server, HELD_REST);
	if (!is_all && server->session.reports.forgotten == server->session.params)
		return; /* one of many RESETs, and nothing was set since the last one */
	/* A role is not reported, though its default may be known. */
	PARAMS_EACH (name, value, server->session.params) {
		if ((!params_find(server->session.baseline, name) || is_role(name)) &&
		    !tracked_is_library(name))
			rest[count++] = (struct params_pair){ name, is_all ? NULL : PARAM_UNKNOWN };
	}
	check_map(server, params_change_all(table, &server->session.params, rest, count));
	params_release(table, &server->session.reports.forgotten);
	server->session.reports.forgotten = params_hold(server->session.params);
}

/* ---- libraries ---- */

bool server_libraries_are_in(const struct params *params, const struct params *others)
{
	PARAMS_EACH (name, value, params) {
		if (tracked_is_library(name) && !params_find(others, name))
			return false;
	}
	return true;
}

void server_find_libraries(struct server *server)
{
	const struct params *none = params_none(server->site->shared->params);

	if (server_holds(server, HELD_LIBRARY) ||
	    server_libraries_are_in(server->session.params, none))
		return;
	server_hold(server, HELD_LIBRARY);
	server->site->library_count++;
}

/* Names in maps have no case, those of libraries do: capitals, and the mark, are marked. */
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
	          params_change(table, &server->session.params, text.at, name);
	buf_free(&text);
	server_find_libraries(server);
	return is_done;
}

bool server_scope(struct server *server, struct bytes *scope)
{
	const struct ledger *ledger = &server->wire.ledger;
	enum server_scope_state state = server->session.scope;

	if (state == SCOPE_OPEN ||
	    (state == SCOPE_REPORTED && (ledger->has_executed || !ledger_knows_status(ledger)))) {
		server_statements_mark(&server->session.statements);
		server->session.scope = SCOPE_OPEN_USED;
	}
	if (server->session.reports.list.count)
		server_settle_reports(server);
	return params_scope(server->site->shared->params, server->session.params, scope);
}

/*
 * ---- facts ----
 *
 * What the answer to a question means for a server's parameters.
 *
 * The map gets what is set there and not reported. What was set before and is not set now was set
 * back; and if the client had a value of its own from its startup, it must get that again.
 */

/* Whether the server reports all changes of a parameter, so that the map has its value. */
static bool is_reported(const struct server *server, const char *name)
{
	return tracked_find(server->site->shared->config, name) &&
	       params_find(server->session.baseline, name);
}

/* Whether a map may have this. It has PARAM_UNKNOWN for what is unknown only. */
static bool can_carry(const char *name, const char *value)
{
	return bytes_are_ascii(bytes_text(name)) && strcmp(value, PARAM_UNKNOWN) != 0;
}

/* The next parameter of a map that is not set there any more. */
static bool next_unset(const struct params *map, const struct params *set, const char **at,
                       const char **name, const char **value)
{
	while (params_next(map, at, name, value)) {
		if (!tracked_is_library(*name) && !params_find(set, *name))
			return true;
	}
	return false;
}

/*
 * What the facts have. *baseline gets the names whose default is not known after all. false: some
 * values cannot be in a map. They are in none, so nobody sets them back on this server.
 */
static bool add_facts(const struct server *server, struct bytes list, struct buf *changes,
                      struct buf *baseline)
{
	const char *name, *value, *normal;
	bool is_done = true;

	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &value)) {
		if (is_reported(server, name)) {
			/* The report may have been in another encoding. */
			if (!bytes_are_ascii(bytes_text(value)))
				add_change(changes, name, value);
			continue;
		}
		normal = find_unreported(server, name);
		if ((normal && strcmp(normal, value) == 0) || !can_carry(name, value)) {
			add_change(changes, name, NULL);
			is_done &= normal && strcmp(normal, value) == 0;
			continue;
		}
		add_change(changes, name, value);
		if (!is_role(name) && params_find(server->session.baseline, name))
			add_change(baseline, name, NULL);
	}
	return is_done;
}

/* Whether the client had the server's own value: that is in no map, and nothing is set for it. */
static bool was_normal(const struct params *before, const char *name, const char *normal)
{
	const char *value = before ? params_find(before, name) : NULL;

	return before && (!value || is_same_value(name, normal, value));
}

/* What is not set any more. Reported since: of PostgreSQL's files, set back. true: there is one. */
static bool add_removals(const struct server *server, const struct params *set, struct buf *changes)
{
	const char *at = NULL, *name, *value;
	bool is_any = false;

	while (next_unset(server->session.params, set, &at, &name, &value)) {
		bool is_known = is_reported(server, name);

		add_change(changes, name, is_known ? PARAM_UNKNOWN : NULL);
		is_any |= is_known;
	}
	return is_any;
}

/*
 * What the client has given at its startup and what is not set now has been reset, so the client
 * must get its value again: the server's is unknown until then, unless it is the same. The same is
 * true of what connect_query has set.
 */
static bool add_resets(const struct server *server, const struct params *set,
                       const struct params *startup, const struct params *before,
                       const struct params *back, struct buf *changes)
{
	const char *at = NULL, *name, *value;
	bool is_any = false;

	while (next_unset(startup, set, &at, &name, &value)) {
		const char *normal = params_find(server->session.baseline, name);

		if (normal && (is_same_value(name, normal, value) ||
		               (was_normal(before, name, normal) && !params_find(back, name))))
			continue;
		add_change(changes, name, PARAM_UNKNOWN);
		is_any = true;
	}
	for (at = NULL; next_unset(server->session.unreported, set, &at, &name, &value);) {
		add_change(changes, name, PARAM_UNKNOWN);
		is_any = true;
	}
	return is_any;
}

/* PostgreSQL does not say that a custom parameter was set back: its value is "" then. */
static bool remove_emptied(struct params_table *table, const struct params **set,
                           const struct params *names)
{
	bool is_done = true;

	PARAMS_EACH (name, value, names) {
		value = strchr(name, '.') ? params_find(*set, name) : NULL;
		if (value && !*value)
			is_done &= params_change(table, set, name, NULL);
	}
	return is_done;
}

bool server_take_facts(struct server *server, const struct facts *facts,
                       const struct params *startup, const struct params *before,
                       const struct params *back)
{
	struct params_table *table = server->site->shared->params;
	struct buf changes = { 0 }, baseline = { 0 };
	const struct params *set = params_none(table), *params;
	bool is_done, is_carried, is_unset;

	server_settle_reports(server);
	if (facts->too_long & QUESTION_PARAMS ||
	    !params_add_text(table, &set, buf_bytes(&facts->params)) ||
	    !remove_emptied(table, &set, back)) {
		params_release(table, &set);
		return false;
	}
	params = params_hold(server->session.params);
	is_unset = add_removals(server, set, &changes);
	is_carried = add_facts(server, buf_bytes(&facts->params), &changes, &baseline);
	/* The default of role is asked for, as it is not reported. */
	add_change(&baseline, "role", facts->role.count ? facts->role.at : NULL);
	is_unset |= add_resets(server, set, startup, before, back, &changes);
	is_done = change_by(server, &params, &changes) &&
	          change_by(server, &server->session.baseline, &baseline);
	if (is_done) {
		const struct params *old = server->session.params;

		server->session.params = params;
		params = old;
		server_held_after(server, HELD_READ);
		server_hold(server, is_unset ? HELD_STARTUP : 0);
	}
	params_release(table, &params);
	params_release(table, &set);
	buf_free(&changes);
	buf_free(&baseline);
	return is_done && is_carried;
}

bool server_take_set(struct server *server, const char *name, const char *value)
{
	struct params_table *table = server->site->shared->params;

	server_settle_reports(server);
	/* PostgreSQL has reported its value, in its own spelling. */
	if (params_find(server->session.baseline, name))
		return true;
	return params_change(table, &server->session.params, name, value);
}

void server_take_defaults(struct server *server, const struct facts *facts)
{
	struct bytes list = buf_bytes(&facts->params);
	struct buf changes = { 0 };
	const char *name, *value;

	server->session.has_defaults = true;
	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &value)) {
		if (!is_reported(server, name) && can_carry(name, value))
			add_change(&changes, name, value);
	}
	check_map(server, change_by(server, &server->session.unreported, &changes));
}

/*
 * ---- the SQL that sets them to what a client wants ----
 *
 *   role, user set back --> others set back --> LOAD --> others set --> user, role set
 *
 * A parameter that a client does not have is set back: to the value that the server reported at its
 * login, or by RESET if the server does not report it.
 */

/* Parameters that are lists of quoted names: SET would read the whole text as one name. */
static const char *const name_lists[] = { "search_path", "temp_tablespaces",
	                                  "local_preload_libraries", "session_preload_libraries",
	                                  NULL };

static bool is_name_list(const char *name) { return is_one_of(name_lists, name); }

/*
 * Adds an SQL literal that is safe with any standard_conforming_strings and client_encoding. The
 * values of maps are in the encoding of the database, as PostgreSQL takes those of a startup packet
 * to be. So what is not ASCII is written as bytes of the server, whatever client_encoding is when
 * they come.
 */
static void add_literal(struct buf *text, const char *value)
{
	buf_add_text(text, strchr(value, '\\') || !bytes_are_ascii(bytes_text(value)) ? "E'" : "'");
	for (; *value; value++) {
		if (*value == '\'' || *value == '\\')
			buf_add_byte(text, *value);
		if ((unsigned char)*value < 0x80)
			buf_add_byte(text, *value);
		else
			buf_printf(text, "\\x%02x", (unsigned char)*value);
	}
	buf_add_byte(text, '\'');
}

/* A parameter's name: identifiers with dots between them. */
static void add_identifier(struct buf *text, const char *name)
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

static void add_call(struct buf *text, const char *name, const char *value, bool is_local)
{
	buf_add_text(text, "SELECT pg_catalog.set_config(");
	add_literal(text, name);
	buf_add_text(text, ",");
	add_literal(text, value);
	buf_add_text(text, is_local ? ",true);" : ",false);");
}

static void add_set(struct buf *text, const char *name, const char *value)
{
	/* Or a list that we do not know, of a newer PostgreSQL; no name with a dot is one. */
	if (is_name_list(name) ||
	    (!strchr(name, '.') && strcasecmp(name, "DateStyle") != 0 && strpbrk(value, ",\""))) {
		add_call(text, name, value, false);
		return;
	}
	buf_add_text(text, "SET ");
	add_identifier(text, name);
	buf_add_byte(text, '=');
	add_literal(text, value);
	buf_add_byte(text, ';');
}

/* Each as a constant: without quotes, a name might be a keyword in SET. It was accepted once. */
static void add_elements(struct buf *text, const char *list)
{
	struct buf name = { 0 };
	bool is_quoted = false;

	for (;; list++) {
		if (*list == '"' && is_quoted && list[1] == '"') {
			buf_add_byte(&name, *list++);
		} else if (*list == '"') {
			is_quoted = !is_quoted;
		} else if (*list == 0 || (*list == ',' && !is_quoted)) {
			buf_add_byte(&name, 0);
			add_literal(text, buf_ok(&name) ? name.at : "");
			text->is_broken |= !buf_ok(&name);
			buf_clear(&name);
			if (*list == 0)
				break;
			buf_add_byte(text, ',');
		} else if (is_quoted || !strchr(" \t\n\r\f\v", *list)) {
			bool is_upper = !is_quoted && *list >= 'A' && *list <= 'Z';

			buf_add_byte(&name, (char)(is_upper ? *list + 32 : *list));
		}
	}
	buf_free(&name);
}

void server_set_text(const char *name, const char *value, bool is_local, struct buf *text)
{
	/* An empty list has no other form. */
	if (is_name_list(name) && !*value) {
		add_call(text, name, value, is_local);
		return;
	}
	buf_add_text(text, is_local ? "SET LOCAL " : "SET ");
	add_identifier(text, name);
	buf_add_byte(text, '=');
	if (is_name_list(name))
		add_elements(text, value);
	else
		add_literal(text, value);
	buf_add_byte(text, ';');
}

static void add_set_back(struct buf *text, const struct server *server, const char *name)
{
	const char *value = params_find(server->session.baseline, name);

	if (value && !is_native(server, server->session.baseline, value))
		value = NULL;
	value = value ? value : find_unreported(server, name);
	if (value) {
		add_set(text, name, value);
		return;
	}
	buf_add_text(text, "RESET ");
	add_identifier(text, name);
	buf_add_byte(text, ';');
}

/* Whether the parameter cannot change the result of any query. */
static bool is_harmless(const char *name) { return strcasecmp(name, "application_name") == 0; }

/* Whether a name has its own place in the order of changes. */
static bool has_own_place(const char *name)
{
	return strcasecmp(name, SESSION_AUTHORIZATION) == 0 || is_role(name) ||
	       tracked_is_library(name);
}

/* A library may define parameters, so it is loaded before they are set. */
static bool add_libraries(const struct server *server, const struct params *want, struct buf *text)
{
	bool is_any = false;

	PARAMS_EACH (name, value, want) {
		if (!tracked_is_library(name) || params_find(server->session.params, name))
			continue;
		buf_add_text(text, "LOAD ");
		add_literal(text, value);
		buf_add_byte(text, ';');
		is_any = true;
	}
	return is_any;
}

/* All changes except those of roles, where `have` is set. true: they are harmless. */
static bool add_changes(const struct server *server, const struct params *have,
                        const struct params *want, struct buf *text)
{
	bool all_harmless = true;

	PARAMS_EACH (name, value, have) {
		if (params_find(want, name) || has_own_place(name))
			continue;
		add_set_back(text, server, name);
		all_harmless &= is_harmless(name);
	}
	/* A library refuses placeholders of its name: they are set back before it is loaded. */
	if (add_libraries(server, want, text))
		all_harmless = false;
	PARAMS_EACH (name, value, want) {
		const char *now = server_value(server, have, name);

		if ((now && is_same_value(name, now, value)) || has_own_place(name) ||
		    (strcmp(value, PARAM_UNKNOWN) == 0 && !params_find(have, name)))
			continue;
		add_set(text, name, value);
		all_harmless &= is_harmless(name);
	}
	return all_harmless;
}

/* The role that a map means: its own or the server's default, which usually is "none". */
static const char *role_of(const struct server *server, const struct params *params)
{
	const char *own = params_find(params, "role");

	own = own ? own : find_unreported(server, "role");
	own = own ? own : params_find(server->session.baseline, "role");
	return own ? own : "none";
}

/* From the user of the login, without a role. */
static void add_roles(const struct server *server, const struct params *want, struct buf *text)
{
	const char *login = params_find(server->session.baseline, SESSION_AUTHORIZATION);
	const char *authorization = params_find(want, SESSION_AUTHORIZATION);
	const char *role = role_of(server, want);

	if (authorization && (!login || strcmp(login, authorization) != 0))
		add_set(text, SESSION_AUTHORIZATION, authorization);
	if (strcmp(role, "none") != 0)
		add_set(text, "role", role);
}

/* Adds all changes as the user of the login, without a role: another may not be allowed to. */
static void add_as_login(const struct server *server, const struct params *want, struct buf *text)
{
	buf_clear(text);
	if (strcmp(role_of(server, server->session.params), "none") != 0)
		add_set(text, "role", "none");
	if (params_find(server->session.params, SESSION_AUTHORIZATION))
		add_set_back(text, server, SESSION_AUTHORIZATION);
	add_changes(server, server->session.params, want, text);
	add_roles(server, want, text);
}

bool server_replay_text(const struct server *server, const struct params *want, struct buf *text)
{
	const char *login = params_find(server->session.baseline, SESSION_AUTHORIZATION);
	const char *have = params_find(server->session.params, SESSION_AUTHORIZATION);
	const char *wanted = params_find(want, SESSION_AUTHORIZATION);
	const char *have_role = role_of(server, server->session.params),
		   *role = role_of(server, want);
	bool all_harmless = add_changes(server, server->session.params, want, text), is_other_user;

	wanted = wanted ? wanted : login;
	is_other_user = have || (wanted && (!login || strcmp(login, wanted) != 0));
	if (have && wanted && strcmp(have, wanted) == 0 && !text->count)
		is_other_user = false;
	if (is_other_user || (!all_harmless && strcmp(have_role, "none") != 0)) {
		add_as_login(server, want, text);
		return false;
	}
	if (strcmp(have_role, role) == 0)
		return all_harmless;
	add_set(text, "role", role);
	return false;
}

/* What connect_query has set. */
static void add_defaults_again(struct buf *text, const struct server *server)
{
	if (!server->site->entry->connect_query)
		return;
	PARAMS_EACH (name, value, server->session.baseline) {
		if (tracked_find(server->site->shared->config, name) && !has_own_place(name))
			add_set_back(text, server, name);
	}
	PARAMS_EACH (name, value, server->session.unreported) {
		if (!has_own_place(name))
			add_set_back(text, server, name);
	}
}

/*
 * Whatever a session can have, but libraries, prepared statements and values of sequences. A
 * transaction of the session's own modes might wait, or be refused on a standby.
 */
static const char cleaning[] =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED,READ ONLY;"
    "RESET ALL;RESET SESSION AUTHORIZATION;CLOSE ALL;UNLISTEN *;DISCARD TEMP;";

void server_add_seed(struct buf *text)
{
	uint32_t seed = 0;

	text->is_broken |= !digest_random(&seed, sizeof(seed));
	buf_printf(text, "pg_catalog.setseed(0.%09" PRIu32 ")", seed % 1000000000);
}

/*
 * What a function has prepared cannot be named here. It may have the name of a statement of ours:
 * then a Bind of another client would run it. So if the server has statements of ours, the cleaning
 * fails: text is no number. SELECT reads the column only of the rows that it finds.
 */
static void add_statements(struct buf *text, const struct server *server)
{
	if (!server_statements_count(&server->session.statements))
		buf_add_text(text, "DEALLOCATE ALL;");
	else
		buf_add_text(text, "SELECT CAST(pg_catalog.concat('prepared by SQL: ',s.name)"
		                   "AS pg_catalog.int4)FROM pg_catalog.pg_prepared_statement()AS s "
		                   "WHERE s.from_sql "
		                   "AND s.name OPERATOR(pg_catalog.<>)'" SCRATCH_NAME "';");
}

void server_clean_text(const struct server *server, const struct params *want, struct buf *text)
{
	buf_clear(text);
	buf_add_text(text, cleaning);
	buf_add_text(text, "SELECT pg_catalog.pg_advisory_unlock_all(),");
	server_add_seed(text);
	buf_add_text(text, ";");
	add_statements(text, server);
	add_defaults_again(text, server);
	buf_add_text(text, "DISCARD SEQUENCES;"); /* its tag says that all has been cleaned */
	add_changes(server, params_none(server->site->shared->params), want, text);
	add_roles(server, want, text);
}
