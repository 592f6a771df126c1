/* SPDX-License-Identifier: ISC */
/*
 * The wait queue for servers: how long it may become (max_waiting, queue_target).
 *
 * A client is refused at once if the queue is full. One that waits is refused only while the queue
 * stands (shed.h), and then the newest first: those in front have waited for most of their time.
 * But one that has waited for too long is refused as well.
 */
#include "pool_priv.h"

/* How long the queue is, and how long the first of it has waited. */
static void refuse(const struct pool *pool, enum close_reason reason, const char *counted,
                   unsigned int waiting, struct err *err)
{
	usec_t wait = pool_longest_wait(pool, pool_now(pool));
	struct buf detail = { 0 };

	buf_printf(&detail, "%u clients wait %s; the first of %s/%s has waited %.3f s", waiting,
	           counted, pool->database->name, pool->role->name, (double)wait / USEC_PER_SEC);
	pool_tell_pins(pool, &detail);
	buf_add_text(&detail, ".");
	err_close(err, reason);
	err_detail_take(err, &detail);
}

/* Where max_waiting applies. */
struct counted_in {
	struct share *share;
	uint64_t *hits;
	int most; /* 0: no limit */
	const char *where;
};

/* The clients that are refused mostly stay connected: the log has one line for all of them. */
static void note_full(struct pool *pool, const struct counted_in *in)
{
	const struct limit_event event = {
		.limit = "max_waiting",
		.value = in->most,
		.counted = "the clients that wait",
		.database = in->share == &pool->role->cap.share ? NULL : pool->database->name,
		.user = in->share == &pool->database->cap.share ? NULL : pool->role->name,
	};

	limit_event_note(&in->share->tally->queue_met, pool_now(pool), pool->log.log, &event);
	++*in->hits;
}

/* Whether so many wait there that nobody else may; then *err has the reason. */
static bool is_full(struct pool *pool, const struct counted_in *in, struct err *err)
{
	unsigned int waiting = in->most > 0 ? share_waiting(in->share) : 0;

	if (in->most <= 0 || waiting < (unsigned int)in->most)
		return false;
	note_full(pool, in);
	refuse(pool, CLOSE_QUEUE_FULL, in->where, waiting, err);
	return true;
}

/* How long the first of this loop has waited for a server, and not for the end of a PAUSE. */
static usec_t wait_of_first(const struct pool *pool)
{
	const struct borrower *first = pool_first(pool, BORROWER_WAITING);
	usec_t since = pool->shed.began_at;

	if (first && first->waiting_since > since)
		since = first->waiting_since;
	return first ? pool_now(pool) - since : 0;
}

/* So many of this loop wait, or would. */
static struct shed_queue queue_of(const struct pool *pool, unsigned int waiting)
{
	unsigned int servers = pool_shared_count(pool);

	return (struct shed_queue){ .waiting = waiting,
		                    .least = servers ? servers : 1,
		                    .wait = wait_of_first(pool),
		                    .now = pool_now(pool) };
}

/* Whether one of so many of this loop is to be refused. */
static bool refuses(const struct pool *pool, unsigned int waiting)
{
	struct shed_queue queue;

	if (pool->shed.phase != SHED_REFUSES)
		return false;
	queue = queue_of(pool, waiting);
	return shed_refuses(&pool->shed, &pool->limits.shed, &queue);
}

static void note_shed(struct pool *pool)
{
	const struct limit_event event = {
		.limit = "queue_target",
		.value = (int)(pool->limits.shed.target / USEC_PER_MS),
		.counted = "the wait in ms",
		.database = pool->database->name,
		.user = pool->role->name,
	};

	limit_event_note(&pool->share.tally->shed_met, pool_now(pool), pool->log.log, &event);
	shed_refuse(&pool->shed, pool_now(pool));
	pool->shed_count++;
}

bool pool_admits(struct pool *pool, bool may_be_shed, struct err *err)
{
	struct cap *database = &pool->database->cap, *role = &pool->role->cap;
	const struct config_database *entry = pool->database->entry;
	const struct config_user *user = pool->role->entry;
	const struct counted_in counted[] = {
		{ &pool->share, &pool->queue_hits, pool->limits.max_waiting, "in this pool" },
		{ &database->share, &database->queue_hits, entry ? entry->max_waiting : 0,
		  "for the database" },
		{ &role->share, &role->queue_hits, user ? user->max_waiting : 0, "for the user" },
	};

	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		if (is_full(pool, &counted[i], err))
			return false;
	}
	/* Another one may have to leave for it. */
	if ((pool->fair && may_be_shed) || !refuses(pool, pool->queues[BORROWER_WAITING].count + 1))
		return true;
	note_shed(pool);
	refuse(pool, CLOSE_SHED, "in this pool", pool->queues[BORROWER_WAITING].count, err);
	return false;
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

	while (waiting->count && !pool_is_held(pool)) {
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
	usec_t now = pool_now(pool);

	if (pool_is_held(pool)) {
		pool->shed = (struct shed){ .phase = SHED_IS_HELD };
		return;
	}
	if (pool->shed.phase == SHED_IS_HELD)
		pool->shed = (struct shed){ .began_at = now };
	shed_look(&pool->shed, rule, now, wait_of_first(pool));
	while (refuses(pool, waiting->count)) {
		const struct fair_member *last = pool->fair ? fair_last(pool->fair) : NULL;

		refuse_waiting(pool,
		               last ? last->borrower : TAILQ_LAST(&waiting->list, borrower_list));
	}
	if (waiting->count || pool->shed.phase == SHED_REFUSES)
		pool_wake_after(pool, now,
		                rule->target < rule->interval ? rule->target : rule->interval);
}
