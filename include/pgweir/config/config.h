/* SPDX-License-Identifier: ISC */
/*
 * The configuration: one immutable snapshot.
 *
 * A load reads everything and makes a snapshot only when all of it is right;
 * whoever works by a snapshot holds a reference, and a reload replaces the one
 * that the daemon hands out. Nobody else sees the text of the files.
 *
 * The fields are named like the settings (src/config/settings.c has a row for
 * each, with its range, its default and its help). Durations are microseconds,
 * sizes are bytes, whatever unit the file used. Texts: NULL where nothing was
 * set and the setting has no default (auth_file, auth_user, conffile, user); else never
 * NULL, and "" says "none".
 */
#ifndef PGWEIR_CONFIG_CONFIG_H
#define PGWEIR_CONFIG_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/config/auth_method.h"
#include "pgweir/config/problems.h"

enum pool_mode {
	POOL_MODE_SESSION,
	POOL_MODE_TRANSACTION,
	POOL_MODE_STATEMENT,
	POOL_MODE_INHERIT /* only in an entry of [databases] or [users]: nothing set there */
};

/* How one of an entry's several hosts is chosen for a new connection. */
enum load_balance_hosts {
	LOAD_BALANCE_ROUND_ROBIN, /* in turn */
	LOAD_BALANCE_DISABLE      /* the same one, until a connection to it fails */
};

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* How much TLS it must be: client_tls_sslmode, server_tls_sslmode. In the order of strictness. */
enum tls_mode {
	TLS_MODE_DISABLE,
	TLS_MODE_ALLOW, /* as PREFER */
	TLS_MODE_PREFER,
	TLS_MODE_REQUIRE,
	TLS_MODE_VERIFY_CA,
	TLS_MODE_VERIFY_FULL
};

/* How TLS begins with a server. */
enum tls_negotiation {
	TLS_NEGOTIATION_POSTGRES, /* it is asked by SSLRequest */
	TLS_NEGOTIATION_DIRECT    /* at once, with ALPN: PostgreSQL 17 and later */
};

/* Whether proxies say who comes through them, by a PROXY header. */
enum proxy_protocol {
	PROXY_PROTOCOL_OFF,
	PROXY_PROTOCOL_ACCEPT, /* from proxy_protocol_from */
	PROXY_PROTOCOL_REQUIRE /* and nobody from there comes in without one */
};

/* Names out of one setting. */
struct config_list {
	char *text;   /* as written, for SHOW CONFIG; never NULL */
	size_t count; /* names */
	char **names; /* without the blanks around them */
};

#define CONFIG_UNSET (-1) /* verbose: no line says it */

struct origin;         /* where a value comes from: config/origin.h */
struct config_entries; /* [databases], [users], [peers]: config/entries.h, config/peers.h */

struct config {
	atomic_size_t ref_count; /* config_ref(), config_unref(): from any thread */
	struct config_entries *entries;
	struct origin *origins; /* one for each row of settings[] */

	/* generic */
	char *conffile; /* what the next reload reads; set by config_load() unless the file says */
	char *job_name;
	char *pidfile;
	struct config_list listen_addr; /* addresses and names; "*" = all; none = no TCP */
	int listen_port;
	char *unix_socket_dir; /* "" = none; "@..." = abstract */
	int unix_socket_mode;
	char *unix_socket_group;
	char *user;
	enum pool_mode pool_mode;
	int peer_id; /* 0 = none */
	int max_client_conn;
	int default_pool_size; /* 0 = no limit */
	int min_pool_size;
	int reserve_pool_size;
	usec_t reserve_pool_timeout;   /* 0 = no reserve */
	int max_db_connections;        /* 0 = no limit, as the three below */
	int max_db_client_connections; /* ask for the effective values: config/entries.h */
	int max_user_connections;
	int max_user_client_connections;
	int max_prepared_statements; /* 0 = not followed */
	bool late_begin;             /* ask for the effective value */
	bool fail_fast;              /* likewise */
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
	struct config_list server_require_auth; /* empty = any way */
	struct config_list proxy_protocol_from; /* addresses, ranges, "unix" */
	char *auth_ldap_options;                /* with a password in it, perhaps */
	char *auth_pam_service;
	char *auth_user; /* these three: ask for what is in force, config/entries.h */
	char *auth_query;
	char *auth_dbname;
	usec_t auth_query_cache; /* 0 = nothing is kept */

	/* logging */
	char *logfile;
	bool syslog;
	char *syslog_ident;
	char *syslog_facility;
	bool log_connections;
	bool log_disconnections;
	enum log_format log_format;
	usec_t log_min_duration; /* 0 = off */
	bool log_pooler_errors;
	int log_rate_limit; /* lines of one kind a second; 0 = no limit */
	bool log_stats;
	int verbose; /* 0..3, or CONFIG_UNSET */

	/* console */
	struct config_list admin_users;
	struct config_list stats_users;

	/* connection checks and timeouts */
	char *server_reset_query; /* "" = none */
	bool server_reset_query_always;
	char *server_check_query; /* as written: config_check_query() says what to send */
	usec_t server_check_delay;
	bool server_fast_close;
	usec_t server_lifetime;        /* 0 = one use */
	usec_t server_idle_timeout;    /* 0 = never */
	usec_t server_connect_timeout; /* 0 = never */
	usec_t server_login_retry;
	usec_t client_login_timeout; /* 0 = never */
	usec_t autodb_idle_timeout;  /* 0 = never */
	usec_t pool_idle_timeout;    /* 0 = never */
	usec_t dns_max_ttl;
	usec_t dns_nxdomain_ttl;
	usec_t dns_zone_check_period; /* 0 = off */
	char *resolv_conf;            /* "" = the system's */
	usec_t shutdown_drain;        /* 0 = SIGTERM sends nobody away */
	usec_t suspend_timeout;
	usec_t takeover_timeout;  /* 0 = no limit */
	usec_t query_wait_notify; /* 0 = off */
	char *login_notify_message;

	/* dangerous timeouts, 0 = none */
	usec_t query_timeout;
	usec_t query_wait_timeout;
	usec_t cancel_wait_timeout;
	usec_t client_idle_timeout;
	usec_t idle_transaction_timeout;
	usec_t transaction_timeout;

	/* TLS; texts as OpenSSL or a file's path has them */
	enum tls_mode client_tls_sslmode;
	char *client_tls_ca_file;
	char *client_tls_cert_file;
	char *client_tls_key_file;
	char *client_tls_protocols;
	char *client_tls_ciphers;
	char *client_tls13_ciphers; /* NULL = OpenSSL's */
	char *client_tls_dheparams;
	char *client_tls_ecdhcurve;
	enum tls_mode server_tls_sslmode;
	enum tls_negotiation server_tls_negotiation;
	char *server_tls_ca_file;
	char *server_tls_cert_file;
	char *server_tls_key_file;
	char *server_tls_protocols;
	char *server_tls_ciphers;
	char *server_tls13_ciphers; /* NULL = OpenSSL's */

	/* network */
	size_t pkt_buf;
	size_t max_packet_size;
	size_t max_statement_size;
	int listen_backlog;
	int sbuf_loopcnt; /* 0 = no limit */
	usec_t busy_poll;
	bool io_uring;
	bool so_reuseport;
	int tcp_defer_accept;     /* the option's own value; 0 = off */
	size_t tcp_socket_buffer; /* 0 = the system's, as all below */
	bool tcp_keepalive;
	int tcp_keepcnt;
	usec_t tcp_keepidle;     /* whole seconds */
	usec_t tcp_keepintvl;    /* whole seconds */
	usec_t tcp_user_timeout; /* whole milliseconds */
};

/*
 * Reads a file and what it includes. NULL: *problems says all that is wrong
 * (start with {0}; the caller ends it with problems_done() in any case).
 * The caller owns one reference.
 */
const struct config *config_load(const char *path, struct problems *problems);

/*
 * What can be read of a file, though it may have bad lines: to find out what else is wrong
 * with it, never to run by. NULL: no memory. Of a bad line too config_origin() knows where
 * it stands.
 */
const struct config *config_draft(const char *path, struct problems *problems);

/* The same from memory; `name` stands for the file's. %include is refused. */
const struct config *config_parse(struct bytes text, const char *name, struct problems *problems);

const struct config *config_ref(const struct config *config);

/* Gives a reference back and leaves NULL behind; accepts NULL. The last one frees. */
void config_unref(const struct config **config);

/*
 * For a reload: `fresh` with the values of `running` in all that can change only
 * with a restart. Adds the names of the settings that differ to *differ, comma
 * separated ("listen_port, pidfile"); nothing when all agree.
 * A new reference, also when it is `fresh` itself; NULL: no memory.
 */
const struct config *config_keep_boot_only(const struct config *fresh, const struct config *running,
                                           struct buf *differ);

/*
 * `fresh` with the values of `running` in these settings (up to NULL). A new reference, as above.
 */
const struct config *config_keep(const struct config *fresh, const struct config *running,
                                 const char *const *names);

enum config_change {
	CONFIG_CHANGED,    /* *changed is the new snapshot, the caller's */
	CONFIG_HELD,       /* taken, but not in force until other settings fit: *err says why. Not
	                    * from config_with() */
	CONFIG_AT_RESTART, /* a good value, but this setting is read only at start: nothing changed
	                    */
	CONFIG_REFUSED     /* *err says why */
};

/* For the console's SET: `old` with one other value. *changed is set only by CONFIG_CHANGED. */
enum config_change config_with(const struct config *old, const char *name, const char *value,
                               const struct config **changed, struct err *err);

/* Whether the list has this very name. */
bool config_list_has(const struct config_list *list, const char *name);

/* What to send to an idle server to see it live: "" = an empty query, NULL = nothing. */
const char *config_check_query(const struct config *config);

/* "session", "transaction", "statement"; NULL for POOL_MODE_INHERIT. */
const char *config_pool_mode_name(enum pool_mode mode);

#endif
