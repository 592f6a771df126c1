/* SPDX-License-Identifier: ISC */
/*
 * The event loop: descriptors, timers, work for the end of a turn, signals.
 *
 * A turn: wait, call back for each ready descriptor and due timer, then run what
 * was put off to the end of the turn. The clock is read once a turn. Where something
 * is due within moments, the loop can be told to look for it for a while before it sleeps.
 *
 * Nothing here is thread-safe; a loop and all that hangs on it belong to the
 * thread that runs it. There may be several loops in a process.
 */
#ifndef PGWEIR_LOOP_LOOP_H
#define PGWEIR_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

struct loop;

/* A loop at rest, or NULL with *err filled. */
struct loop *loop_new(struct err *err);

/* Nothing may be watched any more. */
void loop_free(struct loop **loop);

/* Name and version of the library underneath: "libevent 2.1.12-stable". Static. */
const char *loop_library(void);

/* Runs turns until loop_stop(); returns at the end of that turn. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/*
 * After a turn in which a descriptor was ready the loop looks again and again for `limit`
 * microseconds before it sleeps. A limit of 0, as at first: it sleeps at once.
 */
void loop_poll(struct loop *loop, usec_t limit);

/* Turns in which busy polling found work: for tests. */
unsigned long loop_poll_count(const struct loop *loop);

/* The time of this turn. */
usec_t loop_now(struct loop *loop);

/* Number of turns so far: for tests and SHOW. */
unsigned long loop_turn_count(const struct loop *loop);

/*
 * The scratch buffer: whoever reads a descriptor reads into it. Its content is
 * good until the callback returns or calls someone who reads.
 */
#define LOOP_SCRATCH_SIZE ((size_t)128 * 1024)
char *loop_scratch(struct loop *loop);

/* ---- descriptors ---- */

enum watch_what { WATCH_READ = 1, WATCH_WRITE = 2 };

/*
 * One descriptor that is watched. Lives inside its owner, who owns the
 * descriptor too. Setting costs no system call at once: changes of one turn
 * are told to the kernel together.
 */
struct watch {
	/* Called from the loop with what is ready; may close and free anything. */
	void (*on_ready)(struct watch *watch, unsigned int what);
	struct loop *loop;
	int fd;
	unsigned int wanted; /* enum watch_what, or-ed */
	_Alignas(8) unsigned char event[128];
};

void watch_init(struct watch *watch, struct loop *loop, int fd,
                void (*on_ready)(struct watch *watch, unsigned int what));

/* Watches for `what` from now on (0 = nothing). Free when nothing changes. false: the kernel
 * refused. */
bool watch_set(struct watch *watch, unsigned int what);

/* Stops watching: call it before close(). Safe on a zeroed watch. */
void watch_done(struct watch *watch);

/*
 * Closes a descriptor that was watched, once the kernel knows that it is not any more: as
 * long as another process has it open too, a close alone would not tell.
 */
void loop_close_later(struct loop *loop, int fd);

/* ---- timers ---- */

/*
 * All timers with one limit and one purpose, in the order in which they fall
 * due. Setting and clearing a timer is a step in a list: no system call, and no
 * cost that grows with how many there are. Owned by the loop, kept to its end.
 */
struct timer_queue;

/*
 * One point in time. Lives inside its owner; at rest it is zeroed. It is off
 * when its `on_due` is called. Clear it before its memory goes.
 */
struct timer {
	TAILQ_ENTRY(timer) node;
	usec_t due;
	struct timer_queue *line; /* NULL: off */
};

/*
 * The line for this limit (microseconds, > 0) and purpose; the same arguments
 * give the same line. NULL: limit is 0 or less (no limit), or no memory.
 */
struct timer_queue *loop_timer_queue(struct loop *loop, usec_t limit,
                                     void (*on_due)(struct timer *timer));

/* Due at `from` + the queue's limit. Set again if it was on. A NULL queue clears it. */
void timer_set(struct timer *timer, struct timer_queue *line, usec_t from);

/*
 * Its limit has changed: due as if it had been set with this line when it was set;
 * one that was off counts from now. A NULL line clears it.
 */
void timer_change(struct timer *timer, struct timer_queue *line);
void timer_clear(struct timer *timer);

static inline bool timer_is_set(const struct timer *timer) { return timer->line != NULL; }

/* ---- the end of the turn ---- */

/* A task for the end of this turn. Lives inside its owner; zeroed when not in use. */
struct task {
	TAILQ_ENTRY(task) node;
	void (*run)(struct task *task); /* may free the task's owner */
	bool is_waiting;
};

/* Runs it at the end of this turn, once, however often it is deferred. */
void loop_defer(struct loop *loop, struct task *task);

/* Cancels it. Safe when it is not deferred. */
void loop_undefer(struct loop *loop, struct task *task);

/* Calls `run` at the end of every turn, after that; one for a loop. NULL: nobody. */
void loop_at_turn_end(struct loop *loop, void (*run)(void *arg), void *arg);

/* ---- signals ---- */

/* Calls back from the loop whenever `number` comes. Kept to the loop's end. */
bool loop_on_signal(struct loop *loop, int number, void (*on_signal)(int number, void *arg),
                    void *arg, struct err *err);

#endif
