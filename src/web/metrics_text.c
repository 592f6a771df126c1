/* SPDX-License-Identifier: ISC */
/*
 * Writes the rows of a SHOW in Prometheus' text format 0.0.4, or as OpenMetrics 1.0.
 *
 * Hard here: all samples of a metric must follow each other, but a row has values for many metrics.
 * So each metric of a source has a text of its own, and nothing is written before the last row.
 */
#include "web_priv.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/text.h"

#define SAMPLES_MAX ((size_t)128 * 1024 * 1024) /* bytes of one source */
#define GROUPS_MAX 10000

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

/* In OpenMetrics, the name of a counter is without _total here, and with it in its samples. */
void metrics_add_head(bool is_openmetrics, const char *prefix, const char *name, const char *type,
                      const char *help, struct buf *out)
{
	int size = (int)strlen(name);

	if (is_openmetrics && strcmp(type, "counter") == 0)
		size -= (int)strlen("_total");
	buf_printf(out, "# HELP %s%.*s %s\n# TYPE %s%.*s %s\n", prefix, size, name, help, prefix,
	           size, name, type);
}

static void add_seconds(struct buf *out, int64_t microseconds)
{
	buf_printf(out, "%" PRId64 ".%06d", microseconds / USEC_PER_SEC,
	           (int)(microseconds % USEC_PER_SEC));
}

/* ---- the rows ---- */

/* The number of a column. TABLE_COLUMNS_MAX: the table has none of this name. */
static size_t find_column(const struct metrics_text *text, const char *name)
{
	for (size_t i = 0; name && i < text->table.column_count; i++) {
		if (strcmp(text->table.columns[i].name, name) == 0)
			return i;
	}
	return TABLE_COLUMNS_MAX;
}

static struct bytes value_of(const struct metrics_text *text, const char *name)
{
	size_t column = find_column(text, name);

	return column < TABLE_COLUMNS_MAX ? text->values[column] : (struct bytes){ 0 };
}

static int64_t number_of(struct bytes value)
{
	char text[32];
	int64_t number = 0;

	if (!value.count || value.count >= sizeof(text))
		return 0;
	memcpy(text, value.at, value.count);
	text[value.count] = 0;
	text_to_i64(text, &number);
	return number;
}

/* Adds name="value",... An absent value is an empty one, as in the exporter. */
static void add_pairs(const struct metrics_text *text, struct buf *out)
{
	const char *const *labels = text->source->labels;

	for (size_t i = 0; i < METRICS_LABELS_MAX && labels[i]; i++) {
		buf_printf(out, "%s%s=", i ? "," : "", labels[i]);
		add_label_value(out, value_of(text, labels[i]));
	}
}

static void add_labels(const struct metrics_text *text, struct buf *out)
{
	if (!text->source->labels[0])
		return;
	buf_add_byte(out, '{');
	add_pairs(text, out);
	buf_add_byte(out, '}');
}

/* ---- groups of rows ---- */

static void add_to_group(const struct metrics_text *text, struct metrics_group *group)
{
	const struct metrics_source *source = text->source;

	for (size_t i = 0; i < source->count; i++) {
		const char *column = source->metrics[i].column;
		int64_t value = column ? number_of(value_of(text, column)) : group->values[i] + 1;

		if (value > group->values[i])
			group->values[i] = value;
	}
}

static bool group_row(struct metrics_text *text)
{
	struct metrics_group *group;
	struct buf labels = { 0 };
	bool is_full = HASH_COUNT(text->groups) >= GROUPS_MAX;

	add_labels(text, &labels);
	TABLE_FIND(hh, &text->secret, text->groups, labels.at, labels.count, group);
	if (!group && is_full) {
		/* One more takes all others: sums and maxima stay right. */
		buf_clear(&labels);
		buf_add_text(&labels, "{}");
		TABLE_FIND(hh, &text->secret, text->groups, labels.at, labels.count, group);
	}
	if (!group && buf_ok(&labels)) {
		group = calloc(1, sizeof(*group) + labels.count);
		if (group) {
			group->size = labels.count;
			memcpy(group->labels, labels.at, labels.count);
			TABLE_ADD(hh, &text->secret, text->groups, group->labels, group->size,
			          group);
		}
	}
	buf_free(&labels);
	if (group)
		add_to_group(text, group);
	return group != NULL;
}

/* ---- samples ---- */

static void add_value(const struct metrics_text *text, const struct metric *metric,
                      struct bytes value, struct buf *out)
{
	size_t column;

	switch (metric->value) {
	case METRIC_NUMBER:
		buf_add(out, value.at, value.count);
		break;
	case METRIC_MICROSECONDS:
		add_seconds(out, number_of(value));
		break;
	case METRIC_YES:
		buf_add_byte(out, bytes_are(value, "yes") ? '1' : '0');
		break;
	case METRIC_ONE:
		buf_add_byte(out, '1');
		break;
	case METRIC_SUM_OF_TIME:
		column = find_column(text, metric->column) + 1;
		add_seconds(out, number_of(value) * USEC_PER_SEC + number_of(text->values[column]));
		break;
	}
}

/* Nothing for NULL, and for a metric with a key only the row of that name, if it has a number. */
static void add_row_sample(const struct metrics_text *text, const struct metric *metric,
                           struct buf *out)
{
	struct bytes value = value_of(text, metric->column);
	size_t digits = 0;

	while (digits < value.count && value.at[digits] >= '0' && value.at[digits] <= '9')
		digits++;
	if ((metric->value != METRIC_ONE && !value.at) ||
	    (metric->key &&
	     (!bytes_are(text->values[0], metric->key) || !digits || digits < value.count)))
		return;
	buf_add_text(out, metric->name);
	add_labels(text, out);
	buf_add_byte(out, ' ');
	add_value(text, metric, value, out);
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

static void add_bucket(const struct metrics_text *text, const struct metric *metric,
                       const char *pairs, const char *bound, struct bytes value, struct buf *out)
{
	buf_printf(out, "%s%s_bucket{%s%sle=\"%s\"} %.*s\n", text->source->prefix, metric->name,
	           pairs, *pairs ? "," : "", bound, (int)value.count, value.at);
}

static void add_bucket_samples(const struct metrics_text *text, const struct metric *metric,
                               struct buf *out)
{
	const char *const *labels = text->source->labels;
	struct bytes count = value_of(text, "count");
	struct buf pairs = { 0 };
	char bound[BOUND_SIZE];

	/* all pools together, a database and a pool are rows of the same tables */
	if (!bytes_are(value_of(text, "kind"), metric->key) ||
	    !value_of(text, "database").at == (labels[0] != NULL) ||
	    !value_of(text, "user").at == (labels[0] && labels[1]))
		return;
	add_pairs(text, &pairs);
	for (size_t i = 0; i < text->table.column_count; i++) {
		if (read_bound(text->table.columns[i].name, bound))
			add_bucket(text, metric, buf_text(&pairs), bound, text->values[i], out);
	}
	add_bucket(text, metric, buf_text(&pairs), "+Inf", count, out);
	buf_free(&pairs);
	buf_printf(out, "%s%s_sum", text->source->prefix, metric->name);
	add_labels(text, out);
	buf_add_byte(out, ' ');
	add_seconds(out, number_of(value_of(text, "sum_us")));
	buf_printf(out, "\n%s%s_count", text->source->prefix, metric->name);
	add_labels(text, out);
	buf_printf(out, " %.*s\n", (int)count.count, count.at);
}

/* ---- taking pieces ---- */

static void add_samples(struct metrics_text *text)
{
	const struct metrics_source *source = text->source;

	for (size_t i = 0; i < source->count; i++) {
		if (source->kind == METRICS_ROWS)
			add_row_sample(text, &source->metrics[i], &text->samples[i]);
		else
			add_bucket_samples(text, &source->metrics[i], &text->samples[i]);
	}
}

bool metrics_take(struct metrics_text *text, struct bytes piece)
{
	size_t size = 0;
	bool ok = true;

	while (ok && reader_take(&piece, text->values)) {
		text->row_count++;
		if (text->source->kind == METRICS_GROUPED)
			ok = group_row(text);
		else
			add_samples(text);
	}
	for (size_t i = 0; i < METRICS_MAX; i++) {
		ok = ok && buf_ok(&text->samples[i]);
		size += text->samples[i].count;
	}
	return ok && size <= SAMPLES_MAX;
}

/* ---- begun and freed ---- */

void metrics_begin(struct metrics_text *text, const struct metrics_source *source)
{
	struct metrics_group *group, *next;

	assert(!source || source->count <= METRICS_MAX);
	for (size_t i = 0; i < METRICS_MAX; i++)
		buf_free(&text->samples[i]);
	HASH_ITER (hh, text->groups, group, next) {
		HASH_DEL(text->groups, group);
		free(group);
	}
	*text = (struct metrics_text){ .is_openmetrics = text->is_openmetrics, .source = source };
	if (source)
		tables_find(source->words, &text->table);
	if (source && source->kind == METRICS_GROUPED)
		hash_key_draw(&text->secret);
}

/* ---- writing ---- */

static void write_groups(const struct metrics_text *text, struct buf *out)
{
	const struct metrics_group *group;

	for (group = text->groups; group; group = group->hh.next)
		buf_printf(out, "%s%.*s %" PRId64 "\n", text->source->metrics[text->metric].name,
		           (int)group->size, group->labels, group->values[text->metric]);
}

bool metrics_write(struct metrics_text *text, struct buf *out)
{
	const struct metrics_source *source = text->source;
	const struct metric *metric = &source->metrics[text->metric];
	struct buf *samples = &text->samples[text->metric];
	size_t column = find_column(text, metric->column);
	const char *help = metric->help;
	const char *type = source->kind == METRICS_BUCKETS  ? "histogram"
	                   : metric->type == METRIC_COUNTER ? "counter"
	                                                    : "gauge";

	if (!help && column < TABLE_COLUMNS_MAX)
		help = text->table.columns[column].help;
	metrics_add_head(text->is_openmetrics, source->prefix ? source->prefix : "", metric->name,
	                 type, help, out);
	buf_add(out, samples->at, samples->count);
	buf_free(samples);
	write_groups(text, out);
	return ++text->metric == source->count;
}
