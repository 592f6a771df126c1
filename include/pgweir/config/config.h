/* SPDX-License-Identifier: ISC */
/*
 * The configuration: one immutable snapshot.
 *
 * A snapshot is made only if everything in the files is valid. Code that uses a snapshot holds
 * a reference; a reload replaces the snapshot that the daemon hands out. Only this module sees
 * the text of the files.
 *
 * The fields have the names of the settings (src/config/settings.c has a row for each, with
 * range, default and help). Durations are microseconds and sizes are bytes, whatever unit the
 * file used. Texts are NULL if nothing was set and the setting has no default (auth_file,
 * auth_user, conffile, user); otherwise never NULL, and "" means "none".
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

struct origin;         /* where a value comes from: config/changes.h */
struct config_entries; /* of the other sections: config/entries.h */

struct config {
	struct refs refs;
	struct config_entries *entries;
	struct origin *origins; /* one for each row of settings[] */
	struct buf found;       /* hosts of entries with hosts_from: config/hosts_from.h */

	/* generic */
	char *conffile; /* file for the next reload; config_load() sets it unless the file does */
	char *job_name;
	char *pidfile;
	struct config_list listen_addr; /* addresses and names; "*" = all; empty = no TCP */
	int listen_port;
	char *unix_socket_dir; /* "" = none; "@..." = abstract */
	int unix_socket_mode;
	char *unix_socket_group;
	char *user;
	enum pool_mode pool_mode;
	int peer_id;     /* 0 = none */
	char *peers_dns; /* "" = none */
	char *peers_secret_file;
	int max_client_conn;
	int default_pool_size; /* 0 = no limit; CONFIG_AUTO */
	int min_pool_size;
	int max_pool_size; /* of those that are CONFIG_AUTO */
	int reserve_pool_size;
	int standby_pool_size;         /* CONFIG_POOL_SIZE: as large as the pool */
	usec_t reserve_pool_timeout;   /* 0 = no reserve */
	int max_db_connections;        /* 0 = no limit, as the three below */
	int max_db_client_connections; /* effective values may differ: see config/entries.h */
	int max_user_connections;
	int max_host_connections; /* may be CONFIG_CAP_AUTO */
	int max_server_connections;
	int max_user_client_connections;
	int max_prepared_statements; /* 0 = prepared statements are not tracked */
	bool late_begin;             /* effective value may differ */
	bool fail_fast;              /* effective value may differ */
	enum session_state_mode session_state;
	enum session_isolation session_isolation; /* effective value may differ */
	enum route_reads route_reads;
	enum causal_reads causal_reads;
	usec_t causal_reads_wait;
	usec_t max_standby_lag;       /* 0 = no limit */
	size_t max_standby_lag_bytes; /* 0 = no limit */
	int max_pinned_servers;       /* CONFIG_PINS_BY_SIZE, or a number; 0 = none */
	struct config_list pin_functions;
	struct config_list read_functions;
	int track_statements; /* of each loop; 0 = off */
	int session_sample;   /* one transaction in this many is asked for hidden state; 0 = none */
	bool session_audit;
	bool server_round_robin;
	struct config_list track_extra_parameters;
	struct config_list ignore_startup_parameters;
	bool disable_pqexec;
	bool application_name_add_host;
	usec_t stats_period;
	int scram_iterations;
	bool core_dumps;

	/* authentication */
	enum auth_method auth_type;
	char *auth_file;
	char *auth_hba_file;
	char *auth_ident_file;
	usec_t auth_failure_delay; /* 0 = none */
	int auth_failure_limit;    /* 0 = none */
	enum proxy_protocol proxy_protocol;
	struct config_list server_require_auth; /* empty = any method */
	struct config_list metrics_listen; /* ADDRESS:PORT, unix:/PATH; empty = no web server */
	struct config_list metrics_allow;  /* addresses, ranges, "unix" */
	bool metrics_tls;
	char *metrics_secret_file;              /* "" = none */
	struct config_list metrics_hosts;       /* names by which browsers may ask; "*" = all */
	struct config_list proxy_protocol_from; /* addresses, ranges, "unix" */
	char *auth_ldap_options;                /* may contain a password */
	char *auth_pam_service;
	char *auth_user; /* effective values of these three may differ: config/entries.h */
	char *auth_query;
	char *auth_dbname;
	usec_t auth_query_cache; /* 0 = nothing is cached */

	/* logging */
	char *logfile;
	bool syslog;
	char *syslog_ident;
	char *syslog_facility;
	bool log_connections;
	bool log_disconnections;
	enum log_format log_format;
	usec_t log_min_duration; /* 0 = off */
	usec_t log_pin_duration; /* 0 = off */
	bool log_pooler_errors;
	int log_rate_limit; /* lines of one kind per second; 0 = no limit */
	bool log_stats;
	int verbose; /* 0..3, or CONFIG_UNSET */

	/* console */
	struct config_list admin_users;
	struct config_list stats_users;
	enum console_version console_version;

	/* connection checks and timeouts */
	char *server_reset_query; /* "" = none */
	bool server_reset_query_always;
	char *server_check_query; /* as written; config_check_query() returns what to send */
	usec_t server_check_delay;
	bool server_fast_close;
	usec_t server_lifetime;        /* 0 = each server is used once */
	usec_t server_idle_timeout;    /* 0 = never */
	usec_t server_connect_timeout; /* 0 = never */
	usec_t server_login_retry;
	usec_t client_login_timeout; /* 0 = never */
	usec_t autodb_idle_timeout;  /* 0 = never */
	usec_t pool_idle_timeout;    /* 0 = never */
	usec_t dns_max_ttl;
	usec_t dns_nxdomain_ttl;
	usec_t dns_zone_check_period; /* 0 = off */
	char *resolv_conf;            /* "" = that of the system */
	usec_t shutdown_accept;       /* 0 = SIGTERM closes the port */
	usec_t shutdown_drain;        /* 0 = SIGTERM disconnects no client */
	struct config_list shutdown_drain_signals;
	usec_t suspend_timeout;
	usec_t takeover_timeout;  /* 0 = no limit */
	usec_t query_wait_notify; /* 0 = off */
	char *login_notify_message;

	/* dangerous timeouts, 0 = none */
	usec_t query_timeout;
	usec_t query_wait_timeout;
	usec_t cancel_abandoned;
	usec_t cancel_grace;
	int max_waiting; /* of each pool; 0 = no limit */
	usec_t queue_target, queue_interval;
	enum fair_by fair_by;
	usec_t cancel_wait_timeout;
	usec_t client_idle_timeout;
	usec_t pin_idle_timeout;
	usec_t idle_transaction_timeout;
	usec_t host_check_interval, host_check_timeout;
	usec_t hosts_from_period;
	char *hosts_from_ca_file;
	char *host_check_user; /* "" = not set */
	bool host_check_borrow;
	usec_t transaction_timeout;

	/* TLS; texts are in OpenSSL's format, or paths of files */
	enum tls_records_by tls_records;
	enum tls_mode client_tls_sslmode;
	char *client_tls_ca_file;
	char *client_tls_cert_file;
	char *client_tls_key_file;
	struct config_list client_tls_name_files;
	char *client_tls_protocols;
	char *client_tls_ciphers;
	char *client_tls13_ciphers; /* NULL = default of OpenSSL */
	char *client_tls_dheparams;
	char *client_tls_ecdhcurve;
	enum tls_mode server_tls_sslmode;
	enum tls_negotiation server_tls_negotiation;
	char *server_tls_ca_file;
	char *server_tls_cert_file;
	char *server_tls_key_file;
	char *server_tls_protocols;
	char *server_tls_ciphers;
	char *server_tls13_ciphers; /* NULL = default of OpenSSL */

	/* network */
	size_t pkt_buf;
	size_t max_packet_size;
	size_t max_statement_size;
	int listen_backlog;
	int sbuf_loopcnt; /* 0 = no limit */
	usec_t busy_poll;
	int loops;            /* 0 (auto): as many as there are processors */
	int servers_per_loop; /* 0 = the clients of each pool are in all loops */
	bool io_uring;
	bool so_reuseport;
	int tcp_defer_accept;     /* value of the socket option; 0 = off */
	size_t tcp_socket_buffer; /* 0 = default of the system, also for the settings below */
	bool tcp_keepalive;
	int tcp_keepcnt;
	usec_t tcp_keepidle;     /* whole seconds */
	usec_t tcp_keepintvl;    /* whole seconds */
	usec_t tcp_user_timeout; /* whole milliseconds */
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

/* config_load() from memory; `name` is used as the file's. %include is refused. */
const struct config *config_parse(struct bytes text, const char *name, struct problems *problems);

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

/* Whether the list contains exactly this name. */
bool config_list_has(const struct config_list *list, const char *name);

/* Returns the query that checks an idle server: "" = an empty query, NULL = no check. */
const char *config_check_query(const struct config *config);

/* "session", "transaction", "statement"; NULL for POOL_MODE_INHERIT. */
const char *config_pool_mode_name(enum pool_mode mode);

/* "high", "normal", "low" */
const char *config_priority_name(enum priority priority);

#endif
