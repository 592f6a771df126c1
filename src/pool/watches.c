/* SPDX-License-Identifier: ISC */
/*
 * Watches: see pgweir/pool/watches.h.
 *
 * Hard here: no change may be missed. A letter that is posted already is not posted again: it is
 * taken before the watches are asked, and they are asked while the other loops are held, so what
 * these have changed is seen.
 */
#include "pgweir/pool/watches.h"

#include <assert.h>

#include "pgweir/base/container_of.h"

/* With several loops, how often the watches are asked at most. */
#define ASK_PERIOD (5 * USEC_PER_MS)

static void remove_watch(struct watches *watches, struct pools_watch *watch)
{
	TAILQ_REMOVE(&watches->list, watch, node);
	atomic_store(&watches->is_watched, !TAILQ_EMPTY(&watches->list));
}

static void ask_all(struct watches *watches)
{
	struct pools_watch *watch, *next;

	timer_clear(&watches->timer);
	loop_undefer(watches->loop, &watches->task);
	watches->asked_at = loop_now(watches->loop);
	TAILQ_FOREACH_SAFE (watch, &watches->list, node, next) {
		if (watch->is_done(watch)) {
			remove_watch(watches, watch);
			watch->on_done(watch);
		}
	}
}

static void on_turn_end(struct task *task) { ask_all(container_of(task, struct watches, task)); }

static void on_period(struct timer *timer) { ask_all(container_of(timer, struct watches, timer)); }

static void ask_soon(struct watches *watches)
{
	struct loop *loop = watches->loop;

	if (!watches->has_others || loop_now(loop) - watches->asked_at >= ASK_PERIOD)
		loop_defer(loop, &watches->task);
	else if (!timer_is_set(&watches->timer))
		timer_set(&watches->timer, loop_timer_queue(loop, ASK_PERIOD, on_period),
		          watches->asked_at);
}

static void on_told(struct letter *letter)
{
	if (!letter->is_late)
		ask_soon(container_of(letter, struct watches, letter));
}

void watches_init(struct watches *watches, struct loop *loop, bool has_others)
{
	*watches = (struct watches){
		.loop = loop,
		.has_others = has_others,
		.letter.open = on_told,
		.task.run = on_turn_end,
	};
	TAILQ_INIT(&watches->list);
}

void watches_done(struct watches *watches)
{
	if (!watches->loop)
		return;
	assert(TAILQ_EMPTY(&watches->list));
	timer_clear(&watches->timer);
	loop_undefer(watches->loop, &watches->task);
	loop_take_back(watches->loop, &watches->letter);
}

void watches_start(struct watches *watches, struct pools_watch *watch)
{
	TAILQ_INSERT_TAIL(&watches->list, watch, node);
	atomic_store(&watches->is_watched, true);
	loop_defer(watches->loop, &watches->task);
}

void watches_stop(struct watches *watches, struct pools_watch *watch)
{
	remove_watch(watches, watch);
}

void watches_tell(struct watches *watches, const struct loop *loop)
{
	if (loop == watches->loop)
		ask_soon(watches);
	else
		loop_post(watches->loop, &watches->letter);
}
