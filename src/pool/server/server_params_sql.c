/* SPDX-License-Identifier: ISC */
/*
 * The SQL that sets a server's parameters to what a client wants.
 *
 *   role, user set back --> others set back --> LOAD --> others set --> user, role set
 *
 * A parameter that a client does not have is set back: to the value that the server reported at its
 * login, or by RESET if the server does not report it.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "pgweir/auth/digest.h"
#include "pgweir/pool/server/params.h"

#include "server_priv.h"

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

/* A list that we do not know, of a newer PostgreSQL. Names with dots are never such lists. */
static bool looks_like_list(const char *name, const char *value)
{
	return !strchr(name, '.') && strcasecmp(name, "DateStyle") != 0 && strpbrk(value, ",\"");
}

static void add_set(struct buf *text, const char *name, const char *value)
{
	if (is_name_list(name) || looks_like_list(name, value)) {
		add_call(text, name, value, false);
		return;
	}
	buf_add_text(text, "SET ");
	add_identifier(text, name);
	buf_add_byte(text, '=');
	add_literal(text, value);
	buf_add_byte(text, ';');
}

/*
 * Adds the elements of a list of names, each as a constant: in SET, a name without quotes might be
 * a keyword. The value is one that PostgreSQL has accepted.
 */
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

	if (value && !server_is_native(server, server->session.baseline, value))
		value = NULL;
	value = value ? value : server_find_unreported(server, name);
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

static bool is_authorization(const char *name)
{
	return strcasecmp(name, SESSION_AUTHORIZATION) == 0;
}

/* Whether a name has its own place in the order of changes. */
static bool has_own_place(const char *name)
{
	return is_authorization(name) || server_param_is_role(name) || tracked_is_library(name);
}

/* A library may define parameters, so it is loaded before they are set. */
static bool add_libraries(const struct server *server, const struct params *want, struct buf *text)
{
	const char *at = NULL, *name, *value;
	bool is_any = false;

	while (params_next(want, &at, &name, &value)) {
		if (!tracked_is_library(name) || params_find(server->session.params, name))
			continue;
		buf_add_text(text, "LOAD ");
		add_literal(text, value);
		buf_add_byte(text, ';');
		is_any = true;
	}
	return is_any;
}

/* All changes except those of roles. true: they are harmless. */
static bool add_changes(const struct server *server, const struct params *want, struct buf *text)
{
	struct params_seek in_want = { 0 }, in_have = { 0 }, in_baseline = { 0 };
	const char *at = NULL, *name, *value, *have;
	bool all_harmless = true;

	while (params_next(server->session.params, &at, &name, &value)) {
		if (params_seek(want, &in_want, name, &have) || has_own_place(name))
			continue;
		add_set_back(text, server, name);
		all_harmless &= is_harmless(name);
	}
	/* A library refuses placeholders of its name: they are set back before it is loaded. */
	if (add_libraries(server, want, text))
		all_harmless = false;
	at = NULL;
	while (params_next(want, &at, &name, &value)) {
		if (((params_seek(server->session.params, &in_have, name, &have) ||
		      params_seek(server->session.baseline, &in_baseline, name, &have)) &&
		     server_param_is_same(name, have, value)) ||
		    has_own_place(name))
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

	own = own ? own : server_find_unreported(server, "role");
	own = own ? own : params_find(server->session.baseline, "role");
	return own ? own : "none";
}

/* Adds all changes as the user of the login, without a role: another may not be allowed to. */
static void add_as_login(const struct server *server, const struct params *want,
                         const char *authorization, struct buf *text)
{
	const char *login = params_find(server->session.baseline, SESSION_AUTHORIZATION);
	const char *role = role_of(server, want);

	buf_clear(text);
	if (strcmp(role_of(server, server->session.params), "none") != 0)
		add_set(text, "role", "none");
	if (params_find(server->session.params, SESSION_AUTHORIZATION))
		add_set_back(text, server, SESSION_AUTHORIZATION);
	add_changes(server, want, text);
	if (authorization && (!login || strcmp(login, authorization) != 0))
		add_set(text, SESSION_AUTHORIZATION, authorization);
	if (strcmp(role, "none") != 0)
		add_set(text, "role", role);
}

bool server_replay_text(const struct server *server, const struct params *want, struct buf *text)
{
	const char *login = params_find(server->session.baseline, SESSION_AUTHORIZATION);
	const char *have = params_find(server->session.params, SESSION_AUTHORIZATION);
	const char *wanted = params_find(want, SESSION_AUTHORIZATION);
	const char *have_role = role_of(server, server->session.params),
		   *role = role_of(server, want);
	bool all_harmless = add_changes(server, want, text), is_other_user;

	wanted = wanted ? wanted : login;
	is_other_user = have || (wanted && (!login || strcmp(login, wanted) != 0));
	if (have && wanted && strcmp(have, wanted) == 0 && !text->count)
		is_other_user = false;
	if (is_other_user || (!all_harmless && strcmp(have_role, "none") != 0)) {
		add_as_login(server, want, wanted, text);
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
	const char *at = NULL, *name, *value;

	if (!server->site->entry->connect_query)
		return;
	while (params_next(server->session.baseline, &at, &name, &value)) {
		if (tracked_find(server->site->shared->config, name) && !has_own_place(name))
			add_set_back(text, server, name);
	}
	at = NULL;
	while (server->session.unreported &&
	       params_next(server->session.unreported, &at, &name, &value)) {
		if (!has_own_place(name))
			add_set_back(text, server, name);
	}
}

/* Whatever a session can have, but libraries and prepared statements. */
static const char cleaning[] =
    "RESET ALL;RESET SESSION AUTHORIZATION;CLOSE ALL;UNLISTEN *;DISCARD TEMP;DISCARD SEQUENCES;";

/* Nothing takes setseed() back, so who has called it must not know what follows. */
static void add_unlock_and_seed(struct buf *text)
{
	uint32_t seed = 0;

	text->is_broken |= !digest_random(&seed, sizeof(seed));
	buf_printf(
	    text, "SELECT pg_catalog.pg_advisory_unlock_all(),pg_catalog.setseed(0.%09" PRIu32 ");",
	    seed % 1000000000);
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

void server_clean_text(const struct server *server, const struct params *want, bool is_block,
                       struct buf *text)
{
	const char *login = params_find(server->session.baseline, SESSION_AUTHORIZATION);
	const char *authorization = params_find(want, SESSION_AUTHORIZATION);
	const char *role = role_of(server, want);
	const char *at = NULL, *name, *value, *normal;
	struct params_seek in_baseline = { 0 };

	buf_clear(text);
	/* The session's own defaults may be others: to wait, or to be refused on a standby. */
	if (is_block)
		buf_add_text(text, "BEGIN ISOLATION LEVEL READ COMMITTED,READ ONLY;");
	buf_add_text(text, cleaning);
	add_unlock_and_seed(text);
	add_statements(text, server);
	add_defaults_again(text, server);
	add_libraries(server, want, text);
	while (params_next(want, &at, &name, &value)) {
		if (!has_own_place(name) && strcmp(value, PARAM_UNKNOWN) != 0 &&
		    !(params_seek(server->session.baseline, &in_baseline, name, &normal) &&
		      server_param_is_same(name, normal, value)))
			add_set(text, name, value);
	}
	if (authorization && (!login || strcmp(login, authorization) != 0))
		add_set(text, SESSION_AUTHORIZATION, authorization);
	if (strcmp(role, "none") != 0)
		add_set(text, "role", role);
	if (is_block)
		buf_add_text(text, "COMMIT;");
}
