/* SPDX-License-Identifier: ISC */
/*
 * Servers that stay with their clients because of session state.
 */
#include "pool_priv.h"

#include "pgweir/base/banned.h"

bool pool_pin(struct pool *pool)
{
	if (pool->pinned_count >= (unsigned int)pool->limits.max_pinned) {
		pool->pins_refused++;
		return false;
	}
	pool->pinned_count++;
	return true;
}

void pool_pin_anyway(struct pool *pool) { pool->pinned_count++; }

void pool_unpin(struct pool *pool) { pool->pinned_count--; }
