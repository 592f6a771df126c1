/* SPDX-License-Identifier: ISC */
/*
 * The entries of [databases] and [users], found by name.
 */
#define HASH_NONFATAL_OOM 1 /* out of memory: the element is not added and its hh.tbl is NULL */

#include "pgweir/config/entries.h"

#include <stdlib.h>
#include <string.h>

#include "config_priv.h"

/*
 * ---- peers ----
 *
 * The entries of [peers].
 */

#define PEER_PORT 6432

static void peer_free(struct config_peer **peer)
{
	if (!*peer)
		return;
	config_entry_free(*peer, peer_keys, peer_keys_count);
	free(*peer);
	*peer = NULL;
}

/* Frees all peers. */
static void peers_free(struct config_entries *entries)
{
	struct config_peer *peer, *next;

	HASH_ITER (hh, entries->peers, peer, next) {
		HASH_DEL(entries->peers, peer);
		peer_free(&peer);
	}
}

static struct config_peer *peer_new(int id)
{
	struct config_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	entry_reset(peer, peer_keys, peer_keys_count);
	peer->id = id;
	peer->port = PEER_PORT;
	return peer;
}

/* Adds a peer, or replaces the one of the same id. false: no memory. */
static bool file_peer(struct config_entries *entries, struct config_peer *peer)
{
	struct config_peer *old;

	HASH_FIND_INT(entries->peers, &peer->id, old);
	if (old) {
		HASH_DEL(entries->peers, old);
		peer_free(&old);
	}
	HASH_ADD_INT(entries->peers, id, peer);
	return peer->hh.tbl != NULL;
}

static bool judge_host(const struct config_peer *peer, struct err *err)
{
	if (!peer->host)
		return err_set(err, ERR_CONFIG, "host is missing");
	if (strchr(peer->host, ','))
		return err_set(err, ERR_CONFIG, "host: a peer has one host only");
	return true;
}

static bool read_id(const char *name, int *id, struct err *err)
{
	int64_t value;

	if (!value_int(name, 10, &value, NULL) || value < 1 || value > CONFIG_PEER_ID_MAX)
		return err_set(err, ERR_CONFIG, "its id must be a number from 1 to %d",
		               CONFIG_PEER_ID_MAX);
	*id = (int)value;
	return true;
}

static bool add_peer(struct config_entries *entries, const char *name, char *text,
                     struct buf *notes, struct err *err)
{
	struct config_peer *peer;
	bool ok;
	int id = 0;

	if (!read_id(name, &id, err))
		return false;
	peer = peer_new(id);
	if (!peer)
		return err_set(err, ERR_MEMORY, "no memory");
	ok =
	    entry_read(peer, peer_keys, peer_keys_count, text, notes, err) && judge_host(peer, err);
	if (ok && !file_peer(entries, peer))
		ok = err_set(err, ERR_MEMORY, "no memory");
	if (!ok)
		peer_free(&peer);
	return ok;
}

bool peers_add(struct config_entries *entries, const char *name, char *text, struct buf *notes,
               struct err *err)
{
	return add_peer(entries, name, text, notes, err) ||
	       err_prefix(err, "peer \"%.64s\": ", name);
}

struct source_pos *peers_source_pos(struct config_entries *entries, const char *name)
{
	struct config_peer *peer;
	struct err err;
	int id = 0;

	if (!read_id(name, &id, &err))
		return NULL;
	HASH_FIND_INT(entries->peers, &id, peer);
	return peer ? &peer->pos : NULL;
}

static int compare_id(const struct config_peer *a, const struct config_peer *b)
{
	return (a->id > b->id) - (a->id < b->id);
}

void peers_sort(struct config_entries *entries) { HASH_SORT(entries->peers, compare_id); }

const struct config_peer *config_peer_find(const struct config *config, int id)
{
	const struct config_peer *peer;

	HASH_FIND_INT(config->entries->peers, &id, peer);
	return peer;
}

const struct config_peer *config_peer_after(const struct config *config, int id)
{
	const struct config_peer *peer = config_peer_find(config, id);

	if (peer)
		return peer->hh.next;
	for (peer = config->entries->peers; peer && peer->id <= id;)
		peer = peer->hh.next;
	return peer;
}

size_t config_peer_count(const struct config *config) { return HASH_COUNT(config->entries->peers); }

int config_peer_pool_size(const struct config *config, const struct config_peer *peer)
{
	return peer->pool_size == CONFIG_INHERIT ? config->default_pool_size : peer->pool_size;
}

/* ---- databases and users ---- */

#define AUTOMATIC "*"
#define SERVER_PORT 5432

struct config_entries *entries_new(void)
{
	struct config_entries *entries = calloc(1, sizeof(*entries));

	if (entries)
		entries->ref_count = 1;
	return entries;
}

struct config_entries *entries_ref(struct config_entries *entries)
{
	entries->ref_count++;
	return entries;
}

static void database_free(struct config_database **database)
{
	if (!*database)
		return;
	config_entry_free(*database, database_keys, database_keys_count);
	free((*database)->name);
	free(*database);
	*database = NULL;
}

static void user_free(struct config_user **user)
{
	if (!*user)
		return;
	config_entry_free(*user, user_keys, user_keys_count);
	free((*user)->name);
	free(*user);
	*user = NULL;
}

void entries_unref(struct config_entries **entries)
{
	struct config_entries *old = *entries;
	struct config_database *database, *next_database;
	struct config_user *user, *next_user;

	*entries = NULL;
	if (!old || --old->ref_count > 0)
		return;
	HASH_ITER (hh, old->databases, database, next_database) {
		HASH_DEL(old->databases, database);
		database_free(&database);
	}
	HASH_ITER (hh, old->users, user, next_user) {
		HASH_DEL(old->users, user);
		user_free(&user);
	}
	database_free(&old->automatic);
	peers_free(old);
	origins_free_file_names(old);
	free(old);
}

static struct config_database *database_new(const char *name)
{
	struct config_database *database = calloc(1, sizeof(*database));

	if (!database)
		return NULL;
	entry_reset(database, database_keys, database_keys_count);
	database->port = SERVER_PORT;
	database->name = strdup(name);
	if (!database->name)
		database_free(&database);
	return database;
}

/* Adds a database, or replaces the one of the same name. false: no memory. */
static bool file_database(struct config_entries *entries, struct config_database *database)
{
	struct config_database *old;

	if (strcmp(database->name, AUTOMATIC) == 0) {
		database_free(&entries->automatic);
		entries->automatic = database;
		return true;
	}
	HASH_FIND_STR(entries->databases, database->name, old);
	if (old) {
		HASH_DEL(entries->databases, old);
		database_free(&old);
	}
	HASH_ADD_KEYPTR(hh, entries->databases, database->name, strlen(database->name), database);
	return database->hh.tbl != NULL;
}

bool entries_add_database(struct config_entries *entries, const char *name, char *text,
                          struct buf *notes, struct err *err)
{
	struct config_database *database;
	bool ok;

	if (strcmp(name, CONFIG_CONSOLE_DATABASE) == 0)
		return err_set(err, ERR_CONFIG,
		               "database \"%s\": this name is reserved for the console", name);
	if (strlen(name) > CONFIG_DATABASE_NAME_MAX)
		return err_set(err, ERR_CONFIG,
		               "database \"%.63s...\": its name is longer than %d bytes", name,
		               CONFIG_DATABASE_NAME_MAX);
	database = database_new(name);
	if (!database)
		return err_set(err, ERR_MEMORY, "database \"%s\": no memory", name);
	ok = entry_read(database, database_keys, database_keys_count, text, notes, err);
	if (ok && !file_database(entries, database))
		ok = err_set(err, ERR_MEMORY, "no memory");
	if (ok)
		return true;
	database_free(&database);
	return err_prefix(err, "database \"%s\": ", name);
}

static struct config_user *user_new(const char *name)
{
	struct config_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	entry_reset(user, user_keys, user_keys_count);
	user->name = strdup(name);
	if (!user->name)
		user_free(&user);
	return user;
}

/* Adds a user, or replaces the one of the same name. false: no memory. */
static bool file_user(struct config_entries *entries, struct config_user *user)
{
	struct config_user *old;

	HASH_FIND_STR(entries->users, user->name, old);
	if (old) {
		HASH_DEL(entries->users, old);
		user_free(&old);
	}
	HASH_ADD_KEYPTR(hh, entries->users, user->name, strlen(user->name), user);
	return user->hh.tbl != NULL;
}

bool entries_add_user(struct config_entries *entries, const char *name, char *text,
                      struct buf *notes, struct err *err)
{
	struct config_user *user;
	bool ok;

	if (strlen(name) > CONFIG_USER_NAME_MAX)
		return err_set(err, ERR_CONFIG,
		               "user \"%.127s...\": the name is longer than %d bytes", name,
		               CONFIG_USER_NAME_MAX);
	user = user_new(name);
	if (!user)
		return err_set(err, ERR_MEMORY, "user \"%s\": no memory", name);
	ok = entry_read(user, user_keys, user_keys_count, text, notes, err);
	if (ok && !file_user(entries, user))
		ok = err_set(err, ERR_MEMORY, "no memory");
	if (ok)
		return true;
	user_free(&user);
	return err_prefix(err, "user \"%s\": ", name);
}

struct source_pos *entries_source_pos_of_database(struct config_entries *entries, const char *name)
{
	struct config_database *database;

	if (strcmp(name, AUTOMATIC) == 0)
		database = entries->automatic;
	else
		HASH_FIND_STR(entries->databases, name, database);
	return database ? &database->pos : NULL;
}

struct source_pos *entries_source_pos_of_user(struct config_entries *entries, const char *name)
{
	struct config_user *user;

	HASH_FIND_STR(entries->users, name, user);
	return user ? &user->pos : NULL;
}

const struct config_database *config_database_find(const struct config *config, const char *name)
{
	const struct config_database *database;

	HASH_FIND_STR(config->entries->databases, name, database);
	return database;
}

const struct config_database *config_database_auto(const struct config *config)
{
	return config->entries->automatic;
}

const char *config_database_dbname(const struct config_database *database, const char *name)
{
	return database->dbname ? database->dbname : name;
}

const char *config_target_name(enum target_session_attrs target) { return value_targets[target]; }

const char *config_load_balance_hosts(const struct config_database *database)
{
	return database->host && strchr(database->host, ',')
	           ? value_load_balances[database->load_balance_hosts]
	           : NULL;
}

const struct config_database *config_database_next(const struct config *config,
                                                   const struct config_database *before)
{
	return before ? before->hh.next : config->entries->databases;
}

size_t config_database_count(const struct config *config)
{
	return HASH_COUNT(config->entries->databases);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool config_database_same_server(const struct config_database *a, const struct config_database *b,
                                 const char *name)
{
	return same_text(config_database_dbname(a, name), config_database_dbname(b, name)) &&
	       same_text(a->host, b->host) && a->load_balance_hosts == b->load_balance_hosts &&
	       a->target_session_attrs == b->target_session_attrs && a->port == b->port &&
	       same_text(a->user, b->user) && same_text(a->connect_query, b->connect_query) &&
	       same_text(a->auth_dbname, b->auth_dbname) && same_text(a->auth_query, b->auth_query);
}

const struct config_user *config_user_find(const struct config *config, const char *name)
{
	const struct config_user *user;

	HASH_FIND_STR(config->entries->users, name, user);
	return user;
}

const struct config_user *config_user_next(const struct config *config,
                                           const struct config_user *before)
{
	return before ? before->hh.next : config->entries->users;
}

size_t config_user_count(const struct config *config) { return HASH_COUNT(config->entries->users); }
