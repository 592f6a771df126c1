/* SPDX-License-Identifier: ISC */
/*
 * What other loops have found out about a pool.
 */
#include "pool_priv.h"

void pool_hear_news(struct pool *pool)
{
	if (!share_has_news(&pool->share))
		return;
	share_hear_news(&pool->share);
	pool_hear_shown(pool);
	pool_learn_outcome(pool);
}
