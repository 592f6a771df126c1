/* SPDX-License-Identifier: ISC */
/*
 * The broker itself, and permits: see broker.h.
 */
#include "broker_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"

/* ---- members ---- */

struct broker *broker_new(unsigned int loops, struct err *err)
{
	struct broker *broker = calloc(1, sizeof(*broker));

	if (!broker) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	lock_init(&broker->lock);
	hash_key_draw(&broker->secret);
	reach_init(&broker->reach);
	broker->loop_count = loops;
	return broker;
}

void broker_free(struct broker **broker)
{
	if (!*broker)
		return;
	assert(!(*broker)->tallies && (*broker)->member_count == 0);
	reach_done(&(*broker)->reach);
	clusters_done(*broker);
	pthread_mutex_destroy(&(*broker)->lock);
	free(*broker);
	*broker = NULL;
}

static struct share *next_woken(struct broker_member *member)
{
	struct share *share;

	pthread_mutex_lock(&member->broker->lock);
	share = TAILQ_FIRST(&member->woken);
	if (share) {
		TAILQ_REMOVE(&member->woken, share, woken_node);
		share->is_woken = false;
	}
	pthread_mutex_unlock(&member->broker->lock);
	return share;
}

static void wake_shares(struct broker_member *member)
{
	struct share *share;

	pthread_mutex_lock(&member->broker->lock);
	member->is_posted = false;
	pthread_mutex_unlock(&member->broker->lock);
	while ((share = next_woken(member)))
		share->on_woken(share);
}

static void on_letter(struct letter *letter)
{
	if (!letter->is_late)
		wake_shares(container_of(letter, struct broker_member, letter));
}

static void on_task(struct task *task)
{
	wake_shares(container_of(task, struct broker_member, task));
}

void broker_join(struct broker *broker, struct broker_member *member, struct loop *loop)
{
	member->broker = broker;
	member->loop = loop;
	member->letter.open = on_letter;
	member->task.run = on_task;
	TAILQ_INIT(&member->woken);
	pthread_mutex_lock(&broker->lock);
	broker->member_count++;
	pthread_mutex_unlock(&broker->lock);
}

void broker_leave(struct broker_member *member)
{
	struct broker *broker = member->broker;

	if (!broker)
		return;
	pthread_mutex_lock(&broker->lock);
	assert(TAILQ_EMPTY(&member->woken));
	broker->member_count--;
	pthread_mutex_unlock(&broker->lock);
	loop_take_back(member->loop, &member->letter);
	loop_undefer(member->loop, &member->task);
	member->broker = NULL;
}

/* ---- ids ---- */

uint64_t broker_next_id(struct broker *broker)
{
	return atomic_fetch_add_explicit(&broker->last_id, 1, memory_order_relaxed) + 1;
}

void broker_skip_ids(struct broker *broker, uint64_t last)
{
	uint_fast64_t before = atomic_load(&broker->last_id);

	while (before < last && !atomic_compare_exchange_weak(&broker->last_id, &before, last))
		continue;
}

uint64_t broker_last_id(const struct broker *broker)
{
	return atomic_load_explicit(&broker->last_id, memory_order_relaxed);
}

/* ---- servers in letters ---- */

void broker_count_moving(struct broker *broker, int change)
{
	atomic_fetch_add(&broker->moving_count, (unsigned int)change);
}

bool broker_is_moving(const struct broker *broker)
{
	return atomic_load(&broker->moving_count) > 0;
}

/* ---- max_client_conn ---- */

bool broker_admit(struct broker *broker, unsigned int most)
{
	return broker_count_below(&broker->admitted_count, most);
}

void broker_release_admission(struct broker *broker)
{
	atomic_fetch_sub_explicit(&broker->admitted_count, 1, memory_order_relaxed);
}

unsigned int broker_admitted(const struct broker *broker)
{
	return atomic_load_explicit(&broker->admitted_count, memory_order_relaxed);
}

/* ---- servers ---- */

static bool is_below(const struct share *share, unsigned int most)
{
	return share_servers(share) < most;
}

static void count_server(const struct permit_ask *ask, int change)
{
	unsigned int number = (unsigned int)change;

	if (ask->pool)
		atomic_fetch_add_explicit(&ask->pool->tally->server_count, number,
		                          memory_order_relaxed);
	for (int i = 0; i < CAPS; i++) {
		if (ask->caps[i])
			atomic_fetch_add_explicit(&ask->caps[i]->tally->server_count, number,
			                          memory_order_relaxed);
	}
}

static struct broker *broker_of(const struct permit_ask *ask)
{
	const struct share *share = ask->pool;

	for (int i = 0; !share; i++)
		share = ask->caps[i];
	return share->member->broker;
}

/* Whether the claim of another pool comes before. There are as many wants as loops at most. */
static bool is_passed(const struct share *share, const struct claim *claim)
{
	const struct share *other;

	TAILQ_FOREACH (other, &share->tally->wants, want_node) {
		struct claim first = share_claim(other);

		if (claim_is_before(&first, claim))
			return true;
	}
	return false;
}

static enum permit judge(const struct permit_ask *ask)
{
	if (ask->pool && !is_below(ask->pool, ask->pool_most))
		return PERMIT_POOL_FULL;
	for (unsigned int i = 0; i < CAPS; i++) {
		if (ask->caps[i] && !is_below(ask->caps[i], ask->most[i]))
			return PERMIT_CAP_FULL + i;
	}
	for (unsigned int i = 0; i < CAPS; i++) {
		if (ask->caps[i] && ask->most[i] != PERMIT_NO_LIMIT &&
		    is_passed(ask->caps[i], &ask->claim))
			return PERMIT_PASSED + i;
	}
	return PERMIT_GRANTED;
}

enum permit broker_take(const struct permit_ask *ask)
{
	struct broker *broker = broker_of(ask);
	enum permit permit;

	pthread_mutex_lock(&broker->lock);
	permit = judge(ask);
	if (permit == PERMIT_GRANTED)
		count_server(ask, 1);
	pthread_mutex_unlock(&broker->lock);
	return permit;
}

void broker_give(const struct permit_ask *ask)
{
	struct broker *broker = broker_of(ask);

	pthread_mutex_lock(&broker->lock);
	count_server(ask, -1);
	pthread_mutex_unlock(&broker->lock);
	if (ask->pool)
		share_wake_first(ask->pool);
	for (int i = 0; i < CAPS; i++) {
		if (ask->caps[i])
			share_wake_first(ask->caps[i]);
	}
}

/* ---- on the way from one loop to another ---- */

static struct tally *pack(const struct share *share)
{
	if (!share)
		return NULL;
	share->tally->owner_count++;
	return share->tally;
}

void broker_pack_permit(const struct permit_ask *ask, struct packed_permit *packed)
{
	struct broker *broker = broker_of(ask);

	pthread_mutex_lock(&broker->lock);
	*packed = (struct packed_permit){ .broker = broker, .pool = pack(ask->pool) };
	for (int i = 0; i < CAPS; i++)
		packed->caps[i] = pack(ask->caps[i]);
	pthread_mutex_unlock(&broker->lock);
}

static void unpack(const struct packed_permit *packed, struct tally *tally, bool has_server)
{
	if (!tally)
		return;
	if (!has_server) {
		atomic_fetch_sub_explicit(&tally->server_count, 1, memory_order_relaxed);
		share_post_all(tally); /* who was promised the server does not want any more */
	}
	share_drop_tally(packed->broker, tally);
}

void broker_unpack_permit(struct packed_permit *packed, bool has_server)
{
	struct broker *broker = packed->broker;

	if (!broker)
		return;
	pthread_mutex_lock(&broker->lock);
	unpack(packed, packed->pool, has_server);
	for (int i = 0; i < CAPS; i++)
		unpack(packed, packed->caps[i], has_server);
	pthread_mutex_unlock(&broker->lock);
	*packed = (struct packed_permit){ 0 };
}

void broker_keep_promise(const struct packed_permit *packed, struct broker_member *to)
{
	pthread_mutex_lock(&packed->broker->lock);
	share_settle_promise(packed->pool, to);
	pthread_mutex_unlock(&packed->broker->lock);
}
