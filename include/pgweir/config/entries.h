/* SPDX-License-Identifier: ISC */
/*
 * The entries of all sections but [pgbouncer], and the effective values for one user on one
 * database.
 *
 * Entries belong to the snapshot and are valid as long as a reference to it is held. Snapshots
 * that differ only by a SET share them.
 */
#ifndef PGWEIR_CONFIG_ENTRIES_H
#define PGWEIR_CONFIG_ENTRIES_H

#include <stdbool.h>

#include "pgweir/base/table.h"
#include "pgweir/config/config.h"

#define CONFIG_DATABASE_NAME_MAX 63
#define CONFIG_USER_NAME_MAX 127
#define CONFIG_PASSWORD_MAX 65530

/* Name of the console's database; no entry may have it. */
#define CONFIG_CONSOLE_DATABASE "pgbouncer"

#define CONFIG_HOSTS_MAX 64 /* hosts in one list */
#define CONFIG_WEIGHT_MAX 1000
#define CONFIG_INHERIT (-1) /* a number or duration that the entry does not set */
#define CONFIG_AUTO (-2)    /* of pool_size: auto */

/* All kinds of entries begin alike. pos: where it is; .file NULL: not known. */
#define CONFIG_ENTRY           \
	char *name;            \
	struct source_pos pos; \
	UT_hash_handle hh

/*
 * Each row of entry_table.h is a field, of which it says what 0 and the like mean. A key that the
 * line does not have is NULL, CONFIG_INHERIT (as a size_t, too), or the last value of its enum.
 */
struct config_database {
	CONFIG_ENTRY; /* named "*": the automatic database */
#define DATABASE(type, name, ...) type name;
#include "pgweir/config/entry_table.h"
};

struct config_user {
	CONFIG_ENTRY;
#define USER(type, name, ...) type name;
#include "pgweir/config/entry_table.h"
};

enum entry_kind_id {
	ENTRY_DATABASE,
	ENTRY_USER,
	ENTRY_PEER,
	ENTRY_LISTENER,
	ENTRY_APPLICATION,
	ENTRY_STATEMENT,
	ENTRY_KINDS
};

/* NULL: no such entry; the database `*` is none. */
const void *config_entry(const struct config *config, enum entry_kind_id kind, const char *name);

/* In the order of the file, peers by their ids. NULL starts the walk, and ends it. */
const void *config_entry_next(const struct config *config, enum entry_kind_id kind,
                              const void *before);

size_t config_entry_count(const struct config *config, enum entry_kind_id kind);

/* Returns the entry `*`, used for names without an entry; NULL: there is none. */
const struct config_database *config_database_auto(const struct config *config);

/* The entry of this name, else `*`; NULL: neither. */
const struct config_database *config_database_of(const struct config *config, const char *name);

/* Returns the database's name on the server, for a client that requested `name`. */
const char *config_database_dbname(const struct config_database *database, const char *name);

/*
 * Cuts the next host off a list: true, and *host points into the list. Start with *list at its
 * beginning. The list "" has one host, which is empty.
 */
bool config_host_next(const char **list, struct bytes *host);

/* The host of this number, from 0. false: there are not as many. */
bool config_host_at(const char *list, unsigned int number, struct bytes *host);
unsigned int config_host_count(const char *list);

/* The number in `list` of the host that has this number in `before`. -1: it is not there. */
int config_host_number(const char *list, const char *before, unsigned int number);

/* Cuts the port off a host: name:5433, [::1]:5433. Returns it; `port` if there is none. */
int config_host_port(struct bytes *host, int port);

/*
 * The hosts of an entry: config_host_next(). A host is a name, an address or the directory of a
 * Unix socket ("/..", "@.."), and may have a port of its own.
 */
const char *config_hosts(const struct config *config, const struct config_database *database);

/* "round-robin" or "disable"; NULL: the entry has only one host. */
const char *config_load_balance_hosts(const struct config_database *database);

/* As config_entry_next(), and then `*`. */
const struct config_database *config_database_each(const struct config *config,
                                                   const struct config_database *before);

/*
 * Whether servers that entry `a` connected for `name` can be used with entry `b`. Passwords,
 * sizes and startup parameters may differ: they apply to later connections.
 */
bool config_database_same_server(const struct config_database *a, const struct config_database *b,
                                 const char *name);

/*
 * Effective values for one user on one database. `database` (an entry, or `*`) and `user` may be
 * NULL. The user is the pool's (the forced one, if any); but for query_wait_timeout, fail_fast,
 * client_idle_timeout, pin_idle_timeout and max_user_client_connections it is the one that the
 * client logged in as.
 *
 * The user's value, else the database's, else that of the setting. Numbers that mean the same as
 * CONFIG_INHERIT (enum entry_low) were replaced by it when the line was parsed. A number or
 * duration of 0 means no limit, as in the setting; max_standby_lag is how far a standby may be
 * behind to serve reads.
 */
static inline int64_t config_first_said(int64_t user, int64_t database, int64_t setting)
{
	if (user != CONFIG_INHERIT)
		return user;
	return database != CONFIG_INHERIT ? database : setting;
}

#define CONFIG_SAID(entry, field) ((entry) ? (int64_t)(entry)->field : CONFIG_INHERIT)

#define CONFIG_OF_BOTH(type, name)                                                         \
	static inline type config_##name(const struct config *config,                      \
	                                 const struct config_database *database,           \
	                                 const struct config_user *user)                   \
	{                                                                                  \
		return (type)config_first_said(CONFIG_SAID(user, name),                    \
		                               CONFIG_SAID(database, name), config->name); \
	}
#define CONFIG_OF_DATABASE(type, name)                                                      \
	static inline type config_##name(const struct config *config,                       \
	                                 const struct config_database *database)            \
	{                                                                                   \
		return (type)config_first_said(CONFIG_INHERIT, CONFIG_SAID(database, name), \
		                               config->name);                               \
	}
#define CONFIG_OF_USER(type, name)                                                      \
	static inline type config_##name(const struct config *config,                   \
	                                 const struct config_user *user)                \
	{                                                                               \
		return (type)config_first_said(CONFIG_SAID(user, name), CONFIG_INHERIT, \
		                               config->name);                           \
	}

CONFIG_OF_BOTH(bool, late_begin)
CONFIG_OF_BOTH(int, max_pool_size)
CONFIG_OF_BOTH(int, reserve_pool_size)
CONFIG_OF_BOTH(usec_t, query_wait_timeout)
CONFIG_OF_BOTH(bool, fail_fast)
CONFIG_OF_DATABASE(int, min_pool_size)
CONFIG_OF_DATABASE(usec_t, max_standby_lag)
CONFIG_OF_DATABASE(size_t, max_standby_lag_bytes)
CONFIG_OF_DATABASE(usec_t, server_lifetime)
CONFIG_OF_DATABASE(int, max_db_connections)
CONFIG_OF_DATABASE(int, max_db_client_connections)
CONFIG_OF_USER(int, max_user_connections)
CONFIG_OF_USER(usec_t, client_idle_timeout)
CONFIG_OF_USER(usec_t, pin_idle_timeout)
CONFIG_OF_USER(int, max_user_client_connections)

/*
 * The limits of queries and transactions; 0 = no limit. application: the entry of the client's
 * application_name, which makes them shorter; or NULL.
 */
struct config_times {
	usec_t query, idle_transaction, transaction;
};

struct config_application;
struct config_times config_times(const struct config *config,
                                 const struct config_database *database,
                                 const struct config_user *user,
                                 const struct config_application *application);

/* The mode of clients whose listener has none. */
enum pool_mode config_pool_mode(const struct config *config, const struct config_database *database,
                                const struct config_user *user);
/* Whether clients of this pool can have this mode: it is the pool's, or a listener has it. */
bool config_has_mode(const struct config *config, const struct config_database *database,
                     const struct config_user *user, enum pool_mode mode);
/* What applies to clients of this pool in this mode. */
struct config_rules {
	enum session_state_mode session_state; /* in session mode OFF */
	/* of the pool's servers. Where nothing is done about session state, KNOWN is OFF */
	enum session_isolation isolation;
	enum route_reads route_reads;
	bool is_causal; /* reads on standbys show what their client has written and read */
};

struct config_rules config_rules(const struct config *config,
                                 const struct config_database *database,
                                 const struct config_user *user, enum pool_mode mode);
/* How many servers of the pool may stay with their clients. INT_MAX = no limit. */
int config_max_pinned_servers(const struct config *config, const struct config_database *database,
                              const struct config_user *user);
/* The functions whose use makes the server stay. Valid as long as the snapshot. */
const struct config_list *config_pin_functions(const struct config *config,
                                               const struct config_database *database);
/* CONFIG_AUTO: config_greatest_pool_size() is the greatest one; 0 = no limit. */
int config_pool_size(const struct config *config, const struct config_database *database,
                     const struct config_user *user);
int config_greatest_pool_size(const struct config *config, const struct config_database *database,
                              const struct config_user *user);
/* The size of the pool on standbys; CONFIG_AUTO. */
int config_standby_pool_size(const struct config *config, const struct config_database *database,
                             const struct config_user *user);
/* Whether the roles of the entry's hosts matter, for users without a value of their own. */
bool config_needs_roles(const struct config *config, const struct config_database *database);
/* The user that asks the hosts of an entry for their roles. "" = one whose login has worked. */
const char *config_host_check_user(const struct config *config,
                                   const struct config_database *database);

/*
 * How users that are not in auth_file are looked up, for this database (NULL: the console).
 * auth_user or auth_query NULL: not at all. auth_dbname NULL: in that database itself.
 */
const char *config_auth_user(const struct config *config, const struct config_database *database);
const char *config_auth_query(const struct config *config, const struct config_database *database);
const char *config_auth_dbname(const struct config *config, const struct config_database *database);

/* ---- [peers]: other instances, to which cancel requests for their clients are forwarded ---- */

#define CONFIG_PEER_ID_MAX 65535 /* largest id in [peers]; peer_id itself is at most 16383 */
#define CONFIG_PEER_HOST_MAX 255 /* bytes */

struct config_peer {
	CONFIG_ENTRY; /* named by its id, in decimal digits */
	int id;
#define PEER(type, name, ...) type name;
#include "pgweir/config/entry_table.h"
};

/* How many cancel requests may be forwarded to it at the same time. 0 = no limit. */
int config_peer_pool_size(const struct config *config, const struct config_peer *peer);

/*
 * ---- listeners ----
 *
 * [listeners]: further addresses to listen on. An entry holds for clients that come by it, the
 * settings for all else; the listener of listen_addr and listen_port has no entry.
 */

#define CONFIG_LISTENERS_MAX 32

struct config_listener {
	CONFIG_ENTRY;
#define LISTENER(type, name, ...) type name;
#include "pgweir/config/entry_table.h"
};

/* The modes that listeners have: a bit for each. */
unsigned int config_listener_modes(const struct config *config);

/* Whether its clients may use that database. */
bool config_listener_has(const struct config_listener *listener, const char *database);

/* A snapshot whose settings have the values of the entry. NULL: *err says why. */
const struct config *config_of_listener(const struct config *config,
                                        const struct config_listener *listener, struct err *err);

/* ---- [applications] and [statements], in the order of the file ---- */

/* Limits by application_name. CONFIG_INHERIT: none of its own. */
struct config_application {
	CONFIG_ENTRY; /* named by a pattern: * = any text */
#define APPLICATION(type, name, ...) type name;
#include "pgweir/config/entry_table.h"
};

/* The first entry whose pattern fits the name. NULL: none. */
const struct config_application *config_application_find(const struct config *config,
                                                         const char *name);

struct config_statement {
	CONFIG_ENTRY; /* named by its digest (pgwire/sql_digest.h), 16 hexadecimal digits */
	uint64_t digest;
#define STATEMENT(type, name, ...) type name;
#include "pgweir/config/entry_table.h"
};

/*
 * ---- hosts_from: where the hosts of an entry are found, if its line does not name them ----
 *
 * Those that were found are part of a snapshot.
 */

struct strbuf;

#define HOSTS_SOURCE_MAX 1024 /* bytes of a text */

enum hosts_source_kind {
	HOSTS_FROM_SRV,    /* the SRV records of `path` */
	HOSTS_FROM_PATRONI /* the REST interface of Patroni */
};

/* A text of hosts_from in parts, which borrow from it. */
struct hosts_source {
	enum hosts_source_kind kind;
	bool is_tls;
	struct bytes login; /* user:password; empty: none */
	struct bytes hosts; /* separated by commas */
	struct bytes path;  /* with its slash; empty: that of the cluster */
};

/* false: *err says what it must be. */
bool hosts_source_read(const char *text, struct hosts_source *source, struct err *err);

/* How many hosts it has to ask, and one of them with its port: config_host_port(). */
unsigned int hosts_source_count(const struct hosts_source *source);
struct bytes hosts_source_host(const struct hosts_source *source, unsigned int number);

/*
 * Whether an answer names a host by that: a name or an address that can be an item of a list, and
 * is no directory of a Unix socket.
 */
bool hosts_source_names_host(struct bytes name);

/* As people may see it: without the login. */
void hosts_source_show(const struct hosts_source *source, struct strbuf *out);

/* The list that was found for a text of hosts_from; NULL: none yet. */
const char *config_found_hosts(const struct config *config, const char *source);

/* A snapshot with this list. The caller owns a new reference; NULL: no memory. */
const struct config *config_with_found(const struct config *old, const char *source,
                                       const char *list);

#endif
