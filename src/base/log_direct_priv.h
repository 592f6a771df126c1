/* SPDX-License-Identifier: ISC */
/*
 * When a line may be written by the thread that logs it, so that it is in the file before
 * that thread does anything else, and is not lost if the process is killed.
 *
 * Not under load, where the writer's batches cost less, and not where it might take long: the
 * thread that logs serves the clients.
 */
#ifndef PGWEIR_BASE_LOG_DIRECT_PRIV_H
#define PGWEIR_BASE_LOG_DIRECT_PRIV_H

#include "log_outlets_priv.h"
#include "pgweir/base/clock.h"

#define LOG_DIRECT_WINDOW (20 * USEC_PER_MS)
#define LOG_DIRECT_LINES 16 /* lines in a window; more are load */
/* Of the time of the thread that logs, direct writes may take a part in LOG_DIRECT_SHARE. */
#define LOG_DIRECT_SHARE 20
#define LOG_DIRECT_OWED_MAX (100 * USEC_PER_MS)
#define LOG_DIRECT_BYTES 4096 /* that a pipe takes at once, if it takes any */

struct log_direct {
	bool is_file_near, is_stderr_near; /* regular files of this machine: they need no poll() */
	usec_t window;                     /* when it began */
	unsigned int line_count;           /* in it */
	usec_t owed;                       /* what direct writes took beyond their part */
	usec_t owed_at;
};

/* Looks at what the outlets are. */
void log_direct_look(struct log_direct *direct, struct outlets outlets);

/* Whether that many bytes may be written at `now`: counted as a line. */
bool log_direct_may(struct log_direct *direct, struct outlets outlets, size_t count, usec_t now);

/* A direct write has taken that long. */
void log_direct_took(struct log_direct *direct, usec_t took);

#endif
