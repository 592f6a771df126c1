/* SPDX-License-Identifier: ISC */
/*
 * What the catalog of a database says about its functions: whether any of them can leave session
 * state behind, which no text of a client shows. While none can, a server is known to be clean
 * when no text of its client touched session state. Otherwise, and as long as nobody knows, each
 * transaction leaves it in doubt: enum server_doubt.
 *
 * One for each database and loop. An idle server is asked: when the database is first used, when a
 * client has executed DDL, and once a second if the database is used, whether anything changed.
 */
#ifndef PGWEIR_POOL_CATALOG_H
#define PGWEIR_POOL_CATALOG_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"

struct buf;

#define CATALOG_CHANGES_SIZE 64
#define CATALOG_WHY_SIZE 192

enum catalog_verdict {
	CATALOG_UNREAD,  /* not read yet, or something has changed since */
	CATALOG_QUIET,   /* no function of it can touch session state */
	CATALOG_TOUCHES, /* some can, or it is not known */
};

/* Which texts may use a sequence: call nextval(), currval() or lastval(), directly or not. */
enum catalog_sequences {
	CATALOG_SEQUENCES_CALLED,  /* any text, by what it calls or reads; or it is not known */
	CATALOG_SEQUENCES_WRITTEN, /* those that write, and those that name these functions */
	CATALOG_SEQUENCES_NONE,    /* there are no sequences but temporary ones */
};

struct catalog {
	enum catalog_verdict verdict;
	enum catalog_sequences sequences; /* as it was read last */
	enum catalog_verdict told;        /* the last one that the log has */
	bool reads_all;                   /* the question that was asked is the long one */
	bool has_row;                     /* and has its answer: `answer`, `why` */
	usec_t due_at;                    /* when it is asked again */
	usec_t asked_at;                  /* when it was asked last */
	usec_t read_at; /* when the last answer to the long question came; 0: never */
	/* how often clients had executed DDL when the long question was asked and answered last */
	unsigned int asked_count, read_count;
	char changes[CATALOG_CHANGES_SIZE]; /* how much PostgreSQL had counted when it was read */
	char answer[CATALOG_CHANGES_SIZE];
	char why[CATALOG_WHY_SIZE]; /* the first thing found, or what failed; or "" */
};

/* Writes the question. The answer is one row: how much has changed, what was found or NULL, and
 * sequences. */
void catalog_text(bool reads_all, struct buf *out);

/* The row of the answer, a DataRow. */
void catalog_row(struct catalog *catalog, struct bytes body);

/* The answer is complete. Returns whether what was known before is not true any more. */
bool catalog_end(struct catalog *catalog, bool has_failed, usec_t now);

#endif
