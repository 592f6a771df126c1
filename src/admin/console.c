/* SPDX-License-Identifier: ISC */
/*
 * The console as a whole: what its sessions share, the timer of the statistics, and tables for the
 * web server.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/client/clients.h"

#include "admin_priv.h"

static void on_second(struct timer *timer);

/* ---- statistics ---- */

static void tell_averages(const struct console *console, usec_t now)
{
	const struct logger log = { console->with.log, NULL };
	struct stats average;
	char text[512];

	show_stats_average_all(&console->source, now, &average);
	snprintf(text, sizeof(text),
	         "%" PRIu64 " xacts/s, %" PRIu64 " queries/s, %" PRIu64 " client parses/s, %" PRIu64
	         " server parses/s, %" PRIu64 " binds/s, %" PRIu64 " client logins/s, in %" PRIu64
	         " B/s, out %" PRIu64 " B/s, xact %" PRIu64 " us, query %" PRIu64
	         " us, wait %" PRIu64 " us",
	         average.xact_count, average.query_count, average.client_parse_count,
	         average.server_parse_count, average.bind_count, average.client_login_count,
	         average.client_bytes, average.server_bytes, average.xact_time, average.query_time,
	         average.wait_time);
	if (show_source_config(&console->source)->log_stats)
		log_info(&log, "stats: %s", text);
	console->with.on_period(console->with.daemon, text);
}

static void on_tick(struct timer *timer)
{
	struct console *console = container_of(timer, struct console, tick);
	usec_t now = loop_now(console->with.loop);

	lanes_hold(console->with.lanes);
	show_stats_tick(&console->source, now);
	console->ticked_at = now;
	/* The averages begin at the tick before this one, so this line covers one stats_period. */
	tell_averages(console, now);
	lanes_release(console->with.lanes);
	console_configure(console);
}

/* ---- each second ---- */

static void arm_second(struct console *console, usec_t now, usec_t period)
{
	timer_set(&console->second, loop_timer_queue(console->with.loop, period, on_second), now);
}

/* Whether a pool wants to be measured again in a quarter of a second. */
static bool measure_pools(const struct console *console, usec_t now)
{
	bool is_sized = false;

	LANES_EACH (lane, console->with.lanes)
		is_sized |= pools_measure(lane->pools, now);
	LANES_EACH (lane, console->with.lanes)
		pools_resize(lane->pools, now);
	return is_sized;
}

/* Few sums for each lane, however many pools there are. */
static void on_second(struct timer *timer)
{
	struct console *console = container_of(timer, struct console, second);
	usec_t now = loop_now(console->with.loop);
	bool is_second = console->quarters == 0, is_sized;

	lanes_hold(console->with.lanes);
	if (is_second) {
		timeline_tick(&console->source.timeline, console->with.lanes, now);
		LANES_EACH (lane, console->with.lanes)
			latency_drain(&console->source.latency, &lane->pools->latency, now);
	}
	is_sized = measure_pools(console, now);
	lanes_release(console->with.lanes);
	if (is_second)
		logins_sweep(console->with.lanes->at->clients->shared->logins, now);
	console->quarters = is_sized ? (console->quarters + 1) % 4 : 0;
	arm_second(console, now, is_sized ? USEC_PER_SEC / 4 : USEC_PER_SEC);
}

/* ---- the console ---- */

struct console *console_new(const struct console_with *with, struct err *err)
{
	struct console *console = err_calloc(sizeof(*console), "out of memory", err);
	usec_t now = loop_now(with->loop);

	if (!console)
		return NULL;
	console->source.history.older_at = console->source.history.newer_at = now;
	console->source.timeline.rings[TIMELINE_MINUTES].began_at = now;
	console->with = *with;
	console->source.with = &console->with;
	console->door = session_door;
	console->door.arg = console;
	console->ticked_at = now;
	console_configure(console);
	arm_second(console, now, USEC_PER_SEC);
	for (size_t i = 0; i < commands_count; i++) {
		if (command_is_event(&commands[i]))
			log_expect(with->log, commands[i].words); /* see log_command() */
	}
	return console;
}

const struct console_door *console_door(const struct console *console) { return &console->door; }

void console_begin_at(struct console *console)
{
	usec_t now = loop_now(console->with.loop);

	lanes_hold(console->with.lanes);
	for (int i = 0; i < 2; i++)
		show_stats_tick(&console->source, now);
	lanes_release(console->with.lanes);
}

void console_configure(struct console *console)
{
	usec_t period = show_source_config(&console->source)->stats_period;

	timer_set(&console->tick, loop_timer_queue(console->with.loop, period, on_tick),
	          console->ticked_at);
}

void console_free(struct console **consolep)
{
	struct console *console = *consolep;

	if (!console)
		return;
	*consolep = NULL;
	timer_clear(&console->tick);
	timer_clear(&console->second);
	latency_done(&console->source.latency);
	free(console);
}

/*
 * ---- SHOW tables for other readers than sessions of the console ----
 *
 * What one piece may take: bytes, and time on the main thread while all lanes are held. To find the
 * first row takes as long as there are pools, in each turn again, so it does not count, and some
 * rows are always made.
 */
#define PIECE_BYTES ((size_t)64 * 1024)
#define PIECE_TIME ((usec_t)250)
#define PIECE_ROWS 32

struct table {
	struct console *console;
	struct request request; /* the cursor has pointers into it */
	struct cursor cursor;
};

const struct show *tables_find(const char *words)
{
	struct request request;

	return request_read_table(words, &request, NULL) ? request.show : NULL;
}

struct table *table_begin(struct console *console, const char *words, bool skips_unused,
                          struct err *err)
{
	struct table *table = err_calloc(sizeof(*table), "out of memory", err);

	if (!table)
		return NULL;
	table->console = console;
	if (!request_read_table(words, &table->request, err) ||
	    !request_check(&table->request, console, CONSOLE_STATS, err)) {
		free(table);
		return NULL;
	}
	cursor_begin(&table->cursor, &console->source, table->request.show, &table->request.words);
	table->cursor.role = CONSOLE_STATS;
	table->cursor.skips_unused = skips_unused;
	return table;
}

static enum table_result add_rows(struct table *table, struct buf *out)
{
	struct columns columns = table->request.show->columns;
	_Alignas(max_align_t) char row[ROW_SIZE_MAX];
	unsigned int count = 0;
	usec_t until = 0;

	do {
		if (!cursor_next(&table->cursor, row))
			return table->cursor.has_more ? TABLE_MORE : TABLE_END;
		rows_add(out, columns, 0, row);
		if (count++ == 0)
			until = clock_now() + PIECE_TIME;
	} while (buf_ok(out) && out->count < PIECE_BYTES &&
	         (count < PIECE_ROWS || clock_now() < until));
	return buf_ok(out) ? TABLE_MORE : TABLE_BROKEN;
}

enum table_result table_next(struct table *table, struct buf *out)
{
	enum table_result result;

	lanes_hold(table->console->with.lanes);
	result = add_rows(table, out);
	cursor_suspend(&table->cursor);
	lanes_release(table->console->with.lanes);
	return result;
}

void table_end(struct table **table)
{
	if (!*table)
		return;
	cursor_end(&(*table)->cursor);
	free(*table);
	*table = NULL;
}
