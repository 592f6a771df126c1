/* SPDX-License-Identifier: ISC */
/*
 * The entries of all sections but [pgbouncer], found by name.
 */
#define HASH_NONFATAL_OOM 1 /* out of memory: the element is not added and its hh.tbl is NULL */

#include "pgweir/config/entries.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "config_priv.h"

#define AUTOMATIC "*"

struct config_entries *entries_new(void) { return calloc(1, sizeof(struct config_entries)); }

static void entry_free(union config_entry **entry, enum entry_kind_id kind)
{
	if (!*entry)
		return;
	entry_clear(*entry, kind);
	free((*entry)->name);
	free(*entry);
	*entry = NULL;
}

static void free_all(struct config_entries *entries)
{
	union config_entry *entry, *next;

	for (int kind = 0; kind < ENTRY_KINDS; kind++) {
		HASH_ITER (hh, entries->tables[kind], entry, next) {
			HASH_DEL(entries->tables[kind], entry);
			entry_free(&entry, (enum entry_kind_id)kind);
		}
	}
	entry_free(&entries->automatic, ENTRY_DATABASE);
	source_files_done(&entries->files);
	free(entries);
}

REFS_FUNCTIONS(entries_ref, entries_unref, struct config_entries, free_all)

static bool is_automatic(enum entry_kind_id kind, const char *name)
{
	return kind == ENTRY_DATABASE && strcmp(name, AUTOMATIC) == 0;
}

/* Adds an entry, or replaces the one of the same name. false: no memory. */
static bool file_entry(struct config_entries *entries, enum entry_kind_id kind,
                       union config_entry *entry)
{
	union config_entry **table = &entries->tables[kind], *old;

	if (is_automatic(kind, entry->name)) {
		entry_free(&entries->automatic, kind);
		entries->automatic = entry;
		return true;
	}
	HASH_FIND_STR(*table, entry->name, old);
	if (old) {
		HASH_DEL(*table, old);
		entry_free(&old, kind);
	}
	HASH_ADD_KEYPTR(hh, *table, entry->name, strlen(entry->name), entry);
	return entry->hh.tbl != NULL;
}

/* 0: it is no id. */
static int peer_id(const char *name)
{
	int64_t value;

	if (!value_int(name, 10, &value, NULL) || value < 1 || value > CONFIG_PEER_ID_MAX)
		return 0;
	return (int)value;
}

/* 0: it is no digest as SHOW STATEMENTS has it. */
static uint64_t statement_digest(const char *name)
{
	return strspn(name, "0123456789abcdef") == 16 && !name[16] ? strtoull(name, NULL, 16) : 0;
}

static bool judge_name(enum entry_kind_id kind, const char *name, struct err *err)
{
	const struct entry_kind *row = &entry_kinds[kind];

	if (kind == ENTRY_PEER && !peer_id(name))
		return err_set(err, ERR_CONFIG,
		               "peer \"%.64s\": its id must be a number from 1 to %d", name,
		               CONFIG_PEER_ID_MAX);
	if (kind == ENTRY_STATEMENT && !statement_digest(name))
		return err_set(
		    err, ERR_CONFIG,
		    "statement \"%.64s\": its digest must be 16 hexadecimal digits, as in "
		    "SHOW STATEMENTS",
		    name);
	if (kind == ENTRY_DATABASE && strcmp(name, CONFIG_CONSOLE_DATABASE) == 0)
		return err_set(err, ERR_CONFIG,
		               "database \"%s\": this name is reserved for the console", name);
	if (strlen(name) > (size_t)row->name_max)
		return err_set(err, ERR_CONFIG, "%s \"%.*s...\": its name is longer than %d bytes",
		               row->what, row->name_max, name, row->name_max);
	return true;
}

/* NULL: no memory. */
static union config_entry *entry_new(enum entry_kind_id kind, const char *name)
{
	union config_entry *entry = calloc(1, sizeof(*entry));
	char id[16];

	if (!entry)
		return NULL;
	entry_reset(entry, kind);
	if (kind == ENTRY_PEER) {
		entry->peer.id = peer_id(name);
		snprintf(id, sizeof(id), "%d", entry->peer.id);
		name = id;
	}
	if (kind == ENTRY_STATEMENT)
		entry->statement.digest = statement_digest(name);
	entry->name = strdup(name);
	if (!entry->name)
		entry_free(&entry, kind);
	return entry;
}

static bool judge_host(const struct config_peer *peer, struct err *err)
{
	if (!peer->host)
		return err_set(err, ERR_CONFIG, "host is missing");
	if (strchr(peer->host, ','))
		return err_set(err, ERR_CONFIG, "host: a peer has one host only");
	return true;
}

static bool judge_listener(const struct config_entries *entries,
                           const struct config_listener *listener, struct err *err)
{
	if (listener->port == CONFIG_INHERIT)
		return err_set(err, ERR_CONFIG, "port is missing");
	if (!listener->addr && !listener->unix_socket_dir)
		return err_set(err, ERR_CONFIG, "addr and unix_socket_dir are missing");
	if (HASH_COUNT(entries->tables[ENTRY_LISTENER]) >= CONFIG_LISTENERS_MAX)
		return err_set(err, ERR_CONFIG, "more than %d listeners", CONFIG_LISTENERS_MAX);
	return true;
}

static bool judge_statement(const struct config_statement *statement, struct err *err)
{
	return statement->block || statement->max_running ||
	       statement->query_timeout != CONFIG_INHERIT ||
	       err_set(err, ERR_CONFIG, "block, max_running and query_timeout are missing");
}

bool entries_add(struct config_entries *entries, enum entry_kind_id kind, const char *name,
                 char *text, struct buf *notes, struct err *err)
{
	union config_entry *entry;
	bool ok;

	if (!judge_name(kind, name, err))
		return false;
	entry = entry_new(kind, name);
	ok = entry || err_set(err, ERR_MEMORY, "no memory");
	ok = ok && entry_read(entry, kind, text, notes, err) &&
	     (kind != ENTRY_PEER || judge_host(&entry->peer, err)) &&
	     (kind != ENTRY_LISTENER || judge_listener(entries, &entry->listener, err)) &&
	     (kind != ENTRY_STATEMENT || judge_statement(&entry->statement, err));
	if (ok && !file_entry(entries, kind, entry))
		ok = err_set(err, ERR_MEMORY, "no memory");
	if (ok)
		return true;
	entry_free(&entry, kind);
	return err_prefix(err, "%s \"%s\": ", entry_kinds[kind].what, name);
}

union config_entry *entries_find(const struct config_entries *entries, enum entry_kind_id kind,
                                 const char *name)
{
	union config_entry *entry;
	char id[16];

	if (is_automatic(kind, name))
		return entries->automatic;
	if (kind == ENTRY_PEER) {
		snprintf(id, sizeof(id), "%d", peer_id(name));
		name = id;
	}
	HASH_FIND_STR(entries->tables[kind], name, entry);
	return entry;
}

/* ---- databases and users ---- */

static const void *find_entry(const struct config *config, enum entry_kind_id kind,
                              const char *name)
{
	return TABLE_GET_OWN(hh, config->entries->tables[kind], name, strlen(name));
}

const struct config_database *config_database_find(const struct config *config, const char *name)
{
	return find_entry(config, ENTRY_DATABASE, name);
}

const struct config_database *config_database_auto(const struct config *config)
{
	return config->entries->automatic ? &config->entries->automatic->database : NULL;
}

const struct config_database *config_database_of(const struct config *config, const char *name)
{
	const struct config_database *own = config_database_find(config, name);

	return own ? own : config_database_auto(config);
}

const char *config_database_dbname(const struct config_database *database, const char *name)
{
	return database->dbname ? database->dbname : name;
}

const char *config_target_name(enum target_session_attrs target) { return value_targets[target]; }

const char *config_load_balance_hosts(const struct config_database *database)
{
	return database->hosts_from || (database->host && strchr(database->host, ','))
	           ? value_load_balances[database->load_balance_hosts]
	           : NULL;
}

/* The entry after that one; the first one if it is NULL. */
static const void *next_entry(const struct config *config, enum entry_kind_id kind,
                              const UT_hash_handle *before)
{
	return before ? before->next : config->entries->tables[kind];
}

const struct config_database *config_database_next(const struct config *config,
                                                   const struct config_database *before)
{
	return next_entry(config, ENTRY_DATABASE, before ? &before->hh : NULL);
}

const struct config_database *config_database_each(const struct config *config,
                                                   const struct config_database *before)
{
	const struct config_database *automatic = config_database_auto(config), *next;

	if (before && before == automatic)
		return NULL;
	next = config_database_next(config, before);
	return next ? next : automatic;
}

const struct config_user *config_user_next(const struct config *config,
                                           const struct config_user *before)
{
	return next_entry(config, ENTRY_USER, before ? &before->hh : NULL);
}

size_t config_database_count(const struct config *config)
{
	return HASH_COUNT(config->entries->tables[ENTRY_DATABASE]);
}

bool config_database_same_server(const struct config_database *a, const struct config_database *b,
                                 const char *name)
{
	return text_same(config_database_dbname(a, name), config_database_dbname(b, name)) &&
	       text_same(a->host, b->host) && text_same(a->hosts_from, b->hosts_from) &&
	       a->load_balance_hosts == b->load_balance_hosts &&
	       a->target_session_attrs == b->target_session_attrs && a->port == b->port &&
	       text_same(a->user, b->user) && text_same(a->connect_query, b->connect_query) &&
	       text_same(a->auth_dbname, b->auth_dbname) && text_same(a->auth_query, b->auth_query);
}

const struct config_user *config_user_find(const struct config *config, const char *name)
{
	return find_entry(config, ENTRY_USER, name);
}

/* ---- entries together ---- */

static bool judge_guarantee(int guaranteed, int most, const char *setting, struct err *err)
{
	return most <= 0 || guaranteed <= most ||
	       err_set(err, ERR_CONFIG, "guaranteed_servers is %d, and %s is %d", guaranteed,
	               setting, most);
}

static bool judge_sum(const struct config *config, int64_t databases, int64_t users,
                      struct source_pos *pos, struct err *err)
{
	struct source_pos origin = config_origin(config, "max_server_connections");
	int most = config->max_server_connections;

	if (most <= 0 || databases + users <= most)
		return true;
	*pos = (struct source_pos){ origin.file ? origin.file : "max_server_connections",
		                    origin.file ? origin.line : 0 };
	return err_set(err, ERR_CONFIG,
	               "guaranteed_servers of databases are %lld and those of users %lld: in sum "
	               "%lld, and max_server_connections is %d",
	               (long long)databases, (long long)users, (long long)(databases + users),
	               most);
}

static bool judge_database(const struct config *config, const struct config_database *database,
                           struct err *err)
{
	int guaranteed = database->guaranteed_servers;

	if (guaranteed && database == config_database_auto(config))
		return err_set(err, ERR_CONFIG,
		               "guaranteed_servers needs the name of a database, as * may be any "
		               "number of them");
	return judge_guarantee(guaranteed, config_max_db_connections(config, database),
	                       "max_db_connections", err) &&
	       judge_guarantee(guaranteed, config->max_host_connections, "max_host_connections",
	                       err);
}

static bool judge_size(const struct config *config, const struct config_database *database,
                       const struct config_user *user, struct err *err)
{
	int least = config_min_pool_size(config, database);
	int most = config_max_pool_size(config, database, user);

	if (config_pool_size(config, database, user) != CONFIG_AUTO)
		return true;
	if (most <= 0)
		return err_set(err, ERR_PARAMETER,
		               "a pool size that is auto needs an upper bound: set max_pool_size");
	return least <= most || err_set(err, ERR_PARAMETER,
	                                "min_pool_size = %d is above max_pool_size = %d, between "
	                                "which a pool size is that is auto",
	                                least, most);
}

bool entries_judge(const struct config *config, struct source_pos *pos, struct err *err)
{
	const struct config_database *database = NULL;
	const struct config_user *user = NULL;
	int64_t databases = 0, users = 0;

	while ((database = config_database_each(config, database))) {
		*pos = database->pos;
		databases += database->guaranteed_servers;
		if (!judge_database(config, database, err) ||
		    !judge_size(config, database, NULL, err))
			return err_prefix(err, "database \"%s\": ", database->name);
	}
	while ((user = config_user_next(config, user))) {
		*pos = user->pos;
		users += user->guaranteed_servers;
		if (!judge_guarantee(user->guaranteed_servers,
		                     config_max_user_connections(config, user),
		                     "max_user_connections", err) ||
		    !judge_size(config, NULL, user, err))
			return err_prefix(err, "user \"%s\": ", user->name);
	}
	*pos = config_source_pos(config, "default_pool_size");
	if (!judge_size(config, NULL, NULL, err))
		return err_prefix(err, "setting \"default_pool_size\": ");
	return judge_sum(config, databases, users, pos, err);
}

/* ---- peers ---- */

static int compare_id(const union config_entry *a, const union config_entry *b)
{
	return (a->peer.id > b->peer.id) - (a->peer.id < b->peer.id);
}

void peers_sort(struct config_entries *entries)
{
	HASH_SORT(entries->tables[ENTRY_PEER], compare_id);
}

const struct config_peer *config_peer_find(const struct config *config, int id)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", id);
	return find_entry(config, ENTRY_PEER, name);
}

const struct config_peer *config_peer_after(const struct config *config, int id)
{
	const union config_entry *entry = config->entries->tables[ENTRY_PEER];

	while (entry && entry->peer.id <= id)
		entry = entry->hh.next;
	return entry ? &entry->peer : NULL;
}

size_t config_peer_count(const struct config *config)
{
	return HASH_COUNT(config->entries->tables[ENTRY_PEER]);
}

int config_peer_pool_size(const struct config *config, const struct config_peer *peer)
{
	return peer->pool_size == CONFIG_INHERIT ? config_greatest_pool_size(config, NULL, NULL)
	                                         : peer->pool_size;
}

/* ---- listeners ---- */

const struct config_listener *config_listener_next(const struct config *config,
                                                   const struct config_listener *before)
{
	return next_entry(config, ENTRY_LISTENER, before ? &before->hh : NULL);
}

const struct config_listener *config_listener_find(const struct config *config, const char *name)
{
	return find_entry(config, ENTRY_LISTENER, name);
}

unsigned int config_listener_modes(const struct config *config)
{
	const struct config_listener *listener = NULL;
	unsigned int modes = 0;

	while ((listener = config_listener_next(config, listener))) {
		if (listener->pool_mode != POOL_MODE_INHERIT)
			modes |= 1u << listener->pool_mode;
	}
	return modes;
}

/* After a star that does not fit, only the last star is tried again: the time is bounded. */
static bool is_like(const char *name, const char *pattern)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (*pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	return pattern[strspn(pattern, "*")] == 0;
}

bool config_listener_has(const struct config_listener *listener, const char *database)
{
	const struct config_list *list = &listener->databases;

	for (size_t i = 0; i < list->count; i++) {
		if (is_like(database, list->names[i]))
			return true;
	}
	return list->count == 0;
}

/* ---- applications and statements ---- */

const struct config_application *config_application_find(const struct config *config,
                                                         const char *name)
{
	const union config_entry *entry = config->entries->tables[ENTRY_APPLICATION];

	while (entry && !is_like(name, entry->name))
		entry = entry->hh.next;
	return entry ? &entry->application : NULL;
}

bool config_has_applications(const struct config *config)
{
	return config->entries->tables[ENTRY_APPLICATION] != NULL;
}

const struct config_statement *config_statement_next(const struct config *config,
                                                     const struct config_statement *before)
{
	return next_entry(config, ENTRY_STATEMENT, before ? &before->hh : NULL);
}

/*
 * ---- effective values ----
 *
 * The user's value, else the database's, else that of the setting. CONFIG_INHERIT means that an
 * entry has no value. Numbers that mean the same (enum entry_low) were replaced by it when the line
 * was parsed.
 */

static int64_t first_said(int64_t user, int64_t database, int64_t setting)
{
	if (user != CONFIG_INHERIT)
		return user;
	return database != CONFIG_INHERIT ? database : setting;
}

/* clang-format off */
#define SAID(entry, field) ((entry) ? (int64_t)(entry)->field : CONFIG_INHERIT)
/* In a function with config, database and user. */
#define SAID_WORD(field, inherit) \
	(user && user->field != (inherit)           ? user->field \
	 : database && database->field != (inherit) ? database->field \
	                                            : config->field)
/* clang-format on */

#define OF_BOTH(type, name)                                                                     \
	type config_##name(const struct config *config, const struct config_database *database, \
	                   const struct config_user *user)                                      \
	{                                                                                       \
		return (type)first_said(SAID(user, name), SAID(database, name), config->name);  \
	}
#define OF_DATABASE(type, name)                                                                 \
	type config_##name(const struct config *config, const struct config_database *database) \
	{                                                                                       \
		return (type)first_said(CONFIG_INHERIT, SAID(database, name), config->name);    \
	}
#define OF_USER(type, name)                                                              \
	type config_##name(const struct config *config, const struct config_user *user)  \
	{                                                                                \
		return (type)first_said(SAID(user, name), CONFIG_INHERIT, config->name); \
	}

CONFIG_OF_BOTH(OF_BOTH)
CONFIG_OF_DATABASE(OF_DATABASE)
CONFIG_OF_USER(OF_USER)

/* clang-format off */
#define TIME(field) \
	shorter(first_said(SAID(user, field), SAID(database, field), config->field), \
	        SAID(application, field))
/* clang-format on */

static usec_t shorter(usec_t time, usec_t other)
{
	return other > 0 && (time == 0 || other < time) ? other : time;
}

struct config_times config_times(const struct config *config,
                                 const struct config_database *database,
                                 const struct config_user *user,
                                 const struct config_application *application)
{
	return (struct config_times){ .query = TIME(query_timeout),
		                      .idle_transaction = TIME(idle_transaction_timeout),
		                      .transaction = TIME(transaction_timeout) };
}

enum pool_mode config_pool_mode(const struct config *config, const struct config_database *database,
                                const struct config_user *user)
{
	return SAID_WORD(pool_mode, POOL_MODE_INHERIT);
}

bool config_has_mode(const struct config *config, const struct config_database *database,
                     const struct config_user *user, enum pool_mode mode)
{
	return config_pool_mode(config, database, user) == mode ||
	       config_listener_modes(config) & 1u << mode;
}

enum session_state_mode config_session_state(const struct config *config,
                                             const struct config_database *database,
                                             const struct config_user *user, enum pool_mode mode)
{
	enum session_state_mode said = SAID_WORD(session_state, SESSION_STATE_INHERIT);

	switch (mode) {
	case POOL_MODE_SESSION:
		return SESSION_STATE_OFF;
	case POOL_MODE_STATEMENT: /* no server may stay with a client */
		return said == SESSION_STATE_FOLLOW ? SESSION_STATE_REFUSE : said;
	default:
		return said;
	}
}

enum route_reads config_route_reads(const struct config *config,
                                    const struct config_database *database,
                                    const struct config_user *user, enum pool_mode mode)
{
	enum route_reads said = SAID_WORD(route_reads, ROUTE_READS_INHERIT);

	/* A session gets its server once. */
	if (mode == POOL_MODE_SESSION)
		return said == ROUTE_READS_SESSIONS ? said : ROUTE_READS_OFF;
	return said;
}

enum session_isolation config_session_isolation(const struct config *config,
                                                const struct config_database *database,
                                                const struct config_user *user, enum pool_mode mode)
{
	enum session_isolation said = SAID_WORD(session_isolation, SESSION_ISOLATION_INHERIT);

	if (said == SESSION_ISOLATION_KNOWN &&
	    config_session_state(config, database, user, mode) == SESSION_STATE_OFF)
		return SESSION_ISOLATION_OFF;
	return said;
}

bool config_routes_reads(const struct config *config, const struct config_database *database,
                         const struct config_user *user)
{
	for (enum pool_mode mode = 0; mode < POOL_MODE_INHERIT; mode++) {
		if (config_has_mode(config, database, user, mode) &&
		    config_route_reads(config, database, user, mode) != ROUTE_READS_OFF)
			return true;
	}
	return false;
}

bool config_causal_reads(const struct config *config, const struct config_database *database,
                         const struct config_user *user)
{
	return SAID_WORD(causal_reads, CAUSAL_READS_INHERIT) == CAUSAL_READS_SESSION;
}

int config_max_pinned_servers(const struct config *config, const struct config_database *database,
                              const struct config_user *user)
{
	int said = (int)first_said(CONFIG_INHERIT, SAID(database, max_pinned_servers),
	                           config->max_pinned_servers);
	int size = config_greatest_pool_size(config, database, user);

	if (said != CONFIG_PINS_BY_SIZE)
		return said;
	if (size == 0)
		return INT_MAX;
	return size > 1 ? size - 1 : 1;
}

const struct config_list *config_pin_functions(const struct config *config,
                                               const struct config_database *database)
{
	return database && database->pin_functions.text ? &database->pin_functions
	                                                : &config->pin_functions;
}

int config_pool_size(const struct config *config, const struct config_database *database,
                     const struct config_user *user)
{
	return (int)first_said(SAID(user, pool_size), SAID(database, pool_size),
	                       config->default_pool_size);
}

int config_greatest_pool_size(const struct config *config, const struct config_database *database,
                              const struct config_user *user)
{
	int size = config_pool_size(config, database, user);

	return size == CONFIG_AUTO ? config_max_pool_size(config, database, user) : size;
}

int config_standby_pool_size(const struct config *config, const struct config_database *database,
                             const struct config_user *user)
{
	int said = (int)first_said(CONFIG_INHERIT, SAID(database, standby_pool_size),
	                           config->standby_pool_size);

	return said == CONFIG_POOL_SIZE ? config_pool_size(config, database, user) : said;
}

const char *config_host_check_user(const struct config *config,
                                   const struct config_database *database)
{
	const char *auth_user = config_auth_user(config, database);

	if (*config->host_check_user)
		return config->host_check_user;
	if (database->user)
		return database->user;
	return auth_user ? auth_user : "";
}

bool config_needs_roles(const struct config *config, const struct config_database *database)
{
	return database->target_session_attrs != TARGET_ANY ||
	       config_routes_reads(config, database, NULL);
}

static const char *text_said(const char *database, const char *setting)
{
	const char *text = database ? database : setting;

	return text && *text ? text : NULL;
}

const char *config_auth_user(const struct config *config, const struct config_database *database)
{
	return text_said(database ? database->auth_user : NULL, config->auth_user);
}

const char *config_auth_query(const struct config *config, const struct config_database *database)
{
	return text_said(database ? database->auth_query : NULL, config->auth_query);
}

const char *config_auth_dbname(const struct config *config, const struct config_database *database)
{
	return text_said(database ? database->auth_dbname : NULL, config->auth_dbname);
}
