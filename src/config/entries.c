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

/* Adds an entry in place of the one of the same name. false: no memory. */
static bool file_entry(struct config_entries *entries, enum entry_kind_id kind,
                       union config_entry *entry, union config_entry *old)
{
	union config_entry **table = &entries->tables[kind];

	if (is_automatic(kind, entry->name)) {
		entries->automatic = entry;
	} else {
		if (old)
			HASH_DEL(*table, old);
		HASH_ADD_KEYPTR(hh, *table, entry->name, strlen(entry->name), entry);
		if (!entry->hh.tbl) {
			entry_free(&old, kind);
			return false;
		}
	}
	entry_free(&old, kind);
	return true;
}

/* Fills what the name says. false: *err is what is wrong with it. */
static bool name_entry(union config_entry *entry, enum entry_kind_id kind, const char *name,
                       struct err *err)
{
	static const char digits[] = "0123456789abcdef";
	int64_t number;
	char id[16];

	if (kind == ENTRY_PEER) {
		if (!value_int(name, 10, &number, NULL) || number < 1 ||
		    number > CONFIG_PEER_ID_MAX)
			return err_set(err, ERR_CONFIG, "its id must be a number from 1 to %d",
			               CONFIG_PEER_ID_MAX);
		entry->peer.id = (int)number;
		snprintf(id, sizeof(id), "%d", entry->peer.id);
		name = id;
	} else if (kind == ENTRY_STATEMENT) {
		if (strspn(name, digits) == 16 && !name[16])
			entry->statement.digest = strtoull(name, NULL, 16);
		if (!entry->statement.digest)
			return err_set(err, ERR_CONFIG,
			               "its digest must be 16 hexadecimal digits, as in "
			               "SHOW STATEMENTS");
	} else if (kind == ENTRY_DATABASE && strcmp(name, CONFIG_CONSOLE_DATABASE) == 0) {
		return err_set(err, ERR_CONFIG, "this name is reserved for the console");
	}
	if (strlen(name) > (size_t)entry_kinds[kind].name_max)
		return err_set(err, ERR_CONFIG, "its name is longer than %d bytes",
		               entry_kinds[kind].name_max);
	entry->name = strdup(name);
	return entry->name || err_set(err, ERR_MEMORY, "no memory");
}

static bool judge_entry(const struct config_entries *entries, enum entry_kind_id kind,
                        const union config_entry *entry, struct err *err)
{
	const struct config_listener *listener = &entry->listener;
	const struct config_statement *statement = &entry->statement;

	if (kind == ENTRY_PEER && !entry->peer.host)
		return err_set(err, ERR_CONFIG, "host is missing");
	if (kind == ENTRY_PEER && strchr(entry->peer.host, ','))
		return err_set(err, ERR_CONFIG, "host: a peer has one host only");
	if (kind == ENTRY_LISTENER && listener->port == CONFIG_INHERIT)
		return err_set(err, ERR_CONFIG, "port is missing");
	if (kind == ENTRY_LISTENER && !listener->addr && !listener->unix_socket_dir)
		return err_set(err, ERR_CONFIG, "addr and unix_socket_dir are missing");
	if (kind == ENTRY_LISTENER &&
	    HASH_COUNT(entries->tables[ENTRY_LISTENER]) >= CONFIG_LISTENERS_MAX)
		return err_set(err, ERR_CONFIG, "more than %d listeners", CONFIG_LISTENERS_MAX);
	return kind != ENTRY_STATEMENT || statement->block || statement->max_running ||
	       statement->query_timeout != CONFIG_INHERIT ||
	       err_set(err, ERR_CONFIG, "block, max_running and query_timeout are missing");
}

union config_entry *entries_find(const struct config_entries *entries, enum entry_kind_id kind,
                                 const char *name)
{
	union config_entry *entry;

	HASH_FIND_STR(entries->tables[kind], name, entry);
	return entry;
}

void entries_add(struct config_entries *entries, enum entry_kind_id kind, struct source_pos pos,
                 const char *name, char *text, bool may_replace, struct problems *problems)
{
	const struct entry_kind *row = &entry_kinds[kind];
	const char *dots = strlen(name) > (size_t)row->name_max ? "..." : "";
	union config_entry *entry = calloc(1, sizeof(*entry)), *old = NULL;
	struct buf notes = { 0 };
	struct err err;
	bool ok = entry || err_set(&err, ERR_MEMORY, "no memory");

	if (ok) {
		entry_reset(entry, kind);
		entry->pos = pos;
		ok = name_entry(entry, kind, name, &err);
	}
	if (ok)
		old = is_automatic(kind, name) ? entries->automatic
		                               : entries_find(entries, kind, entry->name);
	if (old && old->pos.file && !may_replace)
		problems_warn(problems, pos, "%s \"%s\" is defined twice, line %s:%d is ignored",
		              row->what, name, old->pos.file, old->pos.line);
	ok = ok && entry_read(entry, kind, text, &notes, &err) &&
	     judge_entry(entries, kind, entry, &err);
	if (ok && !file_entry(entries, kind, entry, old))
		ok = err_set(&err, ERR_MEMORY, "no memory");
	if (!ok) {
		problems_add(problems, pos, "%s \"%.*s%s\": %s", row->what, row->name_max, name,
		             dots, err.text);
		entry_free(&entry, kind);
	}
	if (notes.count)
		problems_warn(problems, pos, "%s \"%s\": %s", row->what, name, buf_text(&notes));
	buf_free(&notes);
}

const void *config_entry(const struct config *config, enum entry_kind_id kind, const char *name)
{
	return entries_find(config->entries, kind, name);
}

const void *config_entry_next(const struct config *config, enum entry_kind_id kind,
                              const void *before)
{
	return before ? ((const union config_entry *)before)->hh.next
	              : config->entries->tables[kind];
}

size_t config_entry_count(const struct config *config, enum entry_kind_id kind)
{
	return HASH_COUNT(config->entries->tables[kind]);
}

/* ---- databases ---- */

const struct config_database *config_database_auto(const struct config *config)
{
	return config->entries->automatic ? &config->entries->automatic->database : NULL;
}

const struct config_database *config_database_of(const struct config *config, const char *name)
{
	const struct config_database *own = config_entry(config, ENTRY_DATABASE, name);

	return own ? own : config_database_auto(config);
}

const char *config_database_dbname(const struct config_database *database, const char *name)
{
	return database->dbname ? database->dbname : name;
}

const char *config_load_balance_hosts(const struct config_database *database)
{
	return database->hosts_from || (database->host && strchr(database->host, ','))
	           ? config_load_balances[database->load_balance_hosts]
	           : NULL;
}

const struct config_database *config_database_each(const struct config *config,
                                                   const struct config_database *before)
{
	const struct config_database *automatic = config_database_auto(config), *next;

	if (before && before == automatic)
		return NULL;
	next = config_entry_next(config, ENTRY_DATABASE, before);
	return next ? next : automatic;
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
	while ((user = config_entry_next(config, ENTRY_USER, user))) {
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

int config_peer_pool_size(const struct config *config, const struct config_peer *peer)
{
	return peer->pool_size == CONFIG_INHERIT ? config_greatest_pool_size(config, NULL, NULL)
	                                         : peer->pool_size;
}

/* ---- listeners ---- */

unsigned int config_listener_modes(const struct config *config)
{
	const struct config_listener *listener = NULL;
	unsigned int modes = 0;

	while ((listener = config_entry_next(config, ENTRY_LISTENER, listener))) {
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

/* ---- effective values ---- */

/* clang-format off */
/* In a function with config, database and user. */
#define SAID_WORD(field, inherit) \
	(user && user->field != (inherit)           ? user->field \
	 : database && database->field != (inherit) ? database->field \
	                                            : config->field)
#define TIME(field) \
	shorter(config_first_said(CONFIG_SAID(user, field), CONFIG_SAID(database, field), \
	                          config->field), \
	        CONFIG_SAID(application, field))
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

struct config_rules config_rules(const struct config *config,
                                 const struct config_database *database,
                                 const struct config_user *user, enum pool_mode mode)
{
	struct config_rules rules = {
		.session_state = SAID_WORD(session_state, SESSION_STATE_INHERIT),
		.isolation = SAID_WORD(session_isolation, SESSION_ISOLATION_INHERIT),
		.route_reads = SAID_WORD(route_reads, ROUTE_READS_INHERIT),
	};

	if (mode == POOL_MODE_SESSION)
		rules.session_state = SESSION_STATE_OFF;
	/* no server may stay with a client */
	if (mode == POOL_MODE_STATEMENT && rules.session_state == SESSION_STATE_FOLLOW)
		rules.session_state = SESSION_STATE_REFUSE;
	if (rules.isolation == SESSION_ISOLATION_KNOWN && rules.session_state == SESSION_STATE_OFF)
		rules.isolation = SESSION_ISOLATION_OFF;
	/* A session gets its server once. */
	if (mode == POOL_MODE_SESSION && rules.route_reads != ROUTE_READS_SESSIONS)
		rules.route_reads = ROUTE_READS_OFF;
	rules.is_causal = rules.route_reads != ROUTE_READS_OFF &&
	                  SAID_WORD(causal_reads, CAUSAL_READS_INHERIT) == CAUSAL_READS_SESSION;
	return rules;
}

int config_max_pinned_servers(const struct config *config, const struct config_database *database,
                              const struct config_user *user)
{
	int said = (int)config_first_said(CONFIG_INHERIT, CONFIG_SAID(database, max_pinned_servers),
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
	return (int)config_first_said(CONFIG_SAID(user, pool_size),
	                              CONFIG_SAID(database, pool_size), config->default_pool_size);
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
	int said = (int)config_first_said(CONFIG_INHERIT, CONFIG_SAID(database, standby_pool_size),
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
	bool needs = database->target_session_attrs != TARGET_ANY;

	for (enum pool_mode mode = 0; mode < POOL_MODE_INHERIT && !needs; mode++)
		needs = config_has_mode(config, database, NULL, mode) &&
		        config_rules(config, database, NULL, mode).route_reads != ROUTE_READS_OFF;
	return needs;
}

#define OF_TEXT(name)                                                                          \
	const char *config_##name(const struct config *config,                                 \
	                          const struct config_database *database)                      \
	{                                                                                      \
		const char *text = database && database->name ? database->name : config->name; \
                                                                                               \
		return text && *text ? text : NULL;                                            \
	}

OF_TEXT(auth_user)
OF_TEXT(auth_query)
OF_TEXT(auth_dbname)
