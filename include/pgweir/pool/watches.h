/* SPDX-License-Identifier: ISC */
/*
 * Watches: what the main thread waits for in the pools and clients of all loops: the end of a
 * PAUSE, of a WAIT_CLOSE, of a shutdown.
 *
 *   any loop: watches_changed() --> the main thread's loop: is_done() of each watch
 *
 * With several loops is_done() has to hold them, so changes that follow each other closely are
 * looked at together. While nothing is watched, a change costs one load.
 */
#ifndef PGWEIR_POOL_WATCHES_H
#define PGWEIR_POOL_WATCHES_H

#include <stdatomic.h>

#include "pgweir/loop/loop.h"

/* One condition. Embedded in its owner. */
struct pools_watch {
	TAILQ_ENTRY(pools_watch) node;
	bool (*is_done)(struct pools_watch *watch);
	/* called after removal from the list; may free the watch */
	void (*on_done)(struct pools_watch *watch);
};
TAILQ_HEAD(pools_watch_list, pools_watch);

/* All watches of the process. For the main thread, but for watches_changed(). */
struct watches {
	struct loop *loop; /* the main thread's */
	bool has_others;   /* there are other loops */
	struct pools_watch_list list;
	atomic_bool is_watched; /* the list is not empty */
	struct letter letter;
	struct task task;
	struct timer timer;
	usec_t asked_at;
};

/* loop: the main thread's. has_others: other loops will call watches_changed(). */
void watches_init(struct watches *watches, struct loop *loop, bool has_others);

/* Before the loop is freed. No watch may be left. */
void watches_done(struct watches *watches);

/* Begins to ask is_done(), first at the end of this turn. */
void watches_start(struct watches *watches, struct pools_watch *watch);
void watches_stop(struct watches *watches, struct pools_watch *watch);

/* By the loop, or while it is held: what a watch waits for may have changed. _tell(): if any. */
void watches_tell(struct watches *watches, const struct loop *loop);

static inline void watches_changed(struct watches *watches, const struct loop *loop)
{
	if (atomic_load_explicit(&watches->is_watched, memory_order_relaxed))
		watches_tell(watches, loop);
}

#endif
