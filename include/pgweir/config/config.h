/* SPDX-License-Identifier: ISC */
/*
 * The configuration: one immutable snapshot.
 *
 * A snapshot is made only if everything in the files is valid. Code that uses a snapshot holds
 * a reference; a reload replaces the snapshot that the daemon hands out. Only this module sees
 * the text of the files.
 *
 * Each row of settings_table.h is a field, of which it says what 0 and the like mean. Durations are
 * microseconds and sizes are bytes, whatever unit the file used. Texts are NULL if nothing was set
 * and the setting has no default; otherwise never NULL, and "" means "none". conffile is the file
 * that was loaded, unless a line or SET gave it another value.
 */
#ifndef PGWEIR_CONFIG_CONFIG_H
#define PGWEIR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/base/refs.h"
#include "pgweir/config/problems.h"

/* ---- authentication methods; what each of them does is in auth/auth_methods.c ---- */

/*
 * METHOD(name, word, missing): the methods that auth_type accepts, in the order of its words.
 * missing: the library that pgweir was built without; NULL: the method is available.
 */
#define AUTH_METHODS_OF_SETTING(METHOD)                                 \
	/* no authentication, and the user may be unknown */            \
	METHOD(ANY, "any", NULL)                                        \
	/* no authentication, but the user must be known */             \
	METHOD(TRUST, "trust", NULL)                                    \
	/* cleartext password */                                        \
	METHOD(PLAIN, "plain", NULL)                                    \
	/* uses SCRAM if the user's secret is a SCRAM secret */         \
	METHOD(MD5, "md5", NULL)                                        \
	METHOD(SCRAM, "scram-sha-256", NULL)                            \
	/* the first matching rule of auth_hba_file names the method */ \
	METHOD(HBA, "hba", NULL)                                        \
	/* user name in the client's certificate */                     \
	METHOD(CERT, "cert", NULL)                                      \
	/* another service checks the password */                       \
	METHOD(PAM, "pam", PGWEIR_PAM ? NULL : "PAM")                   \
	METHOD(LDAP, "ldap", PGWEIR_LDAP ? NULL : "LDAP")

/* Methods that only rules of auth_hba_file can name. */
#define AUTH_METHODS_OF_RULES(METHOD)                         \
	/* system user at the other end of the Unix socket */ \
	METHOD(PEER, "peer", NULL)                            \
	/* refuses all clients */                             \
	METHOD(REJECT, "reject", NULL)

#define AUTH_METHOD_NAME(name, ...) AUTH_METHOD_##name,

enum auth_method {
	AUTH_METHODS_OF_SETTING(AUTH_METHOD_NAME) AUTH_METHODS_OF_RULES(AUTH_METHOD_NAME)
	    AUTH_METHODS
};

enum pool_mode {
	POOL_MODE_SESSION,
	POOL_MODE_TRANSACTION,
	POOL_MODE_STATEMENT,
	POOL_MODE_INHERIT /* only in an entry of [databases] or [users]: not set there */
};

/* What becomes of session state: SET, LISTEN, temporary tables ... Words of session_state. */
enum session_state_mode {
	SESSION_STATE_FOLLOW, /* it follows the client, or the server stays with the client */
	SESSION_STATE_REFUSE, /* statements that would make it are refused */
	SESSION_STATE_OFF,    /* nothing is done about it */
	SESSION_STATE_INHERIT /* only in an entry of [databases] or [users]: not set there */
};

/* When a server is cleaned before another client gets it. Words of session_isolation. */
enum session_isolation {
	SESSION_ISOLATION_KNOWN,  /* if it is not known to be clean */
	SESSION_ISOLATION_STRICT, /* always */
	SESSION_ISOLATION_OFF,    /* if a text says so; the catalog is not read */
	SESSION_ISOLATION_INHERIT /* only in an entry of [databases] or [users]: not set there */
};

/* Which reads go to standbys. Words of route_reads. */
enum route_reads {
	ROUTE_READS_OFF,
	ROUTE_READS_TRANSACTIONS, /* transactions that begin READ ONLY */
	ROUTE_READS_SESSIONS,     /* clients that are read only by their startup packet */
	ROUTE_READS_STATEMENTS,   /* like TRANSACTIONS, and single SELECTs that surely read only */
	ROUTE_READS_INHERIT       /* only in an entry of [databases] or [users]: not set there */
};

/* What a client's read on a standby shows at least. Words of causal_reads. */
enum causal_reads {
	CAUSAL_READS_OFF,     /* whatever the standby has replayed */
	CAUSAL_READS_SESSION, /* what the client has written and read before */
	CAUSAL_READS_INHERIT  /* only in an entry of [databases] or [users]: not set there */
};

/* Between whom a pool's servers are shared. */
enum fair_by {
	FAIR_BY_NONE, /* first come, first served */
	FAIR_BY_USER, /* that clients have logged in as */
	FAIR_BY_APPLICATION,
	FAIR_BY_ADDRESS
};

/* Whose clients come first. */
enum priority { PRIORITY_HIGH, PRIORITY_NORMAL, PRIORITY_LOW };

/* How one of several hosts of an entry is chosen for a new connection. */
enum load_balance_hosts {
	LOAD_BALANCE_ROUND_ROBIN, /* in turn */
	LOAD_BALANCE_DISABLE,     /* always the same one, until a connection to it fails */
	LOAD_BALANCE_LEAST        /* the one with the fewest servers; in turn if equal */
};

/* What the host of a server must be: target_session_attrs of an entry. */
enum target_session_attrs {
	TARGET_ANY,
	TARGET_READ_WRITE, /* a new session may write */
	TARGET_READ_ONLY,
	TARGET_PRIMARY,
	TARGET_STANDBY,
	TARGET_PREFER_STANDBY /* a standby, and if there is none, any host */
};

/* The PgBouncer whose columns the console has. Words of console_version. */
enum console_version {
	CONSOLE_VERSION_1_23,
	CONSOLE_VERSION_1_24,
	CONSOLE_VERSION_1_25,
	CONSOLE_VERSION_1_26
};

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* What TLS is required: client_tls_sslmode, server_tls_sslmode. From least to most strict. */
enum tls_mode {
	TLS_MODE_DISABLE,
	TLS_MODE_ALLOW, /* same as PREFER */
	TLS_MODE_PREFER,
	TLS_MODE_REQUIRE,
	TLS_MODE_VERIFY_CA,
	TLS_MODE_VERIFY_FULL
};

/* Who encrypts TLS 1.3 after the handshake. */
enum tls_records_by { TLS_RECORDS_OWN, TLS_RECORDS_OPENSSL };

/* How TLS begins on a server connection. */
enum tls_negotiation {
	TLS_NEGOTIATION_POSTGRES, /* after an SSLRequest */
	TLS_NEGOTIATION_DIRECT    /* immediately, with ALPN: PostgreSQL 17 and later */
};

/* Whether proxies report their clients' addresses in a PROXY header. */
enum proxy_protocol {
	PROXY_PROTOCOL_OFF,
	PROXY_PROTOCOL_ACCEPT, /* from proxy_protocol_from */
	PROXY_PROTOCOL_REQUIRE /* connections from there without a header are refused */
};

/* The words of these enums; NULL ends them, at the value that inherits if there is one. */
extern const char *const config_pool_modes[];
extern const char *const config_session_states[];
extern const char *const config_session_isolations[];
extern const char *const config_causal_reads_words[];
extern const char *const config_route_reads_words[];
extern const char *const config_load_balances[];
extern const char *const config_priorities[];
extern const char *const config_targets[];

/* A setting that is a list of names. */
struct config_list {
	char *text;   /* as written, for SHOW CONFIG; never NULL */
	size_t count; /* names */
	char **names; /* without blanks around them */
};

#define CONFIG_UNSET (-1)        /* verbose: not set in the file */
#define CONFIG_POOL_SIZE (-1)    /* standby_pool_size: that of the pool */
#define CONFIG_CAP_AUTO (-1)     /* max_host_connections: what PostgreSQL grants */
#define CONFIG_PINS_BY_SIZE (-1) /* max_pinned_servers: all but one of the pool's servers */
#define CONFIG_TRACK_ON 5000     /* track_statements = on */
#define CONFIG_TRACK_MAX 100000  /* greatest value of track_statements */

/* How many settings there are. */
enum {
	settings_count = 0
#define SETTING(type, name, ...) +1
#include "pgweir/config/settings_table.h"
};

struct config_entries; /* of the other sections: config/entries.h */

struct config {
	struct refs refs;
	struct config_entries *entries;
	struct source_pos origins[settings_count]; /* of each row of settings[]: config/config.h */
	struct buf found; /* hosts of entries with hosts_from: config/entries.h */

#define SETTING(type, name, ...) type name;
#include "pgweir/config/settings_table.h"
};

/*
 * Loads a file and the files that it includes. NULL: *problems lists all errors (start with {0};
 * the caller calls problems_done() in any case). The caller owns one reference.
 */
const struct config *config_load(const char *path, struct problems *problems);

/*
 * Loads what is valid in a file that may have errors. Use it only to look for further errors,
 * never to run with. NULL: no memory. config_origin() knows the position of invalid lines too.
 */
const struct config *config_draft(const char *path, struct problems *problems);

const struct config *config_ref(const struct config *config);

/* Gives a reference back and sets NULL; accepts NULL. The last reference frees the snapshot. */
void config_unref(const struct config **config);

/*
 * For a reload: returns `fresh`, but with the values of `running` for all settings that can
 * change only with a restart. Appends the names of those that differ to *differ, comma
 * separated ("listen_port, pidfile"). The caller owns a new reference; NULL: no memory.
 */
const struct config *config_keep_boot_only(const struct config *fresh, const struct config *running,
                                           struct buf *differ);

enum config_change {
	CONFIG_CHANGED,    /* *changed is the new snapshot, owned by the caller */
	CONFIG_AT_RESTART, /* valid, but this setting is read only at start: nothing changed */
	CONFIG_REFUSED     /* *err says why */
};

/* For SET: `old` with one value changed. *changed is set only for CONFIG_CHANGED. */
enum config_change config_with(const struct config *old, const char *name, const char *value,
                               const struct config **changed, struct err *err);

/*
 * `5`, `0.25`, `500ms`, `2 min`: a number without a unit counts `unit`. May be negative. base
 * 0: a whole number without a unit may be written as for value_int().
 */
bool value_time(const char *text, usec_t unit, int base, usec_t *value, struct err *err);

/*
 * Parses the quoted text at *at in place, and moves *at past it. A doubled quote means one quote.
 * NULL: the closing quote is missing.
 */
char *value_take_quoted(char **at);

/* Whether the list contains exactly this name. */
bool config_list_has(const struct config_list *list, const char *name);

/* Returns the query that checks an idle server: "" = an empty query, NULL = no check. */
const char *config_check_query(const struct config *config);

/*
 * ---- what differs, one line per setting or entry ----
 *
 *   default_pool_size: 20 -> 30
 *   listen_port: 6432 -> 7000 (needs a restart)
 *   database "app": changed host, password (its servers are replaced)
 *
 * For an entry only the names of its keys are listed, because some values are passwords.
 */

#define CONFIG_CHANGES_MAX 200 /* lines; further changes are only counted, in one more line */

/*
 * Called for each line. `name` is the setting's name, or `database "app"` and the like. Texts
 * are valid during the call.
 */
typedef void config_tell(void *arg, const char *name, const char *line);

/* Compares settings first, then the entries of [databases], [users] and [peers]. */
void config_compare(const struct config *old, const struct config *fresh, config_tell *tell,
                    void *arg);

/*
 * The same for one setting of a configuration of which only the output of SHOW CONFIG is known
 * (NULL = unset). A setting that `fresh` does not know is ignored.
 */
void config_compare_shown(const char *name, const char *shown, const struct config *fresh,
                          config_tell *tell, void *arg);

/* ---- where a value comes from ---- */

/* The line, variable or SET that set it, see source_pos_text(). No file and line 0: the default. */
struct source_pos config_origin(const struct config *config, const char *name);

/*
 * Returns the line that set this setting, for problems. If there is none: the file as a whole;
 * no file if it was SET. If `name` is not a setting: the file as a whole.
 */
struct source_pos config_source_pos(const struct config *config, const char *name);

/*
 * The same for a text that begins with the name of a setting. If no line set it, uses the next
 * setting in the text that was set by a line.
 */
struct source_pos config_source_pos_of_text(const struct config *config, const char *text);

#endif
