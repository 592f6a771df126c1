/* SPDX-License-Identifier: ISC */
/*
 * The table of settings: one row each, by name.
 *
 * Only what behaves has a row here. A default is written as in a file, so that
 * file, default and SET go one way.
 */
#include "pgweir/config/settings.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/config/entries.h"

#include "field_priv.h"
#include "value_priv.h"

#include "pgweir/base/banned.h"

/* clang-format off */
#define TYPE(field) _Generic(((struct config *)0)->field, \
	bool: SETTING_BOOL, int: SETTING_INT, size_t: SETTING_BYTES, usec_t: SETTING_TIME, \
	char *: SETTING_TEXT, struct config_list: SETTING_LIST, \
	enum pool_mode: SETTING_WORD, enum auth_type: SETTING_WORD, \
	enum log_format: SETTING_WORD, enum proxy_protocol: SETTING_WORD, \
	enum tls_mode: SETTING_WORD, enum tls_negotiation: SETTING_WORD)
#define SETTING(field, ...) \
	{ .name = #field, .type = TYPE(field), .at = offsetof(struct config, field), __VA_ARGS__ }
#define LIVE .reload = RELOAD_LIVE
#define BOOT .reload = RELOAD_BOOT
#define GROUP(name) .group = GROUP_##name
/* clang-format on */

static const char *const auth_types[] = { "any", "trust", "plain", "md5",  "scram-sha-256",
	                                  "hba", "cert",  "pam",   "ldap", NULL };
static const char *const auth_types_absent[] = {
#if !PGWEIR_PAM
	"PAM",
#endif
#if !PGWEIR_LDAP
	"LDAP",
#endif
	NULL
};
static const char *const log_formats[] = { "text", "json", NULL };
static const char *const proxy_protocols[] = { "off", "accept", "require", NULL };
static const char *const tls_modes[] = { "disable",   "allow",       "prefer", "require",
	                                 "verify-ca", "verify-full", NULL };
static const char *const required_methods[] = { "password", "md5", "scram-sha-256", "none", NULL };
static const char *const tls_negotiations[] = { "postgres", "direct", NULL };

const struct setting settings[] = {
	SETTING(admin_users, .initial = "", .splits_at_blanks = true, LIVE, GROUP(CONSOLE),
	        .help = "Users who may do everything in the console."),
	SETTING(application_name_add_host, .initial = "0", LIVE, GROUP(GENERIC),
	        .help = "Adds the client's address to its application_name at login."),
	SETTING(auth_dbname, .refused = CONFIG_CONSOLE_DATABASE, LIVE, GROUP(AUTH),
	        .help = "The entry of [databases] in which auth_query runs. Without it, the one "
	                "that the client asks for."),
	SETTING(auth_failure_delay, .initial = "0", LIVE, GROUP(AUTH),
	        .help = "A login that fails is told so that much later, but within "
	                "client_login_timeout. 0 = at once."),
	SETTING(auth_failure_limit, .initial = "0", .max = INT32_MAX, LIVE, GROUP(AUTH),
	        .help = "While so many failed logins of one address (of a /64 network, if IPv6) "
	                "wait for auth_failure_delay to be over, all its further logins are "
	                "refused. 0 = no limit."),
	SETTING(auth_file, LIVE, GROUP(AUTH), .help = "The file of users and their secrets."),
	SETTING(auth_hba_file, .initial = "", LIVE, GROUP(AUTH),
	        .help = "The rules of auth_type hba: who may come in, from where, and how. As "
	                "PostgreSQL's pg_hba.conf."),
	SETTING(auth_ident_file, LIVE, GROUP(AUTH),
	        .help = "The maps of names for rules of auth_type hba. As PostgreSQL's "
	                "pg_ident.conf."),
	SETTING(auth_ldap_options, .hidden_with = "ldapbindpasswd", LIVE, GROUP(AUTH),
	        .help = "How auth_type ldap asks its servers: ldapserver, ldapbasedn and so on, as "
	                "in PostgreSQL's pg_hba.conf. Only where LDAP is configured in."),
	SETTING(auth_pam_service, .initial = "pgbouncer", LIVE, GROUP(AUTH),
	        .help = "The PAM service that judges passwords; /directory/name = its file. Only "
	                "where PAM is configured in."),
	SETTING(auth_query,
	        .initial = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE "
	                   "rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
	        LIVE, GROUP(AUTH),
	        .help = "The query that looks up a user who is not in auth_file; $1 is the name. "
	                "Two columns: name and secret. No row, or NULL for the name: there is no "
	                "such user. NULL for the secret: the user has no password, and can log in "
	                "by trust, peer and cert only. Empty = users are not looked up."),
	SETTING(auth_query_cache, .initial = "0", LIVE, GROUP(AUTH),
	        .help = "How long an answer of auth_query is kept for further logins of the same "
	                "user. A login that fails by a kept answer, and RELOAD, make it ask anew. "
	                "0 = each login asks; those that come together share one query."),
	SETTING(auth_type, .initial = "md5", .words = auth_types, .absent = auth_types_absent, LIVE,
	        GROUP(AUTH),
	        .help = "How clients prove who they are. md5 turns to SCRAM for users whose "
	                "secret is a SCRAM secret. trust asks for no proof, but the user must be "
	                "known; any does not even look at the user's name, and needs databases "
	                "with user=. hba: as the rules of auth_hba_file say. cert: the name in "
	                "the client's certificate must be the user's. pam and ldap, where they "
	                "are configured in: the password is judged elsewhere."),
	SETTING(auth_user, LIVE, GROUP(AUTH),
	        .help = "The user that runs auth_query, with its secret from auth_file. Without "
	                "it, only the users of auth_file can come in."),
	SETTING(autodb_idle_timeout, .initial = "3600", LIVE, GROUP(CHECKS),
	        .help = "A database made from the * entry is forgotten when it was unused for so "
	                "long. 0 = never."),
	SETTING(busy_poll, .initial = "0", .max = USEC_PER_SEC, .unit = 1, LIVE, GROUP(NETWORK),
	        .help = "How long the process looks for what comes next, after something has come, "
	                "before it sleeps. Answers a few clients much sooner, where there are "
	                "processors to spare, and uses one of them while they are at work. 0 = it "
	                "sleeps at once."),
	SETTING(cancel_wait_timeout, .initial = "10", LIVE, GROUP(TIMEOUTS),
	        .help = "How long a cancel request may wait until it is sent: for its turn, and "
	                "for its connection to PostgreSQL. 0 = no limit."),
	SETTING(client_idle_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
	        .help = "Closes clients that hold no server and sent nothing for so long. "
	                "0 = never."),
	SETTING(client_login_timeout, .initial = "60", LIVE, GROUP(CHECKS),
	        .help = "Closes clients that have not logged in by then; also while they wait for "
	                "a database's first server. 0 = never."),
	SETTING(client_tls13_ciphers, LIVE, GROUP(TLS),
	        .help =
	            "Cipher suites of TLS 1.3 for clients, with colons between them. Without it, "
	            "those of OpenSSL."),
	SETTING(client_tls_ca_file, .initial = "", LIVE, GROUP(TLS),
	        .help = "The authorities whose client certificates are good. With it clients are "
	                "asked for a certificate; one that is shown must be good. Empty = the "
	                "system's, and clients are asked by verify-ca only."),
	SETTING(client_tls_cert_file, .initial = "", LIVE, GROUP(TLS),
	        .help =
	            "The certificate that clients are shown, and behind it in the same file those "
	            "between it and its authority."),
	SETTING(client_tls_ciphers, .initial = "default", LIVE, GROUP(TLS),
	        .help =
	            "Ciphers up to TLS 1.2 for clients, as OpenSSL writes them. default, secure, "
	            "normal and fast = those of OpenSSL."),
	SETTING(client_tls_dheparams, .initial = "auto", LIVE, GROUP(TLS),
	        .help = "Diffie-Hellman without curves, up to TLS 1.2: auto, none, or legacy (1024 "
	                "bits)."),
	SETTING(client_tls_ecdhcurve, .initial = "auto", LIVE, GROUP(TLS),
	        .help = "Curves for the exchange of keys, as OpenSSL writes them. auto and none = "
	                "those of OpenSSL."),
	SETTING(client_tls_key_file, .initial = "", LIVE, GROUP(TLS),
	        .help = "The private key of client_tls_cert_file. It must not be encrypted."),
	SETTING(client_tls_protocols, .initial = "secure", LIVE, GROUP(TLS),
	        .help =
	            "Versions of TLS for clients: tlsv1.0, tlsv1.1, tlsv1.2, tlsv1.3; all; secure "
	            "= 1.2 and 1.3. A ! before a word takes it away."),
	SETTING(client_tls_sslmode, .initial = "disable", .words = tls_modes, LIVE, GROUP(TLS),
	        .help =
	            "TLS for clients by TCP. allow and prefer: who asks for it gets it. require: "
	            "nobody else gets in. verify-ca and verify-full: and must show a good "
	            "certificate."),
	SETTING(conffile, LIVE, GROUP(GENERIC),
	        .help = "The file that the next RELOAD reads. Without it, the one named on the "
	                "command line."),
	SETTING(core_dumps, .initial = "0", BOOT, GROUP(GENERIC),
	        .help = "Lets the system dump the memory when pgweir crashes, passwords and keys "
	                "included, and lets others of its user look into it (gdb, /proc)."),
	SETTING(default_pool_size, .initial = "20", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Server connections for one user on one database. 0 = no limit."),
	SETTING(disable_pqexec, .initial = "0", BOOT, GROUP(GENERIC),
	        .help = "Refuses the simple query protocol, and with it several statements in "
	                "one string."),
	SETTING(dns_max_ttl, .initial = "15", LIVE, GROUP(CHECKS),
	        .help = "How long a host's addresses are remembered."),
	SETTING(dns_nxdomain_ttl, .initial = "15", LIVE, GROUP(CHECKS),
	        .help = "How long it is remembered that a host was not found."),
	SETTING(dns_zone_check_period, .initial = "0", LIVE, GROUP(CHECKS),
	        .help = "How often the serial numbers of the hosts' DNS zones are asked for (a "
	                "zone is what follows the first dot of a name). When one has grown, all "
	                "names in the zone are looked up again. 0 = never."),
	SETTING(fail_fast, .initial = "0", LIVE, GROUP(TIMEOUTS),
	        .help = "Clients do not wait for a database that cannot be reached: while a pool "
	                "has no server and the last attempt to connect failed, clients that log in "
	                "or need a server get an error at once. Attempts go on in the background, "
	                "every server_login_retry. With several hosts, only when all have failed."),
	SETTING(idle_transaction_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
	        .help = "Closes client and server when nothing happens within a transaction for "
	                "so long. 0 = never."),
	SETTING(ignore_startup_parameters, .initial = "", .splits_at_blanks = true, LIVE,
	        GROUP(GENERIC),
	        .help = "Startup parameters that are dropped, also those that are kept for each "
	                "client otherwise. options here means: drop unknown settings within "
	                "options."),
	SETTING(io_uring, .initial = "1", LIVE, GROUP(NETWORK),
	        .help = "Writes of one turn of the loop go to the kernel together, by io_uring, "
	                "which costs less than a call for each. 0, and where the system has "
	                "none or forbids it (containers often do): one by one."),
	SETTING(job_name, .initial = "pgbouncer", BOOT, GROUP(GENERIC),
	        .help = "A name for this instance, for information only. service_name is another "
	                "name of this setting."),
	SETTING(late_begin, .initial = "0", LIVE, GROUP(GENERIC),
	        .help =
	            "In transaction mode, answers a plain BEGIN or START TRANSACTION at once and "
	            "sends it in front of the first statement behind it, in the same write: "
	            "no server is held for a transaction that has not begun to work, and an "
	            "empty one never takes any. What differs from PostgreSQL is in "
	            "doc/late-begin.md."),
	SETTING(listen_addr, .initial = "", BOOT, GROUP(GENERIC),
	        .help = "Addresses and names to listen on, separated by commas. * = all; "
	                "empty = no TCP."),
	SETTING(listen_backlog, .initial = "128", .max = INT32_MAX, BOOT, GROUP(NETWORK),
	        .help = "New connections that the system may hold for us."),
	SETTING(listen_port, .initial = "6432", .max = 65535, .is_exact = true, BOOT,
	        GROUP(GENERIC),
	        .help = "The TCP port, and the end of the Unix socket's name. 0 = no TCP."),
	SETTING(log_connections, .initial = "1", LIVE, GROUP(LOG),
	        .help = "Logs logins and new server connections."),
	SETTING(log_disconnections, .initial = "1", LIVE, GROUP(LOG),
	        .help = "Logs the end of connections, with its reason."),
	SETTING(log_format, .initial = "text", .words = log_formats, LIVE, GROUP(LOG),
	        .help = "text: as PgBouncer writes it. json: one object a line."),
	SETTING(log_min_duration, .initial = "0", LIVE, GROUP(LOG),
	        .help = "Logs each request that takes so long, waiting included, with the "
	                "beginning of its SQL text as the client wrote it, but never the values "
	                "of its parameters. 0 = off."),
	SETTING(log_pooler_errors, .initial = "1", LIVE, GROUP(LOG),
	        .help = "Logs the errors that pgweir itself sends to clients."),
	SETTING(log_rate_limit, .initial = "5000", .max = INT32_MAX, LIVE, GROUP(LOG),
	        .help = "Lines of one kind (with the same words at their beginning) that are "
	                "logged in a second; then one line says how many more there were. "
	                "0 = no limit."),
	SETTING(log_stats, .initial = "1", LIVE, GROUP(LOG),
	        .help = "Logs a line of figures every stats_period."),
	SETTING(logfile, .initial = "", LIVE, GROUP(LOG),
	        .help = "The file to log to; opened anew by each RELOAD. Empty = none."),
	SETTING(login_notify_message, .initial = "", LIVE, GROUP(CHECKS),
	        .help = "A NOTICE for each client at the end of its login. Empty = none."),
	SETTING(max_client_conn, .initial = "100", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help =
	            "Clients at one time, those that are just logging in included, those of the "
	            "console not. 0 = no limit."),
	SETTING(max_db_client_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Clients on one database. On the console those of admin_users do not "
	                "count. 0 = no limit."),
	SETTING(max_db_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Server connections of one database, all its users together. "
	                "0 = no limit."),
	SETTING(max_packet_size, .initial = "2147483647", .min = 1024, .max = UINT32_MAX, LIVE,
	        GROUP(NETWORK), .help = "A connection that sends a longer message is closed."),
	SETTING(max_prepared_statements, .initial = "200", .max = 1000000, LIVE, GROUP(GENERIC),
	        .help =
	            "Statements that clients prepare by name, in the protocol or by PREPARE, are "
	            "followed in transaction and statement mode, and each server connection knows "
	            "so many of them at a time. 0 = not followed: they fail in these modes."),
	SETTING(max_statement_size, .initial = "16777216", .min = 1024, .max = 512 << 20, LIVE,
	        GROUP(NETWORK),
	        .help = "The longest message that prepares a statement by name, or is a PREPARE, "
	                "EXECUTE or DEALLOCATE, where statements are followed: it is kept until it "
	                "is whole. A longer one is refused. All others pass in pieces, of "
	                "any length."),
	SETTING(max_user_client_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Clients of one user. At the console those of admin_users do not count. "
	                "0 = no limit."),
	SETTING(max_user_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Server connections of one user, all databases together. 0 = no limit."),
	SETTING(min_pool_size, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Server connections that a pool in use keeps open at least."),
	SETTING(peer_id, .initial = "0", .max = 16383, .is_exact = true, LIVE, GROUP(GENERIC),
	        .help = "Our own number among the instances of [peers]: it is written into the "
	                "cancel keys of clients that log in from now on. 0 = no peers."),
	SETTING(pidfile, .initial = "", BOOT, GROUP(GENERIC),
	        .help = "The file for the process id. Needed by --daemon."),
	SETTING(pkt_buf, .initial = "4096", .min = 512, .max = INT32_MAX, BOOT, GROUP(NETWORK),
	        .help = "Bytes of a buffer for what waits on one side of a connection for the "
	                "other; it grows when it has to."),
	SETTING(pool_idle_timeout, .initial = "0", LIVE, GROUP(CHECKS),
	        .help = "A pool without clients and servers is forgotten after so long, and its "
	                "figures with it. 0 = never."),
	SETTING(pool_mode, .initial = "session", .words = value_pool_modes, LIVE, GROUP(GENERIC),
	        .help = "When a server goes back to its pool: when the client leaves (session), "
	                "after each transaction, or after each statement."),
	SETTING(proxy_protocol, .initial = "off", .words = proxy_protocols, LIVE, GROUP(AUTH),
	        .help = "Whether proxies say by a PROXY header (version 1 or 2) who comes "
	                "through them: accept takes it from proxy_protocol_from and from nobody "
	                "else; require also refuses whoever comes from there without one."),
	SETTING(proxy_protocol_from, .initial = "", .splits_at_blanks = true, LIVE, GROUP(AUTH),
	        .help = "The proxies that are believed: addresses, ranges such as 10.0.0.0/8, and "
	                "unix for those that come by the Unix socket."),
	SETTING(query_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
	        .help = "Closes client and server when a query runs for longer. 0 = never."),
	SETTING(query_wait_notify, .initial = "5", .unit = USEC_PER_SEC, LIVE, GROUP(CHECKS),
	        .help = "A client that waits for a server for so long is told so by a NOTICE. "
	                "0 = off."),
	SETTING(query_wait_timeout, .initial = "120", LIVE, GROUP(TIMEOUTS),
	        .help = "How long a query, or a login, may wait for a server. 0 = no limit."),
	SETTING(reserve_pool_size, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
	        .help = "Further server connections for clients that wait for long."),
	SETTING(reserve_pool_timeout, .initial = "5", LIVE, GROUP(GENERIC),
	        .help = "How long a client waits before the reserve is used. 0 = no reserve."),
	SETTING(resolv_conf, .initial = "", BOOT, GROUP(CHECKS),
	        .help = "A file to use in place of /etc/resolv.conf."),
	SETTING(sbuf_loopcnt, .initial = "5", .max = INT32_MAX, LIVE, GROUP(NETWORK),
	        .help = "How many buffers one connection may move in one turn. 0 = no limit."),
	SETTING(scram_iterations, .initial = "4096", .min = 1, .max = INT32_MAX, LIVE,
	        GROUP(GENERIC),
	        .help = "Rounds of key derivation for users whose stored secret is a plain "
	                "password."),
	SETTING(server_check_delay, .initial = "30", LIVE, GROUP(CHECKS),
	        .help = "A server that was idle for so long is checked before it is lent. "
	                "0 = after every use."),
	SETTING(server_check_query, .initial = "<empty>", LIVE, GROUP(CHECKS),
	        .help = "The query that checks a server. The word <empty> = an empty query; "
	                "nothing at all = no check."),
	SETTING(server_connect_timeout, .initial = "15", LIVE, GROUP(CHECKS),
	        .help = "Connecting and logging in to a server must be done in this time. "
	                "0 = no limit."),
	SETTING(server_fast_close, .initial = "0", LIVE, GROUP(CHECKS),
	        .help = "In session mode: closes servers that are to be replaced (RECONNECT, "
	                "changed database) as soon as they are idle, and their clients with them."),
	SETTING(server_idle_timeout, .initial = "600", LIVE, GROUP(CHECKS),
	        .help = "Closes servers that were idle for so long, down to min_pool_size. "
	                "0 = never."),
	SETTING(server_lifetime, .initial = "3600", LIVE, GROUP(CHECKS),
	        .help = "Closes unused servers of this age. 0 = each serves once."),
	SETTING(server_login_retry, .initial = "15", LIVE, GROUP(CHECKS),
	        .help = "The pause after a failed connection or login to a server."),
	SETTING(server_require_auth, .initial = "", .words = required_methods,
	        .splits_at_blanks = true, LIVE, GROUP(AUTH),
	        .help = "How PostgreSQL may authenticate pgweir, in the words of libpq's "
	                "require_auth: by one of these methods, or by none of those with ! in "
	                "front. A server that asks for another method gets no password, and the "
	                "connection to it fails. none: the server asks for nothing. "
	                "Empty = all methods."),
	SETTING(server_reset_query, .initial = "DISCARD ALL", LIVE, GROUP(CHECKS),
	        .help = "Run when a session's server comes back. Empty = none."),
	SETTING(server_reset_query_always, .initial = "0", LIVE, GROUP(CHECKS),
	        .help = "Runs server_reset_query in every pool mode."),
	SETTING(server_round_robin, .initial = "0", LIVE, GROUP(GENERIC),
	        .help = "Lends servers in turn. 0 = the one that came back last."),
	SETTING(server_tls13_ciphers, LIVE, GROUP(TLS),
	        .help =
	            "Cipher suites of TLS 1.3 for servers, with colons between them. Without it, "
	            "those of OpenSSL."),
	SETTING(server_tls_ca_file, .initial = "", LIVE, GROUP(TLS),
	        .help =
	            "The authorities whose server certificates are good. Empty = the system's."),
	SETTING(server_tls_cert_file, .initial = "", LIVE, GROUP(TLS),
	        .help = "The certificate that servers are shown when they ask for one."),
	SETTING(server_tls_ciphers, .initial = "default", LIVE, GROUP(TLS),
	        .help =
	            "Ciphers up to TLS 1.2 for servers, as OpenSSL writes them. default, secure, "
	            "normal and fast = those of OpenSSL."),
	SETTING(server_tls_key_file, .initial = "", LIVE, GROUP(TLS),
	        .help = "The private key of server_tls_cert_file. It must not be encrypted."),
	SETTING(server_tls_negotiation, .initial = "postgres", .words = tls_negotiations, LIVE,
	        GROUP(TLS),
	        .help =
	            "How TLS begins with servers. postgres: they are asked first. direct: at once, "
	            "which saves a round trip and needs PostgreSQL 17 and an sslmode of require "
	            "or stricter."),
	SETTING(server_tls_protocols, .initial = "secure", LIVE, GROUP(TLS),
	        .help = "Versions of TLS for servers, as client_tls_protocols."),
	SETTING(server_tls_sslmode, .initial = "prefer", .words = tls_modes, LIVE, GROUP(TLS),
	        .help =
	            "TLS with servers by TCP. allow and prefer: when the server has it. require: "
	            "always, with whatever certificate. verify-ca: its certificate must be good. "
	            "verify-full: and be that of the host."),
	SETTING(shutdown_drain, .initial = "0", LIVE, GROUP(CHECKS),
	        .help = "At SIGTERM clients are disconnected as by DRAIN, each between two of its "
	                "transactions, all within this time; then the process ends. 0 = it waits "
	                "until they leave by themselves."),
	SETTING(so_reuseport, .initial = "0", BOOT, GROUP(NETWORK),
	        .help = "Lets several processes listen on the same port."),
	SETTING(stats_period, .initial = "60", .min = USEC_PER_SEC, .unit = USEC_PER_SEC, LIVE,
	        GROUP(GENERIC), .help = "The time over which averages are made and logged."),
	SETTING(stats_users, .initial = "", .splits_at_blanks = true, LIVE, GROUP(CONSOLE),
	        .help = "Users who may look at everything in the console."),
	SETTING(suspend_timeout, .initial = "10", LIVE, GROUP(CHECKS),
	        .help = "How long SUSPEND waits for connections in the middle of a message; then "
	                "they are closed. 0 = for ever."),
	SETTING(syslog, .initial = "0", LIVE, GROUP(LOG), .help = "Logs to syslog as well."),
	SETTING(syslog_facility, .initial = "daemon", LIVE, GROUP(LOG),
	        .help = "auth, authpriv, daemon, user, local0 ... local7; anything else = daemon."),
	SETTING(syslog_ident, .initial = "pgbouncer", LIVE, GROUP(LOG),
	        .help = "The name in syslog's lines."),
	SETTING(takeover_timeout, .initial = "3600", LIVE, GROUP(CHECKS),
	        .help = "After a take-over (-R): how long the old process serves those who could "
	                "not be handed over, such as clients with TLS; then they are closed. 0 = "
	                "until they leave."),
	SETTING(tcp_defer_accept, .initial = "1", .max = INT32_MAX, LIVE, GROUP(NETWORK),
	        .help = "The value of TCP_DEFER_ACCEPT: the system hands a connection over when "
	                "it has sent something. 0 = off."),
	SETTING(tcp_keepalive, .initial = "1", LIVE, GROUP(NETWORK), .help = "TCP keepalive."),
	SETTING(tcp_keepcnt, .initial = "0", .max = 127, LIVE, GROUP(NETWORK),
	        .help = "Unanswered keepalives until a connection is lost. 0 = the system's."),
	SETTING(tcp_keepidle, .initial = "0", .max = 32767 * USEC_PER_SEC, .unit = USEC_PER_SEC,
	        .step = USEC_PER_SEC, LIVE, GROUP(NETWORK),
	        .help = "Silence before the first keepalive. 0 = the system's."),
	SETTING(tcp_keepintvl, .initial = "0", .max = 32767 * USEC_PER_SEC, .unit = USEC_PER_SEC,
	        .step = USEC_PER_SEC, LIVE, GROUP(NETWORK),
	        .help = "Time from one keepalive to the next. 0 = the system's."),
	SETTING(tcp_socket_buffer, .initial = "0", .max = INT32_MAX, LIVE, GROUP(NETWORK),
	        .help = "SO_SNDBUF and SO_RCVBUF. 0 = the system's."),
	SETTING(tcp_user_timeout, .initial = "0", .max = INT32_MAX * USEC_PER_MS,
	        .unit = USEC_PER_MS, .step = USEC_PER_MS, LIVE, GROUP(NETWORK),
	        .help = "TCP_USER_TIMEOUT. 0 = the system's."),
	SETTING(track_extra_parameters, .initial = "", BOOT, GROUP(GENERIC),
	        .help = "Further parameters that are kept for each client, of those that the "
	                "server reports. What PostgreSQL itself reports and a client can change "
	                "is kept in any case; this is for names of extensions."),
	SETTING(transaction_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
	        .help = "Closes client and server when a whole transaction takes longer. "
	                "0 = never."),
	SETTING(unix_socket_dir, .initial = "/tmp", BOOT, GROUP(GENERIC),
	        .help =
	            "The directory of the Unix socket, ours and PostgreSQL's. @name = abstract; "
	            "empty = none."),
	SETTING(unix_socket_group, .initial = "", BOOT, GROUP(GENERIC),
	        .help = "The group of the socket file, by name or number."),
	SETTING(unix_socket_mode, .initial = "0777", .max = 0777, .is_exact = true, BOOT,
	        GROUP(GENERIC), .help = "The permissions of the socket file."),
	SETTING(user, BOOT, GROUP(GENERIC),
	        .help = "The system user to become at start: pgweir does not run as root."),
	SETTING(verbose, .max = 3, LIVE, GROUP(LOG),
	        .help = "More in the log: 1 = what helps to find a fault, 2 and 3 = each change of "
	                "a connection's state too. Without it, as -v says."),
};

const size_t settings_count = sizeof(settings) / sizeof(settings[0]);

static int compare_name(const void *name, const void *setting)
{
	return strcmp(name, ((const struct setting *)setting)->name);
}

const struct setting *setting_find(const char *name)
{
	/* Windows' name for it, which is in old files. */
	if (strcmp(name, "service_name") == 0)
		name = "job_name";
	return bsearch(name, settings, settings_count, sizeof(settings[0]), compare_name);
}

const char *setting_group_name(enum setting_group group)
{
	static const char *const names[SETTING_GROUPS] = {
		[GROUP_GENERIC] = "Generic",
		[GROUP_AUTH] = "Authentication",
		[GROUP_LOG] = "Logging",
		[GROUP_CONSOLE] = "Console",
		[GROUP_CHECKS] = "Connection checks",
		[GROUP_TIMEOUTS] = "Time limits for clients",
		[GROUP_TLS] = "TLS",
		[GROUP_NETWORK] = "Network",
	};

	return names[group];
}

bool setting_show(const struct config *config, size_t index, struct setting_shown *shown)
{
	const struct setting *setting = &settings[index];

	if (index >= settings_count)
		return false;
	shown->name = setting->name;
	shown->initial = setting->initial;
	shown->is_changeable = setting->reload == RELOAD_LIVE;
	shown->value = field_text(config, setting, shown->buffer, sizeof(shown->buffer));
	if (setting->hidden_with && shown->value && strstr(shown->value, setting->hidden_with))
		shown->value = "(hidden: there is a password in it)";
	return true;
}

const char *pool_mode_name(enum pool_mode mode) { return value_pool_modes[mode]; }

const char *auth_type_name(enum auth_type type) { return auth_types[type]; }
