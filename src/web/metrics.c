/* SPDX-License-Identifier: ISC */
/*
 * /metrics and /metrics/histograms: reads one SHOW after the other, and writes its metrics in
 * Prometheus' text format 0.0.4, or as OpenMetrics 1.0.
 *
 *   for each source:  pieces of rows --> kept --> complete: samples --> client
 *
 * The answer begins with the first metric: until then, a SHOW that fails is an error.
 *
 * Hard here: all samples of a metric must follow each other, but a row has values for many metrics.
 * So what the rows have is kept as numbers, and nothing is written before the last row.
 */
#include "web_priv.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pgweir/base/text.h"
#include "pgweir/base/version.h"

#define ROWS_SIZE_MAX ((size_t)128 * 1024 * 1024) /* bytes of one source */
#define GROUPS_MAX 10000

#define NO_VALUE INT64_MIN

/*
 * ---- the table of metrics ----
 *
 * Those that begin with pgbouncer_ have the names and labels of the exporter of the Prometheus
 * community, so dashboards and alerts for it work without changes. They are an interface: see
 * doc/http.md.
 */

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

/* End with NULL words. */
static const struct metrics_source metrics_sources[] = {
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

static const struct metrics_source metrics_histograms[] = {
	HISTOGRAMS("HISTOGRAMS", 0, "pgweir_database_", LABELS("database")),
	HISTOGRAMS("POOL_HISTOGRAMS", 0, "pgweir_pool_", LABELS("database", "user")),
	{ .words = NULL },
};

/* ---- parts of the format ---- */

static void add_label_value(struct buf *out, struct bytes value)
{
	buf_add_byte(out, '"');
	while (value.count) {
		uint32_t point;
		size_t size = text_utf8(value.at, value.count, &point);

		if (!size)
			buf_add_text(out, "\xef\xbf\xbd");
		else if (*value.at == '\n')
			buf_add_text(out, "\\n");
		else if (*value.at == '"' || *value.at == '\\')
			buf_printf(out, "\\%c", *value.at);
		else
			buf_add(out, value.at, size);
		value = bytes_skip(value, size ? size : 1);
	}
	buf_add_byte(out, '"');
}

/*
 * HELP and TYPE of a metric. In OpenMetrics, the name of a counter is without _total here, and with
 * it in its samples.
 */
static void add_head(bool is_openmetrics, const char *name, const char *type, const char *help,
                     struct buf *out)
{
	int size = (int)strlen(name);

	if (is_openmetrics && strcmp(type, "counter") == 0)
		size -= (int)strlen("_total");
	buf_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", size, name, help, size, name, type);
}

static void add_seconds(struct buf *out, int64_t microseconds)
{
	buf_printf(out, "%" PRId64 ".%06d", microseconds / USEC_PER_SEC,
	           (int)(microseconds % USEC_PER_SEC));
}

/* ---- the rows ---- */

/* The number of a column. COLUMNS_MAX: the table has none of this name. */
static size_t find_column(const struct metrics_text *text, const char *name)
{
	for (size_t i = 0; name && i < text->columns.count; i++) {
		if (strcmp(text->columns.at[i].name, name) == 0)
			return i;
	}
	return COLUMNS_MAX;
}

static struct bytes value_of(const struct metrics_text *text, const char *name)
{
	return text->values[find_column(text, name)];
}

/* "yes" is 1, other words are 0. */
static int64_t number_of(struct bytes value)
{
	char text[32];
	int64_t number = 0;

	if (bytes_are(value, "yes"))
		return 1;
	if (!value.count || value.count >= sizeof(text))
		return 0;
	memcpy(text, value.at, value.count);
	text[value.count] = 0;
	text_to_i64(text, &number);
	return number;
}

/* Adds {name="value",...}. An absent value is an empty one, as in the exporter. */
static void add_labels(const struct metrics_text *text, struct buf *out)
{
	const char *const *labels = text->source->labels;

	for (size_t i = 0; i < METRICS_LABELS_MAX && labels[i]; i++) {
		buf_printf(out, "%c%s=", i ? ',' : '{', labels[i]);
		add_label_value(out, value_of(text, labels[i]));
	}
	buf_add_text(out, labels[0] ? "}" : "");
}

static struct metrics_row *add_row(struct metrics_text *text, const struct buf *labels)
{
	struct metrics_row *row =
	    buf_ok(labels) ? calloc(1, sizeof(*row) + labels->count + 1) : NULL;

	if (!row)
		return NULL;
	row->size = labels->count;
	if (labels->count)
		memcpy(row->labels, labels->at, labels->count);
	text->size += sizeof(*row) + row->size;
	STAILQ_INSERT_TAIL(&text->rows, row, node);
	return row;
}

/* Of more than GROUPS_MAX, one more takes all others: sums and maxima stay right. */
static struct metrics_row *add_group(struct metrics_text *text, struct buf *labels)
{
	bool is_full = HASH_COUNT(text->groups) >= GROUPS_MAX;
	struct metrics_row *row;

	TABLE_FIND(hh, &text->secret, text->groups, labels->at, labels->count, row);
	if (!row && is_full) {
		buf_clear(labels);
		buf_add_text(labels, "{}");
		TABLE_FIND(hh, &text->secret, text->groups, labels->at, labels->count, row);
	}
	if (row || !(row = add_row(text, labels)))
		return row;
	TABLE_ADD(hh, &text->secret, text->groups, row->labels, row->size, row);
	return row;
}

/* A new one, or the one of its group. NULL: no memory. */
static struct metrics_row *keep_row(struct metrics_text *text)
{
	struct metrics_row *row;
	struct buf labels = { 0 };

	add_labels(text, &labels);
	row = text->source->kind == METRICS_GROUPED ? add_group(text, &labels)
	                                            : add_row(text, &labels);
	buf_free(&labels);
	return row;
}

/* ---- what rows have for metrics ---- */

/* Nothing for NULL, and for a metric with a key only the row of that name, if it has a number. */
static int64_t find_value(const struct metrics_text *text, const struct metric *metric)
{
	const struct bytes *at = &text->values[find_column(text, metric->column)];
	struct bytes value = *at;
	size_t digits = 0;

	while (digits < value.count && value.at[digits] >= '0' && value.at[digits] <= '9')
		digits++;
	if (!value.at || (metric->key && (!bytes_are(text->values[0], metric->key) || !digits ||
	                                  digits < value.count)))
		return NO_VALUE;
	if (metric->value == METRIC_SUM_OF_TIME)
		return number_of(value) * USEC_PER_SEC + number_of(at[1]);
	return number_of(value);
}

static bool take_row(struct metrics_text *text)
{
	const struct metrics_source *source = text->source;
	bool is_grouped = source->kind == METRICS_GROUPED;
	struct metrics_row *row = keep_row(text);

	for (size_t i = 0; row && i < source->count; i++) {
		const struct metric *metric = &source->metrics[i];
		int64_t value = metric->column ? find_value(text, metric) : row->values[i] + 1;

		if (!is_grouped || value > row->values[i])
			row->values[i] = value;
	}
	return row;
}

/* All pools together, a database and a pool are rows of the same tables, each of one metric. */
static bool take_buckets(struct metrics_text *text)
{
	const struct metrics_source *source = text->source;
	struct bytes kind = value_of(text, "kind");
	struct metrics_row *row;
	size_t metric = 0;

	while (metric < source->count && !bytes_are(kind, source->metrics[metric].key))
		metric++;
	if (metric == source->count ||
	    !value_of(text, "database").at == (source->labels[0] != NULL) ||
	    !value_of(text, "user").at == (source->labels[0] && source->labels[1]))
		return true;
	row = keep_row(text);
	if (!row)
		return false;
	row->metric = metric;
	for (size_t i = 0; i < text->columns.count; i++)
		row->values[i] = number_of(text->values[i]);
	return true;
}

bool metrics_take(struct metrics_text *text, struct bytes piece)
{
	bool ok = true;

	for (; ok && reader_take(&piece, text->values); text->row_count++)
		ok = text->source->kind == METRICS_BUCKETS ? take_buckets(text) : take_row(text);
	return ok && text->size <= ROWS_SIZE_MAX;
}

/* ---- samples ---- */

static void add_sample(const struct metrics_text *text, const struct metrics_row *row,
                       struct buf *out)
{
	const struct metric *metric = &text->source->metrics[text->metric];
	int64_t value = row->values[text->metric];

	if (value == NO_VALUE)
		return;
	buf_printf(out, "%s%s ", metric->name, row->labels);
	if (metric->value == METRIC_MICROSECONDS || metric->value == METRIC_SUM_OF_TIME)
		add_seconds(out, value);
	else
		buf_printf(out, "%" PRId64, value);
	buf_add_byte(out, '\n');
}

#define BOUND_SIZE 32

/* The upper bound of a bucket in seconds, by its column: "le_2500us" is 0.0025. */
static bool read_bound(const char *column, char bound[BOUND_SIZE])
{
	double value;
	char *unit;

	if (strncmp(column, "le_", 3) != 0)
		return false;
	value = strtod(column + 3, &unit);
	value /= *unit == 'u' ? 1e6 : *unit == 'm' ? 1e3 : 1;
	snprintf(bound, BOUND_SIZE, value < 1 ? "%g" : "%.1f", value);
	return true;
}

static void add_bucket(const char *name, const struct metrics_row *row, const char *bound,
                       int64_t count, struct buf *out)
{
	int size = row->size ? (int)row->size - 1 : 0; /* without the bracket at the end */

	buf_printf(out, "%s_bucket%.*s%sle=\"%s\"} %" PRId64 "\n", name, size, row->labels,
	           size ? "," : "{", bound, count);
}

static void add_buckets(const struct metrics_text *text, const struct metrics_row *row,
                        const char *name, struct buf *out)
{
	int64_t count = row->values[find_column(text, "count")];
	char bound[BOUND_SIZE];

	for (size_t i = 0; i < text->columns.count; i++) {
		if (read_bound(text->columns.at[i].name, bound))
			add_bucket(name, row, bound, row->values[i], out);
	}
	add_bucket(name, row, "+Inf", count, out);
	buf_printf(out, "%s_sum%s ", name, row->labels);
	add_seconds(out, row->values[find_column(text, "sum_us")]);
	buf_printf(out, "\n%s_count%s %" PRId64 "\n", name, row->labels, count);
}

/* ---- begun and freed ---- */

void metrics_begin(struct metrics_text *text, const struct metrics_source *source)
{
	struct metrics_row *row, *next;

	assert(!source || source->count <= COLUMNS_MAX);
	HASH_CLEAR(hh, text->groups);
	for (row = STAILQ_FIRST(&text->rows); row; row = next) {
		next = STAILQ_NEXT(row, node);
		free(row);
	}
	*text = (struct metrics_text){ .is_openmetrics = text->is_openmetrics, .source = source };
	STAILQ_INIT(&text->rows);
	if (source)
		text->columns = tables_find(source->words)->columns;
	if (source && source->kind == METRICS_GROUPED)
		hash_key_draw(&text->secret);
}

/* ---- writing ---- */

bool metrics_write(struct metrics_text *text, struct buf *out)
{
	const struct metrics_source *source = text->source;
	const struct metric *metric = &source->metrics[text->metric];
	bool is_histogram = source->kind == METRICS_BUCKETS;
	size_t column = find_column(text, metric->column);
	const struct metrics_row *row;
	struct buf name = { 0 };

	buf_printf(&name, "%s%s", source->prefix ? source->prefix : "", metric->name);
	add_head(text->is_openmetrics, buf_text(&name),
	         is_histogram                     ? "histogram"
	         : metric->type == METRIC_COUNTER ? "counter"
	                                          : "gauge",
	         metric->help || column == COLUMNS_MAX ? metric->help
	                                               : text->columns.at[column].help,
	         out);
	STAILQ_FOREACH (row, &text->rows, node) {
		if (!is_histogram)
			add_sample(text, row, out);
		else if (row->metric == text->metric)
			add_buckets(text, row, buf_text(&name), out);
	}
	buf_free(&name);
	return ++text->metric == source->count;
}

#define SCRAPES_MAX 4 /* at one time: each keeps the rows of one SHOW */

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* ---- the process itself, with the names that Prometheus' own libraries use ---- */

static void add(bool is_openmetrics, const char *name, const char *help, double value,
                struct buf *out)
{
	bool is_counter = strstr(name, "_total") != NULL;

	add_head(is_openmetrics, name, is_counter ? "counter" : "gauge", help, out);
	buf_printf(out, "%s %.15g\n", name, value);
}

static void add_memory(bool is_openmetrics, struct buf *out)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long whole, resident;
	double page = (double)sysconf(_SC_PAGESIZE);

	if (!file)
		return;
	if (fscanf(file, "%lu %lu", &whole, &resident) == 2) {
		add(is_openmetrics, "process_virtual_memory_bytes", "Size of the address space.",
		    (double)whole * page, out);
		add(is_openmetrics, "process_resident_memory_bytes", "Resident memory.",
		    (double)resident * page, out);
	}
	fclose(file);
}

static void add_files(bool is_openmetrics, struct buf *out)
{
	DIR *folder = opendir("/proc/self/fd");
	struct rlimit limit;
	double count = -3; /* ".", "..", and the descriptor of the folder itself */

	if (folder) {
		while (readdir(folder))
			count++;
		closedir(folder);
		add(is_openmetrics, "process_open_fds", "Open file descriptors.", count, out);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		add(is_openmetrics, "process_max_fds", "Maximum number of open file descriptors.",
		    (double)limit.rlim_cur, out);
}

static void add_process(const struct web *web, bool is_openmetrics, struct buf *out)
{
	struct rusage usage = { 0 };

	add(is_openmetrics, "pgbouncer_up", "1: these metrics could be read.", 1, out);
	getrusage(RUSAGE_SELF, &usage);
	add_head(is_openmetrics, "pgweir_build_info", "gauge", "Version of pgweir.", out);
	buf_printf(out, "pgweir_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
	add(is_openmetrics, "process_cpu_seconds_total", "Processor time of the process.",
	    (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	        (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
	    out);
	add(is_openmetrics, "pgweir_log_lines_lost_total",
	    "Lines of the log that could not be written.", (double)log_lost(web->with.log), out);
	add_memory(is_openmetrics, out);
	add_files(is_openmetrics, out);
	add(is_openmetrics, "process_start_time_seconds",
	    "When the process started, in seconds since 1970.",
	    (double)web->started_at / USEC_PER_SEC, out);
}

/* ---- a scrape ---- */

struct scrape {
	struct answer answer;
	struct buf argument; /* of each SHOW; empty: none */
	struct metrics_text text;
};

static void on_scrape_over(struct answer *answer)
{
	struct scrape *scrape = container_of(answer, struct scrape, answer);

	WEB_OF(answer->connection)->scrape_count--;
	metrics_begin(&scrape->text, NULL);
	buf_free(&scrape->argument);
}

static enum table_result begin_source(struct scrape *scrape, const struct metrics_source *source,
                                      struct buf *out)
{
	struct buf words = { 0 };
	bool is_begun;

	if (!source->words) {
		buf_add_text(out, scrape->text.is_openmetrics ? "# EOF\n" : "");
		return TABLE_END;
	}
	metrics_begin(&scrape->text, source);
	buf_printf(&words, "%s%s", source->words, buf_text(&scrape->argument));
	is_begun = connection_read_table(&scrape->answer, buf_text(&words));
	buf_free(&words);
	if (!is_begun)
		return TABLE_BROKEN;
	scrape->answer.reader->skips_unused = true;
	return TABLE_MORE;
}

/* A piece of a source has come. */
static enum table_result take_piece(struct scrape *scrape, struct buf *out)
{
	struct reader *reader = scrape->answer.reader;
	size_t rows_max = scrape->text.source->rows_max;
	bool has_too_many;

	if (!metrics_take(&scrape->text, buf_bytes(&reader->piece)))
		return TABLE_BROKEN;
	/* histograms of so many databases would be more samples than all other metrics together */
	has_too_many = rows_max && scrape->text.row_count > rows_max;
	if (reader->result == TABLE_MORE && !has_too_many)
		return TABLE_MORE;
	reader_end(&scrape->answer.reader);
	if (!has_too_many)
		return TABLE_MORE;
	return begin_source(scrape, scrape->text.source + 1, out);
}

static enum table_result next_part(struct answer *answer, struct buf *out)
{
	struct scrape *scrape = container_of(answer, struct scrape, answer);

	if (answer->reader)
		return take_piece(scrape, out);
	if (scrape->text.source == metrics_sources && scrape->text.metric == 0) /* it comes first */
		add_process(WEB_OF(answer->connection), scrape->text.is_openmetrics, out);
	if (!metrics_write(&scrape->text, out))
		return TABLE_MORE;
	return begin_source(scrape, scrape->text.source + 1, out);
}

/* argument: of each SHOW; taken over. */
static void begin_scrape(struct connection *connection, const struct http_head *head,
                         const struct metrics_source *sources, struct buf argument)
{
	bool is_openmetrics = http_list_has(head->accept, "application/openmetrics-text");
	struct web *web = WEB_OF(connection);
	struct scrape *scrape = NULL;
	struct buf none = { 0 };

	if (web->scrape_count == SCRAPES_MAX)
		connection_answer_error(connection, 503, "too many scrapes at one time", NULL);
	else
		scrape = connection_begin_answer(connection, sizeof(*scrape),
		                                 is_openmetrics ? OPENMETRICS_TYPE : TEXT_TYPE,
		                                 next_part);
	if (!scrape) {
		buf_free(&argument);
		return;
	}
	web->scrape_count++;
	scrape->answer.on_over = on_scrape_over;
	scrape->argument = argument;
	scrape->text.is_openmetrics = is_openmetrics;
	if (begin_source(scrape, sources, &none) != TABLE_MORE)
		connection_close(connection);
}

void metrics_answer(struct connection *connection, const struct http_head *head)
{
	begin_scrape(connection, head, metrics_sources, (struct buf){ 0 });
}

void metrics_answer_histograms(struct connection *connection, const struct http_head *head)
{
	struct buf argument = { 0 };

	if (http_read_arguments(head->query, "database", &argument)) {
		begin_scrape(connection, head, metrics_histograms, argument);
	} else {
		connection_answer_error(connection, 400, HTTP_BAD_ADDRESS, NULL);
		buf_free(&argument);
	}
}
