/* SPDX-License-Identifier: ISC */
/*
 * What other loops have found out about a pool, and what this one tells them about statements.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

void pool_hear_news(struct pool *pool)
{
	if (!share_has_news(&pool->share))
		return;
	share_hear_news(&pool->share);
	pool_hear_shown(pool);
	pool_learn_outcome(pool);
	share_get_learnt(&pool->share, &pool->hidden);
}

const struct learnt_statement *pool_learn_statement(struct pool *pool,
                                                    const struct learnt_statement *found)
{
	const struct learnt_statement *entry = learnt_add(&pool->hidden, found);

	if (entry && entry->news != LEARNT_KNOWN)
		share_put_learnt(&pool->share, entry);
	return entry;
}
