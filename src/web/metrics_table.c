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
/* Without a help, that of the column. */
#define GAUGE(name, column, help) METRIC(name, help, column, NULL, GAUGE, NUMBER)
#define COUNTER(name, column, help) METRIC(name, help, column, NULL, COUNTER, NUMBER)
#define SECONDS(name, column, help) METRIC(name, help, column, NULL, COUNTER, MICROSECONDS)
#define KEYED(name, column, key, help) METRIC(name, help, column, key, GAUGE, NUMBER)

/* Two generations of the exporter's names: of SHOW STATS_TOTALS, and of SHOW STATS before. */
#define STATS_METRICS(prefix)                                                            \
	COUNTER(prefix "queries_pooled_total", "query_count", NULL),                     \
	    COUNTER(prefix "sql_transactions_pooled_total", "xact_count", NULL),         \
	    COUNTER(prefix "server_assignments_total", "server_assignment_count", NULL), \
	    SECONDS(prefix "queries_duration_seconds_total", "query_time",               \
	            "Time spent in queries, including the wait for a server."),          \
	    SECONDS(prefix "server_in_transaction_seconds_total", "xact_time",           \
	            "Time spent in transactions, including the wait for a server."),     \
	    SECONDS(prefix "client_wait_seconds_total", "wait_time",                     \
	            "Time that clients waited for a server."),                           \
	    COUNTER(prefix "received_bytes_total", "bytes_received", NULL),              \
	    COUNTER(prefix "sent_bytes_total", "bytes_sent", NULL),                      \
	    COUNTER(prefix "client_parses_total", "client_parse_count", NULL),           \
	    COUNTER(prefix "server_parses_total", "server_parse_count", NULL),           \
	    COUNTER(prefix "binds_total", "bind_count", NULL)

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
#define LABELS(...) .labels = { __VA_ARGS__ }
#define SOURCE(of, how, labelled, ...)                                      \
	{                                                                   \
		.words = of, .kind = METRICS_##how, labelled,               \
		.metrics = (const struct metric[]){ __VA_ARGS__ },          \
		.count = COUNT_OF(((const struct metric[]){ __VA_ARGS__ })) \
	}
#define HISTOGRAMS(of, most, begin, labelled)                                             \
	{                                                                                 \
		.words = of, .kind = METRICS_BUCKETS, labelled, .metrics = of_histograms, \
		.count = COUNT_OF(of_histograms), .prefix = begin, .rows_max = most       \
	}

const struct metrics_source metrics_sources[] = {
	SOURCE("VERSION", ROWS, LABELS("version"),
	       GAUGE("pgbouncer_version_info", NULL, "Version, as SHOW VERSION has it.")),
	SOURCE("READY", ROWS, LABELS(NULL),
	       GAUGE("pgweir_ready", "ready", "1: new work is accepted, as /readyz says.")),
	SOURCE("LISTS", ROWS, LABELS(NULL),
	       KEYED("pgbouncer_databases", "items", "databases", "Number of databases."),
	       KEYED("pgbouncer_users", "items", "users", "Number of users."),
	       KEYED("pgbouncer_pools", "items", "pools", "Number of pools."),
	       KEYED("pgbouncer_free_clients", "items", "free_clients",
	             "Number of free client objects."),
	       KEYED("pgbouncer_used_clients", "items", "used_clients",
	             "Number of connected clients."),
	       KEYED("pgbouncer_login_clients", "items", "login_clients",
	             "Number of clients that are logging in."),
	       KEYED("pgbouncer_free_servers", "items", "free_servers",
	             "Number of free server objects."),
	       KEYED("pgbouncer_used_servers", "items", "used_servers",
	             "Number of server connections."),
	       KEYED("pgbouncer_cached_dns_names", "items", "dns_names",
	             "Number of host names in the DNS cache."),
	       KEYED("pgbouncer_cached_dns_zones", "items", "dns_zones",
	             "Number of zones in the DNS cache."),
	       KEYED("pgbouncer_in_flight_dns_queries", "items", "dns_queries",
	             "Number of DNS queries without an answer.")),
	SOURCE("CONFIG", ROWS, LABELS(NULL),
	       KEYED("pgbouncer_config_max_client_connections", "value", "max_client_conn",
	             "Maximum number of client connections."),
	       KEYED("pgbouncer_config_max_user_connections", "value", "max_user_connections",
	             "Maximum number of server connections of a user; 0: no limit.")),
	SOURCE("DATABASES", ROWS,
	       LABELS("name", "host", "port", "database", "force_user", "pool_mode"),
	       GAUGE("pgbouncer_databases_pool_size", "pool_size", NULL),
	       GAUGE("pgbouncer_databases_reserve_pool", "reserve_pool_size", NULL),
	       GAUGE("pgbouncer_databases_max_connections", "max_connections", NULL),
	       GAUGE("pgbouncer_databases_current_connections", "current_connections", NULL),
	       GAUGE("pgbouncer_databases_paused", "paused", NULL),
	       GAUGE("pgbouncer_databases_disabled", "disabled", NULL)),
	SOURCE(
	    "POOLS", ROWS, LABELS("database", "user"),
	    GAUGE("pgbouncer_pools_client_active_connections", "cl_active", NULL),
	    GAUGE("pgbouncer_pools_client_waiting_connections", "cl_waiting", NULL),
	    GAUGE("pgbouncer_pools_client_active_cancel_connections", "cl_active_cancel_req", NULL),
	    GAUGE("pgbouncer_pools_client_waiting_cancel_connections", "cl_waiting_cancel_req",
	          NULL),
	    GAUGE("pgbouncer_pools_server_active_connections", "sv_active", NULL),
	    GAUGE("pgbouncer_pools_server_active_cancel_connections", "sv_active_cancel", NULL),
	    GAUGE("pgbouncer_pools_server_being_canceled_connections", "sv_being_canceled", NULL),
	    GAUGE("pgbouncer_pools_server_idle_connections", "sv_idle", NULL),
	    GAUGE("pgbouncer_pools_server_used_connections", "sv_used", NULL),
	    GAUGE("pgbouncer_pools_server_testing_connections", "sv_tested", NULL),
	    GAUGE("pgbouncer_pools_server_login_connections", "sv_login", NULL),
	    GAUGE("pgbouncer_pools_client_maxwait_seconds", "maxwait", NULL),
	    { "pgweir_pool_maxwait_seconds", "How long the first client in the queue has waited.",
	      "maxwait", NULL, METRIC_GAUGE, METRIC_SUM_OF_TIME }),
	SOURCE("STATS_TOTALS", ROWS, LABELS("database"), STATS_METRICS("pgbouncer_stats_totals_"),
	       STATS_METRICS("pgbouncer_stats_"),
	       COUNTER("pgweir_client_logins_total", "client_login_count", NULL)),
	SOURCE("CLIENTS", GROUPED, LABELS("database", "user", "application_name", "state"),
	       GAUGE("pgbouncer_client_connections", NULL, "Number of client connections.")),
	SOURCE("LIMITS", ROWS, LABELS("limit", "database", "user", "host", "statement"),
	       GAUGE("pgweir_limit", "value", NULL), GAUGE("pgweir_limit_used", "used", NULL),
	       COUNTER("pgweir_limit_hits_total", "hits", NULL),
	       GAUGE("pgweir_limit_waiting", "waiting", NULL)),
	SOURCE("LISTENERS", ROWS, LABELS("name", "port"),
	       GAUGE("pgweir_listener_clients", "clients", NULL),
	       COUNTER("pgweir_listener_accepted_total", "accepted", NULL),
	       COUNTER("pgweir_listener_refused_total", "refused", NULL)),
	/* Groups have names that clients choose, so they are only counted. */
	SOURCE("SHARES", GROUPED, LABELS("database", "user", "priority"),
	       GAUGE("pgweir_share_groups", NULL,
	             "Groups of clients that share the servers of a pool (fair_by, priority).")),
	SOURCE("EVENTS_TOTALS", ROWS, LABELS("event"),
	       COUNTER("pgweir_events_total", "count", NULL)),
	SOURCE("CLOSES", ROWS, LABELS("type", "reason", "is_error", "database"),
	       COUNTER("pgweir_closes_total", "count",
	               "Connections closed, by reason. type C: of clients; S: of servers.")),
	SOURCE(
	    "SQLSTATES", ROWS, LABELS("class", "sqlstate", "side", "severity"),
	    COUNTER(
		"pgweir_errors_total", "count",
		"Errors that clients were sent, by SQLSTATE and its class. side: who sent them.")),
	SOURCE("CERTIFICATES", ROWS, LABELS("setting", "file"),
	       GAUGE("pgweir_certificate_expiry_seconds", "seconds_left", NULL)),
	SOURCE("LOOPS", ROWS, LABELS("loop"), GAUGE("pgweir_loop_clients", "clients", NULL),
	       GAUGE("pgweir_loop_servers", "servers", NULL),
	       COUNTER("pgweir_loop_turns_total", "turns", NULL),
	       SECONDS("pgweir_loop_cpu_seconds_total", "cpu_time",
	               "Processor time of the thread of an event loop, without polling that found "
	               "nothing."),
	       COUNTER("pgweir_loop_servers_in_total", "servers_in", NULL),
	       COUNTER("pgweir_loop_servers_out_total", "servers_out", NULL)),
	SOURCE("HOSTS", ROWS, LABELS("entry", "host", "address", "role", "state"),
	       GAUGE("pgweir_host_info", NULL, "A host of an entry, with its role and state."),
	       GAUGE("pgweir_host_servers", "servers", NULL),
	       GAUGE("pgweir_host_timeline", "timeline", NULL),
	       GAUGE("pgweir_host_lag_bytes", "lag_bytes", NULL),
	       GAUGE("pgweir_host_lost_bytes", "lost_bytes", NULL),
	       { "pgweir_host_lag_seconds", "For how long a standby may lack what was written.",
	         "lag_us", NULL, METRIC_GAUGE, METRIC_MICROSECONDS }),
	/* Each address of a host has its number of reads. */
	SOURCE("HOSTS", GROUPED, LABELS("entry", "host"),
	       COUNTER("pgweir_host_reads_total", "reads",
	               "How often a server of the host was lent for a read (route_reads).")),
	SOURCE("WAITING", GROUPED, LABELS("database", "user", "reason"),
	       GAUGE("pgweir_waiting_clients", NULL,
	             "Clients that wait, by the reason of SHOW WAITING.")),
	SOURCE("TRANSACTIONS", GROUPED, LABELS("database", "user", "state"),
	       GAUGE("pgweir_transactions", NULL, "Clients in a transaction, by their state."),
	       GAUGE("pgweir_transaction_max_age_seconds", "xact_seconds",
	             "Age of the oldest transaction of clients in this state."),
	       GAUGE("pgweir_transaction_max_state_seconds", "seconds",
	             "How long one of these clients has been in this state.")),
	SOURCE("PINNED", GROUPED, LABELS("database", "user"),
	       GAUGE("pgweir_pinned_servers", NULL,
	             "Servers that stay with their client because of session state.")),
	SOURCE("MEM", ROWS, LABELS("name"), GAUGE("pgweir_cache_bytes", "memtotal", NULL)),
	HISTOGRAMS("HISTOGRAMS", 0, "pgweir_", LABELS(NULL)),
	HISTOGRAMS("HISTOGRAMS", (DATABASES_MAX + 1) * COUNT_OF(of_histograms), "pgweir_database_",
	           LABELS("database")),
	{ .words = NULL },
};

const struct metrics_source metrics_histograms[] = {
	HISTOGRAMS("HISTOGRAMS", 0, "pgweir_database_", LABELS("database")),
	HISTOGRAMS("POOL_HISTOGRAMS", 0, "pgweir_pool_", LABELS("database", "user")),
	{ .words = NULL },
};
