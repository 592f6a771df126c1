/* SPDX-License-Identifier: ISC */
/*
 * How many lines of a kind may be logged in a second.
 *
 * Lines are of a kind when they begin with the same words, up to the first that a peer may
 * have chosen: a quote, a bracket, a digit, a = or a second colon ends them. In one
 * second there are LOG_KINDS of them at most; what comes beyond shares the last.
 */
#ifndef PGWEIR_BASE_LOG_LIMIT_PRIV_H
#define PGWEIR_BASE_LOG_LIMIT_PRIV_H

#include <time.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/strbuf.h"
#include "pgweir/base/log.h"

#define LOG_KINDS 64
#define LOG_KIND_TEXT 64

/* At rest {0}: no limit. */
struct log_limit {
	unsigned int per_second; /* 0 = no limit */
	time_t second;           /* that is being counted */
	unsigned int kind_count;
	bool is_over; /* something was suppressed in this second */
	struct log_kind {
		uint64_t hash;
		unsigned long count;
		enum log_level level;
		char text[LOG_KIND_TEXT];
	} kinds[LOG_KINDS];
};

/* Counts a line. false: too many of its kind in this second; it is not to be written. */
bool log_limit_passes(struct log_limit *limit, enum log_level level, struct bytes text);

/* Whether a second has ended of which something is to be said: log_limit_next() does. */
static inline bool log_limit_is_due(const struct log_limit *limit, time_t now)
{
	return limit->is_over && now != limit->second;
}

/* "N more suppressed: words". false: all has been said; a new second begins with `now`. */
bool log_limit_next(struct log_limit *limit, time_t now, enum log_level *level,
                    struct strbuf *line);

/* Begins a new second, if it is one, and nothing is due. */
void log_limit_turn(struct log_limit *limit, time_t now);

#endif
