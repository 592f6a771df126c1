/* SPDX-License-Identifier: ISC */
/*
 * web/metrics.c: rows of a SHOW become metrics.
 */
#include "../../../src/web/web_priv.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/pgwire/message.h"

#include "../unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NAMES_MAX 4

static struct metrics_text text;
static struct buf out;

static void tear_down(void)
{
	metrics_begin(&text, NULL);
	text = (struct metrics_text){ 0 };
	buf_free(&out);
}

/* A source, with columns of the test's own; NULL ends them. */
static void begin(const struct metrics_source *source, const char *const names[NAMES_MAX])
{
	static struct column columns[NAMES_MAX];

	metrics_begin(&text, source);
	text.columns = (struct columns){ .at = columns };
	for (; text.columns.count < NAMES_MAX && names[text.columns.count]; text.columns.count++)
		columns[text.columns.count].name = names[text.columns.count];
}

static void add_row(struct buf *piece, const char *const *values, size_t count)
{
	size_t begin = message_row_begin(piece, (uint16_t)count);

	for (size_t i = 0; i < count; i++)
		message_row_text(piece, values[i]);
	message_end(piece, begin);
}

#define ROW(piece, ...)                                        \
	add_row((piece), (const char *const[]){ __VA_ARGS__ }, \
	        COUNT_OF(((const char *const[]){ __VA_ARGS__ })))

static void take(struct buf *piece)
{
	ck_assert(buf_ok(piece));
	ck_assert(metrics_take(&text, buf_bytes(piece)));
	buf_free(piece);
}

static void expect(const char *expected)
{
	while (!metrics_write(&text, &out))
		;
	ck_assert_str_eq(buf_text(&out), expected);
}

/* ---- rows ---- */

static const struct metric of_pools[] = {
	{ "clients", "Clients.", "cl", NULL, METRIC_GAUGE, METRIC_NUMBER },
	{ "time_seconds_total", "Time.", "us", NULL, METRIC_COUNTER, METRIC_MICROSECONDS },
};
static const struct metrics_source pools = {
	.words = "POOLS",
	.kind = METRICS_ROWS,
	.metrics = of_pools,
	.count = COUNT_OF(of_pools),
	.labels = { "database", "user" },
};

static void read_pools(bool is_openmetrics)
{
	struct buf piece = { 0 };

	text.is_openmetrics = is_openmetrics;
	begin(&pools, (const char *const[NAMES_MAX]){ "user", "database", "us", "cl" });
	ROW(&piece, "alice", "app", "1500000", "3");
	take(&piece);
	ROW(&piece, NULL, "b\"\\\n\xff\xc3\xa4", "7", NULL);
	take(&piece);
}

#define SAMPLES                                                          \
	"time_seconds_total{database=\"app\",user=\"alice\"} 1.500000\n" \
	"time_seconds_total{database=\"b\\\"\\\\\\n\xef\xbf\xbd\xc3\xa4\",user=\"\"} 0.000007\n"

START_TEST(metrics_of_rows)
{
	read_pools(false);
	expect("# HELP clients Clients.\n# TYPE clients gauge\n"
	       "clients{database=\"app\",user=\"alice\"} 3\n"
	       "# HELP time_seconds_total Time.\n# TYPE time_seconds_total counter\n" SAMPLES);
}
END_TEST

START_TEST(metrics_of_rows_as_openmetrics)
{
	read_pools(true);
	expect("# HELP clients Clients.\n# TYPE clients gauge\n"
	       "clients{database=\"app\",user=\"alice\"} 3\n"
	       "# HELP time_seconds Time.\n# TYPE time_seconds counter\n" SAMPLES);
}
END_TEST

START_TEST(metrics_of_no_rows)
{
	begin(&pools, (const char *const[NAMES_MAX]){ "user", "database", "us", "cl" });
	expect("# HELP clients Clients.\n# TYPE clients gauge\n"
	       "# HELP time_seconds_total Time.\n# TYPE time_seconds_total counter\n");
}
END_TEST

/* One metric is written after the other. */
START_TEST(metrics_of_many_rows)
{
	struct buf piece = { 0 };
	char number[16];
	size_t lines = 0;
	bool is_written;

	begin(&pools, (const char *const[NAMES_MAX]){ "user", "database", "us", "cl" });
	for (int i = 0; i < 5000; i++) {
		snprintf(number, sizeof(number), "%d", i);
		ROW(&piece, number, "app", "1", "1");
	}
	take(&piece);
	for (size_t metric = 0; metric < 2; metric++) {
		is_written = metrics_write(&text, &out);
		ck_assert_int_eq(is_written, metric == 1);
		for (size_t i = 0; i < out.count; i++)
			lines += out.at[i] == '\n';
		buf_clear(&out);
		ck_assert_uint_eq(lines, (metric + 1) * (5000 + 2));
	}
}
END_TEST

/* ---- a table of names and values ---- */

static const struct metric of_config[] = {
	{ "most", "Most.", "value", "max_client_conn", METRIC_GAUGE, METRIC_NUMBER },
	{ "user", "User.", "value", "max_user_connections", METRIC_GAUGE, METRIC_NUMBER },
};
static const struct metrics_source config = {
	.words = "CONFIG",
	.kind = METRICS_ROWS,
	.metrics = of_config,
	.count = COUNT_OF(of_config),
};

START_TEST(metrics_of_keys)
{
	struct buf piece = { 0 };

	begin(&config, (const char *const[NAMES_MAX]){ "key", "value" });
	ROW(&piece, "max_client", "7");
	ROW(&piece, "max_client_conn", "100");
	ROW(&piece, "max_user_connections", "none");
	take(&piece);
	expect("# HELP most Most.\n# TYPE most gauge\nmost 100\n"
	       "# HELP user User.\n# TYPE user gauge\n");
}
END_TEST

/* ---- groups of rows ---- */

static const struct metric of_clients[] = {
	{ "clients", "Clients.", NULL, NULL, METRIC_GAUGE, METRIC_NUMBER },
	{ "age", "Greatest age.", "age", NULL, METRIC_GAUGE, METRIC_NUMBER },
};
static const struct metrics_source clients = {
	.words = "CLIENTS",
	.kind = METRICS_GROUPED,
	.metrics = of_clients,
	.count = COUNT_OF(of_clients),
	.labels = { "name" },
};

START_TEST(metrics_of_groups)
{
	struct buf piece = { 0 };

	begin(&clients, (const char *const[NAMES_MAX]){ "age", "name" });
	ROW(&piece, "1", "psql");
	ROW(&piece, "2", "web");
	ROW(&piece, "7", "psql");
	take(&piece);
	ROW(&piece, "3", "psql");
	take(&piece);
	expect("# HELP clients Clients.\n# TYPE clients gauge\n"
	       "clients{name=\"psql\"} 3\nclients{name=\"web\"} 1\n"
	       "# HELP age Greatest age.\n# TYPE age gauge\n"
	       "age{name=\"psql\"} 7\nage{name=\"web\"} 2\n");
}
END_TEST

START_TEST(metrics_of_too_many_groups)
{
	struct buf piece = { 0 };
	const char *found;
	char name[16];

	begin(&clients, (const char *const[NAMES_MAX]){ "id", "name" });
	for (int i = 0; i < 10010; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		ROW(&piece, "1", name);
	}
	ROW(&piece, "1", "n5");
	take(&piece);
	while (!metrics_write(&text, &out))
		;
	found = strstr(buf_text(&out), "\nclients{} ");
	ck_assert_ptr_nonnull(found);
	ck_assert_int_eq(strncmp(found, "\nclients{} 10\n", strlen("\nclients{} 10\n")), 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\nclients{name=\"n5\"} 2\n"));
	ck_assert_ptr_null(strstr(buf_text(&out), "n10005"));
}
END_TEST

/* ---- histograms ---- */

static const struct metric of_times[] = {
	{ "wait_seconds", "Waits.", NULL, "wait", METRIC_GAUGE, METRIC_NUMBER },
};

/* Rows of all, of a database and of a pool stand in one table: each source takes its own. */
START_TEST(metrics_of_buckets)
{
	static const struct {
		struct metrics_source source;
		const char *name, *labels, *count;
	} cases[] = {
		{ { .labels = { NULL }, .prefix = "a_" }, "a_wait_seconds_count", "", "5" },
		{ { .labels = { "database" }, .prefix = "d_" },
		  "d_wait_seconds_count",
		  "{database=\"app\"}",
		  "4" },
		{ { .labels = { "database", "user" }, .prefix = "p_" },
		  "p_wait_seconds_count",
		  "{database=\"app\",user=\"bob\"}",
		  "3" },
	};
	struct metrics_source source = cases[_i].source;
	struct buf piece = { 0 }, line = { 0 };

	source.words = "HISTOGRAMS";
	source.kind = METRICS_BUCKETS;
	source.metrics = of_times;
	source.count = 1;
	begin(&source, (const char *const[NAMES_MAX]){ "database", "user", "kind", "count" });
	ROW(&piece, NULL, NULL, "wait", "5");
	ROW(&piece, "app", NULL, "wait", "4");
	ROW(&piece, "app", "bob", "wait", "3");
	ROW(&piece, "app", "bob", "statement", "2");
	take(&piece);
	while (!metrics_write(&text, &out))
		;
	buf_printf(&line, "\n%s%s %s\n", cases[_i].name, cases[_i].labels, cases[_i].count);
	ck_assert_msg(strstr(buf_text(&out), buf_text(&line)), "%s", buf_text(&out));
	ck_assert_ptr_eq(strstr(strstr(buf_text(&out), "_count") + 1, "_count"), NULL);
	buf_free(&line);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("web/metrics_text");
	TCase *tests = tcase_create("metrics_text");

	tcase_add_checked_fixture(tests, NULL, tear_down);
	tcase_add_test(tests, metrics_of_rows);
	tcase_add_test(tests, metrics_of_rows_as_openmetrics);
	tcase_add_test(tests, metrics_of_no_rows);
	tcase_add_test(tests, metrics_of_many_rows);
	tcase_add_test(tests, metrics_of_keys);
	tcase_add_test(tests, metrics_of_groups);
	tcase_add_test(tests, metrics_of_too_many_groups);
	tcase_add_loop_test(tests, metrics_of_buckets, 0, 3);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
