/* SPDX-License-Identifier: ISC */
/*
 * Timers of the loop.
 *
 * Hard here: timers with the same limit mostly fall due in the order in which they are set. So
 * each timer queue is a sorted list with one libevent timer for its head. If the head is
 * cleared, the libevent timer is left as it is: it fires once without effect and is then set
 * for the new head.
 */
#include <assert.h>
#include <stdlib.h>

#include <event2/event.h>

/* The default hash function of uthash has implicit fallthrough, which clang warns about. */
#define HASH_FUNCTION HASH_FNV
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(line) ((line)->is_lost = true)
#include <uthash.h>

#include "loop_priv.h"

#include "pgweir/base/banned.h"

/*
 * Longest libevent timer: for a later head it fires in between and is set again. This keeps
 * libevent's times small.
 */
#define ARMED_MAX (24 * 3600 * USEC_PER_SEC)

TAILQ_HEAD(timer_list, timer);

struct line_key {
	usec_t limit;
	void (*on_due)(struct timer *timer);
};

struct timer_queue {
	struct line_key key;
	struct loop *loop;
	struct timer_list timers; /* sorted by `due` */
	struct event *event;
	usec_t armed_for; /* when `event` fires */
	bool is_armed;
	bool is_firing; /* on_due() is being called: `event` is set afterwards */
	bool is_lost;   /* no memory to add it to the hash table */
	UT_hash_handle hh;
};

static void line_arm(struct timer_queue *line)
{
	const struct timer *head = TAILQ_FIRST(&line->timers);
	usec_t wait;

	if (!head || line->is_firing || (line->is_armed && line->armed_for <= head->due))
		return;
	wait = head->due - loop_now(line->loop);
	if (wait < 0)
		wait = 0;
	if (wait > ARMED_MAX)
		wait = ARMED_MAX;
	line->armed_for = head->due;
	line->is_armed = event_add(line->event, &(struct timeval){ wait / USEC_PER_SEC,
	                                                           wait % USEC_PER_SEC }) == 0;
}

static size_t count_due(const struct timer_queue *line, usec_t now)
{
	const struct timer *timer;
	size_t count = 0;

	TAILQ_FOREACH (timer, &line->timers, node) {
		if (timer->due > now)
			break;
		count++;
	}
	return count;
}

static void on_line_due(int fd, short events, void *arg)
{
	struct timer_queue *line = arg;
	usec_t now = loop_now(line->loop);
	size_t count = count_due(line, now);
	struct timer *timer;

	(void)fd;
	(void)events;
	line->loop->call_count++;
	line->is_armed = false;
	line->is_firing = true;
	/* Counted before: a timer that is set again and is due at once fires in the next turn. */
	while (count-- > 0 && (timer = TAILQ_FIRST(&line->timers)) && timer->due <= now) {
		timer_clear(timer);
		line->key.on_due(timer);
	}
	line->is_firing = false;
	line_arm(line);
}

static struct timer_queue *line_new(struct loop *loop, const struct line_key *key)
{
	struct timer_queue *line = calloc(1, sizeof(*line));

	if (!line)
		return NULL;
	line->key = *key;
	line->loop = loop;
	TAILQ_INIT(&line->timers);
	line->event = evtimer_new(loop->base, on_line_due, line);
	if (line->event)
		HASH_ADD(hh, loop->lines, key, sizeof(line->key), line);
	if (line->event && !line->is_lost)
		return line;
	if (line->event)
		event_free(line->event);
	free(line);
	return NULL;
}

struct timer_queue *loop_timer_queue(struct loop *loop, usec_t limit,
                                     void (*on_due)(struct timer *timer))
{
	struct line_key key = { limit, on_due };
	struct timer_queue *line;

	if (limit <= 0)
		return NULL;
	HASH_FIND(hh, loop->lines, &key, sizeof(key), line);
	return line ? line : line_new(loop, &key);
}

void timer_set(struct timer *timer, struct timer_queue *line, usec_t from)
{
	struct timer *before;
	usec_t due;

	if (!line) {
		timer_clear(timer);
		return;
	}
	due = from > INT64_MAX - line->key.limit ? INT64_MAX : from + line->key.limit;
	if (timer->line == line && timer->due == due)
		return; /* it is at its position already */
	timer_clear(timer);
	timer->line = line;
	timer->due = due;
	before = TAILQ_LAST(&line->timers, timer_list);
	while (before && before->due > timer->due)
		before = TAILQ_PREV(before, timer_list, node);
	if (before) {
		TAILQ_INSERT_AFTER(&line->timers, before, timer, node);
	} else {
		TAILQ_INSERT_HEAD(&line->timers, timer, node);
		line_arm(line);
	}
}

void timer_change(struct timer *timer, struct timer_queue *line)
{
	const struct timer_queue *old = timer->line;

	if (!line)
		timer_clear(timer);
	else if (line != old)
		timer_set(timer, line, old ? timer->due - old->key.limit : loop_now(line->loop));
}

void timer_clear(struct timer *timer)
{
	if (!timer->line)
		return;
	TAILQ_REMOVE(&timer->line->timers, timer, node);
	timer->line = NULL;
}

void timers_free(struct loop *loop)
{
	struct timer_queue *line, *next;

	HASH_ITER (hh, loop->lines, line, next) {
		assert(TAILQ_EMPTY(&line->timers));
		HASH_DEL(loop->lines, line);
		event_free(line->event);
		free(line);
	}
}
