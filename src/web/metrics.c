/* SPDX-License-Identifier: ISC */
/*
 * /metrics: reads one SHOW after the other, and writes its metrics.
 *
 *   for each source:  pieces of rows --> kept --> complete: samples --> client
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "metrics_priv.h"
#include "web_priv.h"

#include "pgweir/base/banned.h"

#define SCRAPES_MAX 4     /* at one time: each keeps the rows of one SHOW */
#define DATABASES_MAX 100 /* with more of them, only all together have histograms */

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct scrape {
	struct answer_maker maker;
	struct web *web;
	struct connection *connection;
	const struct metrics_source *source; /* the one that is read or written */
	struct reader *reader;               /* NULL: it is complete, and being written */
	struct metrics_text text;
	struct buf out;
};

static void free_scrape(struct scrape *scrape)
{
	scrape->web->scrape_count--;
	reader_end(&scrape->reader);
	metrics_begin(&scrape->text, NULL);
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

static void end_scrape(struct scrape *scrape)
{
	struct connection *connection = scrape->connection;
	bool is_openmetrics = scrape->text.is_openmetrics;

	free_scrape(scrape);
	if (is_openmetrics)
		connection_add(connection, bytes_text("# EOF\n"));
	connection_end(connection);
}

static void on_scrape_piece(void *arg, enum reader_result result, struct bytes piece);

static void read_source(struct scrape *scrape)
{
	if (!scrape->source->words) {
		end_scrape(scrape);
		return;
	}
	metrics_begin(&scrape->text, scrape->source);
	scrape->reader =
	    reader_new(&scrape->web->readers, scrape->source->words, on_scrape_piece, scrape);
	if (scrape->reader)
		reader_next(scrape->reader);
	else
		abort_scrape(scrape);
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

/* Histograms of so many databases would be more samples than all other metrics together. */
static bool has_enough(const struct scrape *scrape)
{
	return scrape->source->kind == METRICS_BUCKETS &&
	       scrape->text.row_count > (DATABASES_MAX + 1) * scrape->source->count;
}

static void on_scrape_piece(void *arg, enum reader_result result, struct bytes piece)
{
	struct scrape *scrape = arg;

	if (result == READER_FAILED || !metrics_take(&scrape->text, piece)) {
		abort_scrape(scrape);
		return;
	}
	scrape->text.is_of_all_only = has_enough(scrape);
	if (result == READER_MORE && !scrape->text.is_of_all_only) {
		connection_add(scrape->connection, (struct bytes){ 0 }); /* it is not late */
		reader_next(scrape->reader);
		return;
	}
	reader_end(&scrape->reader);
	write_source(scrape);
}

static void begin_scrape(struct scrape *scrape)
{
	struct connection *connection = scrape->connection;
	const struct answer_head head = {
		.status = 200,
		.type = scrape->text.is_openmetrics ? OPENMETRICS_TYPE : TEXT_TYPE,
	};

	connection_keep(connection, &scrape->maker);
	metrics_add_process(scrape->text.is_openmetrics, &scrape->out);
	connection_begin(connection, &head);
	if (!connection_is_answering(connection))
		return;
	if (connection->is_head) {
		free_scrape(scrape);
		connection_end(connection);
		return;
	}
	connection_add(connection, buf_bytes(&scrape->out));
	if (connection_is_answering(connection))
		read_source(scrape);
}

void metrics_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	struct scrape *scrape = web->scrape_count < SCRAPES_MAX ? calloc(1, sizeof(*scrape)) : NULL;

	if (!scrape) {
		web_answer_error(connection, 503, "too many scrapes at one time", NULL);
		return;
	}
	web->scrape_count++;
	scrape->maker = (struct answer_maker){ on_scrape_room, on_scrape_gone };
	scrape->web = web;
	scrape->connection = connection;
	scrape->source = metrics_sources;
	scrape->text.is_openmetrics = http_list_has(head->accept, "application/openmetrics-text");
	begin_scrape(scrape);
}
