/* SPDX-License-Identifier: ISC */
/*
 * Decides when the thread that logs writes a line itself. Such a line is in the file before
 * that thread does anything else, and is not lost if the process is killed.
 *
 * Lines are not written directly under load, where the writer's batches cost less, nor where a
 * write might block: the thread that logs serves the clients.
 */
#ifndef PGWEIR_BASE_LOG_DIRECT_PRIV_H
#define PGWEIR_BASE_LOG_DIRECT_PRIV_H

#include "log_outlets_priv.h"
#include "pgweir/base/clock.h"

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

#endif
