/* SPDX-License-Identifier: ISC */
/*
 * How long a wait queue may become: max_waiting, queue_target.
 *
 * Who comes when the queue is full is refused at once. Who waits is refused only while the queue
 * stands (shed.h), and then the newest first: those in front have waited for most of their time.
 */
#include "pool_priv.h"

#include <stdio.h>

#include "pgweir/base/container_of.h"

static usec_t now_in(const struct pool *pool) { return loop_now(pool_loop(pool)); }

/* How long the queue is, and how long the first of it has waited. */
static bool refuse(const struct pool *pool, enum close_reason reason, const char *counted,
                   unsigned int waiting, struct err *err)
{
	usec_t wait = pool_longest_wait(pool, now_in(pool));
	char detail[ERR_DETAIL_SIZE];

	snprintf(detail, sizeof(detail),
	         "%u clients wait %s; the first of %s/%s has waited %.3f s.", waiting, counted,
	         pool->database->name, pool->role->name, (double)wait / USEC_PER_SEC);
	err_close(err, reason);
	return err_detail(err, detail);
}

static bool is_full(const struct share *share, int most, unsigned int *waiting)
{
	if (most <= 0)
		return false;
	*waiting = share_waiting(share);
	return *waiting >= (unsigned int)most;
}

static int most_of_database(const struct pool *pool)
{
	return pool->database->entry ? pool->database->entry->max_waiting : 0;
}

static int most_of_user(const struct pool *pool)
{
	return pool->role->entry ? pool->role->entry->max_waiting : 0;
}

/* While the queue is shed: how many of this loop may wait. */
static unsigned int room(const struct pool *pool)
{
	unsigned int servers = pool_shared_count(pool);

	return shed_room(&pool->shed, &pool->limits.shed, servers ? servers : 1);
}

static void note_shed(struct pool *pool)
{
	shed_refuse(&pool->shed, now_in(pool));
	pool->shed_count++;
}

bool pool_admits(struct pool *pool, struct err *err)
{
	unsigned int waiting;

	if (is_full(&pool->share, pool->limits.max_waiting, &waiting)) {
		pool->queue_hits++;
		return refuse(pool, CLOSE_QUEUE_FULL, "in this pool", waiting, err);
	}
	if (is_full(&pool->database->cap.share, most_of_database(pool), &waiting)) {
		pool->queue_hits++;
		return refuse(pool, CLOSE_QUEUE_FULL, "for the database", waiting, err);
	}
	if (is_full(&pool->role->cap.share, most_of_user(pool), &waiting)) {
		pool->queue_hits++;
		return refuse(pool, CLOSE_QUEUE_FULL, "for the user", waiting, err);
	}
	if (pool->shed.is_shedding && pool->waiting_count >= room(pool)) {
		note_shed(pool);
		return refuse(pool, CLOSE_SHED, "in this pool", pool->waiting_count, err);
	}
	return true;
}

static void on_look(struct timer *timer) { pool_wake(container_of(timer, struct pool, look)); }

static void refuse_newest(struct pool *pool)
{
	struct borrower *borrower = TAILQ_LAST(&pool->waiting, borrower_list);
	struct err err;

	refuse(pool, CLOSE_SHED, "in this pool", pool->waiting_count, &err);
	note_shed(pool);
	pool_give_up(borrower);
	borrower->ops->on_refused(borrower, &err);
}

/* PAUSE and SUSPEND are deliberate: what waits for their end is not too much. */
void pool_shed(struct pool *pool)
{
	const struct shed_rule *rule = &pool->limits.shed;
	const struct borrower *first = TAILQ_FIRST(&pool->waiting);
	usec_t now = now_in(pool);

	if (pool_is_held(pool)) {
		pool->shed = (struct shed){ 0 };
		return;
	}
	shed_look(&pool->shed, rule, now, first ? now - first->waiting_since : 0);
	while (pool->shed.is_shedding && pool->waiting_count > room(pool))
		refuse_newest(pool);
	if ((first || pool->shed.is_shedding) && !timer_is_set(&pool->look))
		timer_set(
		    &pool->look,
		    loop_timer_queue(pool_loop(pool),
		                     rule->target < rule->interval ? rule->target : rule->interval,
		                     on_look),
		    now);
}
