/* SPDX-License-Identifier: ISC */
/*
 * The events that the log keeps for SHOW EVENTS.
 */
#ifndef PGWEIR_BASE_LOG_KEPT_PRIV_H
#define PGWEIR_BASE_LOG_KEPT_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/log.h"
#include "pgweir/base/text.h"

#define LOG_KEPT_MAX 1000
#define LOG_KINDS_MAX 64

#define LOG_LOST_KIND "lines lost"

struct log_kept_event {
	usec_t at; /* of the wall clock */
	const char *kind;
	enum log_level level;
	struct buf texts; /* database, user and text, each with a zero */
};

/* How many events of a kind there have been. */
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
