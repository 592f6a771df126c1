/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/claim.h"

/* The classes of a rank, in its upper bits; below is what the pool would have for its weight. */
#define FIRST_ONE ((uint64_t)1 << 62)
#define ONE_MORE ((uint64_t)2 << 62)
#define SPARE_ONE ((uint64_t)3 << 62)

static uint64_t for_weight(uint64_t servers, const struct claim_pool *pool)
{
	return servers * (CLAIM_WEIGHT_MAX * (uint64_t)CLAIM_WEIGHT_MAX) / pool->weight;
}

static bool is_owed(const struct claim_pool *pool)
{
	return pool->owners[0].servers < pool->owners[0].guaranteed ||
	       pool->owners[1].servers < pool->owners[1].guaranteed;
}

/* Whether its owners keep what they are guaranteed. A move within an owner is no loss for it. */
static bool can_spare(const struct claim_pool *pool, const struct claim *claim)
{
	for (int i = 0; i < 2; i++) {
		bool is_same = claim->owners[i] && claim->owners[i] == pool->owners[i].who;

		if (pool->owners[i].servers + is_same <= pool->owners[i].guaranteed)
			return false;
	}
	return true;
}

uint64_t claim_rank(const struct claim_pool *pool)
{
	if (pool->is_spare)
		return SPARE_ONE;
	if (is_owed(pool))
		return 0;
	return pool->servers ? ONE_MORE + for_weight(pool->servers + 1, pool) : FIRST_ONE;
}

static usec_t turn_of(const struct claim_pool *pool)
{
	return CLAIM_TURN * (pool->weight < CLAIM_TURNS_MAX ? pool->weight : CLAIM_TURNS_MAX);
}

bool claim_takes(const struct claim *claim, const struct claim_pool *from, usec_t age)
{
	if (age < CLAIM_TURN || !can_spare(from, claim))
		return false;
	if (claim->rank < FIRST_ONE)
		return true;
	if (claim->rank < ONE_MORE)
		return from->servers > 1 || age >= turn_of(from);
	return from->servers > 1 && claim->rank <= ONE_MORE + for_weight(from->servers - 1, from);
}
