/* SPDX-License-Identifier: ISC */
/*
 * Permits for servers, and for each cap the queue of the pools that it keeps from one: see
 * broker.h.
 *
 *   permit_take --> a permit
 *               --> the queue of a cap --> the first in it is woken --> permit_take
 *
 * While a cap has space and somebody is in its queue, the first has been woken: whatever gives it
 * space, or makes another one the first, wakes that one. In its turn that one takes a permit, or
 * goes into the queue of another cap, or leaves.
 *
 * Hard here: the order follows from numbers of servers, so each server that is opened or closed may
 * change it for many claims. One that has become a later one is moved when it is the first. An
 * earlier one is moved at once: claims of the pool itself, and of pools whose database or user has
 * fewer servers now than it is guaranteed.
 */
#include "broker_priv.h"

#include "pgweir/base/container_of.h"

/*
 * ---- the order of claims: weight, guaranteed_servers ----
 *
 * Of the pools that want a server within a limit, first come those whose database or user has fewer
 * than it is guaranteed; then those without any server; then the one that would have the fewest for
 * its weight; last those that want one for min_pool_size, which take none from others. Among
 * equals: first come, first served.
 *
 * A pool whose own clients wait gives up a server, too, for one that is so far behind. It has kept
 * that server for a CLAIM_TURN then, since each change costs a login. With fewer servers than pools
 * they take turns, which are longer for a greater weight.
 */

/* The classes of a rank, in its upper bits; below is what the pool would have for its weight. */
#define FIRST_ONE ((uint64_t)1 << 62)
#define ONE_MORE ((uint64_t)2 << 62)
#define SPARE_ONE ((uint64_t)3 << 62)

#define WEIGHT_MAX 1000
#define TURNS_MAX 10 /* of a pool with the only server that it has */

static uint64_t for_weight(uint64_t servers, const struct claimant *claimant)
{
	return servers * (WEIGHT_MAX * (uint64_t)WEIGHT_MAX) / claimant->weight;
}

static bool is_owed(const struct tally *owner) { return tally_staying(owner) < owner->guaranteed; }

/* Of what it has, whether it is favoured or not. The lower, the sooner. */
static uint64_t own_rank(const struct claimant *claimant)
{
	unsigned int servers = tally_staying(claimant->of[OF_POOL]);

	if (claimant->is_spare)
		return SPARE_ONE;
	if (is_owed(claimant->of[OF_DATABASE]) || is_owed(claimant->of[OF_ROLE]))
		return 0;
	return servers ? ONE_MORE + for_weight(servers + 1, claimant) : FIRST_ONE;
}

/* Whether its owners keep what they are guaranteed. A move within an owner is no loss for it. */
static bool can_spare(const struct claimant *from, const struct claimant *first)
{
	for (int i = OF_DATABASE; i <= OF_ROLE; i++) {
		const struct tally *owner = from->of[i];

		if (tally_staying(owner) + (owner == first->of[i]) <= owner->guaranteed)
			return false;
	}
	return true;
}

/* One that is favoured gets no further server for that, nor one of its own pool. */
static bool takes_from(const struct claimant *first, const struct claimant *from, usec_t age)
{
	unsigned int servers = tally_staying(from->of[OF_POOL]);
	usec_t turns = from->weight < TURNS_MAX ? from->weight : TURNS_MAX;
	uint64_t rank = own_rank(first);

	if (age < CLAIM_TURN || !can_spare(from, first))
		return false;
	if (rank < FIRST_ONE)
		return true;
	if (rank < ONE_MORE)
		return servers > 1 || age >= turns * CLAIM_TURN;
	return servers > 1 && rank <= ONE_MORE + for_weight(servers - 1, from);
}

static uint64_t rank_of(const struct claimant *claimant)
{
	return claimant->is_favoured ? 0 : own_rank(claimant);
}

/* Its claim may have changed. */
static void rank_again(struct claimant *claimant)
{
	uint64_t rank = rank_of(claimant);

	if (claimant->node.key == rank)
		return;
	claimant->node.key = rank;
	heap_moved(&claimant->cap->queue, &claimant->node);
}

/* NULL: nobody is in the queue. */
static struct claimant *first_of(const struct tally *cap)
{
	struct claimant *first = NULL;
	struct heap_node *node;

	assert_locked(&cap->broker->lock);
	while ((node = heap_first(&cap->queue)) && (!first || node != &first->node)) {
		first = container_of(node, struct claimant, node);
		rank_again(first);
	}
	return first;
}

static bool is_full(const struct tally *cap) { return cap->most && cap->server_count >= cap->most; }

static void call_first(const struct tally *cap, const struct broker_member *here)
{
	struct claimant *first = is_full(cap) ? NULL : first_of(cap);

	if (first)
		broker_wake(first->pool, here);
}

/* A pool has one server less, and so have its owners. */
static void note_fewer(const struct permit *permit)
{
	for (int i = 0; i < OWNERS; i++) {
		const struct tally *of = permit->of[i];

		if (!of || (i != OF_POOL && tally_staying(of) >= of->guaranteed))
			continue;
		TAILQ_EACH (claimant, &of->claims, nodes[i])
			rank_again(claimant);
	}
}

/*
 * ---- what is needed ----
 *
 * A pool may be in the queue of a cap once for each loop. It counts there once, and needs no more
 * servers than it may have.
 */

static void count_blocked(const struct claimant *claimant, int change)
{
	const struct tally *pool = claimant->of[OF_POOL];
	struct tally *cap = claimant->cap;

	TAILQ_EACH (other, &pool->claims, nodes[OF_POOL]) {
		if (other != claimant && other->cap == cap)
			return;
	}
	atomic_fetch_add(&cap->blocked_count, (unsigned int)change);
	atomic_fetch_add(&cap->broker->blocked_count, (unsigned int)change);
}

static void set_counted(struct claimant *claimant, unsigned int counted)
{
	claimant->cap->needed_count += counted - claimant->counted;
	claimant->counted = counted;
}

/* Of a pool: what is needed of the cap, what it may have or what it has is another than before. */
static void count_needed(const struct tally *pool, const struct tally *cap)
{
	unsigned int has = pool->server_count;

	TAILQ_EACH (claimant, &pool->claims, nodes[OF_POOL]) {
		unsigned int space = claimant->most > has ? claimant->most - has : 0;

		if (claimant->cap != cap)
			continue;
		set_counted(claimant, claimant->needed < space ? claimant->needed : space);
		has += claimant->counted;
	}
}

/* The pool has one server more or less. */
static void count_needed_again(const struct tally *pool)
{
	TAILQ_EACH (claimant, &pool->claims, nodes[OF_POOL])
		count_needed(pool, claimant->cap);
}

/* ---- queues ---- */

static void leave(struct claimant *claimant)
{
	const struct broker_member *here = claimant->pool->member;
	struct tally *cap = claimant->cap;

	if (!cap)
		return;
	set_counted(claimant, 0);
	count_blocked(claimant, -1);
	claimant->cap = NULL;
	claimant->needed = claimant->told = 0;
	claimant->needs_more = claimant->is_favoured = false;
	heap_remove(&cap->queue, &claimant->node);
	for (int i = 0; i < OWNERS; i++)
		TAILQ_REMOVE(&claimant->of[i]->claims, claimant, nodes[i]);
	count_needed(claimant->of[OF_POOL], cap);
	call_first(cap, here);
	/* Idle servers of it, which it wanted itself, may leave for others. */
	if (tally_is_short(cap))
		broker_post_others(cap, NULL);
}

void permit_leave_queue(struct claimant *claimant)
{
	if (!claimant->cap)
		return;
	LOCKED(&claimant->cap->broker->lock);
	leave(claimant);
}

/* Without memory it is in no queue. */
static void wait_for(const struct permit_ask *ask, struct tally *cap)
{
	struct claimant *claimant = ask->claimant;

	if (claimant->cap != cap) {
		leave(claimant);
		if (!claimant->node.order)
			claimant->node.order = ++cap->broker->last_claim;
		claimant->node.key = rank_of(claimant);
		if (!heap_add(&cap->queue, &claimant->node))
			return;
		claimant->cap = cap;
		for (int i = 0; i < OWNERS; i++)
			TAILQ_INSERT_TAIL(&claimant->of[i]->claims, claimant, nodes[i]);
		count_blocked(claimant, 1);
	}
	claimant->needed = ask->needed;
	claimant->most = ask->most;
	count_needed(claimant->of[OF_POOL], cap);
	claimant->needs_more |= claimant->counted > claimant->told;
	claimant->told = claimant->counted;
	call_first(cap, claimant->pool->member);
}

#define MARGIN_PART \
	10 /* of what PostgreSQL grants: for sessions that are not over yet, and others */
#define MARGIN_LEAST 3
#define UNKNOWN_MORE 4

static void set_auto(struct share *host)
{
	struct tally *tally = host->tally;
	unsigned int granted = tally->granted, margin = granted / MARGIN_PART;

	if (margin < MARGIN_LEAST)
		margin = MARGIN_LEAST;
	if (granted)
		tally->most = granted > margin ? granted - margin : 1;
	else if (!tally->is_auto)
		tally->most = tally->server_count + UNKNOWN_MORE;
	tally->is_auto = true;
	call_first(tally, host->member);
}

void permit_set_limit(struct share *cap, int limit, int guaranteed)
{
	LOCKED(&cap->member->broker->lock);
	cap->tally->guaranteed = (unsigned int)guaranteed;
	if (limit == CONFIG_CAP_AUTO) {
		set_auto(cap);
		return;
	}
	cap->tally->most = limit > 0 ? (unsigned int)limit : 0;
	cap->tally->is_auto = false;
	call_first(cap->tally, cap->member);
}

bool permit_note_granted(struct share *host, unsigned int granted)
{
	LOCKED(&host->member->broker->lock);

	if (!host->tally->is_auto || host->tally->granted == granted)
		return false;
	host->tally->granted = granted;
	set_auto(host);
	return true;
}

bool permit_yields(struct share *cap, const struct claimant *from, usec_t age)
{
	const struct tally *tally = cap->tally;

	LOCKED(&cap->member->broker->lock);
	struct claimant *first = first_of(tally);

	if (!first || tally->leaving_count >= tally->blocked_count || !takes_from(first, from, age))
		return false;
	/* Without this server, its owners may be owed one at once, and others not yet. */
	first->is_favoured = true;
	rank_again(first);
	return true;
}

bool permit_begin_eviction(struct share *cap)
{
	LOCKED(&cap->member->broker->lock);
	bool is_short = tally_is_short(cap->tally);

	if (is_short)
		atomic_fetch_add(&cap->tally->leaving_count, 1);
	return is_short;
}

void permit_end_eviction(struct share *cap)
{
	LOCKED(&cap->member->broker->lock);
	atomic_fetch_sub(&cap->tally->leaving_count, 1);
	if (tally_is_short(cap->tally))
		broker_post_others(cap->tally, cap->member);
}

/* ---- permits ---- */

static void count(const struct permit *permit, int servers, int leaving)
{
	for (int i = 0; i < PERMIT_TALLIES; i++) {
		struct tally *tally = permit->of[i];

		if (!tally)
			continue;
		tally->server_count += (unsigned int)servers;
		tally->leaving_count += (unsigned int)leaving;
	}
}

void permit_count_leaving(const struct permit *permit, int change) { count(permit, 0, change); }

/* Whether the claim of another pool comes before. */
static bool is_passed(const struct tally *cap, const struct claimant *claimant)
{
	const struct claimant *first = first_of(cap);
	uint64_t order = claimant->node.order, rank;

	if (!first || first == claimant)
		return false;
	rank = rank_of(claimant);
	return first->node.key != rank ? first->node.key < rank
	                               : !order || first->node.order < order;
}

static enum permit_answer judge(const struct permit_ask *ask)
{
	struct tally *const *of = ask->permit.of;

	if (of[OF_POOL] && of[OF_POOL]->server_count >= ask->most)
		return PERMIT_POOL_FULL;
	for (unsigned int i = OF_CAPS; i < PERMIT_TALLIES; i++) {
		if (of[i] && is_full(of[i]))
			return PERMIT_CAP_FULL + i - OF_CAPS;
	}
	for (unsigned int i = OF_CAPS; i < PERMIT_TALLIES; i++) {
		if (of[i] && of[i]->most && is_passed(of[i], ask->claimant))
			return PERMIT_PASSED + i - OF_CAPS;
	}
	return PERMIT_GRANTED;
}

static void grant(const struct permit *permit)
{
	count(permit, 1, 0);
	if (permit->of[OF_POOL])
		count_needed_again(permit->of[OF_POOL]);
	for (int i = 0; i < PERMIT_TALLIES; i++) {
		if (permit->of[i])
			permit->of[i]->owner_count++;
	}
}

enum permit_answer permit_take(const struct permit_ask *ask, const struct broker_member *here)
{
	LOCKED(&here->broker->lock);
	struct claimant *claimant = ask->claimant;
	enum permit_answer answer;

	claimant->is_spare = ask->is_spare;
	if (claimant->cap)
		rank_again(claimant);
	answer = judge(ask);
	if (answer == PERMIT_GRANTED)
		grant(&ask->permit);
	if (answer == PERMIT_GRANTED && ask->waits)
		leave(claimant);
	else if (answer >= PERMIT_CAP_FULL && ask->waits)
		wait_for(ask, ask->permit.of[OF_CAPS + (answer - PERMIT_CAP_FULL) % CAPS]);
	return answer;
}

void permit_add(const struct permit *permit, const struct broker_member *here)
{
	struct tally *host = permit->of[OF_HOST];

	LOCKED(&here->broker->lock);
	grant(permit);
	if (host && host->is_auto && !host->granted)
		host->most++;
}

static struct broker *broker_of(const struct permit *permit)
{
	for (int i = 0; i < PERMIT_TALLIES; i++) {
		if (permit->of[i])
			return permit->of[i]->broker;
	}
	return NULL;
}

void permit_give(struct permit *permit, const struct broker_member *here)
{
	struct permit given = permit_move(permit);
	struct broker *broker = broker_of(&given);

	if (!broker)
		return;
	LOCKED(&broker->lock);
	count(&given, -1, 0);
	note_fewer(&given);
	if (given.of[OF_POOL]) {
		count_needed_again(given.of[OF_POOL]);
		broker_wake_wanting(given.of[OF_POOL], here);
	}
	for (int i = 0; i < PERMIT_TALLIES; i++) {
		if (!given.of[i])
			continue;
		call_first(given.of[i], here); /* of a pool: nobody is in its queue */
		broker_drop_tally(given.of[i]);
	}
}
