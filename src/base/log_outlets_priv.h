/* SPDX-License-Identifier: ISC */
/*
 * Outlets: where log lines are written, and in which form.
 */
#ifndef PGWEIR_BASE_LOG_OUTLETS_PRIV_H
#define PGWEIR_BASE_LOG_OUTLETS_PRIV_H

#include <stdint.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/log.h"

/* Precedes each line in `pending`. */
struct record {
	enum log_level level;
	/* offset of the message: syslog and the journal have stamps of their own; 0 for JSON */
	uint32_t text_at;
	uint32_t count; /* bytes of the line, with its newline */
	bool is_out;    /* already written directly; only syslog still needs it */
};

/* The outlets of a batch. */
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

#endif
