/* SPDX-License-Identifier: ISC */
/*
 * What is wrong with a configuration that can be loaded: what would fail at the start or at the
 * first login, and warnings of settings that make each other useless, of users that do not exist,
 * and of files that every user can read.
 *
 * Hard here: a check must not be stricter than a start. A service manager may create the
 * folders below /run and /var/log right before the start, so a missing folder there is only
 * a warning.
 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/auth/auth_client.h"
#include "pgweir/auth/auth_methods.h"
#include "pgweir/config/changes.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"
#include "pgweir/net/listener.h"
#include "pgweir/pool/server/params.h"

#include "process.h"

static void complain(const struct config *config, struct problems *problems, const char *setting,
                     const char *what, const char *path)
{
	problems_add(problems, config_source_pos(config, setting), "%s: %s %s: %s", setting, what,
	             path, strerror(errno));
}

/* ---- folders and files ---- */

static bool is_made_by_others(const char *folder)
{
	static const char *const roots[] = { "/run/", "/var/run/", "/var/log/" };

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		if (strncmp(folder, roots[i], strlen(roots[i])) == 0)
			return true;
	}
	return false;
}

/* Whether files can be created in the folder. */
static void judge_folder(const struct config *config, struct problems *problems,
                         const char *setting, const char *folder)
{
	struct stat found;
	bool is_there = stat(folder, &found) == 0;

	if (!is_there && errno == ENOENT && is_made_by_others(folder)) {
		problems_warn(
		    problems, config_source_pos(config, setting),
		    "%s: directory %s does not exist: the service must create it before the "
		    "start (RuntimeDirectory, LogsDirectory)",
		    setting, folder);
		return;
	}
	if (is_there && !S_ISDIR(found.st_mode))
		errno = ENOTDIR;
	if (!is_there || !S_ISDIR(found.st_mode))
		complain(config, problems, setting, "cannot use the folder", folder);
	else if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
		complain(config, problems, setting, "cannot write in the folder", folder);
}

static void judge_folder_of(const struct config *config, struct problems *problems,
                            const char *setting, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", slash > path ? (int)(slash - path) : 1,
	         slash ? path : ".");
	judge_folder(config, problems, setting, folder);
}

static void judge_log(const struct config *config, struct problems *problems)
{
	const char *path = config->logfile;
	struct stat found;

	if (!*path)
		return;
	if (stat(path, &found) != 0) {
		judge_folder_of(config, problems, "logfile", path);
		return;
	}
	errno = EISDIR;
	if (S_ISDIR(found.st_mode) || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
		complain(config, problems, "logfile", "cannot write", path);
}

/* The pid file may be that of a running process: this is only a check. */
static void judge_pidfile(const struct config *config, struct problems *problems)
{
	struct stat found;
	struct err err;

	if (!*config->pidfile)
		return;
	judge_folder_of(config, problems, "pidfile", config->pidfile);
	/* Do not open a pipe: that would block if it has no writer. */
	if (stat(config->pidfile, &found) != 0)
		return;
	if (!S_ISREG(found.st_mode))
		problems_add(problems, config_source_pos(config, "pidfile"),
		             "pidfile: %s exists and is not a file", config->pidfile);
	else if (pidfile_read(config->pidfile, &err) < 0)
		load_complain(config, problems, &err);
}

static void judge_socket(const struct config *config, struct problems *problems)
{
	const char *folder = config->unix_socket_dir;
	struct sockaddr_un name;
	socklen_t size;
	struct stat found;
	gid_t group;
	struct err err;
	char path[ADDRESS_UNIX_PATH_SIZE];

	if (!*folder && config->listen_addr.count == 0)
		problems_warn(
		    problems, config_source_pos(config, "listen_addr"),
		    "neither listen_addr nor unix_socket_dir is set: clients need sockets "
		    "from the service manager");
	if (!*folder)
		return;
	address_unix_path(path, folder, config->listen_port);
	if (!address_unix_name(&name, &size, path, &err))
		problems_add(problems, config_source_pos(config, "unix_socket_dir"),
		             "unix_socket_dir: %s", err.text);
	if (*folder == '@')
		return;
	judge_folder(config, problems, "unix_socket_dir", folder);
	if (*config->unix_socket_group &&
	    !listener_find_group(config->unix_socket_group, &group, &err))
		load_complain(config, problems, &err);
	if (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode))
		problems_add(problems, config_source_pos(config, "unix_socket_dir"),
		             "unix_socket_dir: %s exists and is not a socket", path);
}

void examine_files(const struct config *config, struct problems *problems)
{
	judge_socket(config, problems);
	judge_log(config, problems);
	judge_pidfile(config, problems);
}

/* ---- logins ---- */

/* Only a warning without auth_user: auth_query does not run there, so nothing fails. */
static void judge_auth_dbname_of(const struct config *config, struct problems *problems,
                                 const struct config_database *database)
{
	const char *name = database->auth_dbname;
	bool is_asked = config_auth_user(config, database);

	if (!name || !*name || strcmp(name, CONFIG_CONSOLE_DATABASE) == 0 ||
	    config_database_of(config, name))
		return;
	problem_list_add(is_asked ? &problems->errors : &problems->warnings, database->pos,
	                 "database \"%s\": auth_dbname: no such database \"%s\"", database->name,
	                 name);
}

/* Whether the user that runs auth_query can log in to PostgreSQL. */
static void judge_asker(const struct config *config, const struct users *users,
                        struct problems *problems, const struct config_database *database)
{
	const char *user = config_auth_user(config, database);
	const char *name = config_auth_dbname(config, database);
	const struct config_database *runs_in = name ? config_database_of(config, name) : database;
	const struct user *known = user && users ? users_find(users, user) : NULL;
	struct source_pos pos = config_source_pos(config, "auth_user");

	if (!user || !users || !config_auth_query(config, database))
		return;
	if (!runs_in || (known && known->secret.kind != SECRET_NONE))
		return;
	/* The entry has this user's password, so auth_file is not needed. */
	if (runs_in->user && strcmp(runs_in->user, user) == 0 && runs_in->password)
		return;
	if (database->auth_user && database->pos.file)
		pos = database->pos;
	/* PostgreSQL may accept the login without a password: trust, peer or a certificate. */
	if (auth_client_may_enter_unasked(&config->server_require_auth))
		problems_warn(problems, pos,
		              "database \"%s\": auth_user \"%s\" has no secret in auth_file: "
		              "PostgreSQL must let it in without one",
		              database->name, user);
	else
		problems_add(problems, pos,
		             "database \"%s\": auth_user \"%s\" has no secret in auth_file, and "
		             "server_require_auth forbids a login without one: auth_query "
		             "cannot run",
		             database->name, user);
}

static bool has_asker(const struct config *config)
{
	const struct config_database *at = NULL;
	bool is_found = config_auth_user(config, NULL);

	while (!is_found && (at = config_database_each(config, at)))
		is_found = config_auth_user(config, at);
	return is_found;
}

static void judge_lookups(const struct config *config, struct problems *problems)
{
	const char *query = config->auth_query, *name = config_auth_dbname(config, NULL);
	bool is_asked = has_asker(config);

	/* A file that repeats the default is not a mistake. */
	if (*query && strcmp(query, setting_find("auth_query")->initial) != 0 && !is_asked)
		problems_add(problems, config_source_pos(config, "auth_query"),
		             "auth_query never runs: auth_user is not set");
	if (name && !config_database_of(config, name))
		problem_list_add(is_asked ? &problems->errors : &problems->warnings,
		                 config_source_pos(config, "auth_dbname"),
		                 "auth_dbname: no such database \"%s\"", name);
}

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

static void judge_settings(const struct config *config, struct problems *problems)
{
	bool is_by_hba = config->auth_type == AUTH_METHOD_HBA;
	bool is_state_written = is_written(config, "session_state");
	struct modes modes = find_modes(config);
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

	for (size_t i = 0; i < sizeof(doubts) / sizeof(doubts[0]); i++) {
		if (doubts[i].is_so)
			problems_warn(problems, config_source_pos(config, doubts[i].setting),
			              "%s %s", doubts[i].setting, doubts[i].says);
	}
}

static void judge_ignored(const struct config *config, struct problems *problems)
{
	const struct config_list *list = &config->ignore_startup_parameters;

	for (size_t i = 0; i < list->count; i++) {
		if (tracked_find(config, list->names[i]))
			problems_warn(problems,
			              config_source_pos(config, "ignore_startup_parameters"),
			              "ignore_startup_parameters ignores %s, which would otherwise "
			              "be kept for "
			              "each client",
			              list->names[i]);
	}
}

static void judge_size(const struct config *config, const struct config_database *database,
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

static void judge_variables(const struct config_database *database, struct problems *problems)
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

static void judge_entry(const struct config *config, const struct users *users,
                        const struct config_database *database, struct problems *problems)
{
	const struct auth_method_row *method = &auth_methods[config->auth_type];

	if (method->takes_anybody && !database->user)
		problems_add(problems, database->pos,
		             "database \"%s\": auth_type = any needs user=", database->name);
	if (!method->takes_anybody && !method->is_outside) {
		judge_auth_dbname_of(config, problems, database);
		judge_asker(config, users, problems, database);
	}
	judge_size(config, database, problems);
	if (config_needs_roles(config, database) && !*config_host_check_user(config, database))
		problems_warn(problems, database->pos,
		              "database \"%s\": there is no host watch until a client's login has "
		              "reached a host, as host_check_user is not set",
		              database->name);
	judge_variables(database, problems);
}

/* ---- the console ---- */

static void judge_console(const struct config *config, const struct users *users,
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

/* A file that every user can read; NULL or empty: none. */
static void judge_secret_file(const struct config *config, const char *setting, const char *path,
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

static void judge_secrets(const struct config *config, const struct users *users,
                          struct problems *problems)
{
	const struct config_list *files = &config->client_tls_name_files;
	bool has_secrets = false;
	bool is_client = config->client_tls_sslmode != TLS_MODE_DISABLE;
	bool is_server = config->server_tls_sslmode != TLS_MODE_DISABLE;

	if (users)
		users_each(users, find_secret, &has_secrets);
	judge_secret_file(config, "auth_file", has_secrets ? config->auth_file : NULL, problems);
	judge_secret_file(config, "client_tls_key_file",
	                  is_client ? config->client_tls_key_file : NULL, problems);
	for (size_t i = 0; i < files->count; i++)
		judge_secret_file(config, "client_tls_name_files", files->names[i], problems);
	judge_secret_file(config, "server_tls_key_file",
	                  is_server ? config->server_tls_key_file : NULL, problems);
}

static void judge_descriptors(const struct config *config, struct problems *problems)
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

void examine(const struct config *config, const struct users *users, struct problems *problems)
{
	const struct auth_method_row *method = &auth_methods[config->auth_type];
	const struct config_database *at = NULL;

	if (!method->takes_anybody && !method->is_outside)
		judge_lookups(config, problems);
	while ((at = config_database_each(config, at)))
		judge_entry(config, users, at, problems);
	judge_settings(config, problems);
	judge_ignored(config, problems);
	if (users && console_has_users(config)) {
		judge_console(config, users, "admin_users", &config->admin_users, problems);
		judge_console(config, users, "stats_users", &config->stats_users, problems);
	}
	judge_secrets(config, users, problems);
	judge_descriptors(config, problems);
}
