/* SPDX-License-Identifier: ISC */
/*
 * The table of metrics. Those that begin with pgbouncer_ have the names and labels of the
 * exporter of the Prometheus community, so dashboards and alerts for it work without changes.
 * They are an interface: see doc/http.md.
 */
#include "web_priv.h"

#define METRIC(name, help, column, key, type, value)                   \
	{                                                              \
		name, help, column, key, METRIC_##type, METRIC_##value \
	}
#define GAUGE(name, column, help) METRIC(name, help, column, NULL, GAUGE, NUMBER)
#define COUNTER(name, column, help) METRIC(name, help, column, NULL, COUNTER, NUMBER)
#define SECONDS(name, column, help) METRIC(name, help, column, NULL, COUNTER, MICROSECONDS)
#define KEYED(name, column, key, help) METRIC(name, help, column, key, GAUGE, NUMBER)
#define ONE(name, help) METRIC(name, help, NULL, NULL, GAUGE, ONE)

/* ---- the exporter's ---- */

static const struct metric of_version[] = {
	ONE("pgbouncer_version_info", "Version, as SHOW VERSION has it."),
};

static const struct metric of_lists[] = {
	KEYED("pgbouncer_databases", "items", "databases", "Number of databases."),
	KEYED("pgbouncer_users", "items", "users", "Number of users."),
	KEYED("pgbouncer_pools", "items", "pools", "Number of pools."),
	KEYED("pgbouncer_free_clients", "items", "free_clients", "Number of free client objects."),
	KEYED("pgbouncer_used_clients", "items", "used_clients", "Number of connected clients."),
	KEYED("pgbouncer_login_clients", "items", "login_clients",
	      "Number of clients that are logging in."),
	KEYED("pgbouncer_free_servers", "items", "free_servers", "Number of free server objects."),
	KEYED("pgbouncer_used_servers", "items", "used_servers", "Number of server connections."),
	KEYED("pgbouncer_cached_dns_names", "items", "dns_names",
	      "Number of host names in the DNS cache."),
	KEYED("pgbouncer_cached_dns_zones", "items", "dns_zones",
	      "Number of zones in the DNS cache."),
	KEYED("pgbouncer_in_flight_dns_queries", "items", "dns_queries",
	      "Number of DNS queries without an answer."),
};

static const struct metric of_config[] = {
	KEYED("pgbouncer_config_max_client_connections", "value", "max_client_conn",
	      "Maximum number of client connections."),
	KEYED("pgbouncer_config_max_user_connections", "value", "max_user_connections",
	      "Maximum number of server connections of a user; 0: no limit."),
};

static const struct metric of_databases[] = {
	GAUGE("pgbouncer_databases_pool_size", "pool_size",
	      "Maximum number of server connections of a pool."),
	GAUGE("pgbouncer_databases_reserve_pool", "reserve_pool_size",
	      "Maximum number of additional server connections of a pool."),
	GAUGE("pgbouncer_databases_max_connections", "max_connections",
	      "Maximum number of server connections of the database; 0: no limit."),
	GAUGE("pgbouncer_databases_current_connections", "current_connections",
	      "Number of server connections of the database."),
	GAUGE("pgbouncer_databases_paused", "paused", "1: the database is paused."),
	GAUGE("pgbouncer_databases_disabled", "disabled", "1: the database is disabled."),
};

static const struct metric of_pools[] = {
	GAUGE("pgbouncer_pools_client_active_connections", "cl_active",
	      "Clients that do not wait for a server."),
	GAUGE("pgbouncer_pools_client_waiting_connections", "cl_waiting",
	      "Clients that wait for a server."),
	GAUGE("pgbouncer_pools_client_active_cancel_connections", "cl_active_cancel_req",
	      "Cancel requests that were sent to PostgreSQL."),
	GAUGE("pgbouncer_pools_client_waiting_cancel_connections", "cl_waiting_cancel_req",
	      "Cancel requests that wait for a connection."),
	GAUGE("pgbouncer_pools_server_active_connections", "sv_active",
	      "Server connections that work for a client."),
	GAUGE("pgbouncer_pools_server_active_cancel_connections", "sv_active_cancel",
	      "Server connections that send a cancel request."),
	GAUGE("pgbouncer_pools_server_being_canceled_connections", "sv_being_canceled",
	      "Server connections whose query is being canceled."),
	GAUGE("pgbouncer_pools_server_idle_connections", "sv_idle",
	      "Server connections that are idle and can be used at once."),
	GAUGE("pgbouncer_pools_server_used_connections", "sv_used",
	      "Server connections that are idle and are checked before they are used."),
	GAUGE("pgbouncer_pools_server_testing_connections", "sv_tested",
	      "Server connections that are being reset or checked."),
	GAUGE("pgbouncer_pools_server_login_connections", "sv_login",
	      "Server connections that are logging in."),
	GAUGE("pgbouncer_pools_client_maxwait_seconds", "maxwait",
	      "How long the first client in the queue has waited, in whole seconds."),
	{ "pgweir_pool_maxwait_seconds", "How long the first client in the queue has waited.",
	  "maxwait", NULL, METRIC_GAUGE, METRIC_SUM_OF_TIME },
};

/* Two generations of the exporter's names: of SHOW STATS_TOTALS, and of SHOW STATS before. */
#define STATS_METRICS(prefix)                                                                 \
	COUNTER(prefix "queries_pooled_total", "query_count",                                 \
	        "Number of queries (a pipeline up to its Sync counts as one)."),              \
	    COUNTER(prefix "sql_transactions_pooled_total", "xact_count",                     \
	            "Number of transactions."),                                               \
	    COUNTER(prefix "server_assignments_total", "server_assignment_count",             \
	            "Number of times a server was assigned to a client."),                    \
	    SECONDS(prefix "queries_duration_seconds_total", "query_time",                    \
	            "Time spent in queries, including the wait for a server."),               \
	    SECONDS(prefix "server_in_transaction_seconds_total", "xact_time",                \
	            "Time spent in transactions, including the wait for a server."),          \
	    SECONDS(prefix "client_wait_seconds_total", "wait_time",                          \
	            "Time that clients waited for a server."),                                \
	    COUNTER(prefix "received_bytes_total", "bytes_received",                          \
	            "Bytes received from clients."),                                          \
	    COUNTER(prefix "sent_bytes_total", "bytes_sent", "Bytes received from servers."), \
	    COUNTER(prefix "client_parses_total", "client_parse_count",                       \
	            "Number of prepared statements created by clients."),                     \
	    COUNTER(prefix "server_parses_total", "server_parse_count",                       \
	            "Number of prepared statements created on servers."),                     \
	    COUNTER(prefix "binds_total", "bind_count", "Number of prepared statements bound.")

static const struct metric of_stats[] = {
	STATS_METRICS("pgbouncer_stats_totals_"),
	STATS_METRICS("pgbouncer_stats_"),
	COUNTER("pgweir_client_logins_total", "client_login_count", "Number of client logins."),
};

static const struct metric of_clients[] = {
	GAUGE("pgbouncer_client_connections", NULL, "Number of client connections."),
};

/* ---- our own ---- */

static const struct metric of_ready[] = {
	{ "pgweir_ready", "1: new work is accepted, as /readyz says.", "ready", NULL, METRIC_GAUGE,
	  METRIC_YES },
};

static const struct metric of_limits[] = {
	GAUGE("pgweir_limit", "value", "Value of a limit of SHOW LIMITS; 0: no limit."),
	GAUGE("pgweir_limit_used", "used", "How much of a limit is in use."),
	COUNTER("pgweir_limit_hits_total", "hits", "How often a limit was reached."),
	GAUGE("pgweir_limit_waiting", "waiting",
	      "Pools that wait because of a limit; for pool_size: clients."),
};

static const struct metric of_listeners[] = {
	GAUGE("pgweir_listener_clients", "clients", "Clients that came by a listener."),
	COUNTER("pgweir_listener_accepted_total", "accepted", "Connections accepted."),
	COUNTER("pgweir_listener_refused_total", "refused",
	        "Clients refused because of the listener's own max_client_conn."),
};

/* Groups have names that clients choose, so they are only counted. */
static const struct metric of_shares[] = {
	GAUGE("pgweir_share_groups", NULL,
	      "Groups of clients that share the servers of a pool (fair_by, priority)."),
};

static const struct metric of_events[] = {
	COUNTER("pgweir_events_total", "count", "Events of SHOW EVENTS, by kind."),
};

static const struct metric of_closes[] = {
	COUNTER("pgweir_closes_total", "count",
	        "Connections closed, by reason. type C: of clients; S: of servers."),
};

static const struct metric of_sqlstates[] = {
	COUNTER("pgweir_errors_total", "count",
	        "Errors that clients were sent, by SQLSTATE and its class. side: who sent them."),
};

static const struct metric of_certificates[] = {
	GAUGE("pgweir_certificate_expiry_seconds", "seconds_left",
	      "Seconds until a certificate of ours expires; below 0: it has expired."),
};

static const struct metric of_loops[] = {
	GAUGE("pgweir_loop_clients", "clients", "Client connections of an event loop."),
	GAUGE("pgweir_loop_servers", "servers", "Server connections of an event loop."),
	COUNTER("pgweir_loop_turns_total", "turns", "Turns of an event loop."),
	SECONDS(
	    "pgweir_loop_cpu_seconds_total", "cpu_time",
	    "Processor time of the thread of an event loop, without polling that found nothing."),
	COUNTER("pgweir_loop_servers_in_total", "servers_in",
	        "Servers that came from other event loops."),
	COUNTER("pgweir_loop_servers_out_total", "servers_out",
	        "Servers that went to other event loops."),
};

static const struct metric of_hosts[] = {
	ONE("pgweir_host_info", "A host of an entry, with its role and state."),
	GAUGE("pgweir_host_servers", "servers", "Server connections of an entry to a host."),
	GAUGE("pgweir_host_timeline", "timeline", "Timeline of a host; 0: not known."),
	GAUGE("pgweir_host_lag_bytes", "lag_bytes",
	      "Bytes of WAL that a standby has not replayed."),
	GAUGE("pgweir_host_lost_bytes", "lost_bytes",
	      "Bytes of its predecessor's WAL that a primary lacked when it was promoted."),
	{ "pgweir_host_lag_seconds", "For how long a standby may lack what was written.", "lag_us",
	  NULL, METRIC_GAUGE, METRIC_MICROSECONDS },
};

/* Each address of a host has its number of reads. */
static const struct metric of_host_reads[] = {
	COUNTER("pgweir_host_reads_total", "reads",
	        "How often a server of the host was lent for a read (route_reads)."),
};

static const struct metric of_waiting[] = {
	GAUGE("pgweir_waiting_clients", NULL, "Clients that wait, by the reason of SHOW WAITING."),
};

static const struct metric of_transactions[] = {
	GAUGE("pgweir_transactions", NULL, "Clients in a transaction, by their state."),
	GAUGE("pgweir_transaction_max_age_seconds", "xact_seconds",
	      "Age of the oldest transaction of clients in this state."),
	GAUGE("pgweir_transaction_max_state_seconds", "seconds",
	      "How long one of these clients has been in this state."),
};

static const struct metric of_pinned[] = {
	GAUGE("pgweir_pinned_servers", NULL,
	      "Servers that stay with their client because of session state."),
};

static const struct metric of_memory[] = {
	GAUGE("pgweir_cache_bytes", "memtotal", "Memory of a cache of SHOW MEM."),
};

static const struct metric of_histograms[] = {
	KEYED("wait_seconds", NULL, "wait",
	      "How long clients waited for a server, 0 if one was idle."),
	KEYED("query_seconds", NULL, "statement",
	      "How long queries took, including the wait for a server."),
	KEYED("transaction_seconds", NULL, "transaction",
	      "How long transactions took, including the wait for a server."),
	KEYED("server_login_seconds", NULL, "server_login",
	      "How long logins at PostgreSQL took that succeeded."),
	KEYED("client_login_seconds", NULL, "client_login",
	      "How long logins of clients took that succeeded."),
};

/* With more of them, only all together have histograms in /metrics. */
#define DATABASES_MAX 50

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))
#define SOURCE(of, how, table, ...)                                                               \
	{                                                                                         \
		.words = of, .kind = how, .metrics = table, .count = COUNT_OF(table), .labels = { \
			__VA_ARGS__                                                               \
		}                                                                                 \
	}
#define HISTOGRAMS(of, most, begin, ...)                                                      \
	{                                                                                     \
		.words = of, .kind = METRICS_BUCKETS, .metrics = of_histograms,               \
		.count = COUNT_OF(of_histograms), .labels = { __VA_ARGS__ }, .prefix = begin, \
		.rows_max = most                                                              \
	}

const struct metrics_source metrics_sources[] = {
	SOURCE("VERSION", METRICS_ROWS, of_version, "version"),
	SOURCE("READY", METRICS_ROWS, of_ready, NULL),
	SOURCE("LISTS", METRICS_ROWS, of_lists, NULL),
	SOURCE("CONFIG", METRICS_ROWS, of_config, NULL),
	SOURCE("DATABASES", METRICS_ROWS, of_databases, "name", "host", "port", "database",
	       "force_user", "pool_mode"),
	SOURCE("POOLS", METRICS_ROWS, of_pools, "database", "user"),
	SOURCE("STATS_TOTALS", METRICS_ROWS, of_stats, "database"),
	SOURCE("CLIENTS", METRICS_GROUPED, of_clients, "database", "user", "application_name",
	       "state"),
	SOURCE("LIMITS", METRICS_ROWS, of_limits, "limit", "database", "user", "host", "statement"),
	SOURCE("LISTENERS", METRICS_ROWS, of_listeners, "name", "port"),
	SOURCE("SHARES", METRICS_GROUPED, of_shares, "database", "user", "priority"),
	SOURCE("EVENTS_TOTALS", METRICS_ROWS, of_events, "event"),
	SOURCE("CLOSES", METRICS_ROWS, of_closes, "type", "reason", "is_error", "database"),
	SOURCE("SQLSTATES", METRICS_ROWS, of_sqlstates, "class", "sqlstate", "side", "severity"),
	SOURCE("CERTIFICATES", METRICS_ROWS, of_certificates, "setting", "file"),
	SOURCE("LOOPS", METRICS_ROWS, of_loops, "loop"),
	SOURCE("HOSTS", METRICS_ROWS, of_hosts, "entry", "host", "address", "role", "state"),
	SOURCE("HOSTS", METRICS_GROUPED, of_host_reads, "entry", "host"),
	SOURCE("WAITING", METRICS_GROUPED, of_waiting, "database", "user", "reason"),
	SOURCE("TRANSACTIONS", METRICS_GROUPED, of_transactions, "database", "user", "state"),
	SOURCE("PINNED", METRICS_GROUPED, of_pinned, "database", "user"),
	SOURCE("MEM", METRICS_ROWS, of_memory, "name"),
	HISTOGRAMS("HISTOGRAMS", 0, "pgweir_", NULL),
	HISTOGRAMS("HISTOGRAMS", (DATABASES_MAX + 1) * COUNT_OF(of_histograms), "pgweir_database_",
	           "database"),
	{ .words = NULL },
};

const struct metrics_source metrics_histograms[] = {
	HISTOGRAMS("HISTOGRAMS", 0, "pgweir_database_", "database"),
	HISTOGRAMS("POOL_HISTOGRAMS", 0, "pgweir_pool_", "database", "user"),
	{ .words = NULL },
};
