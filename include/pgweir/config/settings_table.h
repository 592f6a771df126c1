/* SPDX-License-Identifier: ISC */
/*
 * The settings, sorted by name: the fields of struct config, and the rows of settings[]. A file
 * that includes it defines SETTING(type of the field, name, what settings.h has for it).
 *
 * A setting has a row only if it has an effect. A default is written as in a file, so that a
 * line of the file, a default and SET are parsed by the same code.
 */
SETTING(struct config_list, admin_users, .initial = "", .splits_at_blanks = true, LIVE,
        GROUP(CONSOLE), .help = "Users who may run every console command.")
SETTING(bool, application_name_add_host, .initial = "0", LIVE, GROUP(GENERIC),
        .help = "Appends the client's address and port to its application_name at login.")
SETTING(char *, auth_dbname, .judge = field_judges_database, LIVE, GROUP(AUTH),
        .help = "The entry of [databases] in which auth_query runs (default: the database that "
                "the client requests).")
SETTING(usec_t, auth_failure_delay, .initial = "0", LIVE, GROUP(AUTH),
        .help = "Delay before a failed login is reported to the client. The delay ends with "
                "client_login_timeout at the latest. Holds for wrong secrets of "
                "metrics_secret_file too. 0 = no delay.")
SETTING(int, auth_failure_limit, .initial = "0", .max = INT32_MAX, LIVE, GROUP(AUTH),
        .help = "Refuses further logins from an address (IPv6: from a /64 network) while this "
                "many of its failed logins are being delayed by auth_failure_delay. 0 = no limit.")
SETTING(char *, auth_file, LIVE, GROUP(AUTH), .help = "File of user names and their secrets.")
SETTING(char *, auth_hba_file, .initial = "", LIVE, GROUP(AUTH),
        .help = "File of rules for auth_type hba: which users may connect, from which addresses, "
                "and how they authenticate. Same format as PostgreSQL's pg_hba.conf.")
SETTING(char *, auth_ident_file, LIVE, GROUP(AUTH),
        .help = "File of user name maps for the rules of auth_type hba. Same format as "
                "PostgreSQL's pg_ident.conf.")
SETTING(char *, auth_ldap_options, .hidden_with = "ldapbindpasswd", LIVE, GROUP(AUTH),
        .help = "Options of auth_type ldap (ldapserver, ldapbasedn, ...), with the names of "
                "PostgreSQL's pg_hba.conf. Only if pgweir was built with LDAP.")
SETTING(char *, auth_pam_service, .initial = "pgbouncer", LIVE, GROUP(AUTH),
        .help = "PAM service that checks passwords; /directory/name = its file. Only if pgweir "
                "was built with PAM.")
SETTING(char *, auth_query,
        .initial = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword "
                   "END FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
        LIVE, GROUP(AUTH),
        .help = "Query that looks up a user not in auth_file; $1 is the user name. It must return "
                "two columns: name and secret (password or hash). No row, or a NULL name: the "
                "user does not exist. A NULL secret: the user has no password and can log in with "
                "trust, peer and cert only. Empty = no lookup.")
SETTING(usec_t, auth_query_cache, .initial = "0", LIVE, GROUP(AUTH),
        .help = "How long a result of auth_query is cached for further logins of the same user. A "
                "failed login with a cached result, and RELOAD, discard it. 0 = each login runs "
                "the query; simultaneous logins of one user share it.")
SETTING(enum auth_method, auth_type, .initial = "md5", .words = auth_types,
        .missing = auth_types_missing, LIVE, GROUP(AUTH),
        .help = "Authentication method for clients. md5: uses SCRAM for users whose secret is a "
                "SCRAM secret. trust: no password is requested, but the user must exist. any: "
                "ignores the user name; databases then need user=. hba: the rules of "
                "auth_hba_file choose the method. cert: the name in the client certificate must "
                "be the user name. pam, ldap: PAM or an LDAP server checks the password, if "
                "pgweir was built with it.")
SETTING(char *, auth_user, LIVE, GROUP(AUTH),
        .help = "User that runs auth_query; its secret is read from auth_file. If not set, only "
                "users of auth_file can log in.")
SETTING(usec_t, autodb_idle_timeout, .initial = "3600", LIVE, GROUP(CHECKS),
        .help = "A database created from the * entry is removed after being unused for this long. "
                "0 = never.")
SETTING(usec_t, busy_poll, .initial = "0", .max = USEC_PER_SEC, .unit = 1, LIVE, GROUP(NETWORK),
        .help = "How long the process keeps polling for events before it sleeps. Lowers the "
                "latency for few clients if CPUs are idle, and keeps one CPU for each event loop "
                "(loops) busy while clients are active. 0 = sleeps at once.")
SETTING(usec_t, cancel_abandoned, .initial = "0", LIVE, GROUP(TIMEOUTS), .since = "0.4.0",
        .help = "How long a statement may run on whose client's connection was lost; then it is "
                "cancelled in PostgreSQL. 0 = it is cancelled at once.")
SETTING(usec_t, cancel_grace, .initial = "10", LIVE, GROUP(TIMEOUTS), .since = "0.4.0",
        .help = "When a time limit ends a transaction, or a client leaves within one, the "
                "statement is cancelled in PostgreSQL, and the server is rolled back, cleaned by "
                "DISCARD ALL and kept. How long that may take; then the server is closed. 0 = it "
                "is always closed.")
SETTING(usec_t, cancel_wait_timeout, .initial = "10", LIVE, GROUP(TIMEOUTS),
        .help = "How long a cancel request may wait before it is sent: in its queue, and for its "
                "connection to PostgreSQL. 0 = no limit. Also how long the connection of a "
                "statement that nobody waits for is kept until PostgreSQL has ended it, 10 s at "
                "most.")
SETTING(enum causal_reads, causal_reads, .initial = "off", .words = config_causal_reads_words, LIVE,
        GROUP(GENERIC), .since = "0.3.0",
        .help = "With route_reads, session: a client's read on a standby shows at least what that "
                "client has written and read before. A standby that has not replayed that much is "
                "waited for up to causal_reads_wait; then the primary serves the read. off: a "
                "read shows what the standby has replayed.")
SETTING(usec_t, causal_reads_wait, .initial = "0.1", LIVE, GROUP(GENERIC), .since = "0.3.0",
        .help = "With causal_reads, how long a read waits for a standby that has not replayed "
                "enough, before the primary serves it. 0 = it does not wait.")
SETTING(usec_t, client_idle_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
        .help = "Closes a client connection that has no server and has sent nothing for this "
                "long. 0 = never.")
SETTING(usec_t, client_login_timeout, .initial = "60", LIVE, GROUP(CHECKS),
        .help = "Closes a client connection that has not logged in within this time. Waiting for "
                "the first server of a database counts. 0 = never.")
SETTING(char *, client_tls13_ciphers, LIVE, GROUP(TLS),
        .help = "TLS 1.3 cipher suites for client connections, separated by colons (default: "
                "those of OpenSSL).")
SETTING(char *, client_tls_ca_file, .initial = "", LIVE, GROUP(TLS),
        .help = "File of certificate authorities that client certificates are verified against. "
                "If set, clients are asked for a certificate, and one that is sent must be valid. "
                "Empty = the system's authorities; then only verify-ca and verify-full ask for a "
                "certificate.")
SETTING(char *, client_tls_cert_file, .initial = "", LIVE, GROUP(TLS),
        .help = "Certificate that is sent to clients, followed in the same file by its "
                "intermediate certificates.")
SETTING(char *, client_tls_ciphers, .initial = "default", LIVE, GROUP(TLS),
        .help = "Ciphers for client connections up to TLS 1.2, in OpenSSL's format. default, "
                "secure, normal and fast = those of OpenSSL.")
SETTING(char *, client_tls_dheparams, .initial = "auto", LIVE, GROUP(TLS),
        .help = "Diffie-Hellman without elliptic curves, up to TLS 1.2: auto, none, or legacy "
                "(1024 bits).")
SETTING(char *, client_tls_ecdhcurve, .initial = "auto", LIVE, GROUP(TLS),
        .help = "Curves for the key exchange, in OpenSSL's format. auto and none = those of "
                "OpenSSL.")
SETTING(char *, client_tls_key_file, .initial = "", LIVE, GROUP(TLS),
        .help = "Private key of client_tls_cert_file. It must not be encrypted.")
SETTING(struct config_list, client_tls_name_files, .since = "0.4.0", .initial = "", LIVE,
        GROUP(TLS),
        .help = "At most 1000 files, separated by commas, each with a certificate, its "
                "intermediate certificates and its key. A client that asks for a server name "
                "(SNI) which is not in client_tls_cert_file gets the first of these that has it; "
                "others get client_tls_cert_file.")
SETTING(char *, client_tls_protocols, .initial = "secure", LIVE, GROUP(TLS),
        .help = "TLS versions for client connections: tlsv1.0, tlsv1.1, tlsv1.2, tlsv1.3; all; "
                "secure = 1.2 and 1.3. A ! before a word excludes that version.")
SETTING(enum tls_mode, client_tls_sslmode, .initial = "disable", .words = tls_modes, LIVE,
        GROUP(TLS),
        .help = "TLS for client connections by TCP. allow, prefer: used if the client requests "
                "it. require: clients without TLS are refused. verify-ca, verify-full: the client "
                "must also send a valid certificate.")
SETTING(char *, conffile, LIVE, GROUP(GENERIC),
        .help = "Configuration file to read at the next RELOAD (default: the one given on the "
                "command line).")
SETTING(enum console_version, console_version, .initial = "1.26", .words = console_versions, BOOT,
        GROUP(CONSOLE), .since = "0.4.0",
        .help = "PgBouncer whose version, and whose columns of SHOW, users of the console see: "
                "for programs that read columns by position. SHOW commands that PgBouncer does "
                "not have are always the same.")
SETTING(bool, core_dumps, .initial = "0", BOOT, GROUP(GENERIC),
        .help = "Allows a core dump when pgweir crashes (it contains passwords and keys), and "
                "allows other processes of the same system user to inspect the process (gdb, "
                "/proc).")
SETTING(int, default_pool_size, .initial = "20", AUTO_SIZE, .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Maximum number of server connections of a pool (one user on one database). 0 = "
                "no limit. auto = from min_pool_size to max_pool_size: it grows while clients "
                "wait and more servers do more, and shrinks where fewer do as much. Each change "
                "is in SHOW EVENTS.")
SETTING(bool, disable_pqexec, .initial = "0", BOOT, GROUP(GENERIC),
        .help = "Refuses the simple query protocol, and with it several statements in one string.")
SETTING(usec_t, dns_max_ttl, .initial = "15", LIVE, GROUP(CHECKS),
        .help = "How long the addresses of a host name are cached.")
SETTING(usec_t, dns_nxdomain_ttl, .initial = "15", LIVE, GROUP(CHECKS),
        .help = "How long a failed DNS lookup is cached.")
SETTING(usec_t, dns_zone_check_period, .initial = "0", LIVE, GROUP(CHECKS),
        .help = "Interval between queries for the serial numbers of the hosts' DNS zones (the "
                "zone of a name is the part after its first dot). If a serial number has grown, "
                "all names in the zone are looked up again. 0 = never.")
SETTING(bool, fail_fast, .initial = "0", LIVE, GROUP(TIMEOUTS),
        .help = "Clients do not wait for a database that cannot be reached: while a pool has no "
                "server connection and the last attempt to connect failed, clients that log in or "
                "need a server get an error at once. Attempts continue in the background, twice a "
                "second. With several hosts, only if all have failed.")
SETTING(enum fair_by, fair_by, .initial = "none", .words = fair_bys, LIVE, GROUP(GENERIC),
        .since = "0.4.0",
        .help = "Between whom the servers of a pool are shared while clients wait: the one that "
                "has used servers for the shortest time is served next. user: users that clients "
                "have logged in as, in proportion to the weight of their entries, which matters "
                "where an entry forces one user on all. application: application_name. address: "
                "the client's address. none: first come, first served.")
SETTING(bool, host_check_borrow, .initial = "1", LIVE, GROUP(TIMEOUTS), .since = "0.4.0",
        .help = "Whether hosts are asked for their roles with the first login of a pool that has "
                "worked, if there is no other user for that: host_check_user.")
SETTING(usec_t, host_check_interval, .initial = "0.5", .min = 50 * USEC_PER_MS, LIVE,
        GROUP(TIMEOUTS), .since = "0.3.0",
        .help = "How often each host of an entry with target_session_attrs is asked for its role, "
                "by one connection of pgweir's own. In the first minute without a primary, "
                "hosts are asked every 75 ms.")
SETTING(usec_t, host_check_timeout, .initial = "2", .min = 50 * USEC_PER_MS, LIVE, GROUP(TIMEOUTS),
        .since = "0.3.0",
        .help = "A host that has not answered for this long when it is asked for its role, or "
                "that cannot be connected to within this time, is not used until it answers.")
SETTING(char *, host_check_user, .initial = "", LIVE, GROUP(TIMEOUTS), .since = "0.3.0",
        .help = "User that asks hosts for their roles. Any user that may connect will do. Its "
                "password is that in auth_file. Default: user of the entry, else auth_user, else "
                "the first user whose login to a host has worked, with its secret.")
SETTING(char *, hosts_from_ca_file, .initial = "", LIVE, GROUP(TIMEOUTS), .since = "0.4.0",
        .help = "File of certificate authorities for https in hosts_from. Default: those of the "
                "system. The certificate must have the name that hosts_from has.")
SETTING(usec_t, hosts_from_period, .initial = "5", .min = 100 * USEC_PER_MS, LIVE, GROUP(TIMEOUTS),
        .since = "0.4.0", .help = "How often hosts_from is asked for the hosts of its entries.")
SETTING(usec_t, idle_transaction_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
        .help = "Closes client and server when a transaction has been idle for this long. 0 = "
                "never.")
SETTING(struct config_list, ignore_startup_parameters, .initial = "", .splits_at_blanks = true,
        LIVE, GROUP(GENERIC),
        .help = "Startup parameters to ignore, including those that would otherwise be kept for "
                "the client. The name options means: ignore unknown settings within options.")
SETTING(bool, io_uring, .initial = "1", LIVE, GROUP(NETWORK),
        .help = "Sends the writes of one iteration of the event loop with a single io_uring call, "
                "which costs less CPU than one call each. 0, or a system without io_uring "
                "(containers often forbid it): one call each.")
SETTING(char *, job_name, .initial = "pgbouncer", BOOT, GROUP(GENERIC),
        .help = "Name of this instance, for information only. service_name is an alias.")
SETTING(bool, late_begin, .initial = "0", LIVE, GROUP(GENERIC),
        .help = "In transaction mode, answers a plain BEGIN or START TRANSACTION at once and "
                "sends it to the server together with the next statement, in the same write. A "
                "transaction occupies a server only from its first statement on, and an empty "
                "transaction never does. doc/late-begin.md lists the differences from PostgreSQL.")
SETTING(struct config_list, listen_addr, .initial = "", BOOT, GROUP(GENERIC),
        .help = "Addresses and host names to listen on, separated by commas. * = all; empty = no "
                "TCP.")
SETTING(int, listen_backlog, .initial = "128", .max = INT32_MAX, BOOT, GROUP(NETWORK),
        .help = "Maximum number of new connections that the kernel queues until they are accepted.")
SETTING(int, listen_port, .initial = "6432", .max = 65535, .is_exact = true, BOOT, GROUP(GENERIC),
        .help = "TCP port, also used in the name of the Unix socket. 0 = no TCP.")
SETTING(bool, log_connections, .initial = "1", LIVE, GROUP(LOG),
        .help = "Logs client logins and new server connections.")
SETTING(bool, log_disconnections, .initial = "1", LIVE, GROUP(LOG),
        .help = "Logs closed connections and the reason.")
SETTING(enum log_format, log_format, .initial = "text", .words = log_formats, LIVE, GROUP(LOG),
        .help = "text: the format of PgBouncer. json: one JSON object per line.")
SETTING(usec_t, log_min_duration, .initial = "0", LIVE, GROUP(LOG),
        .help = "Logs each request that takes at least this long, including the wait for a "
                "server, with the beginning of its SQL text as the client sent it, but never with "
                "parameter values. 0 = off.")
SETTING(usec_t, log_pin_duration, .initial = "600", LIVE, GROUP(LOG), .since = "0.3.0",
        .help = "Logs a WARNING when a server has stayed with its client (session_state = follow) "
                "for this long, once for each stay, and why it stays. 0 = off.")
SETTING(bool, log_pooler_errors, .initial = "1", LIVE, GROUP(LOG),
        .help = "Logs the errors that pgweir itself sends to clients.")
SETTING(int, log_rate_limit, .initial = "5000", .max = INT32_MAX, LIVE, GROUP(LOG),
        .help = "Maximum number of log lines of one kind (lines that begin with the same fixed "
                "text) per second. A further line then reports how many were suppressed. 0 = no "
                "limit.")
SETTING(bool, log_stats, .initial = "1", LIVE, GROUP(LOG),
        .help = "Logs a line of statistics every stats_period.")
SETTING(char *, logfile, .initial = "", LIVE, GROUP(LOG),
        .help = "Log file; RELOAD reopens it. Empty = none.")
SETTING(char *, login_notify_message, .initial = "", LIVE, GROUP(CHECKS),
        .help = "NOTICE that is sent to each client at the end of its login. Empty = none.")
SETTING(int, loops, .initial = "1", .word = "auto", .min = 1, .max = 64, BOOT, GROUP(NETWORK),
        .since = "0.3.0",
        .help = "Number of event loops, each in a thread of its own. Together they are one "
                "pooler: all limits, pools and commands hold for all of them. auto = one for each "
                "processor that the process may use (the quota of a container counts). "
                "doc/loops.md says when to use it, and what it changes.")
SETTING(int, max_client_conn, .initial = "100", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Maximum number of client connections, including those that are logging in. "
                "Console connections do not count. 0 = no limit.")
SETTING(int, max_db_client_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Maximum number of client connections per database. On the console, connections "
                "of admin_users do not count. 0 = no limit.")
SETTING(int, max_db_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Maximum number of server connections per database, for all users together. 0 = "
                "no limit.")
SETTING(int, max_host_connections, .initial = "0", .max = INT32_MAX, .word = "auto",
        .word_is = CONFIG_CAP_AUTO, LIVE, GROUP(GENERIC), .since = "0.4.0",
        .help = "Maximum number of server connections to one PostgreSQL, for all entries and "
                "users together. What counts is the address, not the name in the entry. At the "
                "limit, idle servers of other pools are closed, as for max_db_connections. auto = "
                "what PostgreSQL grants to users that are not superusers, asked at each login, "
                "less a tenth, and at least 3 less: doc/limits.md. 0 = no limit.")
SETTING(size_t, max_packet_size, .initial = "2147483647", .min = 1024, .max = UINT32_MAX, LIVE,
        GROUP(NETWORK),
        .help = "Maximum length of a message. A connection that sends a longer one is closed.")
SETTING(int, max_pinned_servers, .initial = "-1", .min = CONFIG_PINS_BY_SIZE, .max = INT32_MAX,
        LIVE, GROUP(GENERIC), .since = "0.3.0",
        .help = "Maximum number of servers of a pool that stay with their clients (session_state "
                "= follow), because a held cursor, a temporary table or a session lock exists. A "
                "statement that would make one more stay waits at the start of a transaction, up "
                "to query_wait_timeout, or is refused. -1 = all servers of pool_size but one, and "
                "at least one; 0 = none.")
SETTING(int, max_pool_size, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .since = "0.4.0",
        .help = "The greatest size of a pool whose size is auto, and the least is min_pool_size, "
                "or 1. 0 = no size may be auto.")
SETTING(int, max_prepared_statements, .initial = "200", .max = 1000000, LIVE, GROUP(GENERIC),
        .help = "Maximum number of prepared statements on each server connection. In transaction "
                "and statement mode, named prepared statements of clients (Parse messages and SQL "
                "PREPARE) are tracked and prepared on each server as needed. 0 = not tracked; "
                "they fail in these modes.")
SETTING(int, max_server_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .since = "0.4.0",
        .auto_is_for = "max_host_connections, as a process may have several PostgreSQLs",
        .help = "Maximum number of server connections of the process, for all databases and users "
                "together. At the limit, idle servers of other pools are closed, as for "
                "max_db_connections. 0 = no limit.")
SETTING(usec_t, max_standby_lag, .initial = "0", LIVE, GROUP(GENERIC), .since = "0.3.0",
        .help = "With route_reads, a standby that is further behind the primary gets no reads; if "
                "there is no other one, the primary serves them. Entries with "
                "target_session_attrs prefer other hosts for new connections. The lag is that of "
                "SHOW HOSTS, so a user for the host watch must be known (host_check_user), and "
                "the primary must be one of the entry's hosts: a lag that is not known is too "
                "much. 0 = no limit.")
SETTING(size_t, max_standby_lag_bytes, .initial = "0", LIVE, GROUP(GENERIC), .since = "0.3.0",
        .max = INT64_MAX,
        .help = "As max_standby_lag, for bytes of the primary's WAL that a standby has not "
                "replayed. 0 = no limit.")
SETTING(size_t, max_statement_size, .initial = "16777216", .min = 1024, .max = 512 << 20, LIVE,
        GROUP(NETWORK),
        .help = "Maximum length of a message that prepares a named statement, or that is a "
                "PREPARE, EXECUTE or DEALLOCATE, if prepared statements are tracked: such a "
                "message is buffered until it is complete. A longer one is refused. All other "
                "messages are forwarded in pieces and can have any length.")
SETTING(int, max_user_client_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Maximum number of client connections per user. On the console, connections of "
                "admin_users do not count. 0 = no limit.")
SETTING(int, max_user_connections, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Maximum number of server connections per user, for all databases together. 0 = "
                "no limit.")
SETTING(int, max_waiting, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC), .since = "0.4.0",
        .help = "Maximum number of clients that wait for a server of one pool. A further one is "
                "refused at once (53300). Entries of databases and users have a max_waiting for "
                "all their pools together. 0 = no limit.")
SETTING(struct config_list, metrics_allow, .initial = "127.0.0.0/8, ::1, unix",
        .splits_at_blanks = true, LIVE, GROUP(CONSOLE), .since = "0.3.0",
        .help = "Clients that the web server of metrics_listen answers: addresses, ranges such as "
                "10.0.0.0/8, and unix for connections by a Unix socket. Others get the status 403.")
SETTING(struct config_list, metrics_hosts, .initial = "", .splits_at_blanks = true, LIVE,
        GROUP(CONSOLE), .since = "0.3.0",
        .help = "Names of this host by which the web server of metrics_listen may be asked, as in "
                "http://NAME:9127/; * = any. Addresses, localhost and Unix sockets are always "
                "possible. Other names are refused (status 403), because a web page of a stranger "
                "could read what is shown by means of a name of its own.")
SETTING(struct config_list, metrics_listen, .initial = "", .splits_at_blanks = true, BOOT,
        GROUP(CONSOLE), .since = "0.3.0",
        .help = "Where the web server listens: ADDRESS:PORT, [ADDRESS]:PORT for IPv6, *:PORT, or "
                "unix:/PATH, separated by commas. It has the metrics, the console's tables as "
                "JSON and a page for browsers, and changes nothing. unix_socket_mode and "
                "unix_socket_group hold for its Unix sockets too. Empty = no web server.")
SETTING(char *, metrics_secret_file, .initial = "", LIVE, GROUP(CONSOLE), .since = "0.3.0",
        .help = "File of the secrets with which the web server of metrics_listen may be asked. "
                "Each line has user:password (HTTP basic authentication) or bearer TOKEN; lines "
                "that begin with # are comments. A RELOAD reads it again. /healthz and /readyz "
                "need no secret. Empty = no secret is needed.")
SETTING(bool, metrics_tls, .initial = "0", LIVE, GROUP(CONSOLE), .since = "0.3.0",
        .help = "TLS for the web server of metrics_listen, with the certificate and the other "
                "settings client_tls_..., whatever client_tls_sslmode is. With verify-ca or "
                "verify-full there, clients need a certificate here too. Not for Unix sockets.")
SETTING(int, min_pool_size, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Minimum number of server connections that a pool in use keeps open.")
SETTING(int, peer_id, .initial = "0", .max = 16383, .is_exact = true, LIVE, GROUP(GENERIC),
        .help = "Number of this instance among the instances in [peers]. It becomes part of the "
                "cancel keys of new clients. 0 = no peers.")
SETTING(char *, peers_dns, .initial = "", BOOT, GROUP(GENERIC), .since = "0.4.0",
        .help = "name:port of all instances, for peers without a list: the addresses of the name "
                "are those of the instances, this one among them. Not with peer_id. Empty = off.")
SETTING(char *, peers_secret_file, .initial = "", BOOT, GROUP(GENERIC), .since = "0.4.0",
        .help = "File of the secret by which instances of peers_dns recognise each other's cancel "
                "keys and requests: 16 bytes or more, the same for all.")
SETTING(char *, pidfile, .initial = "", BOOT, GROUP(GENERIC),
        .help = "File for the process ID. Required by --daemon.")
SETTING(struct config_list, pin_functions, .initial = "", .judge = field_judges_function, LIVE,
        GROUP(GENERIC), .since = "0.3.0",
        .help = "Functions that leave something in the session which pgweir cannot see (those of "
                "extensions, for example), without schema. The server of a client that uses one "
                "in a statement stays with the client until it disconnects, and is closed then; "
                "so is a server in session mode. Statements of more than 64 kB are not searched. "
                "In transaction mode only with session_state = follow.")
SETTING(usec_t, pin_idle_timeout, .initial = "60", LIVE, GROUP(TIMEOUTS), .since = "0.3.0",
        .help = "Closes a client connection whose server stays with it (session_state = follow) "
                "when it has been idle between transactions for this long, and another client of "
                "its pool has waited for a server for this long. One connection at a time. 0 = "
                "never.")
SETTING(size_t, pkt_buf, .initial = "4096", .min = 512, .max = INT32_MAX, BOOT, GROUP(NETWORK),
        .help = "Initial size of a buffer that holds data which the other side of a connection "
                "cannot accept yet. The buffer grows if needed.")
SETTING(usec_t, pool_idle_timeout, .initial = "0", LIVE, GROUP(CHECKS),
        .help = "A pool without clients and servers is removed after this time, together with its "
                "statistics. 0 = never.")
SETTING(enum pool_mode, pool_mode, .initial = "session", .words = config_pool_modes, LIVE,
        GROUP(GENERIC),
        .help = "When a server connection returns to its pool: session = when the client "
                "disconnects; transaction = after each transaction; statement = after each "
                "statement.")
SETTING(enum proxy_protocol, proxy_protocol, .initial = "off", .words = proxy_protocols, LIVE,
        GROUP(AUTH),
        .help = "Whether proxies report the client's address in a PROXY header (version 1 or 2). "
                "accept: the header is accepted from the addresses in proxy_protocol_from only. "
                "require: connections from these addresses without a header are also refused.")
SETTING(struct config_list, proxy_protocol_from, .initial = "", .splits_at_blanks = true, LIVE,
        GROUP(AUTH),
        .help = "Trusted proxies: addresses, ranges such as 10.0.0.0/8, and unix for connections "
                "by the Unix socket.")
SETTING(usec_t, query_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
        .help = "Closes client and server when a query runs longer than this, and cancels the "
                "query at PostgreSQL. 0 = never.")
SETTING(usec_t, query_wait_notify, .initial = "5", .unit = USEC_PER_SEC, LIVE, GROUP(CHECKS),
        .help = "A client that has waited this long for a server gets a NOTICE. 0 = off.")
SETTING(usec_t, query_wait_timeout, .initial = "120", LIVE, GROUP(TIMEOUTS),
        .help = "How long a query or a login may wait for a server. 0 = no limit.")
SETTING(usec_t, queue_interval, .initial = "0.1", .min = 1000, LIVE, GROUP(TIMEOUTS),
        .since = "0.4.0",
        .help = "For how long clients of a pool must have waited longer than queue_target before "
                "some are refused, and no longer than that before all may wait again: longer than "
                "a burst that the pool is to absorb.")
SETTING(usec_t, queue_target, .initial = "0", LIVE, GROUP(TIMEOUTS), .since = "0.4.0",
        .help = "How long clients should wait for a server at most. If the first in the wait "
                "queue of a pool has waited longer for a whole queue_interval, the newest are "
                "refused (53300) until as few wait as the pool serves in this time. 0 = nobody is "
                "refused.")
SETTING(struct config_list, read_functions, .initial = "", .judge = field_judges_function, LIVE,
        GROUP(GENERIC), .since = "0.3.0",
        .help = "With route_reads = statements, names of functions without a schema, in addition "
                "to well-known ones of PostgreSQL: a SELECT that calls them may go to a standby. "
                "They must not write.")
SETTING(int, reserve_pool_size, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Additional server connections that a pool may open when a client has waited for "
                "reserve_pool_timeout.")
SETTING(usec_t, reserve_pool_timeout, .initial = "5", LIVE, GROUP(GENERIC),
        .help = "How long a client must wait before the pool may use its reserve_pool_size. 0 = "
                "the reserve is not used.")
SETTING(char *, resolv_conf, .initial = "", BOOT, GROUP(CHECKS),
        .help = "File to read instead of /etc/resolv.conf.")
SETTING(enum route_reads, route_reads, .initial = "off", .words = config_route_reads_words, LIVE,
        GROUP(GENERIC), .since = "0.3.0",
        .help = "Which reads go to standbys, if the hosts of the entry are a primary and its "
                "standbys. transactions: those that begin READ ONLY, by BEGIN, START TRANSACTION, "
                "SET TRANSACTION as their first statement, or default_transaction_read_only of "
                "the client. sessions: the same, but only of clients whose startup packet has "
                "default_transaction_read_only; in session mode, their whole session. statements: "
                "the same as transactions, and single SELECT statements outside of a transaction "
                "that lock no rows and call only well-known functions and read_functions; what "
                "views, operators and types call inside is not seen. Everything else goes to the "
                "primary, and so do reads while no standby can be used. A plain BEGIN is answered "
                "at once, as with late_begin. doc/read-routing.md has the rules.")
SETTING(int, sbuf_loopcnt, .initial = "5", .max = INT32_MAX, LIVE, GROUP(NETWORK),
        .help = "Maximum number of buffers that one connection may process in one iteration of "
                "the event loop. 0 = no limit.")
SETTING(int, scram_iterations, .initial = "4096", .min = 1, .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .help = "Number of SCRAM iterations for users whose stored secret is a plain password.")
SETTING(usec_t, server_check_delay, .initial = "30", LIVE, GROUP(CHECKS),
        .help = "A server connection that has been idle for this long is checked before its next "
                "use. 0 = before each use.")
SETTING(char *, server_check_query, .initial = "<empty>", LIVE, GROUP(CHECKS),
        .help = "Query that checks a server connection. <empty> = an empty query; no value = no "
                "check.")
SETTING(usec_t, server_connect_timeout, .initial = "15", LIVE, GROUP(CHECKS),
        .help = "Maximum time to connect and log in to a server. 0 = no limit.")
SETTING(bool, server_fast_close, .initial = "0", LIVE, GROUP(CHECKS),
        .help = "In session mode, closes servers that must be replaced (RECONNECT, changed "
                "database) as soon as they are between two transactions, together with their "
                "clients.")
SETTING(usec_t, server_idle_timeout, .initial = "600", LIVE, GROUP(CHECKS),
        .help = "Closes a server connection that has been idle for this long, unless "
                "min_pool_size keeps it. 0 = never.")
SETTING(usec_t, server_lifetime, .initial = "3600", LIVE, GROUP(CHECKS),
        .help = "Closes an unused server connection older than this. 0 = each server connection "
                "is used once.")
SETTING(usec_t, server_login_retry, .initial = "15", LIVE, GROUP(CHECKS),
        .help = "Delay before a new attempt after PostgreSQL has refused a login, for example for "
                "a wrong password. Until then clients that need a server get that error at once. "
                "A server that cannot be reached, or that is starting up, is tried again sooner: "
                "after 50 ms at first, later twice a second, or at this interval if it is "
                "shorter, and clients wait unless fail_fast is set.")
SETTING(struct config_list, server_require_auth, .initial = "", .words = required_methods,
        .may_negate = true, .splits_at_blanks = true, LIVE, GROUP(AUTH),
        .help = "Authentication methods that a PostgreSQL server may request, as in libpq's "
                "require_auth: one of the listed methods, or with ! in front any method but the "
                "listed ones. A server that requests another method gets no password, and the "
                "connection fails. none = the server requests no authentication. Empty = all "
                "methods.")
SETTING(char *, server_reset_query, .initial = "DISCARD ALL", LIVE, GROUP(CHECKS),
        .help = "Query that runs when a server connection returns to its pool in session mode. "
                "Empty = none.")
SETTING(bool, server_reset_query_always, .initial = "0", LIVE, GROUP(CHECKS),
        .help = "Runs server_reset_query in every pool mode.")
SETTING(bool, server_round_robin, .initial = "0", LIVE, GROUP(GENERIC),
        .help = "Uses the server connections of a pool in turn. 0 = the most recently returned "
                "one first.")
SETTING(char *, server_tls13_ciphers, LIVE, GROUP(TLS),
        .help = "TLS 1.3 cipher suites for server connections, separated by colons (default: "
                "those of OpenSSL).")
SETTING(char *, server_tls_ca_file, .initial = "", LIVE, GROUP(TLS),
        .help = "File of certificate authorities that server certificates are verified against. "
                "Empty = the system's authorities.")
SETTING(char *, server_tls_cert_file, .initial = "", LIVE, GROUP(TLS),
        .help = "Certificate that is sent to servers that request one.")
SETTING(char *, server_tls_ciphers, .initial = "default", LIVE, GROUP(TLS),
        .help = "Ciphers for server connections up to TLS 1.2, in OpenSSL's format. default, "
                "secure, normal and fast = those of OpenSSL.")
SETTING(char *, server_tls_key_file, .initial = "", LIVE, GROUP(TLS),
        .help = "Private key of server_tls_cert_file. It must not be encrypted.")
SETTING(enum tls_negotiation, server_tls_negotiation, .initial = "postgres",
        .words = tls_negotiations, LIVE, GROUP(TLS),
        .help = "How TLS begins on server connections. postgres: after a request. direct: at "
                "once, which saves a round trip and requires PostgreSQL 17 and an sslmode of "
                "require or stricter.")
SETTING(char *, server_tls_protocols, .initial = "secure", LIVE, GROUP(TLS),
        .help = "TLS versions for server connections; same values as client_tls_protocols.")
SETTING(enum tls_mode, server_tls_sslmode, .initial = "prefer", .words = tls_modes, LIVE,
        GROUP(TLS),
        .help = "TLS for server connections by TCP. allow, prefer: used if the server supports "
                "it. require: always, with any certificate. verify-ca: the server certificate "
                "must be valid. verify-full: it must also match the host name.")
SETTING(int, servers_per_loop, .initial = "5", .max = INT32_MAX, LIVE, GROUP(NETWORK),
        .since = "0.3.0",
        .help = "With several event loops (loops): the clients of a pool are in one loop for each "
                "so many servers of its pool_size, so a small pool is in few loops. 0 = the "
                "clients of each pool are in all loops. Applies to clients that connect later.")
SETTING(bool, session_audit, .initial = "0", LIVE, GROUP(GENERIC), .since = "0.3.0",
        .help = "In session mode, records which session features clients use: SHOW AUDIT has "
                "them, and says what transaction mode would do with each, and how many servers "
                "would be enough. Switching it on begins a new audit.")
SETTING(enum session_isolation, session_isolation, .initial = "known",
        .words = config_session_isolations, LIVE, GROUP(GENERIC), .since = "0.4.0",
        .help = "When a server connection is cleaned before another client gets it: parameters, "
                "role, cursors, temporary objects, session locks, channels and values of "
                "sequences, ahead of that client's first message and in the same write. known: if "
                "it is not known to be clean, which it is if no statement has touched session "
                "state, nor named a function or relation that can; pgweir reads that in the "
                "catalog, and again when it has changed. strict: always. off: only after "
                "statements that are known to leave something which nobody can name; the catalog "
                "is not read.")
SETTING(int, session_sample, .initial = "0", .max = INT32_MAX, LIVE, GROUP(GENERIC),
        .since = "0.3.0",
        .help = "At the end of one transaction in this many, the server is asked for all session "
                "state, whatever its statements were; what is found is carried. With "
                "session_audit, in session mode too: SHOW AUDIT has what was found. 1 = each "
                "transaction; 0 = none: what functions do is known from the catalog (SHOW "
                "CATALOG).")
SETTING(enum session_state_mode, session_state, .initial = "follow", .words = config_session_states,
        LIVE, GROUP(GENERIC), .since = "0.3.0",
        .help = "What becomes of session state in transaction mode. follow: parameters (SET), "
                "libraries (LOAD) and notifications (LISTEN) follow the client to its next "
                "server; with held cursors, temporary tables and session locks the server stays "
                "with the client. refuse: statements that make session state fail. off: they run, "
                "and their effect stays on the server, where other clients meet it. In statement "
                "mode follow means refuse; in session mode this setting has no effect.")
SETTING(usec_t, shutdown_accept, .initial = "0", LIVE, GROUP(CHECKS), .since = "0.4.0",
        .help = "How long after SIGTERM or SIGINT new clients are still accepted and all are "
                "served as before, while SHOW READY and the probes say no: until load balancers "
                "send no more. A process started with -R in that time takes over. Then the "
                "shutdown begins. 0 = immediately.")
SETTING(usec_t, shutdown_drain, .initial = "0", LIVE, GROUP(CHECKS),
        .help = "After SIGTERM, disconnects clients as DRAIN does, each between two of its "
                "transactions and all within this time; then the process ends. 0 = waits until "
                "all clients have disconnected.")
SETTING(struct config_list, shutdown_drain_signals, .initial = "SIGTERM", .words = drain_signals,
        .splits_at_blanks = true, LIVE, GROUP(CHECKS), .since = "0.4.0",
        .help = "Signals after which shutdown_drain holds: SIGTERM, SIGINT. After SIGINT alone, "
                "no client gets a server any more, and the process ends when all servers are free.")
SETTING(bool, so_reuseport, .initial = "0", BOOT, GROUP(NETWORK),
        .help = "Allows several processes to listen on the same port.")
SETTING(int, standby_pool_size, .initial = "-1", .min = CONFIG_POOL_SIZE, .max = INT32_MAX, LIVE,
        GROUP(GENERIC), .since = "0.3.0",
        .help = "With route_reads, the maximum number of server connections to standbys for one "
                "user and database, beside those to the primary. 0 = no limit; -1 = as many as "
                "the pool may have (default_pool_size or pool_size).")
SETTING(usec_t, stats_period, .initial = "60", .min = USEC_PER_SEC, .unit = USEC_PER_SEC, LIVE,
        GROUP(GENERIC), .help = "Interval over which averages are calculated and logged.")
SETTING(struct config_list, stats_users, .initial = "", .splits_at_blanks = true, LIVE,
        GROUP(CONSOLE), .help = "Users who may run every SHOW command in the console.")
SETTING(usec_t, suspend_timeout, .initial = "10", LIVE, GROUP(CHECKS),
        .help = "How long SUSPEND waits for connections in the middle of a message before it "
                "closes them. 0 = no limit.")
SETTING(bool, syslog, .initial = "0", LIVE, GROUP(LOG), .help = "Also logs to syslog.")
SETTING(char *, syslog_facility, .initial = "daemon", LIVE, GROUP(LOG),
        .help = "Syslog facility: auth, authpriv, daemon, user, local0 ... local7; any other "
                "value = daemon.")
SETTING(char *, syslog_ident, .initial = "pgbouncer", LIVE, GROUP(LOG),
        .help = "Program name in syslog lines.")
SETTING(usec_t, takeover_timeout, .initial = "3600", LIVE, GROUP(CHECKS),
        .help = "After a take-over (-R): how long the old process keeps serving clients that "
                "cannot be handed over, such as clients with TLS, before it closes them. 0 = "
                "until they disconnect.")
SETTING(int, tcp_defer_accept, .initial = "1", .max = INT32_MAX, LIVE, GROUP(NETWORK),
        .help = "Value of TCP_DEFER_ACCEPT: the kernel delivers a new connection once its client "
                "has sent data. 0 = off.")
SETTING(bool, tcp_keepalive, .initial = "1", LIVE, GROUP(NETWORK), .help = "Enables TCP keepalive.")
SETTING(int, tcp_keepcnt, .initial = "0", .max = 127, LIVE, GROUP(NETWORK),
        .help = "Number of unanswered keepalives after which a connection is considered lost. 0 = "
                "the system default.")
SETTING(usec_t, tcp_keepidle, .initial = "0", .max = 32767 * USEC_PER_SEC, .unit = USEC_PER_SEC,
        .step = USEC_PER_SEC, LIVE, GROUP(NETWORK),
        .help = "Idle time before the first keepalive. 0 = the system default.")
SETTING(usec_t, tcp_keepintvl, .initial = "0", .max = 32767 * USEC_PER_SEC, .unit = USEC_PER_SEC,
        .step = USEC_PER_SEC, LIVE, GROUP(NETWORK),
        .help = "Interval between keepalives. 0 = the system default.")
SETTING(size_t, tcp_socket_buffer, .initial = "0", .max = INT32_MAX, LIVE, GROUP(NETWORK),
        .help = "Value of SO_SNDBUF and SO_RCVBUF. 0 = the system default.")
SETTING(usec_t, tcp_user_timeout, .initial = "0", .max = INT32_MAX * USEC_PER_MS,
        .unit = USEC_PER_MS, .step = USEC_PER_MS, LIVE, GROUP(NETWORK),
        .help = "Value of TCP_USER_TIMEOUT. 0 = the system default.")
SETTING(enum tls_records_by, tls_records, .initial = "own", .words = tls_records_by, BOOT,
        GROUP(TLS), .since = "0.4.0",
        .help = "Who encrypts a connection with TLS 1.3 after its handshake, which is always "
                "OpenSSL's. own: pgweir's record layer, with OpenSSL's ciphers; such a connection "
                "needs little memory, and is handed over at an online restart. openssl: OpenSSL, "
                "as for older versions of TLS.")
SETTING(struct config_list, track_extra_parameters, .initial = "", BOOT, GROUP(GENERIC),
        .help = "Additional server-reported parameters that are kept for each client. Parameters "
                "that PostgreSQL itself reports and a client can change are always kept; this is "
                "for parameters of extensions.")
SETTING(int, track_statements, .initial = "0", .max = CONFIG_TRACK_MAX, .on = CONFIG_TRACK_ON, LIVE,
        GROUP(GENERIC), .since = "0.3.0",
        .help = "Counts what clients execute, for SHOW STATEMENTS and SHOW APPLICATIONS: for each "
                "statement of a database and user how often, how long it ran and waited, rows, "
                "bytes and errors. Texts that differ in constants only are one statement. The "
                "value is how many statements each event loop keeps, at about 2 kB; when there "
                "are more, the one that was executed least often leaves. on = 5000, 0 = off.")
SETTING(usec_t, transaction_timeout, .initial = "0", LIVE, GROUP(TIMEOUTS),
        .help = "Closes client and server when a transaction takes longer than this. 0 = never.")
SETTING(char *, unix_socket_dir, .initial = "/tmp", BOOT, GROUP(GENERIC),
        .help = "Directory of pgweir's Unix socket, and of PostgreSQL's for databases without a "
                "host. @name = abstract socket; empty = none.")
SETTING(char *, unix_socket_group, .initial = "", BOOT, GROUP(GENERIC),
        .help = "Group of the Unix socket, as a name or number.")
SETTING(int, unix_socket_mode, .initial = "0777", .max = 0777, .is_exact = true, BOOT,
        GROUP(GENERIC), .help = "Permissions of the Unix socket.")
SETTING(char *, user, BOOT, GROUP(GENERIC),
        .help = "System user to switch to at start. pgweir refuses to run as root.")
SETTING(int, verbose, .max = 3, LIVE, GROUP(LOG),
        .help = "Verbosity of the log. 1 = details for troubleshooting; 2 and 3 = also each state "
                "change of a connection (default: as set with -v).")
#undef SETTING
