/* SPDX-License-Identifier: ISC */
/*
 * The wait queues of a pool: the borrowers in them, and between whom the servers are shared
 * (fair_by, priority).
 *
 *   pool_stand --> a wait queue --> pool_give_up       served, refused, or left
 */
#include "pool_priv.h"

#include <assert.h>

#include "pgweir/base/probes.h"

#include "server/server_priv.h"

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

/* Where it stands among its group follows from where it stands in the wait queue for servers. */
static void join_group(struct borrower *borrower, enum borrower_state state, bool is_first)
{
	struct pool *pool = borrower->pool;
	struct fair_who who;

	if (!pool->fair || state != BORROWER_WAITING)
		return;
	who = who_of(borrower, &pool->pools->group_text);
	fair_wait(pool->fair, fair_member(pool->fair, borrower), &who, is_first, pool_now(pool));
}

static void leave_group(struct borrower *borrower, enum borrower_state state)
{
	struct fair *fair = borrower->pool->fair;

	if (fair && state == BORROWER_WAITING)
		fair_leave(fair, fair_find(fair, borrower));
}

void pool_fair_lend(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct fair_who who = who_of(borrower, &pool->pools->group_text);

	fair_lend(pool->fair, fair_member(pool->fair, borrower), &who, pool_now(pool));
}

void pool_fair_part(struct pool *pool, const struct borrower *borrower, const struct server *server)
{
	fair_return(pool->fair, fair_find(pool->fair, borrower),
	            pool_now(pool) - server->lease.lent_at);
}

bool pool_fair_passes(const struct borrower *borrower)
{
	const struct pool *pool = borrower->pool;
	const struct fair_member *member, *next;

	if (!pool->fair || borrower->state != BORROWER_WAITING || pool_is_choosy(pool))
		return false;
	member = fair_find(pool->fair, borrower);
	next = fair_next(pool->fair, pool_now(pool));
	return member && next && next->group != member->group &&
	       next->borrower->wait_number > borrower->wait_number;
}

void pool_fair_tell(const struct pool *pool, struct buf *out)
{
	const struct fair_member *next = fair_next(pool->fair, pool_now(pool));

	if (!next)
		return;
	next->borrower->ops->tell_who(next->borrower, out);
	buf_add_text(out, " has come later and is served before: SHOW SHARES");
}

static void drop_shares(struct pool *pool)
{
	TAILQ_EACH (borrower, &pool->members, node) {
		if (borrower->state == BORROWER_SERVED)
			pool_fair_part(pool, borrower, borrower->server);
		else
			leave_group(borrower, BORROWER_WAITING);
	}
	fair_free(&pool->fair);
}

void pool_fair_configure(struct pool *pool)
{
	enum fair_by by = pool->pools->config->fair_by;
	bool is_wanted = pool->purpose != POOL_FOR_LOOKUPS &&
	                 (by != FAIR_BY_NONE || pool->pools->has_priorities);

	if (is_wanted == (pool->fair != NULL) && by == pool->fair_by)
		return;
	if (pool->fair)
		drop_shares(pool);
	pool->fair_by = by;
	if (is_wanted)
		pool->fair = fair_new(); /* without memory: first come, first served */
	if (!pool->fair)
		return;
	TAILQ_EACH (borrower, &pool->queues[BORROWER_WAITING].list, wait_node)
		join_group(borrower, BORROWER_WAITING, false);
}

/* ---- waiting for a place ---- */

/* It waits no longer for a place, but for a server. */
static void leave_places(struct borrower *borrower)
{
	borrower->wants_place = false;
	pool_wait_move(borrower, BORROWER_WAITING);
	if (borrower->has_place)
		pool_wait_first(borrower, borrower->waiting_since);
	pool_wake(borrower->pool);
}

/* The longest waiting one. With PAUSE, one without a server would keep a place that it awaits. */
static struct borrower *next_for_place(const struct pool *pool)
{
	struct borrower *served = pool_first(pool, BORROWER_SERVED);
	struct borrower *other =
	    served && pool_is_held(pool) ? NULL : pool_first(pool, BORROWER_WAIT_PLACE);

	if (!served || !other)
		return served ? served : other;
	return served->wait_number < other->wait_number ? served : other;
}

void pool_give_places(struct pool *pool)
{
	struct borrower *borrower;
	unsigned int most;

	while ((borrower = next_for_place(pool))) {
		most = pool->limits.max_pinned > 0 ? (unsigned int)pool->limits.max_pinned : 0;
		borrower->has_place = most && count_below(&pool->share.tally->pinned_count, most);
		/* with a limit of 0, the statement is refused when it runs */
		if (most && !borrower->has_place)
			return;
		if (borrower->state == BORROWER_WAIT_PLACE) {
			leave_places(borrower);
			continue;
		}
		pool_leave_place(borrower);
		borrower->ops->on_place(borrower);
	}
}

/* ---- entering and leaving a wait queue ---- */

struct borrower_list *pool_wait_queue_at(struct pool *pool, unsigned int line)
{
	static const enum borrower_state states[] = {
		BORROWER_WAITING,        BORROWER_NEWCOMER,
		BORROWER_WAIT_DEDICATED, BORROWER_CONNECT_DEDICATED,
		BORROWER_WAIT_PLACE,     BORROWER_WAIT_OWN,
		BORROWER_SERVED
	};

	return line < sizeof(states) / sizeof(states[0]) ? &pool->queues[states[line]].list : NULL;
}

/* For SHOW LIMITS: a borrower has to wait because of these. */
static void count_hits(struct pool *pool)
{
	const struct pool_limits *limits = &pool->limits;

	if (!pool_is_full(pool))
		return;
	pool->size_hits++;
	if (limits->reserve_size > 0 && share_servers(&pool->share) >= pool_limits_most(limits))
		pool->reserve_hits++;
}

static void count_in_shares(struct pool *pool, int change)
{
	share_count_waiting(&pool->share, change);
	share_count_waiting(&pool->database->cap.share, change);
	share_count_waiting(&pool->role->cap.share, change);
}

/* A queue of borrowers that wait for a place has changed: for other loops. */
static void tell_places(struct pool *pool, enum borrower_state state)
{
	const struct borrower *next;

	if (state != BORROWER_WAIT_PLACE && state != BORROWER_SERVED)
		return;
	next = next_for_place(pool);
	pool->share.place_since = next ? next->waiting_since : 0;
}

static void begin_wait(struct borrower *borrower, enum borrower_state state)
{
	struct pool *pool = borrower->pool;
	struct wait_queue *queue = &pool->queues[state];

	borrower->waiting_since = pool_now(pool);
	borrower->wait_number = ++pool->pools->last_line_number;
	pool->hasty_count += borrower->is_hasty;
	if (pool_waiting_count(pool) == 0)
		TAILQ_INSERT_TAIL(&pool->pools->queueing, pool, queueing);
	count_in_shares(pool, 1);
	TAILQ_INSERT_TAIL(&queue->list, borrower, wait_node);
	join_group(borrower, state, false);
	queue->count++;
	tell_places(pool, state);
	pool_wake(pool);
}

void pool_stand(struct borrower *borrower, enum borrower_state state)
{
	struct pool *pool = borrower->pool;

	assert(borrower->state == BORROWER_RESTING);
	borrower->state = state;
	if (state == BORROWER_WAITING)
		sketch_add(&pool->demand.wanted,
		           pool->served_count + pool->queues[state].count + 1);
	if (state == BORROWER_WAIT_PLACE)
		pool_note_pins_met(pool);
	else if (state != BORROWER_WAIT_OWN)
		count_hits(pool);
	begin_wait(borrower, state);
}

void pool_await_place(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;

	assert(borrower->state == BORROWER_SERVED && !borrower->awaits_place);
	borrower->awaits_place = true;
	pool_note_pins_met(pool);
	begin_wait(borrower, BORROWER_SERVED);
}

void pool_wait_first(struct borrower *borrower, usec_t since)
{
	struct borrower_list *line = &borrower->pool->queues[borrower->state].list;
	struct borrower *before;

	leave_group(borrower, borrower->state);
	join_group(borrower, borrower->state, true);
	TAILQ_REMOVE(line, borrower, wait_node);
	TAILQ_FOREACH (before, line, wait_node) {
		if (!before->has_place)
			break;
	}
	if (before) {
		borrower->wait_number = before->wait_number - 1;
		TAILQ_INSERT_BEFORE(before, borrower, wait_node);
	} else {
		TAILQ_INSERT_TAIL(line, borrower, wait_node);
	}
	if (since < borrower->waiting_since)
		borrower->waiting_since = since;
}

void pool_wait_move(struct borrower *borrower, enum borrower_state next)
{
	struct pool *pool = borrower->pool;
	struct wait_queue *from = &pool->queues[borrower->state], *to = &pool->queues[next];

	TAILQ_REMOVE(&from->list, borrower, wait_node);
	leave_group(borrower, borrower->state);
	join_group(borrower, next, false);
	from->count--;
	TAILQ_INSERT_TAIL(&to->list, borrower, wait_node);
	to->count++;
	/* a borrower whose dedicated server is being launched is not refused */
	if (borrower->is_hasty && next == BORROWER_CONNECT_DEDICATED)
		pool->hasty_count--;
	else if (borrower->is_hasty && borrower->state == BORROWER_CONNECT_DEDICATED)
		pool->hasty_count++;
	tell_places(pool, borrower->state);
	borrower->state = next;
}

struct borrower *pool_wait_again(struct server *server)
{
	struct borrower *borrower = server->lease.expected_by;

	if (!borrower)
		return NULL;
	server->lease.expected_by = NULL;
	borrower->wish->expected = NULL;
	/* else it is that of a listening connection, in no queue */
	if (borrower->state == BORROWER_CONNECT_DEDICATED) {
		pool_wait_move(borrower, BORROWER_WAIT_DEDICATED);
		pool_wait_first(borrower, borrower->waiting_since);
	}
	return borrower;
}

static void end_wait(struct borrower *borrower, enum borrower_state state)
{
	struct pool *pool = borrower->pool;
	struct wait_queue *queue = &pool->queues[state];
	usec_t now, wait;

	TAILQ_REMOVE(&queue->list, borrower, wait_node);
	leave_group(borrower, state);
	queue->count--;
	tell_places(pool, state);
	count_in_shares(pool, -1);
	if (pool_waiting_count(pool) == 0)
		TAILQ_REMOVE(&pool->pools->queueing, pool, queueing);
	now = pool_now(pool);
	wait = now - borrower->waiting_since;
	pool->stats.wait_time += (uint64_t)wait;
	latency_note(&pool->latency, &pool->pools->latency, LATENCY_WAIT, wait, now);
	PROBE_WAIT(borrower_client_id(borrower), pool->database->name, pool->role->name, wait);
	borrower->waited += wait;
	pool->hasty_count -= borrower->is_hasty;
}

void pool_leave_place(struct borrower *borrower)
{
	if (!borrower->awaits_place)
		return;
	borrower->awaits_place = false;
	end_wait(borrower, BORROWER_SERVED);
}

void pool_give_up(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	bool was_last;

	if (borrower->state == BORROWER_CONNECT_DEDICATED) {
		struct server *server = borrower->wish->expected;

		pool_wait_again(server);
		server_close_as(server, ERR_ADMIN_SHUTDOWN, CLOSE_REPLICATION_CLIENT_LEFT);
	}
	if (!borrower_waits(borrower))
		return;
	end_wait(borrower, borrower->state);
	was_last = !pool->queues[borrower->state].count;
	borrower->state = BORROWER_RESTING;
	/* others must not give up a server that nobody waits for */
	if (was_last && (pool->share.is_wanting || pool_is_blocked(pool)))
		pool_wake(pool);
}

/* ---- who waits ---- */

usec_t pools_longest_wait(const struct pools *pools, usec_t now)
{
	usec_t longest = 0, wait;

	TAILQ_EACH (pool, &pools->queueing, queueing) {
		wait = pool_longest_wait(pool, now);
		if (wait > longest)
			longest = wait;
	}
	return longest;
}

void pool_refuse(struct pool *pool, enum borrower_state last, const struct err *err)
{
	struct borrower *borrower;

	for (enum borrower_state state = BORROWER_NEWCOMER; state <= last; state++) {
		while ((borrower = pool_first(pool, state))) {
			pool_give_up(borrower);
			borrower->ops->on_refused(borrower, err);
		}
	}
}
