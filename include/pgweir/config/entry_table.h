/* SPDX-License-Identifier: ISC */
/*
 * The keys of entries, sorted by name: the fields of the structs in entries.h, and the rows of
 * entry_kinds[]. A file that includes it defines one of DATABASE, USER, PEER, LISTENER,
 * APPLICATION and STATEMENT as a macro (type of the field, name, what settings.h has for it).
 */

#ifdef DATABASE
DATABASE(char *, application_name, .help = startup_help)
DATABASE(char *, auth_dbname, .length_max = CONFIG_DATABASE_NAME_MAX,
         .doubted = CONFIG_CONSOLE_DATABASE,
         .doubt = "is the console's name: auth_query cannot run for this entry", .help = auth_help)
DATABASE(char *, auth_query, .help = auth_help)
DATABASE(char *, auth_user, .length_max = CONFIG_USER_NAME_MAX, .help = auth_help)
DATABASE(enum causal_reads, causal_reads, .words = config_causal_reads_words, .help = entry_help)
DATABASE(char *, client_encoding, .help = startup_help)
DATABASE(char *, connect_query,
         .help = "Query that runs on each new server connection. Its errors are logged and "
                 "otherwise ignored.")
DATABASE(char *, datestyle, .help = startup_help)
DATABASE(char *, dbname, .length_max = CONFIG_DATABASE_NAME_MAX, .initial = "the entry's name",
         .help = "Name of the database on the server.")
DATABASE(int, fail_fast, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help)
DATABASE(int, guaranteed_servers, .initial = "0", .max = INT32_MAX, .is_exact = true,
         .help = guaranteed_help)
DATABASE(char *, host, .judge = judge_hosts,
         .help = "Host name, IPv4 or IPv6 address, or directory of a Unix socket (/path or "
                 "@name); or several of these, separated by commas without blanks. A host that "
                 "cannot be reached is skipped for server_login_retry as long as another one can "
                 "be reached. If not set, the Unix socket in unix_socket_dir. A host may have a "
                 "port of its own: name:5433, [::1]:5433.")
DATABASE(char *, hosts_from, .judge = judge_source,
         .help = "Where the hosts are found, each with its port, at the start and every "
                 "hosts_from_period: srv:_postgresql._tcp.name, the SRV records of that name; or "
                 "patroni:http://a:8008,b:8008/cluster, the members that Patroni's REST interface "
                 "names, asked at the first of these that answers (https://user:password@...: see "
                 "hosts_from_ca_file). New hosts are used, and those that are gone are left, "
                 "without RELOAD. While the answer fails the last list stays; before the first "
                 "one, host.")
DATABASE(usec_t, idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(int, late_begin, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help)
DATABASE(enum load_balance_hosts, load_balance_hosts, .words = config_load_balances,
         .initial = "round-robin",
         .help = "How the host of a new connection is chosen if there are several. round-robin: "
                 "each in turn; least-connections: the one with the fewest server connections of "
                 "this process, whichever entries they are of, in turn if several have as few; "
                 "disable: the same one until a connection to it fails.")
DATABASE(int, max_db_client_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(int, max_db_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(int, max_pinned_servers, .low = LOW_MINUS_INHERITS, .help = same_help)
DATABASE(int, max_pool_size, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(usec_t, max_standby_lag, .low = LOW_MINUS_INHERITS, .help = same_help)
DATABASE(size_t, max_standby_lag_bytes, .low = LOW_MINUS_INHERITS, .help = same_help)
DATABASE(int, max_waiting, .initial = "0", .max = INT32_MAX,
         .help = "Maximum number of clients that wait for servers of this database, for all users "
                 "together. 0 = no limit.")
DATABASE(int, min_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help)
DATABASE(char *, password, .length_max = CONFIG_PASSWORD_MAX,
         .help = "Password of user (default: the one in auth_file).")
DATABASE(struct config_list, pin_functions, .judge = field_judges_function, .help = entry_help)
DATABASE(enum pool_mode, pool_mode, .words = config_pool_modes, .help = entry_help)
DATABASE(int, pool_size, AUTO_SIZE, .low = LOW_MINUS_INHERITS,
         .help = "As default_pool_size, for this entry. 0 = no limit; auto = from min_pool_size "
                 "to max_pool_size; negative = the setting's value.")
DATABASE(int, port, .min = 1, .max = 65535, .is_exact = true, .initial = "5432",
         .help = "Port of the server; or as many as there are hosts, separated by commas without "
                 "blanks, one for each.")
DATABASE(usec_t, query_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(usec_t, query_wait_timeout, .low = LOW_MINUS_IS_ZERO, .help = wait_help)
DATABASE(int, reserve_pool_size, .low = LOW_MINUS_INHERITS,
         .help = "As the setting, for this entry; reserve_pool is an alias. Negative = the "
                 "setting's value.")
DATABASE(enum route_reads, route_reads, .words = config_route_reads_words, .help = entry_help)
DATABASE(usec_t, server_lifetime, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(enum session_isolation, session_isolation, .words = config_session_isolations,
         .help = entry_help)
DATABASE(enum session_state_mode, session_state, .words = config_session_states, .help = entry_help)
DATABASE(int, standby_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help)
DATABASE(enum target_session_attrs, target_session_attrs, .words = config_targets, .initial = "any",
         .help = "What the host of a server connection must be, with the words of libpq: any; "
                 "read-write or read-only, by the default of a new session; primary or standby; "
                 "prefer-standby, any host if none is a standby. Other hosts of the entry are not "
                 "used. While no host fits, clients wait.")
DATABASE(char *, timezone, .help = startup_help)
DATABASE(usec_t, transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
DATABASE(char *, user, .length_max = CONFIG_USER_NAME_MAX,
         .help = "Server user for all clients of this entry: they share one pool, and its "
                 "connections log in as this user.")
DATABASE(int, weight, .initial = "1", .min = 1, .max = CONFIG_WEIGHT_MAX, .is_exact = true,
         .help = "How large a part the pools of this database get of a limit on servers that "
                 "pools share (max_server_connections and the like), while all of them want more. "
                 "A pool has the weight of its database times that of its user.")
#undef DATABASE
#endif

#ifdef USER
USER(enum causal_reads, causal_reads, .words = config_causal_reads_words, .help = entry_help)
USER(usec_t, client_idle_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(int, fail_fast, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help)
USER(int, guaranteed_servers, .initial = "0", .max = INT32_MAX, .is_exact = true,
     .help = guaranteed_help)
USER(usec_t, idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(int, late_begin, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help)
USER(int, max_pool_size, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(int, max_user_client_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(int, max_user_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(int, max_waiting, .initial = "0", .max = INT32_MAX,
     .help = "Maximum number of clients that wait for servers of this user, for all databases "
             "together. 0 = no limit.")
USER(usec_t, pin_idle_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(enum pool_mode, pool_mode, .words = config_pool_modes, .help = entry_help)
USER(int, pool_size, AUTO_SIZE, .low = LOW_MINUS_INHERITS,
     .help = "As default_pool_size, for the pools of this user. 0 = no limit; auto = from "
             "min_pool_size to max_pool_size; negative = the database's value.")
USER(enum priority, priority, .words = config_priorities, .initial = "normal",
     .help = "Clients of a user with high are served before others that wait in the same pool, "
             "those with low behind them. But of each class one is served in each second, if any "
             "of it wait.")
USER(usec_t, query_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(usec_t, query_wait_timeout, .low = LOW_MINUS_IS_ZERO, .help = wait_help)
USER(int, reserve_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help)
USER(enum route_reads, route_reads, .words = config_route_reads_words, .help = entry_help)
USER(enum session_isolation, session_isolation, .words = config_session_isolations,
     .help = entry_help)
USER(enum session_state_mode, session_state, .words = config_session_states, .help = entry_help)
USER(usec_t, transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help)
USER(int, weight, .initial = "1", .min = 1, .max = CONFIG_WEIGHT_MAX, .is_exact = true,
     .help = "As weight of a database. And with fair_by = user: how large a part of a pool's "
             "servers the clients of this user get while others wait, too. One with 3 gets three "
             "times as much time of servers as one with 1.")
#undef USER
#endif

#ifdef PEER
PEER(char *, host, .length_max = CONFIG_PEER_HOST_MAX,
     .help = "Host name, IPv4 or IPv6 address, or Unix socket directory (/path or @name) of the "
             "peer. Required.")
PEER(int, pool_size, .low = LOW_MINUS_INHERITS,
     .help = "Maximum number of cancel requests that are being sent to the peer at the same time; "
             "further ones wait. 0 = no limit. If not set, or negative: as default_pool_size.")
PEER(int, port, .min = 1, .max = 65535, .is_exact = true, .initial = "6432",
     .help = "Port of the peer, also used in the name of its Unix socket.")
#undef PEER
#endif

#ifdef LISTENER
LISTENER(char *, addr, .initial = "not set: no TCP",
         .help = "IP addresses to listen on, separated by commas without blanks; * = all.")
LISTENER(char *, auth_hba_file, .help = listener_help)
LISTENER(char *, auth_type, .help = listener_help)
LISTENER(char *, client_tls13_ciphers, .help = listener_help)
LISTENER(char *, client_tls_ca_file, .help = listener_help)
LISTENER(char *, client_tls_cert_file, .help = listener_help)
LISTENER(char *, client_tls_ciphers, .help = listener_help)
LISTENER(char *, client_tls_dheparams, .help = listener_help)
LISTENER(char *, client_tls_ecdhcurve, .help = listener_help)
LISTENER(char *, client_tls_key_file, .help = listener_help)
LISTENER(char *, client_tls_protocols, .help = listener_help)
LISTENER(char *, client_tls_sslmode, .help = listener_help)
LISTENER(struct config_list, databases, .initial = "*",
         .help = "Databases that clients of this listener may use, separated by commas without "
                 "blanks; * in a name = any text. Other databases, and pgbouncer (the console), "
                 "do not exist for them.")
LISTENER(int, max_client_conn, .low = LOW_MINUS_IS_ZERO, .initial = "0",
         .help = "Maximum number of clients of this listener. They count for the setting, too. 0 "
                 "= no limit but the setting.")
LISTENER(char *, options,
         .help = "Startup parameters of clients that do not set them, written as in PGOPTIONS: "
                 "'-c statement_timeout=5s -c search_path=app'.")
LISTENER(enum pool_mode, pool_mode, .words = config_pool_modes,
         .help = "Pool mode of clients of this listener, whatever their database and user have. "
                 "If not set, as for other clients.")
LISTENER(int, port, .min = 1, .max = 65535, .is_exact = true,
         .help = "Port to listen on, also in the name of the Unix socket. Required.")
LISTENER(char *, proxy_protocol, .help = listener_help)
LISTENER(char *, unix_socket_dir, .initial = "not set: no Unix socket",
         .help = "Directory of a Unix socket (/path or @name).")
#undef LISTENER
#endif

#ifdef APPLICATION
APPLICATION(usec_t, idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = application_help)
APPLICATION(usec_t, query_timeout, .low = LOW_ZERO_INHERITS, .help = application_help)
APPLICATION(usec_t, transaction_timeout, .low = LOW_ZERO_INHERITS, .help = application_help)
#undef APPLICATION
#endif

#ifdef STATEMENT
STATEMENT(int, block, .max = 1, .initial = "0",
          .help = "1: the statement is refused (42501). One that runs goes on.")
STATEMENT(int, max_running, .max = INT32_MAX, .initial = "0",
          .help = "How many servers may execute the statement at the same time. A client that "
                  "would be one more is refused at once (53300). 0 = no limit.")
STATEMENT(usec_t, query_timeout, .low = LOW_ZERO_INHERITS,
          .help = "As the setting, for this statement, whatever applies to its client. Waiting "
                  "for a server does not count. 0 = what applies to its client.")
#undef STATEMENT
#endif
