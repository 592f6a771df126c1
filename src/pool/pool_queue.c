/* SPDX-License-Identifier: ISC */
/*
 * The wait queue for servers: how long it may become (max_waiting, queue_target), and between whom
 * the servers are shared (fair_by, priority).
 *
 * A client is refused at once if the queue is full. One that waits is refused only while the queue
 * stands (shed.h), and then the newest first: those in front have waited for most of their time.
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
	pool_wait_tell_pins(pool, &detail);
	buf_add_text(&detail, ".");
	err_close(err, reason);
	err_detail(err, buf_ok(&detail) ? buf_text(&detail) : "");
	buf_free(&detail);
}

/* Whether so many wait there that nobody else may; then *err has the reason. */
static bool is_full(struct pool *pool, const struct share *share, int most, const char *counted,
                    struct err *err)
{
	unsigned int waiting = most > 0 ? share_waiting(share) : 0;

	if (most <= 0 || waiting < (unsigned int)most)
		return false;
	pool->queue_hits++;
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

/* How long the first of this loop has waited. */
static usec_t wait_of_first(const struct pool *pool)
{
	const struct borrower *first = TAILQ_FIRST(&pool->waiting);

	return first ? now_in(pool) - first->waiting_since : 0;
}

/* Whether one of so many of this loop is to be refused. */
static bool refuses(const struct pool *pool, unsigned int waiting)
{
	unsigned int servers = pool_shared_count(pool);

	return shed_refuses(&pool->shed, &pool->limits.shed, waiting, servers ? servers : 1,
	                    wait_of_first(pool));
}

static void note_shed(struct pool *pool)
{
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
	if (!refuses(pool, pool->waiting_count + 1))
		return true;
	note_shed(pool);
	refuse(pool, CLOSE_SHED, "in this pool", pool->waiting_count, err);
	return false;
}

static void on_look(struct timer *timer) { pool_wake(container_of(timer, struct pool, look)); }

static struct borrower *newest(const struct pool *pool)
{
	const struct fair_member *last = pool->fair ? fair_last(pool->fair) : NULL;

	return last ? last->borrower : TAILQ_LAST(&pool->waiting, borrower_list);
}

static void refuse_newest(struct pool *pool)
{
	struct borrower *borrower = newest(pool);
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
	usec_t now = now_in(pool);

	if (pool_is_held(pool)) {
		pool->shed = (struct shed){ 0 };
		return;
	}
	shed_look(&pool->shed, rule, now, wait_of_first(pool));
	while (refuses(pool, pool->waiting_count))
		refuse_newest(pool);
	if ((pool->waiting_count || pool->shed.is_shedding) && !timer_is_set(&pool->look))
		timer_set(
		    &pool->look,
		    loop_timer_queue(pool_loop(pool),
		                     rule->target < rule->interval ? rule->target : rule->interval,
		                     on_look),
		    now);
}

/* ---- shares ---- */

static struct fair_who who_of(const struct borrower *borrower, struct buf *name)
{
	struct fair_who who = { .weight = 1, .priority = PRIORITY_NORMAL };

	buf_clear(name);
	if (borrower->ops->tell_group)
		borrower->ops->tell_group(borrower, &who, name);
	who.name = buf_bytes(name); /* without memory, it is in a group of those without a name */
	return who;
}

void pool_fair_wait(struct borrower *borrower, bool is_first)
{
	struct pool *pool = borrower->pool;
	struct fair_who who = who_of(borrower, &pool->pools->group_text);
	struct fair_member *member = fair_member(pool->fair, borrower);

	if (member)
		fair_wait(pool->fair, member, &who, is_first);
}

void pool_fair_leave(struct borrower *borrower)
{
	struct fair_member *member = fair_find(borrower->pool->fair, borrower);

	if (member)
		fair_leave(borrower->pool->fair, member);
}

void pool_fair_lend(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct fair_who who = who_of(borrower, &pool->pools->group_text);
	struct fair_member *member = fair_member(pool->fair, borrower);

	if (member)
		fair_lend(pool->fair, member, &who, now_in(pool));
}

void pool_fair_part(struct pool *pool, const struct borrower *borrower, const struct server *server)
{
	struct fair_member *member = fair_find(pool->fair, borrower);

	if (member)
		fair_return(pool->fair, member, now_in(pool) - server->lease.lent_at);
}

bool pool_fair_passes(const struct borrower *borrower)
{
	const struct pool *pool = borrower->pool;
	const struct fair_member *member, *next;

	if (!pool->fair || borrower->state != BORROWER_WAITING || pool_is_choosy(pool))
		return false;
	member = fair_find(pool->fair, borrower);
	next = fair_next(pool->fair, now_in(pool));
	return member && next && next->group != member->group &&
	       next->borrower->wait_number > borrower->wait_number;
}

void pool_fair_tell(const struct pool *pool, struct buf *out)
{
	const struct fair_member *next = fair_next(pool->fair, now_in(pool));

	if (!next)
		return;
	next->borrower->ops->tell_who(next->borrower, out);
	buf_add_text(out, " has come later and is served before: SHOW SHARES");
}

static void drop_shares(struct pool *pool)
{
	struct borrower *borrower;

	TAILQ_FOREACH (borrower, &pool->members, node) {
		if (borrower->state == BORROWER_SERVED)
			pool_fair_part(pool, borrower, borrower->server);
		else
			pool_fair_leave(borrower);
	}
	fair_free(&pool->fair);
}

void pool_fair_configure(struct pool *pool)
{
	enum fair_by by = pool->pools->config->fair_by;
	bool is_wanted = pool->purpose != POOL_FOR_LOOKUPS &&
	                 (by != FAIR_BY_NONE || pool->pools->has_priorities);
	struct borrower *borrower;

	if (is_wanted == (pool->fair != NULL) && by == pool->fair_by)
		return;
	if (pool->fair)
		drop_shares(pool);
	pool->fair_by = by;
	if (is_wanted)
		pool->fair = fair_new(); /* without memory: first come, first served */
	if (!pool->fair)
		return;
	TAILQ_FOREACH (borrower, &pool->waiting, wait_node)
		pool_fair_wait(borrower, false);
}
