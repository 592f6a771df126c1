/* SPDX-License-Identifier: ISC */
/*
 * Outlets: where log lines are written, and in which form.
 */
#ifndef PGWEIR_BASE_LOG_PRIV_H
#define PGWEIR_BASE_LOG_PRIV_H

#include <stdint.h>
#include <time.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/log.h"
#include "pgweir/base/text.h"

/* Precedes each line in `pending`. */
struct record {
	enum log_level level;
	/* offset of the message: syslog and the journal have stamps of their own; 0 for JSON */
	uint32_t text_at;
	uint32_t count; /* bytes of the line, with its newline */
	bool is_out;    /* already written directly; only syslog still needs it */
};

struct outlets {
	int fd; /* -1: no file */
	bool to_stderr, to_syslog, is_journal;
};

/*
 * Writes complete records, in as few writes as possible. Returns how many lines the file could not
 * take; none of them is there in part.
 */
unsigned long log_write_records(struct outlets outlets, struct bytes records);

/* The name of a level, followed by a blank. */
struct bytes log_level_name(enum log_level level);

/* The syslog facility of this name; an unknown name is "daemon". */
int log_facility(const char *name);

/*
 * Adds a text and its newline. A text from a client or server may not begin a line of its own,
 * and may not control a terminal: newlines are indented, control characters are escaped.
 */
void log_text_add(struct buf *out, const char *text, size_t count);

/* ---- log json ---- */

/* Adds one log line as a JSON object, with its newline. Its time is the current time. */
void log_json_add(struct buf *out, struct bytes level, long pid, const struct log_who *who,
                  struct bytes text);

/*
 * ---- log direct ----
 *
 * Decides when the thread that logs writes a line itself. Such a line is in the file before
 * that thread does anything else, and is not lost if the process is killed.
 *
 * Lines are not written directly under load, where the writer's batches cost less, nor where a
 * write might block: the thread that logs serves the clients.
 */

#define LOG_DIRECT_WINDOW (20 * USEC_PER_MS)
#define LOG_DIRECT_LINES 16 /* direct lines per window; more count as load */
/* Direct writes may use 1/LOG_DIRECT_SHARE of the time of the thread that logs. */
#define LOG_DIRECT_SHARE 20
#define LOG_DIRECT_OWED_MAX (100 * USEC_PER_MS)
#define LOG_DIRECT_BYTES 4096 /* a pipe that is writable accepts this much */

struct log_direct {
	/* regular files on a local file system: no poll() needed */
	bool is_file_near, is_stderr_near;
	usec_t window;           /* when the current window began */
	unsigned int line_count; /* lines in the current window */
	usec_t owed;             /* time used by direct writes beyond their share */
	usec_t owed_at;
};

/* Finds out the kind of the outlets. Call it when they change. */
void log_direct_look(struct log_direct *direct, struct outlets outlets);

/* Whether `count` bytes may be written directly at `now`. Counts them as one line. */
bool log_direct_may(struct log_direct *direct, struct outlets outlets, size_t count, usec_t now);

/* Reports that a direct write took `took` microseconds. */
void log_direct_took(struct log_direct *direct, usec_t took);

/*
 * ---- log limit ----
 *
 * Limits how many lines of one kind are logged per second.
 *
 * Two lines are of the same kind if they begin with the same fixed text, up to the first value
 * that may come from a client or server: a quote, a bracket, a digit, `=` or a second colon
 * ends the fixed text. At most LOG_KINDS kinds are counted in one second; all further kinds
 * share the last one.
 */

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

/* Whether a second with suppressed lines has ended: call log_limit_next() until false. */
static inline bool log_limit_is_due(const struct log_limit *limit, time_t now)
{
	return limit->is_over && now != limit->second;
}

/* Writes "N more suppressed: text". false: none; a new second begins with `now`. */
bool log_limit_next(struct log_limit *limit, time_t now, enum log_level *level,
                    struct strbuf *line);

/* Begins a new second if `now` is in one. Must not be called while log_limit_is_due(). */
void log_limit_turn(struct log_limit *limit, time_t now);

/* ---- log kept: the events of SHOW EVENTS ---- */

#define LOG_KEPT_MAX 1000
#define LOG_KINDS_MAX 64

#define LOG_LOST_KIND "lines lost"

struct log_kept_event {
	usec_t at; /* of the wall clock */
	const char *kind;
	enum log_level level;
	struct buf texts; /* database, user and text, each with a zero */
};

struct log_kept_kind {
	const char *name; /* upper and lower case are equal */
	uint64_t count;
};

/* The caller has the log's lock. */
struct log_kept_ring {
	uint64_t count; /* of all that there have been */
	size_t kind_count;
	struct log_kept_kind kinds[LOG_KINDS_MAX]; /* as they were expected or came */
	struct log_kept_event events[LOG_KEPT_MAX];
};

struct log_kept_line {
	const char *kind; /* static */
	enum log_level level;
	const char *database, *user; /* NULL: none */
	struct bytes text;
};

/* Without memory the event is lost. */
void log_kept_add(struct log_kept_ring *ring, const struct log_kept_line *line);

/* See log_kept_next(). */
bool log_kept_get(const struct log_kept_ring *ring, uint64_t *number, struct log_kept *kept);

/* Begins to count the kinds that every process may have. */
void log_kept_begin(struct log_kept_ring *ring);

/* A kind of events that may come; it is counted from 0. The name is static. */
void log_kept_expect(struct log_kept_ring *ring, const char *name);

void log_kept_free(struct log_kept_ring *ring);

#endif
