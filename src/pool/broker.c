/* SPDX-License-Identifier: ISC */
/* The broker itself: see broker.h. */
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
	LOCKED(&member->broker->lock);
	struct share *share = TAILQ_FIRST(&member->woken);

	if (share) {
		TAILQ_REMOVE(&member->woken, share, woken_node);
		share->is_woken = false;
	}
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

void broker_post_woken(struct share *share)
{
	struct broker_member *member = share->member;

	assert_locked(&share->member->broker->lock);
	if (share->is_woken)
		return;
	share->is_woken = true;
	TAILQ_INSERT_TAIL(&member->woken, share, woken_node);
	if (member->is_posted)
		return;
	member->is_posted = true;
	if (member->broker->loop_count < 2)
		loop_defer(member->loop, &member->task); /* sooner than a letter */
	else
		loop_post(member->loop, &member->letter);
}

void broker_post_others(const struct tally *tally, const struct broker_member *except)
{
	struct share *share;

	TAILQ_FOREACH (share, &tally->shares, node) {
		if (share->member != except)
			broker_post_woken(share);
	}
}

void broker_join(struct broker *broker, struct broker_member *member, struct loop *loop)
{
	member->broker = broker;
	member->loop = loop;
	member->letter.open = on_letter;
	member->task.run = on_task;
	TAILQ_INIT(&member->woken);
	LOCKED(&broker->lock);
	broker->member_count++;
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

void broker_skip_ids(struct broker *broker, uint64_t last)
{
	uint_fast64_t before = atomic_load(&broker->last_id);

	while (before < last && !atomic_compare_exchange_weak(&broker->last_id, &before, last))
		continue;
}
