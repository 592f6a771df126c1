/* SPDX-License-Identifier: ISC */
/*
 * Metrics: which SHOW each comes from, and how it is written.
 */
#ifndef PGWEIR_WEB_METRICS_PRIV_H
#define PGWEIR_WEB_METRICS_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/table.h"

#include "reader_priv.h"

enum metric_type { METRIC_GAUGE, METRIC_COUNTER };

/* What a value is made of. */
enum metric_value {
	METRIC_NUMBER,
	METRIC_MICROSECONDS, /* written in seconds */
	METRIC_YES,          /* "yes" is 1, everything else 0 */
	METRIC_ONE,          /* always 1: the labels are what is of interest */
	METRIC_SUM_OF_TIME   /* seconds in this column, microseconds in the next one */
};

struct metric {
	const char *name; /* a counter's name ends with _total */
	const char *help;
	const char *column; /* METRICS_GROUPED, NULL: the number of rows */
	const char *key;    /* METRICS_KEYED: the row, by its first column */
	enum metric_type type;
	enum metric_value value;
};

enum metrics_kind {
	METRICS_ROWS,    /* one sample for each row */
	METRICS_KEYED,   /* a table of names and values: one sample for each name */
	METRICS_GROUPED, /* one sample for rows with the same labels: how many, or the greatest
	                    value */
	METRICS_BUCKETS  /* rows of buckets, for which all labels are set and no others */
};

#define METRICS_LABELS_MAX 6
#define METRICS_GROUPED_MAX 3 /* metrics of a source of this kind */

struct metrics_source {
	const char *words; /* what follows SHOW */
	enum metrics_kind kind;
	const struct metric *metrics;
	size_t count;
	const char *labels[METRICS_LABELS_MAX]; /* columns whose names are labels; ends with NULL */
	/* METRICS_BUCKETS: before all names; and if there are more rows, it is left out. 0: no
	 * limit */
	const char *prefix;
	size_t rows_max;
};

/* End with NULL words. */
extern const struct metrics_source metrics_sources[], metrics_histograms[];

/* Rows with the same labels, and the value of each metric. */
struct metrics_group {
	UT_hash_handle hh;
	int64_t values[METRICS_GROUPED_MAX];
	size_t size;
	char labels[];
};

/* ---- writing: metrics_text.c ---- */

/* One source that is being written. Zeroed: nothing is read. */
struct metrics_text {
	bool is_openmetrics;
	const struct metrics_source *source;
	struct buf rows; /* the pieces that have come, one after the other */
	size_t row_count;
	struct hash_key secret;
	struct metrics_group *groups; /* METRICS_GROUPED */
	struct metrics_group *next_group;
	size_t metric, at;             /* where writing goes on */
	bool has_head;                 /* of that metric */
	struct reader_message message; /* its columns are those of the table */
};

/* Takes a piece of the source. false: no memory, or too much. */
bool metrics_take(struct metrics_text *text, struct bytes piece);

/* The source is complete: adds text to `out`. true: it is all written, and forgotten. */
bool metrics_write(struct metrics_text *text, struct buf *out);

/* Begins the next source, or frees everything (NULL). */
void metrics_begin(struct metrics_text *text, const struct metrics_source *source);

/* The metrics of the process itself. */
void metrics_add_process(bool is_openmetrics, uint64_t lost_lines, struct buf *out);

/* HELP and TYPE of a metric. type: "gauge", "counter" or "histogram". */
void metrics_add_head(bool is_openmetrics, const char *name, const char *type, const char *help,
                      struct buf *out);

/* A label's value, with quotes; always valid UTF-8. */
void metrics_add_label_value(struct buf *out, struct bytes value);

#endif
