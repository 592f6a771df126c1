/* SPDX-License-Identifier: ISC */
/*
 * The limits of statements. One whose entry is gone is kept: it may run still, and come again.
 */
#include "pgweir/client/statement_limits.h"

#include <stdlib.h>

static struct statement_limit *find(const struct statement_limits *limits, uint64_t digest)
{
	return TABLE_GET_OWN(hh, limits->table, &digest, sizeof(digest));
}

struct statement_limit *statement_limits_find(const struct statement_limits *limits,
                                              uint64_t digest)
{
	struct statement_limit *limit = limits->table ? find(limits, digest) : NULL;

	return limit && limit->entry ? limit : NULL;
}

/* NULL: no memory. */
static struct statement_limit *find_or_add(struct statement_limits *limits, uint64_t digest)
{
	struct statement_limit *limit = find(limits, digest);

	if (limit)
		return limit;
	limit = calloc(1, sizeof(*limit));
	if (!limit)
		return NULL;
	limit->digest = digest;
	HASH_ADD(hh, limits->table, digest, sizeof(digest), limit);
	return limit;
}

bool statement_limits_configure(struct statement_limits *limits, const struct config *config)
{
	const struct config_statement *entry = NULL;
	bool has_all = true;

	for (struct statement_limit *limit = limits->table; limit; limit = limit->hh.next)
		limit->entry = NULL;
	config_unref(&limits->config);
	limits->config = config_ref(config);
	while ((entry = config_statement_next(config, entry))) {
		struct statement_limit *limit = find_or_add(limits, entry->digest);

		if (limit)
			limit->entry = entry;
		has_all &= limit != NULL;
	}
	return has_all;
}

void statement_limits_done(struct statement_limits *limits)
{
	struct statement_limit *limit, *next;

	config_unref(&limits->config);
	HASH_ITER (hh, limits->table, limit, next) {
		HASH_DEL(limits->table, limit);
		free(limit);
	}
}

bool statement_limit_refuse(struct statement_limit *limit, struct err *err)
{
	const struct config_statement *entry = limit->entry;

	atomic_fetch_add(&limit->refused_count, 1);
	if (entry->block)
		err_set(err, ERR_RIGHTS, "statement %s is blocked", entry->name);
	else
		err_set(err, ERR_LIMIT, "statement %s is running %d times already", entry->name,
		        entry->max_running);
	/* A client does not learn where the file is. */
	return err_detail(err, "%s in [statements], line %d.",
	                  entry->block ? "block" : "max_running", entry->pos.line);
}
