/* SPDX-License-Identifier: ISC */
/*
 * /metrics and /metrics/histograms: reads one SHOW after the other, and writes its metrics.
 *
 *   for each source:  pieces of rows --> kept --> complete: samples --> client
 *
 * The answer begins with the first metric: until then, a SHOW that fails is an error.
 */
#include "web_priv.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pgweir/base/version.h"

#define SCRAPES_MAX 4 /* at one time: each keeps the rows of one SHOW */

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* ---- the process itself, with the names that Prometheus' own libraries use ---- */

static void add(bool is_openmetrics, const char *name, const char *help, double value,
                struct buf *out)
{
	bool is_counter = strstr(name, "_total") != NULL;

	metrics_add_head(is_openmetrics, name, is_counter ? "counter" : "gauge", help, out);
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
	metrics_add_head(is_openmetrics, "pgweir_build_info", "gauge", "Version of pgweir.", out);
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
	const struct metrics_source *source; /* the one that is read or written */
	struct buf argument;                 /* of each SHOW; empty: none */
	struct metrics_text text;
	bool wants_process; /* the process comes first */
};

static void on_scrape_over(struct answer *answer)
{
	struct scrape *scrape = container_of(answer, struct scrape, answer);

	WEB_OF(answer->connection)->scrape_count--;
	metrics_begin(&scrape->text, NULL);
	buf_free(&scrape->argument);
}

static enum answer_result begin_source(struct scrape *scrape, struct buf *out)
{
	struct buf words = { 0 };
	bool is_begun;

	if (!scrape->source->words) {
		buf_add_text(out, scrape->text.is_openmetrics ? "# EOF\n" : "");
		return ANSWER_END;
	}
	metrics_begin(&scrape->text, scrape->source);
	buf_printf(&words, "%s%s", scrape->source->words, buf_text(&scrape->argument));
	is_begun = connection_read_table(&scrape->answer, buf_text(&words));
	buf_free(&words);
	if (!is_begun)
		return ANSWER_BROKEN;
	scrape->answer.reader->skips_unused = true;
	return ANSWER_MORE;
}

/* A piece of a source has come. */
static enum answer_result take_piece(struct scrape *scrape, struct buf *out)
{
	struct reader *reader = scrape->answer.reader;
	size_t rows_max = scrape->source->rows_max;
	bool has_too_many;

	if (!metrics_take(&scrape->text, buf_bytes(&reader->piece)))
		return ANSWER_BROKEN;
	/* histograms of so many databases would be more samples than all other metrics together */
	has_too_many = rows_max && scrape->text.row_count > rows_max;
	if (reader->result == READER_MORE && !has_too_many)
		return ANSWER_MORE;
	reader_end(&scrape->answer.reader);
	if (!has_too_many)
		return ANSWER_MORE;
	scrape->source++;
	return begin_source(scrape, out);
}

static enum answer_result next_part(struct answer *answer, struct buf *out)
{
	struct scrape *scrape = container_of(answer, struct scrape, answer);

	if (answer->reader)
		return take_piece(scrape, out);
	if (scrape->wants_process)
		add_process(WEB_OF(answer->connection), scrape->text.is_openmetrics, out);
	scrape->wants_process = false;
	if (!metrics_write(&scrape->text, out))
		return ANSWER_MORE;
	scrape->source++;
	return begin_source(scrape, out);
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
	scrape->source = sources;
	scrape->argument = argument;
	scrape->wants_process = sources == metrics_sources;
	scrape->text.is_openmetrics = is_openmetrics;
	if (begin_source(scrape, &none) != ANSWER_MORE)
		connection_close(connection);
}

void metrics_answer(struct connection *connection, const struct http_head *head)
{
	begin_scrape(connection, head, metrics_sources, (struct buf){ 0 });
}

void metrics_answer_histograms(struct connection *connection, const struct http_head *head)
{
	struct buf argument = { 0 };

	if (api_read_arguments(head->query, "database", &argument)) {
		begin_scrape(connection, head, metrics_histograms, argument);
	} else {
		connection_answer_error(connection, 400, API_BAD_ADDRESS, NULL);
		buf_free(&argument);
	}
}
