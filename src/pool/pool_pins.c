/* SPDX-License-Identifier: ISC */
/*
 * Servers that stay with their clients because of session state: counted in all loops together.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

bool pool_pin(struct pool *pool)
{
	if (share_pin(&pool->share, (unsigned int)pool->limits.max_pinned))
		return true;
	pool->pins_refused++;
	return false;
}

void pool_pin_anyway(struct pool *pool) { share_pin(&pool->share, PERMIT_NO_LIMIT); }

void pool_unpin(struct pool *pool) { share_unpin(&pool->share); }
