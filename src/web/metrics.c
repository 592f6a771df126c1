/* SPDX-License-Identifier: ISC */
/*
 * /metrics and /metrics/histograms: reads one SHOW after the other, and writes its metrics.
 *
 *   for each source:  pieces of rows --> kept --> complete: samples --> client
 *
 * The answer begins with the first piece: until then, a SHOW that fails is an error.
 */
#include "web_priv.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"

#include "pgweir/base/version.h"

#define SCRAPES_MAX 4 /* at one time: each keeps the rows of one SHOW */

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* ---- the process itself, with the names that Prometheus' own libraries use ---- */

static void add(bool is_openmetrics, const char *name, const char *help, double value,
                struct buf *out)
{
	bool is_counter = strstr(name, "_total") != NULL;

	metrics_add_head(is_openmetrics, "", name, is_counter ? "counter" : "gauge", help, out);
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
	metrics_add_head(is_openmetrics, "", "pgweir_build_info", "gauge", "Version of pgweir.",
	                 out);
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
	struct answer_maker maker;
	struct web *web;
	struct connection *connection;
	const struct metrics_source *source; /* the one that is read or written */
	struct buf argument;                 /* of each SHOW; empty: none */
	struct reader *reader;               /* NULL: it is complete, and being written */
	struct metrics_text text;
	struct buf out;
};

static void free_scrape(struct scrape *scrape)
{
	scrape->web->scrape_count--;
	reader_end(&scrape->reader);
	metrics_begin(&scrape->text, NULL);
	buf_free(&scrape->argument);
	buf_free(&scrape->out);
	free(scrape);
}

static void abort_scrape(struct scrape *scrape)
{
	struct connection *connection = scrape->connection;

	free_scrape(scrape);
	connection_abort(connection);
}

static void on_scrape_gone(struct answer_maker *maker)
{
	free_scrape(container_of(maker, struct scrape, maker));
}

static void on_scrape_piece(void *arg, enum reader_result result, struct bytes piece);

static void read_source(struct scrape *scrape)
{
	struct connection *connection = scrape->connection;
	struct buf words = { 0 };

	if (!scrape->source->words) {
		if (scrape->text.is_openmetrics)
			connection_add(connection, bytes_text("# EOF\n"));
		if (!connection_is_answering(connection))
			return;
		free_scrape(scrape);
		connection_end(connection);
		return;
	}
	metrics_begin(&scrape->text, scrape->source);
	buf_printf(&words, "%s%s", scrape->source->words, buf_text(&scrape->argument));
	scrape->reader =
	    reader_new(&scrape->web->readers, buf_text(&words), on_scrape_piece, scrape);
	buf_free(&words);
	if (!scrape->reader) {
		abort_scrape(scrape);
		return;
	}
	scrape->reader->skips_unused = true;
	reader_next(scrape->reader);
}

/* Writes what has been read, as long as the client takes it. The scrape may be gone afterwards. */
static void write_source(struct scrape *scrape)
{
	struct connection *connection = scrape->connection;
	bool is_written, has_room;

	do {
		buf_clear(&scrape->out);
		is_written = metrics_write(&scrape->text, &scrape->out);
		if (!buf_ok(&scrape->out)) {
			abort_scrape(scrape);
			return;
		}
		has_room = connection_add(connection, buf_bytes(&scrape->out));
		if (!connection_is_answering(connection))
			return;
	} while (has_room && !is_written);
	if (!is_written)
		return;
	scrape->source++;
	read_source(scrape);
}

/* Output was sent. While rows are read, there is nothing to write. */
static void on_scrape_room(struct answer_maker *maker)
{
	struct scrape *scrape = container_of(maker, struct scrape, maker);

	if (!scrape->reader)
		write_source(scrape);
}

/* false: the scrape is over. */
static bool begin_answer(struct scrape *scrape)
{
	struct connection *connection = scrape->connection;
	const struct answer_head head = {
		.status = 200,
		.type = scrape->text.is_openmetrics ? OPENMETRICS_TYPE : TEXT_TYPE,
	};

	connection_begin(connection, &head);
	if (!connection_is_answering(connection))
		return false;
	if (connection->is_head) {
		free_scrape(scrape);
		connection_end(connection);
		return false;
	}
	connection_add(connection, buf_bytes(&scrape->out));
	return connection_is_answering(connection);
}

static void on_scrape_piece(void *arg, enum reader_result result, struct bytes piece)
{
	struct scrape *scrape = arg;
	bool has_too_many;

	if (result == READER_FAILED && !scrape->connection->is_begun) {
		struct connection *connection = scrape->connection;
		struct err err = scrape->reader->err;

		free_scrape(scrape);
		api_refuse(connection, &err);
		return;
	}
	if (!scrape->connection->is_begun && !begin_answer(scrape))
		return;
	if (result == READER_FAILED || !metrics_take(&scrape->text, piece)) {
		abort_scrape(scrape);
		return;
	}
	/* histograms of so many databases would be more samples than all other metrics together */
	has_too_many =
	    scrape->source->rows_max && scrape->text.row_count > scrape->source->rows_max;
	if (result == READER_MORE && !has_too_many) {
		connection_add(scrape->connection, (struct bytes){ 0 }); /* it is not late */
		reader_next(scrape->reader);
		return;
	}
	reader_end(&scrape->reader);
	if (!has_too_many) {
		write_source(scrape);
		return;
	}
	scrape->source++;
	read_source(scrape);
}

/* NULL: too many at one time, which is answered. */
static struct scrape *new_scrape(struct web *web, struct connection *connection,
                                 const struct http_head *head)
{
	struct scrape *scrape = web->scrape_count < SCRAPES_MAX ? calloc(1, sizeof(*scrape)) : NULL;

	if (!scrape) {
		connection_answer_error(connection, 503, "too many scrapes at one time", NULL);
		return NULL;
	}
	web->scrape_count++;
	scrape->maker = (struct answer_maker){ on_scrape_room, on_scrape_gone };
	scrape->web = web;
	scrape->connection = connection;
	scrape->text.is_openmetrics = http_list_has(head->accept, "application/openmetrics-text");
	connection_keep(connection, &scrape->maker);
	return scrape;
}

void metrics_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	struct scrape *scrape = new_scrape(web, connection, head);

	if (!scrape)
		return;
	add_process(web, scrape->text.is_openmetrics, &scrape->out);
	scrape->source = metrics_sources;
	read_source(scrape);
}

void metrics_answer_histograms(struct web *web, struct connection *connection,
                               const struct http_head *head)
{
	struct buf argument = { 0 };
	struct scrape *scrape;

	if (!api_read_arguments(head->query, "database", &argument)) {
		connection_answer_error(connection, 400, API_BAD_ADDRESS, NULL);
		buf_free(&argument);
		return;
	}
	scrape = new_scrape(web, connection, head);
	if (!scrape) {
		buf_free(&argument);
		return;
	}
	scrape->argument = argument;
	scrape->source = metrics_histograms;
	read_source(scrape);
}
