/* SPDX-License-Identifier: ISC */
/*
 * SHOW READY, for probes, and SHOW DRAIN.
 */
#include "show_priv.h"

#include "pgweir/config/entries.h"

#include "pgweir/base/banned.h"

/* ---- READY ---- */

struct ready_row {
	const char *ready, *reason;
};

static const struct column ready_columns[] = {
	COLUMN(struct ready_row, VALUE_TEXT, ready, "Whether new work is accepted: yes or no."),
	COLUMN(struct ready_row, VALUE_TEXT, reason,
	       "Why no new work is accepted; empty if it is."),
};

/* Whether each named database is paused or disabled, and there is no `*` for other names. */
static bool is_all_shut(const struct pools *pools)
{
	const struct database *database;

	if (config_database_auto(pools->config))
		return false;
	TAILQ_FOREACH (database, &pools->databases, node) {
		if (!database->is_paused && !database->is_disabled)
			return false;
	}
	return !TAILQ_EMPTY(&pools->databases);
}

/* *why: what prevents new work, or "". */
static bool is_ready(const struct show_source *source, const char **why)
{
	const struct console_with *with = source->with;
	const struct lane *first = show_source_first(source);
	const struct pools *pools = first->pools;
	const struct {
		bool is_so;
		const char *words;
	} hindrances[] = {
		{ with->is_shutting_down(with->arg), "shutting down" },
		{ first->clients->drain.is_on, "draining" },
		{ pools->is_paused, "paused" },
		{ pools->suspend != SUSPEND_NONE, "suspended" },
		{ is_all_shut(pools), "every database is paused or disabled" },
	};

	*why = "";
	for (size_t i = 0; i < sizeof(hindrances) / sizeof(hindrances[0]); i++) {
		if (hindrances[i].is_so) {
			*why = hindrances[i].words;
			return false;
		}
	}
	return true;
}

static bool next_ready(struct cursor *cursor, void *at)
{
	struct ready_row *row = at;

	row->ready = is_ready(cursor->source, &row->reason) ? "yes" : "no";
	return cursor->index++ == 0;
}

const struct show show_ready = { "READY",
	                         next_ready,
	                         COLUMNS(ready_columns),
	                         "Whether new work is accepted now, and if not, why.",
	                         CONSOLE_STATS,
	                         SHOW_ALONE };

/* ---- DRAIN ---- */

struct drain_row {
	const char *state;
	int64_t clients, working, waiting, closed, cut;
	int64_t seconds_left;
};

static const struct column drain_columns[] = {
	COLUMN(struct drain_row, VALUE_TEXT, state,
	       "State of the DRAIN: no, draining, overdue (the deadline has passed) or "
	       "drained (no client is left)."),
	COLUMN(struct drain_row, VALUE_INT4, clients,
	       "Number of clients that are still connected."),
	COLUMN(struct drain_row, VALUE_INT4, working,
	       "Number of clients that are still connected and have a server."),
	COLUMN(struct drain_row, VALUE_INT4, waiting,
	       "Number of clients that are still connected and wait for a server."),
	COLUMN(struct drain_row, VALUE_INT8, closed,
	       "Number of clients that were disconnected between two transactions."),
	COLUMN(struct drain_row, VALUE_INT8, cut,
	       "Number of clients that were disconnected because of the deadline."),
	COLUMN(struct drain_row, VALUE_INT4, seconds_left,
	       "Seconds until the deadline; -1: no deadline."),
};

static const char *drain_state(const struct drain_progress *sum)
{
	if (!sum->is_on)
		return "no";
	if (sum->is_done)
		return "drained";
	return sum->is_overdue ? "overdue" : "draining";
}

static bool next_drain(struct cursor *cursor, void *at)
{
	struct drain_progress sum;
	usec_t left;

	lanes_drain(show_source_lanes(cursor->source), &sum);
	left = sum.is_on ? sum.time_left : DRAIN_NO_LIMIT;
	*(struct drain_row *)at = (struct drain_row){
		.state = drain_state(&sum),
		.clients = sum.left,
		.working = sum.working,
		.waiting = (int64_t)sum.waiting + sum.newcomers,
		.closed = (int64_t)sum.closed,
		.cut = (int64_t)sum.cut,
		.seconds_left =
		    left == DRAIN_NO_LIMIT ? -1 : (left + USEC_PER_SEC - 1) / USEC_PER_SEC,
	};
	return cursor->index++ == 0;
}

const struct show show_drain = {
	"DRAIN",       next_drain, COLUMNS(drain_columns), "Progress of a DRAIN.",
	CONSOLE_STATS, SHOW_ALONE
};
