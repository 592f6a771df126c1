/* SPDX-License-Identifier: ISC */
/*
 * --check and --against.
 *
 * Hard here: a configuration with a bad line cannot be loaded, but all other problems must
 * be reported too. So a draft is made, in which the bad lines have their defaults, and the
 * files that the draft names are checked.
 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/text.h"
#include "pgweir/config/changes.h"
#include "pgweir/config/entries.h"
#include "pgweir/pool/peer_pool.h"

#include "ask.h"
#include "process.h"

struct check {
	const char *file;
	struct parts parts; /* without those that cannot be made */
	struct problems problems;
	size_t user_count, rule_count;
	size_t change_count;
	struct buf running; /* the names of running databases, each with its terminating zero */
};

/* ---- check one configuration ---- */

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
	examine_files(config, &check->problems);
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
	examine(check->parts.config, check->parts.users, &check->problems);
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
	size_t count = config_database_count(check->parts.config);

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

static void on_setting(void *arg, const char *const *values, size_t count)
{
	struct check *check = arg;

	if (count < 2 || !values[0])
		return;
	/* not set, it is the path of the file, which the daemon may know by another path */
	if (strcmp(values[0], "conffile") == 0 && check->parts.config->conffile &&
	    strcmp(check->parts.config->conffile, check->file) == 0)
		return;
	config_compare_shown(values[0], values[1], check->parts.config, print_change, check);
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
static void compare_database(struct buf *line, const char *const *values,
                             const struct config *config, const struct config_database *entry)
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

static void on_database(void *arg, const char *const *values, size_t count)
{
	struct check *check = arg;
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

static bool is_running(const struct check *check, const char *name)
{
	struct bytes rest = buf_bytes(&check->running);
	const char *text;

	while (bytes_take_text(&rest, &text)) {
		if (strcmp(text, name) == 0)
			return true;
	}
	return false;
}

static bool compare_databases(struct check *check, struct ask *ask, struct err *err)
{
	const struct config_database *at = NULL;
	bool ok = ask_query(ask, "SHOW DATABASES", on_database, check, err);

	while (ok && (at = config_database_next(check->parts.config, at))) {
		if (is_running(check, at->name))
			continue;
		printf("database \"%s\": new\n", at->name);
		check->change_count++;
	}
	buf_free(&check->running);
	return ok;
}

/* ---- users and rules ---- */

struct known {
	const struct users *users;
	size_t count; /* of those that run, too */
};

static void on_user(void *arg, const char *const *values, size_t count)
{
	struct known *known = arg;

	known->count += count && values[0] && users_find(known->users, values[0]);
}

/* Only new names can be found: the console also shows users from other sources. */
static bool compare_users(struct check *check, struct ask *ask, struct err *err)
{
	struct known known = { .users = check->parts.users };

	if (!ask_query(ask, "SHOW USERS", on_user, &known, err))
		return false;
	if (check->user_count > known.count) {
		printf("auth_file: %zu user%s (%zu new)\n", check->user_count,
		       plural(check->user_count), check->user_count - known.count);
		check->change_count++;
	}
	return true;
}

/* position in SHOW HBA; the columns from here on are those of recount_rule() */
#define COLUMN_RULE_TYPE 3
#define COLUMN_RULE_COUNT 10

static void on_rule(void *arg, const char *const *values, size_t count)
{
	if (count >= COLUMN_RULE_COUNT)
		recount_rule(arg, values + COLUMN_RULE_TYPE, RECOUNT_OLD);
}

static bool compare_rules(struct check *check, struct ask *ask, struct err *err)
{
	struct recount recount = { 0 };
	struct buf count = { 0 };
	bool ok = ask_query(ask, "SHOW HBA", on_rule, &recount, err);

	recount_rules(&recount, check->parts.hba, RECOUNT_NEW);
	if (recount_end(&recount, &count) && ok) {
		printf("auth_hba_file: %s\n", buf_text(&count));
		check->change_count++;
	}
	buf_free(&count);
	return ok;
}

static bool ask_running(struct ask *ask, const struct check *check, const struct options *options,
                        struct err *err)
{
	struct ask_whom whom;

	return ask_find(&whom, options->against,
	                options->user ? options->user : check->parts.config->user, err) &&
	       ask_open(ask, &whom, err);
}

static bool compare(struct check *check, const struct options *options)
{
	struct err err;
	struct ask ask;
	bool ok = ask_running(&ask, check, options, &err);
	bool is_open = ok;

	if (ok)
		printf("a RELOAD with this file would change:\n");
	ok = ok && ask_query(&ask, "SHOW CONFIG", on_setting, check, &err);
	ok = ok && compare_databases(check, &ask, &err);
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
