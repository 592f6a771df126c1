/* SPDX-License-Identifier: ISC */
/*
 * The keys of the entries of all sections but [pgbouncer], and the parsing of their values.
 *
 * Numbers here are always decimal, even with a leading zero, as in these sections of
 * PgBouncer's file. But a text that is not a number is an error, not 0.
 */
#include <stdlib.h>
#include <string.h>

#include "config_priv.h"

#include "pgweir/base/text.h"

/* clang-format off */
#define KEY(owner, field, ...) \
	{ .name = #field, .type = SETTING_TYPE(owner, field), .at = offsetof(struct owner, field), \
	  .is_of_entry = true, __VA_ARGS__ }
#define DATABASE(field, ...) KEY(config_database, field, __VA_ARGS__)
#define USER(field, ...) KEY(config_user, field, __VA_ARGS__)
#define PEER(field, ...) KEY(config_peer, field, __VA_ARGS__)
#define LISTENER(field, ...) KEY(config_listener, field, __VA_ARGS__)
#define APPLICATION(field, ...) KEY(config_application, field, __VA_ARGS__)
#define STATEMENT(field, ...) KEY(config_statement, field, __VA_ARGS__)
#define POOL_MODES .words = value_pool_modes, .unset = POOL_MODE_INHERIT
#define SESSION_STATES .words = value_session_states, .unset = SESSION_STATE_INHERIT
#define ISOLATIONS .words = value_session_isolations, .unset = SESSION_ISOLATION_INHERIT
#define CAUSAL .words = value_causal_reads, .unset = CAUSAL_READS_INHERIT
#define ROUTES .words = value_route_reads, .unset = ROUTE_READS_INHERIT
/* clang-format on */

static const char entry_help[] = "As the setting, for this entry.";
static const char same_help[] = "As the setting, for this entry. Negative = the setting's value.";
static const char above_zero_help[] = "As the setting, for this entry. 0 = the setting's value.";
static const char auth_help[] = "As the setting, for clients of this entry.";
static const char wait_help[] = "As the setting, for this entry. 0 or negative = no limit.";
static const char listener_help[] = "As the setting, for clients of this listener.";
static const char application_help[] =
    "As the setting, for clients of this application_name, if it is shorter than what applies to "
    "them without this line. 0 = nothing else than that.";
static const char guaranteed_help[] =
    "While it has fewer servers than that, its pools come before others where a limit on servers "
    "that pools share is reached (max_server_connections and the like). What it does not use, "
    "others may use. The sum of all entries must not be above max_server_connections.";
static const char startup_help[] = "Sent to the server in the startup packet.";

static const struct setting database_keys[] = {
	DATABASE(application_name, .help = startup_help),
	DATABASE(auth_dbname, .length_max = CONFIG_DATABASE_NAME_MAX,
	         .doubted = CONFIG_CONSOLE_DATABASE,
	         .doubt = "is the console's name: auth_query cannot run for this entry",
	         .help = auth_help),
	DATABASE(auth_query, .help = auth_help),
	DATABASE(auth_user, .length_max = CONFIG_USER_NAME_MAX, .help = auth_help),
	DATABASE(causal_reads, CAUSAL, .help = entry_help),
	DATABASE(client_encoding, .help = startup_help),
	DATABASE(connect_query,
	         .help = "Query that runs on each new server connection. Its errors are logged "
	                 "and otherwise ignored."),
	DATABASE(datestyle, .help = startup_help),
	DATABASE(dbname, .length_max = CONFIG_DATABASE_NAME_MAX, .initial = "the entry's name",
	         .help = "Name of the database on the server."),
	DATABASE(fail_fast, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	DATABASE(guaranteed_servers, .initial = "0", .max = INT32_MAX, .is_exact = true,
	         .help = guaranteed_help),
	DATABASE(host, .is_hosts = true,
	         .help = "Host name, IPv4 or IPv6 address, or directory of a Unix socket (/path "
	                 "or @name); or several of these, separated by commas without blanks. A "
	                 "host that cannot be reached is skipped for server_login_retry as long "
	                 "as another one can be reached. If not set, the Unix socket in "
	                 "unix_socket_dir. A host may have a port of its own: name:5433, "
	                 "[::1]:5433."),
	DATABASE(hosts_from, .is_source = true,
	         .help =
	             "Where the hosts are found, each with its port, at the start and every "
	             "hosts_from_period: srv:_postgresql._tcp.name, the SRV records of that "
	             "name; or patroni:http://a:8008,b:8008/cluster, the members that Patroni's "
	             "REST interface names, asked at the first of these that answers "
	             "(https://user:password@...: see hosts_from_ca_file). New hosts are used, "
	             "and those that are gone are left, without RELOAD. While the answer fails "
	             "the last list stays; before the first one, host."),
	DATABASE(idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(late_begin, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	DATABASE(load_balance_hosts, .words = value_load_balances, .initial = "round-robin",
	         .help = "How the host of a new connection is chosen if there are several. "
	                 "round-robin: each in turn; least-connections: the one with the fewest "
	                 "server connections of this process, whichever entries they are of, in "
	                 "turn if several have as few; disable: the same one until a connection "
	                 "to it fails."),
	DATABASE(max_db_client_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(max_db_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(max_pinned_servers, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(max_pool_size, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(max_standby_lag, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(max_standby_lag_bytes, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(max_waiting, .initial = "0", .max = INT32_MAX,
	         .help =
	             "Maximum number of clients that wait for servers of this database, for all "
	             "users together. 0 = no limit."),
	DATABASE(min_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(password, .length_max = CONFIG_PASSWORD_MAX,
	         .help = "Password of user (default: the one in auth_file)."),
	DATABASE(pin_functions, .has_functions = true, .help = entry_help),
	DATABASE(pool_mode, POOL_MODES, .help = entry_help),
	DATABASE(pool_size, AUTO_SIZE, .low = LOW_MINUS_INHERITS,
	         .help = "As default_pool_size, for this entry. 0 = no limit; auto = from "
	                 "min_pool_size to max_pool_size; negative = the setting's value."),
	DATABASE(port, .min = 1, .max = 65535, .is_exact = true, .initial = "5432",
	         .help = "Port of the server; or as many as there are hosts, separated by commas "
	                 "without blanks, one for each."),
	DATABASE(query_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(query_wait_timeout, .low = LOW_MINUS_IS_ZERO, .help = wait_help),
	DATABASE(reserve_pool_size, .low = LOW_MINUS_INHERITS,
	         .help = "As the setting, for this entry; reserve_pool is an alias. Negative = "
	                 "the setting's value."),
	DATABASE(route_reads, ROUTES, .help = entry_help),
	DATABASE(server_lifetime, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(session_isolation, ISOLATIONS, .help = entry_help),
	DATABASE(session_state, SESSION_STATES, .help = entry_help),
	DATABASE(standby_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(target_session_attrs, .words = value_targets, .initial = "any",
	         .help = "What the host of a server connection must be, with the words of "
	                 "libpq: any; read-write or read-only, by the default of a new session; "
	                 "primary or standby; prefer-standby, any host if none is a standby. "
	                 "Other hosts of the entry are not used. While no host fits, clients "
	                 "wait."),
	DATABASE(timezone, .help = startup_help),
	DATABASE(transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(user, .length_max = CONFIG_USER_NAME_MAX,
	         .help = "Server user for all clients of this entry: they share one pool, and "
	                 "its connections log in as this user."),
	DATABASE(weight, .initial = "1", .min = 1, .max = CONFIG_WEIGHT_MAX, .is_exact = true,
	         .help = "How large a part the pools of this database get of a limit on servers "
	                 "that pools share (max_server_connections and the like), while all of "
	                 "them want more. A pool has the weight of its database times that of "
	                 "its user."),
};

static const struct setting user_keys[] = {
	USER(causal_reads, CAUSAL, .help = entry_help),
	USER(client_idle_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(fail_fast, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	USER(guaranteed_servers, .initial = "0", .max = INT32_MAX, .is_exact = true,
	     .help = guaranteed_help),
	USER(idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(late_begin, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	USER(max_pool_size, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(max_user_client_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(max_user_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(max_waiting, .initial = "0", .max = INT32_MAX,
	     .help =
	         "Maximum number of clients that wait for servers of this user, for all databases "
	         "together. 0 = no limit."),
	USER(pin_idle_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(pool_mode, POOL_MODES, .help = entry_help),
	USER(pool_size, AUTO_SIZE, .low = LOW_MINUS_INHERITS,
	     .help = "As default_pool_size, for the pools of this user. 0 = no limit; auto = from "
	             "min_pool_size to max_pool_size; negative = the database's value."),
	USER(priority, .words = value_priorities, .initial = "normal",
	     .help =
	         "Clients of a user with high are served before others that wait in the same pool, "
	         "those with low behind them. But of each class one is served in each second, "
	         "if any of it wait."),
	USER(query_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(query_wait_timeout, .low = LOW_MINUS_IS_ZERO, .help = wait_help),
	USER(reserve_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help),
	USER(route_reads, ROUTES, .help = entry_help),
	USER(session_isolation, ISOLATIONS, .help = entry_help),
	USER(session_state, SESSION_STATES, .help = entry_help),
	USER(transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(weight, .initial = "1", .min = 1, .max = CONFIG_WEIGHT_MAX, .is_exact = true,
	     .help =
	         "As weight of a database. And with fair_by = user: how large a part of a pool's "
	         "servers the clients of this user get while others wait, too. One with 3 gets "
	         "three times as much time of servers as one with 1."),
};

static const struct setting peer_keys[] = {
	PEER(host, .length_max = CONFIG_PEER_HOST_MAX,
	     .help = "Host name, IPv4 or IPv6 address, or Unix socket directory (/path or "
	             "@name) of the peer. Required."),
	PEER(pool_size, .low = LOW_MINUS_INHERITS,
	     .help = "Maximum number of cancel requests that are being sent to the peer at "
	             "the same time; further ones wait. 0 = no limit. If not set, or "
	             "negative: as default_pool_size."),
	PEER(port, .min = 1, .max = 65535, .is_exact = true, .initial = "6432",
	     .help = "Port of the peer, also used in the name of its Unix socket."),
};

static const struct setting listener_keys[] = {
	LISTENER(addr, .initial = "not set: no TCP",
	         .help = "IP addresses to listen on, separated by commas without blanks; * = all."),
	LISTENER(auth_hba_file, .help = listener_help),
	LISTENER(auth_type, .help = listener_help),
	LISTENER(client_tls13_ciphers, .help = listener_help),
	LISTENER(client_tls_ca_file, .help = listener_help),
	LISTENER(client_tls_cert_file, .help = listener_help),
	LISTENER(client_tls_ciphers, .help = listener_help),
	LISTENER(client_tls_dheparams, .help = listener_help),
	LISTENER(client_tls_ecdhcurve, .help = listener_help),
	LISTENER(client_tls_key_file, .help = listener_help),
	LISTENER(client_tls_protocols, .help = listener_help),
	LISTENER(client_tls_sslmode, .help = listener_help),
	LISTENER(databases, .initial = "*",
	         .help = "Databases that clients of this listener may use, separated by commas "
	                 "without blanks; * in a name = any text. Other databases, and "
	                 "pgbouncer (the console), do not exist for them."),
	LISTENER(max_client_conn, .low = LOW_MINUS_IS_ZERO, .initial = "0",
	         .help = "Maximum number of clients of this listener. They count for the setting, "
	                 "too. 0 = no limit but the setting."),
	LISTENER(options,
	         .help =
	             "Startup parameters of clients that do not set them, written as in PGOPTIONS: "
	             "'-c statement_timeout=5s -c search_path=app'."),
	LISTENER(pool_mode, POOL_MODES,
	         .help = "Pool mode of clients of this listener, whatever their database and user "
	                 "have. If not set, as for other clients."),
	LISTENER(port, .min = 1, .max = 65535, .is_exact = true,
	         .help = "Port to listen on, also in the name of the Unix socket. Required."),
	LISTENER(proxy_protocol, .help = listener_help),
	LISTENER(unix_socket_dir, .initial = "not set: no Unix socket",
	         .help = "Directory of a Unix socket (/path or @name)."),
};

static const struct setting application_keys[] = {
	APPLICATION(idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = application_help),
	APPLICATION(query_timeout, .low = LOW_ZERO_INHERITS, .help = application_help),
	APPLICATION(transaction_timeout, .low = LOW_ZERO_INHERITS, .help = application_help),
};

static const struct setting statement_keys[] = {
	STATEMENT(block, .max = 1, .initial = "0",
	          .help = "1: the statement is refused (42501). One that runs goes on."),
	STATEMENT(max_running, .max = INT32_MAX, .initial = "0",
	          .help =
	              "How many servers may execute the statement at the same time. A client that "
	              "would be one more is refused at once (53300). 0 = no limit."),
	STATEMENT(query_timeout, .low = LOW_ZERO_INHERITS,
	          .help =
	              "As the setting, for this statement, whatever applies to its client. Waiting "
	              "for a server does not count. 0 = what applies to its client."),
};

#define KIND(word, rows, most)                                                                 \
	{                                                                                      \
		.what = (word), .keys = (rows), .key_count = sizeof(rows) / sizeof((rows)[0]), \
		.name_max = (most)                                                             \
	}

const struct entry_kind entry_kinds[ENTRY_KINDS] = {
	[ENTRY_DATABASE] = KIND("database", database_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_USER] = KIND("user", user_keys, CONFIG_USER_NAME_MAX),
	[ENTRY_PEER] = KIND("peer", peer_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_LISTENER] = KIND("listener", listener_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_APPLICATION] = KIND("application", application_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_STATEMENT] = KIND("statement", statement_keys, CONFIG_DATABASE_NAME_MAX),
};

void entry_reset(void *entry, enum entry_kind_id kind)
{
	for (size_t i = 0; i < entry_kinds[kind].key_count; i++)
		field_reset(entry, &entry_kinds[kind].keys[i], NULL);
}

void entry_clear(void *entry, enum entry_kind_id kind)
{
	for (size_t i = 0; i < entry_kinds[kind].key_count; i++)
		field_free(entry, &entry_kinds[kind].keys[i]);
}

bool config_host_next(const char **list, struct bytes *host)
{
	size_t count;

	if (!*list)
		return false;
	count = strcspn(*list, ",");
	*host = bytes_of(*list, count);
	*list = (*list)[count] ? *list + count + 1 : NULL;
	return true;
}

bool config_host_at(const char *list, unsigned int number, struct bytes *host)
{
	do {
		if (!config_host_next(&list, host))
			return false;
	} while (number-- > 0);
	return true;
}

unsigned int config_host_count(const char *list)
{
	unsigned int count = 1;

	while ((list = strchr(list, ','))) {
		list++;
		count++;
	}
	return count;
}

int config_host_number(const char *list, const char *before, unsigned int number)
{
	struct bytes old, host;

	if (!config_host_at(before, number, &old))
		return -1;
	for (int i = 0; config_host_next(&list, &host); i++) {
		if (bytes_equal(host, old))
			return i;
	}
	return -1;
}

/* Digits of a port at the end of a host; 0: it is none. */
static int port_at(const char *digits, const char *end)
{
	int port = 0;

	while (digits < end && *digits >= '0' && *digits <= '9' && port <= UINT16_MAX)
		port = port * 10 + *digits++ - '0';
	return digits == end && port <= UINT16_MAX ? port : 0;
}

int config_host_port(struct bytes *host, int port)
{
	const char *colon = memrchr(host->at, ':', host->count);
	size_t count = colon ? (size_t)(colon - host->at) : 0;
	int own = count ? port_at(colon + 1, host->at + host->count) : 0;

	if (!own)
		return port;
	if (host->at[0] == '[' && colon[-1] == ']' && count > 2)
		*host = bytes_of(host->at + 1, count - 2);
	else if (!memchr(host->at, ':', count)) /* else it is an IPv6 address */
		*host = bytes_of(host->at, count);
	else
		return port;
	return own;
}

static const struct setting *find_key(const struct entry_kind *kind, const char *name)
{
	if (strcmp(name, "reserve_pool") == 0) /* an alias */
		name = "reserve_pool_size";
	for (size_t i = 0; i < kind->key_count; i++) {
		if (strcmp(kind->keys[i].name, name) == 0)
			return &kind->keys[i];
	}
	return NULL;
}

static bool refuse_key(const struct entry_kind *kind, const char *name, struct err *err)
{
	struct nearest nearest = nearest_begin(name);

	for (size_t i = 0; i < kind->key_count; i++)
		nearest_offer(&nearest, kind->keys[i].name);
	if (nearest.found)
		return err_set(err, ERR_CONFIG, "unknown key \"%s\": did you mean \"%s\"?", name,
		               nearest.found);
	return err_set(err, ERR_CONFIG, "unknown key \"%s\"", name);
}

/* Several ports are for as many hosts, as in libpq. The number is that of the first one. */
static bool give_ports(struct config_database *database, const char *ports, struct err *err)
{
	const struct setting *key = find_key(&entry_kinds[ENTRY_DATABASE], "port");
	const char *hosts = database->host;
	struct buf list = { 0 };
	struct bytes host, port;
	int first = 0;

	while (hosts && ports) {
		char text[16] = "";
		bool is_v6;

		config_host_next(&hosts, &host);
		config_host_next(&ports, &port);
		config_host_port(&host, 0);
		is_v6 = memchr(host.at, ':', host.count) != NULL;
		if (port.count < sizeof(text))
			memcpy(text, port.at, port.count);
		if (!field_put_bare(database, key, text, NULL, err)) {
			buf_free(&list);
			return err_prefix(err, "port: ");
		}
		first = first ? first : database->port;
		buf_printf(&list, "%s%s%.*s%s:%d", list.count ? "," : "", is_v6 ? "[" : "",
		           (int)host.count, host.at, is_v6 ? "]" : "", database->port);
	}
	database->port = first;
	if (hosts || ports || !buf_ok(&list)) {
		buf_free(&list);
		return err_set(err, ERR_CONFIG, "port: there must be as many ports as hosts");
	}
	free(database->host);
	database->host = strdup(buf_text(&list));
	buf_free(&list);
	return database->host || err_set(err, ERR_MEMORY, "no memory");
}

bool entry_read(void *entry, enum entry_kind_id kind, char *text, struct buf *notes,
                struct err *err)
{
	struct pairs pairs = { .at = text };
	const char *ports = NULL;
	enum pairs_result result;

	while ((result = pairs_next(&pairs, err)) == PAIRS_ONE) {
		const struct setting *key = find_key(&entry_kinds[kind], pairs.key);
		struct err note = { 0 };

		if (!key)
			return refuse_key(&entry_kinds[kind], pairs.key, err);
		if (kind == ENTRY_DATABASE && strcmp(key->name, "port") == 0) {
			ports = strchr(pairs.value, ',') ? pairs.value : NULL;
			if (ports)
				continue;
		}
		if (!field_put_bare(entry, key, pairs.value, &note, err))
			return err_prefix(err, "%s: ", key->name);
		if (note.code != ERR_NONE && notes)
			buf_printf(notes, "%s%s: %s", notes->count ? "; " : "", key->name,
			           note.text);
	}
	return result == PAIRS_END && (!ports || give_ports(entry, ports, err));
}
