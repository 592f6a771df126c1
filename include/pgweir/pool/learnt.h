/* SPDX-License-Identifier: ISC */
/*
 * What was learnt about statements of a pool: those that left session state, or notified, without a
 * sign of that in their texts, because a function did it. They are known by their digest
 * (sql_digest.h). When there are too many, the one that was not used for the longest time is
 * forgotten.
 */
#ifndef PGWEIR_POOL_LEARNT_H
#define PGWEIR_POOL_LEARNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "pgweir/base/table.h"

#define LEARNT_MAX 1000
#define LEARNT_TEXT_SIZE 128 /* of the beginning of the text that is kept, with the zero */

/* What a find adds to what is known. */
enum learnt_news { LEARNT_KNOWN, LEARNT_MORE, LEARNT_NEW };

struct learnt_statement {
	uint64_t digest;
	enum learnt_news news;       /* of the last learnt_add() */
	unsigned int number;         /* of the last learnt_hear() */
	unsigned int touches;        /* enum sql_touch: what it was found to leave */
	bool is_sure;                /* no other statement of its transaction can have done it */
	uint64_t found_count;        /* how often learnt_add() found that */
	int64_t since_wall;          /* when first, as wall-clock time */
	int64_t found_wall;          /* and when last */
	char text[LEARNT_TEXT_SIZE]; /* from sql_digest_text(): no constants */
	TAILQ_ENTRY(learnt_statement) node;
	UT_hash_handle hh;
};

TAILQ_HEAD(learnt_list, learnt_statement);

struct learnt {
	struct learnt_statement *table;
	struct learnt_list list; /* the last used first */
	unsigned int count;
	bool has_state; /* one has left more than notifications: these matter to listeners only */
};

/* What the statement of this digest touches besides what its text shows. learnt NULL: 0. */
unsigned int learnt_touches(struct learnt *learnt, uint64_t digest);

/*
 * A statement has left state of these kinds. Makes *learnt if it is NULL. Returns the entry, which
 * is valid until the next call. NULL: no memory.
 */
const struct learnt_statement *learnt_add(struct learnt **learnt,
                                          const struct learnt_statement *found);

/* The same for an entry of another loop's table. number: of this news. false: no memory. */
bool learnt_hear(struct learnt **learnt, const struct learnt_statement *entry, unsigned int number);

/* The entries, the last used first. NULL: there is none, or no more. */
const struct learnt_statement *learnt_next(const struct learnt *learnt,
                                           const struct learnt_statement *statement);

/* The entry with the lowest digest above this one; NULL: of all. NULL: there is none. */
const struct learnt_statement *learnt_after(const struct learnt *learnt, const uint64_t *digest);

void learnt_free(struct learnt **learnt);

#endif
