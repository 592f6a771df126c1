/* SPDX-License-Identifier: ISC */
/*
 * Limits how many lines of one kind are logged per second.
 *
 * Two lines are of the same kind if they begin with the same fixed text, up to the first value
 * that may come from a client or server: a quote, a bracket, a digit, `=` or a second colon
 * ends the fixed text. At most LOG_KINDS kinds are counted in one second; all further kinds
 * share the last one.
 */
#ifndef PGWEIR_BASE_LOG_LIMIT_PRIV_H
#define PGWEIR_BASE_LOG_LIMIT_PRIV_H

#include <time.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/strbuf.h"
#include "pgweir/base/log.h"

#define LOG_KINDS 64
#define LOG_KIND_TEXT 64

/* {0} is valid and has no limit. */
struct log_limit {
	unsigned int per_second; /* 0 = no limit */
	time_t second;           /* the second that is being counted */
	unsigned int kind_count;
	bool is_over; /* something was suppressed in this second */
	struct log_kind {
		uint64_t hash;
		unsigned long count;
		enum log_level level;
		char text[LOG_KIND_TEXT];
	} kinds[LOG_KINDS];
};

/* Counts a line. false: too many of its kind in this second; do not write it. */
bool log_limit_passes(struct log_limit *limit, enum log_level level, struct bytes text);

/*
 * Whether a second with suppressed lines has ended. Then call log_limit_next() until it is
 * false.
 */
static inline bool log_limit_is_due(const struct log_limit *limit, time_t now)
{
	return limit->is_over && now != limit->second;
}

/*
 * Writes "N more suppressed: text" for the next kind. false: there is none; a new second begins
 * with `now`.
 */
bool log_limit_next(struct log_limit *limit, time_t now, enum log_level *level,
                    struct strbuf *line);

/* Begins a new second if `now` is in one. Must not be called while log_limit_is_due(). */
void log_limit_turn(struct log_limit *limit, time_t now);

#endif
