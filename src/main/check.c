/* SPDX-License-Identifier: ISC */
/*
 * --check: what cannot be loaded; and of what can be, what would fail at the start or at the first
 * login, and warnings of settings that make each other useless, of users that do not exist, and of
 * files that every user can read. No file is created, no socket is opened. And --against.
 *
 * Hard here: a configuration with a bad line cannot be loaded, but all other problems must
 * be reported too. So a draft is made, in which the bad lines have their defaults, and the
 * files that the draft names are checked. And a check must not be stricter than a start: a service
 * manager may create the folders below /run and /var/log right before the start, so a missing
 * folder there is only a warning.
 */
#include "daemon_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pgweir/auth/auth_client.h"
#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"
#include "pgweir/pool/peer_pool.h"
#include "pgweir/pool/server/params.h"

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
	modes->follows |=
	    has_transactions &&
	    config_rules(config, database, user, POOL_MODE_TRANSACTION).session_state ==
		SESSION_STATE_FOLLOW;
}

static struct modes find_modes(const struct config *config)
{
	const struct config_database *database = NULL;
	const struct config_user *user = NULL;
	struct modes modes = { 0 };

	add_modes(&modes, config, config_database_auto(config), NULL);
	while ((database = config_entry_next(config, ENTRY_DATABASE, database)))
		add_modes(&modes, config, database, NULL);
	while ((user = config_entry_next(config, ENTRY_USER, user)))
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
		{ config->peer_id == 0 && config_entry_count(config, ENTRY_PEER) > 0, "peer_id",
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
	if (!method->takes_anybody && !method->outside) {
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
	       !auth_methods[config->auth_type].outside && !is_asked;
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
	struct rlimit files;
	struct err err;

	if (limits_raise(&files, &err) && expected > files.rlim_cur)
		problems_warn(
		    problems, config_source_pos(config, "max_client_conn"),
		    "max_client_conn: up to %lu open files may be needed, but the limit is "
		    "%lu: raise it, or lower max_client_conn or pool sizes",
		    expected, (unsigned long)files.rlim_cur);
}

/* Of a draft that is whole. users: those of auth_file; NULL: they could not be read. */
static void judge_whole(const struct config *config, const struct users *users,
                        struct problems *problems)
{
	const struct auth_method_row *method = &auth_methods[config->auth_type];
	const struct config_database *at = NULL;

	if (!method->takes_anybody && !method->outside)
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

/* ---- check one configuration ---- */

struct check {
	const char *file;
	struct parts parts; /* without those that cannot be made */
	struct problems problems;
	size_t user_count, rule_count;
	size_t change_count;
	struct buf running; /* the names of running databases, each with its terminating zero */
};

static void judge_peers(struct check *check)
{
	const struct config *config = check->parts.config;
	struct peers peers;
	struct err err;

	if (!peer_pool_read_peers(&peers, config, &err))
		load_complain(config, &check->problems, &err);
	explicit_bzero(&peers, sizeof(peers));
}

/* Files that the daemon reads as root at the start, but as its own user at a RELOAD. */
static void judge_reload(struct check *check, const char *user)
{
	const struct config *config = check->parts.config;
	const struct {
		const char *setting, *path;
	} files[] = {
		{ "conffile", check->file },
		{ "conffile", getenv("PGWEIR_EXTRA") },
		{ "auth_file", check->user_count ? config->auth_file : NULL },
		{ "auth_hba_file", check->rule_count ? config->auth_hba_file : NULL },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *path = files[i].path;

		if (path && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 && errno == EACCES)
			problems_warn(&check->problems, config_source_pos(config, files[i].setting),
			              "user %s may not read %s: RELOAD will fail", user, path);
	}
}

/* Checks with the rights of the daemon's user. Without root, with the rights of this process. */
static void judge_start(struct check *check, const char *user)
{
	const struct config *config = check->parts.config;
	struct err err;

	if (!user)
		user = config->user;
	if (!privileges_borrow(user, &err)) {
		problems_add(&check->problems, config_source_pos(config, "user"), "user: %s",
		             err.text);
		return;
	}
	load_make(&check->parts, &check->problems);
	judge_socket(config, &check->problems);
	judge_log(config, &check->problems);
	judge_pidfile(config, &check->problems);
	if (privileges_are_borrowed())
		judge_reload(check, user);
	privileges_return();
}

static void judge(struct check *check, const char *user)
{
	bool is_whole;

	check->parts.config = config_draft(check->file, &check->problems);
	if (!check->parts.config)
		return;
	is_whole = !problems_any(&check->problems);
	load_files(&check->parts, &check->problems);
	check->user_count = check->parts.users ? users_count(check->parts.users) : 0;
	check->rule_count = check->parts.hba ? check->parts.hba->count : 0;
	judge_peers(check);
	judge_start(check, user);
	if (!is_whole)
		return; /* the draft may lack an entry that others refer to */
	judge_whole(check->parts.config, check->parts.users, &check->problems);
}

static void print_list(const struct problem_list *list, const char *prefix, const char *what)
{
	for (size_t i = 0; i < list->count; i++)
		fprintf(stderr, "%s%s\n", prefix, list->texts[i]);
	if (list->dropped_count)
		fprintf(stderr, "... and %zu more %s\n", list->dropped_count, what);
}

static const char *plural(size_t count) { return count == 1 ? "" : "s"; }

static void print_good(const struct check *check)
{
	size_t count = config_entry_count(check->parts.config, ENTRY_DATABASE);

	printf("%s: the configuration is good: %zu database%s%s, %zu user%s", check->file, count,
	       plural(count), config_database_auto(check->parts.config) ? " and *" : "",
	       check->user_count, plural(check->user_count));
	if (check->rule_count)
		printf(", %zu rule%s", check->rule_count, plural(check->rule_count));
	printf("\n");
}

/* ---- compare with a running daemon ---- */

static void print_change(void *arg, const char *name, const char *line)
{
	struct check *check = arg;

	(void)name;
	check->change_count++;
	printf("%s\n", line);
}

static bool compare_settings(struct check *check, struct ask *ask, struct err *err)
{
	const char *conffile = check->parts.config->conffile;
	/* not set, it is the path of the file, which the daemon may know by another path */
	bool is_own = conffile && strcmp(conffile, check->file) == 0;
	bool ok = ask_say(ask, "SHOW CONFIG", err);

	while (ok && ask_row(ask, err)) {
		if (ask->count >= 2 && ask->values[0] &&
		    !(is_own && strcmp(ask->values[0], "conffile") == 0))
			config_compare_shown(ask->values[0], ask->values[1], check->parts.config,
			                     print_change, check);
	}
	return ok && !ask->has_failed;
}

/* The columns of SHOW DATABASES that come from the entry, by their position. */
enum { NAME, HOST, PORT, DBNAME, FORCED, SIZE, MINIMUM, RESERVE, LIFETIME, MODE };
#define COLUMN_MAX_SERVERS 11
#define COLUMN_MAX_CLIENTS 13
#define COLUMN_COUNT 17

static bool same_number(const char *shown, int64_t number)
{
	return shown && strtoll(shown, NULL, 10) == number;
}

/* Adds the names of the settings that differ. */
static void compare_database(struct buf *line, char *const *values, const struct config *config,
                             const struct config_database *entry)
{
	const struct {
		const char *name;
		bool is_same;
	} facts[] = {
		{ "host", entry->hosts_from || text_same(values[HOST], entry->host) },
		{ "port", same_number(values[PORT], entry->port) },
		{ "dbname",
		  text_same(values[DBNAME], config_database_dbname(entry, values[NAME])) },
		{ "user", text_same(values[FORCED], entry->user) },
		{ "pool_size", same_number(values[SIZE], config_pool_size(config, entry, NULL)) },
		{ "min_pool_size",
		  same_number(values[MINIMUM], config_min_pool_size(config, entry)) },
		{ "reserve_pool_size",
		  same_number(values[RESERVE], config_reserve_pool_size(config, entry, NULL)) },
		{ "server_lifetime",
		  same_number(values[LIFETIME],
		              config_server_lifetime(config, entry) / USEC_PER_SEC) },
		{ "pool_mode", text_same(values[MODE], config_pool_modes[entry->pool_mode]) },
		{ "max_db_connections", same_number(values[COLUMN_MAX_SERVERS],
		                                    config_max_db_connections(config, entry)) },
		{ "max_db_client_connections",
		  same_number(values[COLUMN_MAX_CLIENTS],
		              config_max_db_client_connections(config, entry)) },
	};

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		if (!facts[i].is_same)
			buf_printf(line, "%s%s", line->count ? ", " : "", facts[i].name);
	}
}

static void take_database(struct check *check, char *const *values, size_t count)
{
	const struct config_database *entry;
	struct buf line = { 0 };

	if (count < COLUMN_COUNT || !values[NAME] ||
	    strcmp(values[NAME], CONFIG_CONSOLE_DATABASE) == 0)
		return;
	buf_add_cstr(&check->running, values[NAME]);
	entry = config_database_of(check->parts.config, values[NAME]);
	if (entry)
		compare_database(&line, values, check->parts.config, entry);
	check->change_count += !entry || line.count;
	if (!entry)
		printf("database \"%s\": gone\n", values[NAME]);
	else if (line.count)
		printf("database \"%s\": changed %s\n", values[NAME], buf_text(&line));
	buf_free(&line);
}

static bool compare_databases(struct check *check, struct ask *ask, struct err *err)
{
	const struct config_database *at = NULL;
	bool ok = ask_say(ask, "SHOW DATABASES", err);

	while (ok && ask_row(ask, err))
		take_database(check, ask->values, ask->count);
	ok = ok && !ask->has_failed;
	while (ok && (at = config_entry_next(check->parts.config, ENTRY_DATABASE, at))) {
		if (bytes_list_has(buf_bytes(&check->running), at->name))
			continue;
		printf("database \"%s\": new\n", at->name);
		check->change_count++;
	}
	buf_free(&check->running);
	return ok;
}

/* ---- users and rules ---- */

/* Only new names can be found: the console also shows users from other sources. */
static bool compare_users(struct check *check, struct ask *ask, struct err *err)
{
	bool ok = ask_say(ask, "SHOW USERS", err);
	size_t known = 0;

	while (ok && ask_row(ask, err))
		known +=
		    ask->count && ask->values[0] && users_find(check->parts.users, ask->values[0]);
	ok = ok && !ask->has_failed;
	if (ok && check->user_count > known) {
		printf("auth_file: %zu user%s (%zu new)\n", check->user_count,
		       plural(check->user_count), check->user_count - known);
		check->change_count++;
	}
	return ok;
}

/* position in SHOW HBA; the columns from here on are those of recount_rule() */
#define COLUMN_RULE_TYPE 3
#define COLUMN_RULE_COUNT 10

static bool compare_rules(struct check *check, struct ask *ask, struct err *err)
{
	struct buf count = { 0 }, before = { 0 }, after = { 0 };
	bool ok = ask_say(ask, "SHOW HBA", err);

	while (ok && ask_row(ask, err)) {
		if (ask->count >= COLUMN_RULE_COUNT)
			recount_rule(&before, (const char **)ask->values + COLUMN_RULE_TYPE);
	}
	ok = ok && !ask->has_failed;
	recount_rules(&after, check->parts.hba);
	if (ok && recount(&before, &after, &count)) {
		printf("auth_hba_file: %s\n", buf_text(&count));
		check->change_count++;
	}
	buf_free(&before);
	buf_free(&after);
	buf_free(&count);
	return ok;
}

static bool compare(struct check *check, const struct options *options)
{
	const char *owner = options->user ? options->user : check->parts.config->user;
	struct ask_whom whom;
	struct err err;
	struct ask ask;
	bool ok = ask_find(&whom, options->against, owner, &err) && ask_open(&ask, &whom, &err);
	bool is_open = ok;

	if (ok)
		printf("a RELOAD with this file would change:\n");
	ok = ok && compare_settings(check, &ask, &err) && compare_databases(check, &ask, &err);
	ok = ok && compare_users(check, &ask, &err) && compare_rules(check, &ask, &err);
	if (!ok)
		fprintf(stderr, "%s\n", err.text);
	else if (!check->change_count)
		printf("nothing\n");
	if (is_open)
		ask_close(&ask);
	return ok;
}

bool check_file(const struct options *options)
{
	struct check check = { .file = options->file };
	bool is_good;

	judge(&check, options->user);
	is_good = check.parts.config && !problems_any(&check.problems);
	print_list(&check.problems.warnings, "warning: ", "warnings");
	print_list(&check.problems.errors, "", "problems");
	if (is_good)
		print_good(&check);
	if (is_good && options->against)
		is_good = compare(&check, options);
	problems_done(&check.problems);
	parts_done(&check.parts);
	return is_good;
}
