/* SPDX-License-Identifier: ISC */
/*
 * Finds errors that otherwise only a start or a login would show.
 *
 * Hard here: a check must not be stricter than a start. A service manager may create the
 * folders below /run and /var/log right before the start, so a missing folder there is only
 * a warning.
 */
#include "check.h"

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
#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/changes.h"
#include "pgweir/config/settings.h"
#include "pgweir/net/listener.h"

#include "load.h"

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

	if (stat(folder, &found) != 0 && errno == ENOENT && is_made_by_others(folder)) {
		problems_warn(
		    problems, config_source_pos(config, setting),
		    "%s: directory %s does not exist: the service must create it before the "
		    "start (RuntimeDirectory, LogsDirectory)",
		    setting, folder);
		return;
	}
	if (stat(folder, &found) != 0) {
		complain(config, problems, setting, "cannot use the folder", folder);
	} else if (!S_ISDIR(found.st_mode)) {
		errno = ENOTDIR;
		complain(config, problems, setting, "cannot use the folder", folder);
	} else if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0) {
		complain(config, problems, setting, "cannot write in the folder", folder);
	}
}

static void judge_folder_of(const struct config *config, struct problems *problems,
                            const char *setting, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	if (!slash)
		snprintf(folder, sizeof(folder), ".");
	else
		snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path),
		         path);
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
	} else if (S_ISDIR(found.st_mode)) {
		errno = EISDIR;
		complain(config, problems, "logfile", "cannot write", path);
	} else if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
		complain(config, problems, "logfile", "cannot write", path);
	}
}

/* The pid file may be that of a running process: this is only a check. */
static void judge_pidfile(const struct config *config, struct problems *problems)
{
	char text[64] = "";
	struct stat found;
	int64_t number;
	FILE *file;

	if (!*config->pidfile)
		return;
	judge_folder_of(config, problems, "pidfile", config->pidfile);
	/* Do not open a pipe: that would block if it has no writer. */
	if (stat(config->pidfile, &found) != 0)
		return;
	file = S_ISREG(found.st_mode) ? fopen(config->pidfile, "re") : NULL;
	if (!S_ISREG(found.st_mode))
		problems_add(problems, config_source_pos(config, "pidfile"),
		             "pidfile: %s exists and is not a file", config->pidfile);
	if (!file)
		return;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	if (!text_to_i64(text_trim(text), &number) || number <= 0)
		problems_add(
		    problems, config_source_pos(config, "pidfile"),
		    "pidfile: %s exists but contains no process ID: remove it if it is stale",
		    config->pidfile);
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

void preflight_files(const struct config *config, struct problems *problems)
{
	judge_socket(config, problems);
	judge_log(config, problems);
	judge_pidfile(config, problems);
}

/* ---- logins ---- */

static void judge_forced(const struct config *config, struct problems *problems,
                         const struct config_database *database)
{
	struct source_pos pos =
	    database->pos.file ? database->pos : config_source_pos(config, "auth_type");

	if (!database->user)
		problems_add(problems, pos,
		             "database \"%s\": auth_type = any needs user=", database->name);
}

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

void preflight_logins(const struct config *config, const struct users *users,
                      struct problems *problems)
{
	const struct auth_method_row *method = &auth_methods[config->auth_type];
	const struct config_database *at = NULL;

	if (method->is_outside && !method->takes_anybody)
		return;
	if (!method->takes_anybody)
		judge_lookups(config, problems);
	while ((at = config_database_each(config, at))) {
		if (method->takes_anybody) {
			judge_forced(config, problems, at);
		} else {
			judge_auth_dbname_of(config, problems, at);
			judge_asker(config, users, problems, at);
		}
	}
}
