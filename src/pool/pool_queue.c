/* SPDX-License-Identifier: ISC */
/*
 * The wait queue for servers: how long it may become (max_waiting, queue_target).
 *
 * A client is refused at once if the queue is full. One that waits is refused only while the queue
 * stands (shed.h), and then the newest first: those in front have waited for most of their time.
 * But one that has waited for too long is refused as well.
 */
#include "pool_priv.h"

#include "pgweir/base/container_of.h"

static usec_t now_in(const struct pool *pool) { return loop_now(pool_loop(pool)); }

/* How long the queue is, and how long the first of it has waited. */
static void refuse(const struct pool *pool, enum close_reason reason, const char *counted,
                   unsigned int waiting, struct err *err)
{
	usec_t wait = pool_longest_wait(pool, now_in(pool));
	struct buf detail = { 0 };

	buf_printf(&detail, "%u clients wait %s; the first of %s/%s has waited %.3f s", waiting,
	           counted, pool->database->name, pool->role->name, (double)wait / USEC_PER_SEC);
	pool_tell_pins(pool, &detail);
	buf_add_text(&detail, ".");
	err_close(err, reason);
	err_detail(err, buf_ok(&detail) ? buf_text(&detail) : "");
	buf_free(&detail);
}

/* The clients that are refused mostly stay connected: the log has one line for all of them. */
static void note_met(struct pool *pool, const struct share *share, const char *limit, int value,
                     const char *counted)
{
	const struct limit_event event = {
		.limit = limit,
		.value = value,
		.counted = counted,
		.database = share == &pool->role->cap.share ? NULL : pool->database->name,
		.user = share == &pool->database->cap.share ? NULL : pool->role->name,
	};

	limit_event_note(&share->tally->queue_met, now_in(pool), pool->log.log, &event);
}

/* Whether so many wait there that nobody else may; then *err has the reason. */
static bool is_full(struct pool *pool, const struct share *share, int most, const char *counted,
                    struct err *err)
{
	unsigned int waiting = most > 0 ? share_waiting(share) : 0;

	if (most <= 0 || waiting < (unsigned int)most)
		return false;
	pool->queue_hits++;
	note_met(pool, share, "max_waiting", most, "the clients that wait");
	refuse(pool, CLOSE_QUEUE_FULL, counted, waiting, err);
	return true;
}

static int most_of_database(const struct pool *pool)
{
	return pool->database->entry ? pool->database->entry->max_waiting : 0;
}

static int most_of_user(const struct pool *pool)
{
	return pool->role->entry ? pool->role->entry->max_waiting : 0;
}

/* How long the first of this loop has waited for a server, and not for the end of a PAUSE. */
static usec_t wait_of_first(const struct pool *pool)
{
	const struct borrower *first = pool_first(pool, BORROWER_WAITING);
	usec_t since = pool->shed.began_at;

	if (first && first->waiting_since > since)
		since = first->waiting_since;
	return first ? now_in(pool) - since : 0;
}

/* So many of this loop wait, or would. */
static struct shed_queue queue_of(const struct pool *pool, unsigned int waiting)
{
	unsigned int servers = pool_shared_count(pool);

	return (struct shed_queue){ .waiting = waiting,
		                    .least = servers ? servers : 1,
		                    .wait = wait_of_first(pool),
		                    .now = now_in(pool) };
}

/* Whether one of so many of this loop is to be refused. */
static bool refuses(const struct pool *pool, unsigned int waiting)
{
	struct shed_queue queue;

	if (!pool->shed.is_shedding)
		return false;
	queue = queue_of(pool, waiting);
	return shed_refuses(&pool->shed, &pool->limits.shed, &queue);
}

static void note_shed(struct pool *pool)
{
	note_met(pool, &pool->share, "queue_target", (int)(pool->limits.shed.target / USEC_PER_MS),
	         "the wait in ms");
	shed_refuse(&pool->shed, now_in(pool));
	pool->shed_count++;
}

bool pool_admits(struct pool *pool, struct err *err)
{
	if (is_full(pool, &pool->share, pool->limits.max_waiting, "in this pool", err) ||
	    is_full(pool, &pool->database->cap.share, most_of_database(pool), "for the database",
	            err) ||
	    is_full(pool, &pool->role->cap.share, most_of_user(pool), "for the user", err))
		return false;
	if (!refuses(pool, pool->queues[BORROWER_WAITING].count + 1))
		return true;
	note_shed(pool);
	refuse(pool, CLOSE_SHED, "in this pool", pool->queues[BORROWER_WAITING].count, err);
	return false;
}

static void on_look(struct timer *timer) { pool_wake(container_of(timer, struct pool, look)); }

static struct borrower *newest(const struct pool *pool)
{
	const struct fair_member *last = pool->fair ? fair_last(pool->fair) : NULL;

	return last ? last->borrower
	            : TAILQ_LAST(&pool->queues[BORROWER_WAITING].list, borrower_list);
}

static void refuse_waiting(struct pool *pool, struct borrower *borrower)
{
	struct err err;

	refuse(pool, CLOSE_SHED, "in this pool", pool->queues[BORROWER_WAITING].count, &err);
	note_shed(pool);
	pool_give_up(borrower);
	borrower->ops->on_refused(borrower, &err);
}

void pool_shed_late(struct pool *pool)
{
	const struct wait_queue *waiting = &pool->queues[BORROWER_WAITING];
	struct shed_queue queue;

	while (pool->shed.is_shedding && !pool_is_held(pool) && waiting->count) {
		queue = queue_of(pool, waiting->count);
		if (!shed_is_late(&pool->shed, &pool->limits.shed, &queue))
			return;
		refuse_waiting(pool, TAILQ_FIRST(&waiting->list));
	}
}

/* PAUSE and SUSPEND are deliberate: what waits for their end is not too much. */
void pool_shed(struct pool *pool)
{
	const struct wait_queue *waiting = &pool->queues[BORROWER_WAITING];
	const struct shed_rule *rule = &pool->limits.shed;
	usec_t now = now_in(pool);

	if (pool_is_held(pool)) {
		pool->shed = (struct shed){ .is_held = true };
		return;
	}
	if (pool->shed.is_held)
		pool->shed = (struct shed){ .began_at = now };
	shed_look(&pool->shed, rule, now, wait_of_first(pool));
	while (refuses(pool, waiting->count))
		refuse_waiting(pool, newest(pool));
	if ((waiting->count || pool->shed.is_shedding) && !timer_is_set(&pool->look))
		timer_set(
		    &pool->look,
		    loop_timer_queue(pool_loop(pool),
		                     rule->target < rule->interval ? rule->target : rule->interval,
		                     on_look),
		    now);
}
