/* SPDX-License-Identifier: ISC */
/*
 * Timers of the loop.
 *
 * Hard here: timers with the same limit mostly fall due in the order in which they are set. So
 * each timer queue is a sorted list, and a heap has the queues by the time when their heads are to
 * be looked at. One descriptor is the alarm for the first of them. If a head is cleared, the heap
 * and the alarm are left as they are: they come once without effect and are then set for the new
 * head. libevent has no timers: with any, it reads the clock twice in each turn.
 */
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define HASH_FUNCTION HASH_FNV /* servers and clients set timers often */
#define HASH_NONFATAL_OOM 1    /* out of memory: the element is not added and its hh.tbl is NULL */
#include "pgweir/base/table.h"

#include "loop_priv.h"

#define NEVER INT64_MAX

TAILQ_HEAD(timer_list, timer);

struct queue_key {
	usec_t limit;
	void (*on_due)(struct timer *timer);
};

struct timer_queue {
	struct queue_key key;
	struct loop *loop;
	struct timer_list timers; /* sorted by `due` */
	struct heap_node node;    /* its key: when the head is looked at; NEVER: there is none */
	UT_hash_handle hh;
};

static void look_at(struct timer_queue *queue, usec_t when)
{
	queue->node.key = (uint64_t)when;
	heap_moved(&queue->loop->alarm.queues, &queue->node);
}

/* Sets the alarm for the first queue, unless it is set for an earlier time. */
static void set_alarm(struct loop_alarm *alarm)
{
	usec_t at = (usec_t)heap_first(&alarm->queues)->key;
	struct itimerspec time = { .it_value = { at / USEC_PER_SEC, at % USEC_PER_SEC * 1000 } };

	if (at >= alarm->at)
		return;
	alarm->at = at;
	timerfd_settime(alarm->watch.fd, TFD_TIMER_ABSTIME, &time, NULL);
}

static void queue_arm(struct timer_queue *queue)
{
	const struct timer *head = TAILQ_FIRST(&queue->timers);
	usec_t at;

	if (!head)
		return;
	/* Not now: what is set while timers fire does so in the next turn. */
	at = loop_now(queue->loop) + 1;
	if (at < head->due)
		at = head->due;
	if ((usec_t)queue->node.key <= at)
		return;
	look_at(queue, at);
	set_alarm(&queue->loop->alarm);
}

static size_t count_due(const struct timer_queue *queue, usec_t now)
{
	size_t count = 0;

	TAILQ_EACH (timer, &queue->timers, node) {
		if (timer->due > now)
			break;
		count++;
	}
	return count;
}

static void fire(struct timer_queue *queue, usec_t now)
{
	size_t count = count_due(queue, now);
	struct timer *timer;

	look_at(queue, NEVER);
	/* Counted before: a timer that is set again and is due at once fires in the next turn. */
	while (count-- > 0 && (timer = TAILQ_FIRST(&queue->timers)) && timer->due <= now) {
		timer_clear(timer);
		queue->key.on_due(timer);
	}
	queue_arm(queue);
}

void timers_fire(struct loop *loop)
{
	struct loop_alarm *alarm = &loop->alarm;
	usec_t now = loop_now(loop);
	struct heap_node *first;

	alarm->at = 0; /* it is set at the end */
	while ((first = heap_first(&alarm->queues)) && (usec_t)first->key <= now)
		fire(container_of(first, struct timer_queue, node), now);
	alarm->at = NEVER;
	set_alarm(alarm);
}

static void on_alarm(struct watch *watch, unsigned int what)
{
	uint64_t ignored;

	(void)what;
	watch->loop->ready_count--; /* no reason to poll on */
	/* Nothing to read: it was set again in this turn. */
	if (read(watch->fd, &ignored, sizeof(ignored)) == sizeof(ignored))
		watch->loop->alarm.at = 0;
}

bool timers_init(struct loop *loop)
{
	struct watch *watch = &loop->alarm.watch;

	loop->alarm.at = NEVER;
	watch_init(watch, loop, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
	           on_alarm);
	return loop->base && watch->fd >= 0 && watch_set(watch, WATCH_READ);
}

static struct timer_queue *queue_new(struct loop *loop, const struct queue_key *key)
{
	struct timer_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->key = *key;
	queue->loop = loop;
	TAILQ_INIT(&queue->timers);
	queue->node.key = NEVER;
	if (heap_add(&loop->alarm.queues, &queue->node)) {
		HASH_ADD(hh, loop->timer_queues, key, sizeof(queue->key), queue);
		if (queue->hh.tbl)
			return queue;
		heap_remove(&loop->alarm.queues, &queue->node);
	}
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
		free(queue);
	}
	heap_done(&loop->alarm.queues);
	watch_done(&loop->alarm.watch);
	if (loop->alarm.watch.fd >= 0)
		close(loop->alarm.watch.fd);
}
