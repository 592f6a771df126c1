/* SPDX-License-Identifier: ISC */
/*
 * Where lines of the log go, and how they look there.
 */
#ifndef PGWEIR_BASE_LOG_OUTLETS_PRIV_H
#define PGWEIR_BASE_LOG_OUTLETS_PRIV_H

#include <stdint.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/log.h"

/* Stands before each line in `pending`. */
struct record {
	enum log_level level;
	uint32_t text_at; /* where the text begins: syslog and the journal have stamps of their own;
	                   * JSON is whole */
	uint32_t count;   /* bytes of the line, newline included */
	bool is_out;      /* has been written directly; syslog waits for the writer */
};

/* Where a batch goes. */
struct outlets {
	int fd; /* -1: no file */
	bool to_stderr, to_syslog, is_journal;
};

/* Writes whole records: the lines of one batch with as few writes as may be. */
void log_write_records(struct outlets outlets, struct bytes records);

/* A level's name with a blank behind it. */
struct bytes log_level_name(enum log_level level);

/* A syslog facility; unknown = daemon. */
int log_facility(const char *name);

/*
 * Adds a text and its newline. A line of the log never begins with a peer's words, and what
 * would move a terminal's cursor is spelled out.
 */
void log_text_add(struct buf *out, const char *text, size_t count);

#endif
