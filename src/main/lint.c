/* SPDX-License-Identifier: ISC */
/*
 * Warnings: settings that make each other useless, users that do not exist, files that
 * every user can read.
 */
#include "check.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "pgweir/config/entries.h"
#include "pgweir/config/changes.h"

#include "process.h"
#include "load.h"

/* ---- settings that make each other useless ---- */

static bool is_written(const struct config *config, const char *setting)
{
	struct source_pos origin = config_origin(config, setting);

	return origin.file || origin.line == SOURCE_SET;
}

/* What there can be. */
struct modes {
	bool sessions, others, follows;
};

static void add_modes(struct modes *modes, const struct config *config,
                      const struct config_database *database, const struct config_user *user)
{
	bool has_transactions = config_has_mode(config, database, user, POOL_MODE_TRANSACTION);

	modes->sessions |= config_has_mode(config, database, user, POOL_MODE_SESSION);
	modes->others |=
	    has_transactions || config_has_mode(config, database, user, POOL_MODE_STATEMENT);
	modes->follows |= has_transactions &&
	                  config_session_state(config, database, user, POOL_MODE_TRANSACTION) ==
	                      SESSION_STATE_FOLLOW;
}

static struct modes find_modes(const struct config *config)
{
	const struct config_database *database = NULL;
	const struct config_user *user = NULL;
	struct modes modes = { 0 };

	add_modes(&modes, config, config_database_auto(config), NULL);
	while ((database = config_database_next(config, database)))
		add_modes(&modes, config, database, NULL);
	while ((user = config_user_next(config, user)))
		add_modes(&modes, config, NULL, user);
	return modes;
}

#define NOTHING_FOLLOWS "has no effect: no pool is in transaction mode with session_state = follow"

/* A setting that has no effect, or not what it seems to say. */
struct doubt {
	bool is_so;
	const char *setting; /* the warning has this setting's file and line */
	const char *says;
};

static void tell_doubts(const struct config *config, const struct doubt *doubts, size_t count,
                        struct problems *problems)
{
	for (size_t i = 0; i < count; i++) {
		if (doubts[i].is_so)
			problems_warn(problems, config_source_pos(config, doubts[i].setting),
			              "%s %s", doubts[i].setting, doubts[i].says);
	}
}

static void lint_pairs(const struct config *config, struct problems *problems)
{
	bool is_by_hba = config->auth_type == AUTH_METHOD_HBA;
	const struct doubt doubts[] = {
		{ config->reserve_pool_size > 0 && config->reserve_pool_timeout == 0,
		  "reserve_pool_size",
		  "is never used: reserve_pool_timeout is 0, which means no reserve" },
		{ config->default_pool_size > 0 &&
		      config->min_pool_size > config->default_pool_size,
		  "min_pool_size", "is above default_pool_size, which no pool exceeds" },
		{ config->query_wait_timeout > 0 &&
		      config->query_wait_notify >= config->query_wait_timeout &&
		      is_written(config, "query_wait_notify"),
		  "query_wait_notify",
		  "has no effect: query_wait_timeout closes the client first" },
		{ config->transaction_timeout > 0 &&
		      config->query_timeout >= config->transaction_timeout,
		  "query_timeout", "has no effect: transaction_timeout is not longer" },
		{ config->transaction_timeout > 0 &&
		      config->idle_transaction_timeout >= config->transaction_timeout,
		  "idle_transaction_timeout", "has no effect: transaction_timeout is not longer" },
		{ config->client_login_timeout > 0 &&
		      config->server_connect_timeout > config->client_login_timeout,
		  "server_connect_timeout",
		  "is longer than client_login_timeout, which closes the first client earlier" },
		{ config->auth_failure_limit > 0 && config->auth_failure_delay == 0,
		  "auth_failure_limit",
		  "has no effect: it counts logins delayed by auth_failure_delay, which is 0" },
		{ !is_by_hba && *config->auth_hba_file, "auth_hba_file",
		  "is not read: auth_type is not hba" },
		{ !is_by_hba && config->auth_ident_file && *config->auth_ident_file,
		  "auth_ident_file", "is not read: auth_type is not hba" },
		{ config->peer_id == 0 && config_peer_count(config) > 0, "peer_id",
		  "is not set, so nothing is forwarded to [peers]" },
		{ config->proxy_protocol == PROXY_PROTOCOL_OFF &&
		      config->proxy_protocol_from.count > 0,
		  "proxy_protocol_from", "has no effect: proxy_protocol is off" },
		/* As a number it is a size, and so small a table shows next to nothing. */
		{ config->track_statements > 0 && config->track_statements < 10, "track_statements",
		  "is the number of statements that are kept: on means 5000" },
	};

	tell_doubts(config, doubts, sizeof(doubts) / sizeof(doubts[0]), problems);
}

static void lint_sessions(const struct config *config, struct problems *problems)
{
	struct modes modes = find_modes(config);
	bool is_state_written = is_written(config, "session_state");
	const struct doubt doubts[] = {
		{ config->session_audit && !modes.sessions, "session_audit",
		  "has no effect: no pool is in session mode" },
		{ is_state_written && !modes.others, "session_state",
		  "has no effect: all pools are in session mode" },
		{ is_state_written && config->max_prepared_statements == 0 && modes.follows,
		  "session_state",
		  "does not include prepared statements: max_prepared_statements is 0" },
		{ is_written(config, "max_pinned_servers") && !modes.follows, "max_pinned_servers",
		  NOTHING_FOLLOWS },
		{ is_written(config, "pin_idle_timeout") && config->pin_idle_timeout > 0 &&
		      !modes.follows,
		  "pin_idle_timeout", NOTHING_FOLLOWS },
		{ config->pin_functions.count > 0 && !modes.follows, "pin_functions",
		  NOTHING_FOLLOWS },
		{ config->default_pool_size > 1 &&
		      config->max_pinned_servers >= config->default_pool_size,
		  "max_pinned_servers",
		  "is not below default_pool_size: if all servers of a pool stay with clients, the "
		  "others wait" },
	};

	tell_doubts(config, doubts, sizeof(doubts) / sizeof(doubts[0]), problems);
}

static bool is_followed(const struct config *config, const char *name)
{
	static const char *const names[] = {
		"application_name", "client_encoding",       "DateStyle",
		"IntervalStyle",    "search_path",           "standard_conforming_strings",
		"TimeZone",         "session_authorization", "default_transaction_read_only",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(names[i], name) == 0)
			return true;
	}
	for (size_t i = 0; i < config->track_extra_parameters.count; i++) {
		if (strcasecmp(config->track_extra_parameters.names[i], name) == 0)
			return true;
	}
	return false;
}

static void lint_ignored(const struct config *config, struct problems *problems)
{
	const struct config_list *list = &config->ignore_startup_parameters;

	for (size_t i = 0; i < list->count; i++) {
		if (is_followed(config, list->names[i]))
			problems_warn(problems,
			              config_source_pos(config, "ignore_startup_parameters"),
			              "ignore_startup_parameters ignores %s, which would otherwise "
			              "be kept for "
			              "each client",
			              list->names[i]);
	}
}

static void lint_size(const struct config *config, const struct config_database *database,
                      struct problems *problems)
{
	int size = config_pool_size(config, database, NULL);
	int least = config_min_pool_size(config, database);

	if (database->min_pool_size != CONFIG_INHERIT && size > 0 && least > size)
		problems_warn(problems, database->pos,
		              "database \"%s\": min_pool_size %d is above its pool_size %d, which "
		              "no pool exceeds",
		              database->name, least, size);
	if (size > 1 && database->max_pinned_servers >= size)
		problems_warn(problems, database->pos,
		              "database \"%s\": max_pinned_servers %d is not below its pool_size "
		              "%d: if all servers stay with clients, the others wait",
		              database->name, database->max_pinned_servers, size);
}

/* ---- texts that mean something elsewhere ---- */

static bool has_variable(const char *text)
{
	const char *begin = text ? strstr(text, "${") : NULL;

	return begin && strchr(begin, '}');
}

static void lint_variables(const struct config_database *database, struct problems *problems)
{
	const struct {
		const char *key, *text;
	} texts[] = {
		{ "host", database->host },           { "dbname", database->dbname },
		{ "user", database->user },           { "password", database->password },
		{ "auth_user", database->auth_user },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (has_variable(texts[i].text))
			problems_warn(problems, database->pos,
			              "database \"%s\": %s contains ${...}, which is taken as it "
			              "stands: pgweir expands no variables",
			              database->name, texts[i].key);
	}
}

static void lint_watch(const struct config *config, const struct config_database *database,
                       struct problems *problems)
{
	if (config_needs_roles(config, database) && !*config_host_check_user(config, database))
		problems_warn(problems, database->pos,
		              "database \"%s\": there is no host watch until a client's login has "
		              "reached a host, as host_check_user is not set",
		              database->name);
}

static void lint_entries(const struct config *config, struct problems *problems)
{
	const struct config_database *at = NULL;

	while ((at = config_database_each(config, at))) {
		lint_size(config, at, problems);
		lint_watch(config, at, problems);
		lint_variables(at, problems);
	}
}

/* ---- the console ---- */

static void lint_console(const struct config *config, const struct users *users,
                         const char *setting, const struct config_list *names,
                         struct problems *problems)
{
	for (size_t i = 0; i < names->count; i++) {
		if (!users_find(users, names->names[i]))
			problems_warn(
			    problems, config_source_pos(config, setting),
			    "%s: \"%s\" is not in auth_file and cannot log in to the console",
			    setting, names->names[i]);
	}
}

/* Whether the users of the console are looked up in auth_file only. */
static bool console_has_users(const struct config *config)
{
	bool is_asked = config_auth_user(config, NULL) && config_auth_dbname(config, NULL);

	return !auth_methods[config->auth_type].takes_anybody &&
	       !auth_methods[config->auth_type].is_outside && !is_asked;
}

/* ---- files ---- */

static void lint_file(const struct config *config, const char *setting, const char *path,
                      struct problems *problems)
{
	struct stat found;

	if (path && *path && stat(path, &found) == 0 && S_ISREG(found.st_mode) &&
	    (found.st_mode & (S_IROTH | S_IWOTH)))
		problems_warn(
		    problems, config_source_pos(config, setting),
		    "%s: every user of this machine may %s %s, which contains secrets (its "
		    "mode is %04o)",
		    setting, found.st_mode & S_IWOTH ? "change" : "read", path,
		    (unsigned int)found.st_mode & 07777);
}

static void find_secret(const struct user *user, void *arg)
{
	if (user->secret.kind != SECRET_NONE)
		*(bool *)arg = true;
}

static void lint_files(const struct config *config, const struct users *users,
                       struct problems *problems)
{
	bool has_secrets = false;

	if (users)
		users_each(users, find_secret, &has_secrets);
	if (has_secrets)
		lint_file(config, "auth_file", config->auth_file, problems);
	if (config->client_tls_sslmode != TLS_MODE_DISABLE)
		lint_file(config, "client_tls_key_file", config->client_tls_key_file, problems);
	for (size_t i = 0; i < config->client_tls_name_files.count; i++)
		lint_file(config, "client_tls_name_files", config->client_tls_name_files.names[i],
		          problems);
	if (config->server_tls_sslmode != TLS_MODE_DISABLE)
		lint_file(config, "server_tls_key_file", config->server_tls_key_file, problems);
}

static void lint_descriptors(const struct config *config, struct problems *problems)
{
	unsigned long expected = load_expected_files(config);
	struct limits limits;
	struct err err;

	if (limits_raise(&limits, &err) && expected > limits.files)
		problems_warn(
		    problems, config_source_pos(config, "max_client_conn"),
		    "max_client_conn: up to %lu open files may be needed, but the limit is "
		    "%lu: raise it, or lower max_client_conn or pool sizes",
		    expected, limits.files);
}

void lint(const struct config *config, const struct users *users, struct problems *problems)
{
	lint_pairs(config, problems);
	lint_sessions(config, problems);
	lint_ignored(config, problems);
	lint_entries(config, problems);
	if (users && console_has_users(config)) {
		lint_console(config, users, "admin_users", &config->admin_users, problems);
		lint_console(config, users, "stats_users", &config->stats_users, problems);
	}
	lint_files(config, users, problems);
	lint_descriptors(config, problems);
}
