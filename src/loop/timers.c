/* SPDX-License-Identifier: ISC */
/*
 * Timers of the loop.
 *
 * Hard here: timers with the same limit mostly fall due in the order in which they are set. So
 * each timer queue is a sorted list with one libevent timer for its head. If the head is
 * cleared, the libevent timer is left as it is: it fires once without effect and is then set
 * for the new head.
 */
#include <stdlib.h>

#include <event2/event.h>

/* The default hash function of uthash has implicit fallthrough, which clang warns about. */
#define HASH_FUNCTION HASH_FNV
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(queue) ((queue)->is_lost = true)
#include <uthash.h>

#include "loop_priv.h"

/* For a later head it fires in between and is set again: libevent's times stay small. */
#define ARMED_MAX (24 * 3600 * USEC_PER_SEC)

TAILQ_HEAD(timer_list, timer);

struct queue_key {
	usec_t limit;
	void (*on_due)(struct timer *timer);
};

struct timer_queue {
	struct queue_key key;
	struct loop *loop;
	struct timer_list timers; /* sorted by `due` */
	struct event *event;
	usec_t armed_for; /* when `event` fires */
	bool is_armed;
	bool is_firing; /* on_due() is being called: `event` is set afterwards */
	bool is_lost;   /* no memory to add it to the hash table */
	UT_hash_handle hh;
};

static void queue_arm(struct timer_queue *queue)
{
	const struct timer *head = TAILQ_FIRST(&queue->timers);
	usec_t wait;

	if (!head || queue->is_firing || (queue->is_armed && queue->armed_for <= head->due))
		return;
	wait = head->due - loop_now(queue->loop);
	if (wait < 0)
		wait = 0;
	if (wait > ARMED_MAX)
		wait = ARMED_MAX;
	queue->armed_for = head->due;
	queue->is_armed = event_add(queue->event, &(struct timeval){ wait / USEC_PER_SEC,
	                                                             wait % USEC_PER_SEC }) == 0;
}

static size_t count_due(const struct timer_queue *queue, usec_t now)
{
	const struct timer *timer;
	size_t count = 0;

	TAILQ_FOREACH (timer, &queue->timers, node) {
		if (timer->due > now)
			break;
		count++;
	}
	return count;
}

static void on_queue_due(int fd, short events, void *arg)
{
	struct timer_queue *queue = arg;
	usec_t now = loop_now(queue->loop);
	size_t count = count_due(queue, now);
	struct timer *timer;

	(void)fd;
	(void)events;
	loop_called(queue->loop);
	queue->is_armed = false;
	queue->is_firing = true;
	/* Counted before: a timer that is set again and is due at once fires in the next turn. */
	while (count-- > 0 && (timer = TAILQ_FIRST(&queue->timers)) && timer->due <= now) {
		timer_clear(timer);
		queue->key.on_due(timer);
	}
	queue->is_firing = false;
	queue_arm(queue);
}

static struct timer_queue *queue_new(struct loop *loop, const struct queue_key *key)
{
	struct timer_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->key = *key;
	queue->loop = loop;
	TAILQ_INIT(&queue->timers);
	queue->event = evtimer_new(loop->base, on_queue_due, queue);
	if (queue->event)
		HASH_ADD(hh, loop->timer_queues, key, sizeof(queue->key), queue);
	if (queue->event && !queue->is_lost)
		return queue;
	if (queue->event)
		event_free(queue->event);
	free(queue);
	return NULL;
}

struct timer_queue *loop_timer_queue(struct loop *loop, usec_t limit,
                                     void (*on_due)(struct timer *timer))
{
	struct queue_key key = { limit, on_due };
	struct timer_queue *queue;

	if (limit <= 0)
		return NULL;
	loop_assert_mine(loop);
	HASH_FIND(hh, loop->timer_queues, &key, sizeof(key), queue);
	return queue ? queue : queue_new(loop, &key);
}

void timer_start(struct timer *timer, struct timer_queue *queue, usec_t from)
{
	usec_t limit = queue->key.limit, due = from > INT64_MAX - limit ? INT64_MAX : from + limit;
	struct timer *before;

	loop_assert_mine(queue->loop);
	if (timer->queue == queue && timer->due == due)
		return; /* it is at its position already */
	timer_clear(timer);
	timer->queue = queue;
	timer->due = due;
	before = TAILQ_LAST(&queue->timers, timer_list);
	while (before && before->due > timer->due)
		before = TAILQ_PREV(before, timer_list, node);
	if (before) {
		TAILQ_INSERT_AFTER(&queue->timers, before, timer, node);
	} else {
		TAILQ_INSERT_HEAD(&queue->timers, timer, node);
		queue_arm(queue);
	}
}

void timer_begin(struct timer *timer, struct loop *loop, usec_t limit,
                 void (*on_due)(struct timer *timer))
{
	timer_set(timer, loop_timer_queue(loop, limit, on_due), loop_now(loop));
}

void timer_change(struct timer *timer, struct timer_queue *queue)
{
	const struct timer_queue *old = timer->queue;

	if (!queue)
		timer_clear(timer);
	else if (queue != old)
		timer_set(timer, queue, old ? timer->due - old->key.limit : loop_now(queue->loop));
}

void timer_remove(struct timer *timer)
{
	loop_assert_mine(timer->queue->loop);
	TAILQ_REMOVE(&timer->queue->timers, timer, node);
	timer->queue = NULL;
}

void timers_free(struct loop *loop)
{
	struct timer_queue *queue, *next;

	HASH_ITER (hh, loop->timer_queues, queue, next) {
		assert(TAILQ_EMPTY(&queue->timers));
		HASH_DEL(loop->timer_queues, queue);
		event_free(queue->event);
		free(queue);
	}
}
