/* SPDX-License-Identifier: ISC */
/*
 * What the files of the log share.
 */
#ifndef PGWEIR_BASE_LOG_PRIV_H
#define PGWEIR_BASE_LOG_PRIV_H

#include <stdint.h>
#include <time.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/log.h"

/* ---- outlets: where lines are written, and in which form ---- */

/* Lines as they are in the file, and for each of them a record. */
struct log_batch {
	struct buf lines, records;
};

struct log_record {
	enum log_level level;
	/* offset of the message: syslog and the journal have stamps of their own; 0 for JSON */
	uint32_t text_at;
	uint32_t count; /* bytes of the line, with its newline */
};

struct outlets {
	int fd; /* -1: no file */
	bool to_stderr, to_syslog;
	bool is_journal; /* stderr is connected to the journal */
	/* regular files on a local file system: no poll() needed */
	bool is_file_near, is_stderr_near;
	usec_t direct_until; /* direct writes have used their share of the time until then */
};

/* Finds out the kind of the file and of stderr. Call it when they change. */
void log_outlets_look(struct outlets *outlets);

/*
 * Writes lines, in as few writes as possible. Returns how many of them the file could not take;
 * none of them is there in part.
 */
unsigned long log_outlets_write(const struct outlets *outlets, const struct log_batch *batch);

/*
 * Whether the thread that logs may write so many bytes itself. Such a line is in the file before
 * that thread does anything else, and is not lost if the process is killed. But a write that might
 * block is left to the writer, as the thread serves the clients; and so is load, where batches cost
 * less: direct writes may use 1/LOG_DIRECT_SHARE of the time, and a line counts as
 * LOG_DIRECT_LINE at least. What was not used may be used later, up to LOG_DIRECT_AHEAD.
 */
bool log_outlets_may_write(const struct outlets *outlets, size_t count, usec_t now);

/* Such a write began at `now`, and took so long. */
void log_outlets_took(struct outlets *outlets, usec_t now, usec_t took);

#define LOG_DIRECT_SHARE 20
#define LOG_DIRECT_LINE (USEC_PER_SEC / 800)
#define LOG_DIRECT_AHEAD (2 * USEC_PER_SEC)
#define LOG_DIRECT_BYTES 4096 /* a pipe that is writable accepts this much */

/* The syslog facility of this name; an unknown name is "daemon". */
int log_facility(const char *name);

/*
 * Adds a text and its newline. A text from a client or server may not begin a line of its own,
 * and may not control a terminal: newlines are indented, control characters are escaped.
 */
void log_text_add(struct buf *out, const char *text, size_t count);

/* Adds one log line as a JSON object, with its newline. Its time is the current time. */
void log_json_add(struct buf *out, enum log_level level, const struct log_who *who,
                  struct bytes text);

/*
 * ---- log limit: how many lines of one kind are logged in a second ----
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

#endif
