/* SPDX-License-Identifier: ISC */
/*
 * The wait queues of a pool: the borrowers in them, between whom the servers are shared (fair_by,
 * priority), and how long the queue for servers may become (max_waiting, queue_target).
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
	fair_wait(pool->fair, borrower, &who, is_first, pool_now(pool));
}

static void leave_group(struct borrower *borrower, enum borrower_state state)
{
	struct fair *fair = borrower->pool->fair;

	if (fair && state == BORROWER_WAITING)
		fair_leave(fair, borrower);
}

void pool_fair_lend(struct borrower *borrower)
{
	struct pool *pool = borrower->pool;
	struct fair_who who = who_of(borrower, &pool->pools->group_text);

	fair_lend(pool->fair, borrower, &who, pool_now(pool));
}

void pool_fair_part(struct pool *pool, const struct borrower *borrower, const struct server *server)
{
	fair_return(pool->fair, borrower, pool_now(pool) - server->lease.lent_at);
}

/* A group's clients are served in the order in which they came. */
bool pool_fair_passes(const struct borrower *borrower)
{
	const struct pool *pool = borrower->pool;
	const struct borrower *next;

	if (!pool->fair || borrower->state != BORROWER_WAITING || pool_is_choosy(pool))
		return false;
	next = fair_next(pool->fair, pool_now(pool));
	return next && next->wait_number > borrower->wait_number;
}

void pool_fair_tell(const struct pool *pool, struct buf *out)
{
	const struct borrower *next = fair_next(pool->fair, pool_now(pool));

	if (!next)
		return;
	next->ops->tell_who(next, out);
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
		if (borrower->state == BORROWER_SERVED) {
			pool_leave_place(borrower);
			borrower->ops->on_place(borrower);
			continue;
		}
		/* now it waits for a server */
		borrower->wants_place = false;
		pool_wait_move(borrower, BORROWER_WAITING);
		if (borrower->has_place)
			pool_wait_first(borrower, borrower->waiting_since);
		pool_wake(pool);
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
		if (borrower->state != BORROWER_WAIT_DEDICATED) /* that has a wish in its place */
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

/*
 * ---- a queue that is too long ----
 *
 * A client is refused at once if the queue is full. One that waits is refused only while the queue
 * stands (shed.h), and then the newest first: those in front have waited for most of their time.
 * But one that has waited for too long is refused as well.
 */

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
		struct borrower *last = pool->fair ? fair_last(pool->fair) : NULL;

		refuse_waiting(pool, last ? last : TAILQ_LAST(&waiting->list, borrower_list));
	}
	if (waiting->count || pool->shed.phase == SHED_REFUSES)
		pool_wake_after(pool, now,
		                rule->target < rule->interval ? rule->target : rule->interval);
}
