/* SPDX-License-Identifier: ISC */
/*
 * The event loop: descriptors, timers, tasks for the end of a turn, signals.
 *
 * A turn: wait, call back for each ready descriptor and each due timer, then run the tasks that
 * were deferred to the end of the turn. The clock is read once per turn. If requests arrive at
 * short intervals, loop_poll() makes the loop poll for a while before it sleeps.
 *
 * Nothing here is thread-safe: a loop and all its objects belong to the thread that runs it. A
 * process may have several loops (crew.h), which send each other letters (below).
 */
#ifndef PGWEIR_LOOP_LOOP_H
#define PGWEIR_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

struct loop;

/* Returns a loop that does not run yet, or NULL with *err filled. */
struct loop *loop_new(struct err *err);

/* Nothing may be watched when this is called. */
void loop_free(struct loop **loop);

/* Name and version of the event library: "libevent 2.1.12-stable". Static. */
const char *loop_library(void);

/* Runs turns until loop_stop(), by any thread; returns at the end of that turn. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* After a busy turn it polls for `limit` microseconds before it sleeps. 0 (default): not. */
void loop_poll(struct loop *loop, usec_t limit);

/* Number of turns in which polling found work: for tests. */
unsigned long loop_poll_count(const struct loop *loop);

/* What a loop begins with: the time is asked for a dozen times in each transaction. */
struct loop_clock {
	usec_t now; /* of this turn; 0: not read yet, or between two turns */
};

/* Reads the clock; for this turn, if there is one. */
usec_t loop_read_clock(struct loop *loop);

/* The time of this turn, in microseconds of the monotonic clock. */
static inline usec_t loop_now(struct loop *loop)
{
	usec_t now = ((const struct loop_clock *)(const void *)loop)->now;

	return now ? now : loop_read_clock(loop);
}

/*
 * Whether the loop's own thread is in a turn. false before it runs, between two turns, and for
 * a thread that holds it (crew.h).
 */
bool loop_is_in_turn(const struct loop *loop);

/* Number of turns so far: for tests and SHOW. */
unsigned long loop_turn_count(const struct loop *loop);

/*
 * Processor time used while the loop ran, in microseconds, of its thread alone, without the time
 * for which it has polled and found nothing. Any thread may call this; just while the loop begins
 * or ends to run or to poll, the time may be wrong for another one.
 */
usec_t loop_cpu(const struct loop *loop);

/*
 * The scratch buffer, into which descriptors are read. Its content is valid until the callback
 * returns, or calls something that reads a descriptor.
 */
#define LOOP_SCRATCH_SIZE ((size_t)128 * 1024)
char *loop_scratch(struct loop *loop);

/* ---- descriptors ---- */

enum watch_what { WATCH_READ = 1, WATCH_WRITE = 2 };

/*
 * One watched descriptor. Embedded in its owner, which owns the descriptor too. Setting makes
 * no system call: all changes of a turn are sent to the kernel at the start of the next one.
 */
struct watch {
	/* In the loop, with what is ready (enum watch_what, or-ed); may close and free anything. */
	void (*on_ready)(struct watch *watch, unsigned int what);
	struct loop *loop;
	int fd;
	unsigned int wanted; /* enum watch_what, or-ed */
	_Alignas(8) unsigned char event[128];
};

/* Prepares a watch. It watches nothing before watch_set(). */
void watch_init(struct watch *watch, struct loop *loop, int fd,
                void (*on_ready)(struct watch *watch, unsigned int what));

/* 0 = nothing. Costs nothing if nothing changes. false: the kernel refused. */
bool watch_set(struct watch *watch, unsigned int what);

/* Stops watching: call it before close(). Safe on a zeroed watch. */
void watch_done(struct watch *watch);

/*
 * Closes a descriptor that was watched, as soon as the kernel no longer watches it. Needed if
 * another process may have it open: then close() alone does not remove it from the epoll set.
 */
void loop_close_later(struct loop *loop, int fd);

/* ---- timers ---- */

/*
 * All timers with the same limit and purpose, in the order in which they fall due. Setting or
 * clearing one is a list operation. Owned by the loop, which keeps it until it is freed.
 */
struct timer_queue;

/*
 * A timer. Embedded in its owner; zero it before first use. It is off when on_due() is called.
 * Clear it before its memory is freed.
 */
struct timer {
	TAILQ_ENTRY(timer) node;
	usec_t due;
	struct timer_queue *queue; /* NULL: off */
};

static inline bool timer_is_set(const struct timer *timer) { return timer->queue != NULL; }

/* Takes a timer that is on out of its queue: for timer_clear(). */
void timer_remove(struct timer *timer);

/* Most timers are off when they are cleared. */
static inline void timer_clear(struct timer *timer)
{
	if (timer_is_set(timer))
		timer_remove(timer);
}

/*
 * Returns the timer queue for this limit (microseconds, > 0) and callback; the same arguments
 * return the same queue. NULL: limit is 0 or less (no limit), or no memory.
 */
struct timer_queue *loop_timer_queue(struct loop *loop, usec_t limit,
                                     void (*on_due)(struct timer *timer));

/* Sets the timer: due at `from` + the queue's limit. It may be on already. */
void timer_start(struct timer *timer, struct timer_queue *queue, usec_t from);

/* The same, but a NULL queue clears it. */
static inline void timer_set(struct timer *timer, struct timer_queue *queue, usec_t from)
{
	if (queue)
		timer_start(timer, queue, from);
	else
		timer_clear(timer);
}

/* Sets the timer: due at the limit from now. A limit of 0 or less clears it. */
void timer_begin(struct timer *timer, struct loop *loop, usec_t limit,
                 void (*on_due)(struct timer *timer));

/*
 * Moves a timer to the queue of another limit: it is due as if it had been set with that limit
 * originally. If it was off, it counts from now. A NULL queue clears it.
 */
void timer_change(struct timer *timer, struct timer_queue *queue);

/* ---- the end of the turn ---- */

/* A task for the end of this turn. Embedded in its owner; zero it before first use. */
struct task {
	TAILQ_ENTRY(task) node;
	void (*run)(struct task *task); /* may free the task's owner */
	bool is_waiting;
};

/* Runs the task at the end of this turn, once, however often it is deferred. */
void loop_defer(struct loop *loop, struct task *task);

/* Cancels a deferred task. Safe if it is not deferred. */
void loop_undefer(struct loop *loop, struct task *task);

/* Calls `run` at the end of every turn, after the tasks. One per loop; NULL: none. */
void loop_at_turn_end(struct loop *loop, void (*run)(void *arg), void *arg);

/* ---- signals ---- */

/* Calls on_signal() in the loop for each such signal, until the loop is freed. */
bool loop_on_signal(struct loop *loop, int number, void (*on_signal)(int number, void *arg),
                    void *arg, struct err *err);

/*
 * ---- letter ----
 *
 * Messages from any thread to a loop. A letter is embedded in what it is about, and belongs to
 * the receiving loop from loop_post() until open().
 */

/* Zero it before its first use. */
struct letter {
	TAILQ_ENTRY(letter) node;
	/* Called in the receiving loop's thread, within a turn; may free the letter's owner. */
	void (*open)(struct letter *letter);
	bool is_late;   /* the loop has ended: open() must only clean up */
	bool is_posted; /* for the loop only */
};

/*
 * Any thread may send a letter, except while the loop is being freed. They are opened in the
 * order in which they were posted. One that is posted and not opened yet stays where it is.
 */
void loop_post(struct loop *to, struct letter *letter);

/*
 * Takes back a letter that has not been opened; no effect on other letters. Only the receiving
 * loop's thread may call this, or any thread while that loop does not run.
 */
void loop_take_back(struct loop *loop, struct letter *letter);

/* Opens all letters with is_late, when the loop runs no more. loop_free() does it too. */
void loop_open_late(struct loop *loop);

/* ---- parking: only for crew.c ---- */

/* What the loop calls between two turns when it is called; returns when it may go on. */
void loop_parks_by(struct loop *loop, void (*park)(void *arg), void *arg);

/*
 * Calls the loop to park between two turns, until it is called off. Wakes it if it sleeps.
 * From any thread, after loop_parks_by().
 */
void loop_call(struct loop *loop);
void loop_call_off(struct loop *loop);

#endif
