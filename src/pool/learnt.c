/* SPDX-License-Identifier: ISC */
/*
 * A table of statements by their digests. A digest is a keyed hash, so it needs no other.
 */
#include "pgweir/pool/learnt.h"

#include <stdlib.h>

#include "pgweir/pgwire/sql_touch.h"

#include "pgweir/base/banned.h"

static struct learnt_statement *find(const struct learnt *learnt, uint64_t digest)
{
	struct learnt_statement *statement = NULL;

	if (learnt)
		HASH_FIND_BYHASHVALUE(hh, learnt->table, &digest, sizeof(digest),
		                      (unsigned int)digest, statement);
	return statement;
}

static void use(struct learnt *learnt, struct learnt_statement *statement)
{
	TAILQ_REMOVE(&learnt->list, statement, node);
	TAILQ_INSERT_HEAD(&learnt->list, statement, node);
}

unsigned int learnt_touches(struct learnt *learnt, uint64_t digest)
{
	struct learnt_statement *statement = find(learnt, digest);

	if (!statement)
		return 0;
	use(learnt, statement);
	return statement->touches;
}

static void drop(struct learnt *learnt, struct learnt_statement *statement)
{
	TAILQ_REMOVE(&learnt->list, statement, node);
	HASH_DEL(learnt->table, statement);
	learnt->count--;
	free(statement);
}

/* The entry of a digest, which may be new. NULL: no memory. */
static struct learnt_statement *get(struct learnt *learnt, uint64_t digest)
{
	struct learnt_statement *statement = find(learnt, digest);

	if (statement) {
		use(learnt, statement);
		return statement;
	}
	if (learnt->count == LEARNT_MAX)
		drop(learnt, TAILQ_LAST(&learnt->list, learnt_list));
	statement = calloc(1, sizeof(*statement));
	if (!statement)
		return NULL;
	statement->digest = digest;
	HASH_ADD_BYHASHVALUE(hh, learnt->table, digest, sizeof(digest), (unsigned int)digest,
	                     statement);
	TAILQ_INSERT_HEAD(&learnt->list, statement, node);
	learnt->count++;
	return statement;
}

/* The entry of a digest in a table, both of which may be new. NULL: no memory. */
static struct learnt_statement *open_entry(struct learnt **learnt, uint64_t digest)
{
	if (!*learnt) {
		*learnt = calloc(1, sizeof(**learnt));
		if (!*learnt)
			return NULL;
		TAILQ_INIT(&(*learnt)->list);
	}
	return get(*learnt, digest);
}

static void merge(struct learnt *learnt, struct learnt_statement *statement,
                  const struct learnt_statement *found)
{
	bool is_known = statement->touches != 0;
	bool is_more =
	    (found->touches & ~statement->touches) || (found->is_sure && !statement->is_sure);

	statement->news = !is_known ? LEARNT_NEW : is_more ? LEARNT_MORE : LEARNT_KNOWN;
	statement->touches |= found->touches;
	statement->is_sure |= found->is_sure;
	if (found->found_wall > statement->found_wall)
		statement->found_wall = found->found_wall;
	memcpy(statement->text, found->text, sizeof(statement->text));
	learnt->has_state |= (found->touches & ~(unsigned int)SQL_TOUCH_NOTIFY) != 0;
}

const struct learnt_statement *learnt_add(struct learnt **learnt,
                                          const struct learnt_statement *found)
{
	struct learnt_statement *statement = open_entry(learnt, found->digest);

	if (!statement)
		return NULL;
	merge(*learnt, statement, found);
	if (statement->news == LEARNT_NEW)
		statement->since_wall = found->found_wall;
	statement->found_count++;
	return statement;
}

bool learnt_hear(struct learnt **learnt, const struct learnt_statement *entry, unsigned int number)
{
	struct learnt_statement *statement = open_entry(learnt, entry->digest);

	if (!statement)
		return false;
	merge(*learnt, statement, entry);
	if (statement->news == LEARNT_NEW)
		statement->since_wall = entry->since_wall;
	statement->number = number;
	return true;
}

const struct learnt_statement *learnt_next(const struct learnt *learnt,
                                           const struct learnt_statement *statement)
{
	if (!learnt)
		return NULL;
	return statement ? TAILQ_NEXT(statement, node) : TAILQ_FIRST(&learnt->list);
}

const struct learnt_statement *learnt_after(const struct learnt *learnt, const uint64_t *digest)
{
	const struct learnt_statement *statement, *best = NULL;

	TAILQ_FOREACH (statement, &learnt->list, node) {
		if ((!digest || statement->digest > *digest) &&
		    (!best || statement->digest < best->digest))
			best = statement;
	}
	return best;
}

void learnt_free(struct learnt **learnt)
{
	if (!*learnt)
		return;
	while (!TAILQ_EMPTY(&(*learnt)->list))
		drop(*learnt, TAILQ_FIRST(&(*learnt)->list));
	free(*learnt);
	*learnt = NULL;
}
