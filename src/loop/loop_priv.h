/* SPDX-License-Identifier: ISC */
/*
 * The loop as its own files see it.
 */
#ifndef PGWEIR_LOOP_LOOP_PRIV_H
#define PGWEIR_LOOP_LOOP_PRIV_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/err.h"
#include "pgweir/base/heap.h"
#include "pgweir/base/lock.h"
#include "pgweir/loop/loop.h"

struct event_base;
struct signal_watch;

TAILQ_HEAD(task_list, task);
TAILQ_HEAD(letter_list, letter);

struct mailbox {
	struct watch wake;    /* on an eventfd */
	pthread_mutex_t lock; /* guards all fields below */
	struct letter_list letters;
	size_t count;
	bool is_woken; /* the eventfd was written and not yet read */
};

/* When the loop has to look at its timers: timers.c. */
struct loop_alarm {
	struct watch watch; /* on a timerfd */
	usec_t at;          /* that is set for this time; 0: it has come */
	struct heap queues; /* all timer queues */
};

struct loop {
	struct loop_clock clock; /* comes first: loop_now() */
	struct event_base *base;
	unsigned long turn_count;
	bool is_turning;
	bool is_stopping; /* atomic */
	usec_t poll_limit;
	usec_t poll_until;         /* when the loop may sleep again */
	unsigned long call_count;  /* callbacks made by libevent */
	unsigned long ready_count; /* those for descriptors */
	unsigned long poll_count;  /* turns in which polling found something */
	struct task_list tasks;
	void (*at_turn_end)(void *arg);
	void *at_turn_end_arg;
	struct timer_queue *timer_queues;
	struct loop_alarm alarm;
	struct signal_watch *signals;
	int *leaving; /* descriptors to close once the kernel no longer watches them */
	size_t leaving_count, leaving_capacity;
	bool is_called;  /* atomic: park at the end of the turn */
	bool was_parked; /* the next turn must not sleep */
	void (*park)(void *arg);
	void *park_arg;
	bool is_running; /* `thread` and cpu_clock are valid */
	bool is_parked;  /* atomic: its objects belong to the main thread */
	pthread_t thread;
	clockid_t cpu_clock;
	usec_t cpu_before; /* of earlier runs, without what polling has wasted */
	/* its processor time when it began to poll; 0: since then, a callback has run */
	usec_t wasted_since;
	char scratch[LOOP_SCRATCH_SIZE];
	/* Written by other threads, so it is far from what the loop itself uses most. */
	struct mailbox mailbox;
};

/* ---- loop.c ---- */

/* In builds with AddressSanitizer: the loop's objects must belong to this thread now. */
#define loop_assert_mine(loop) assert(!RULES_ARE_CHECKED || loop_is_mine(loop))
bool loop_is_mine(const struct loop *loop);

/* What the loop calls between two turns when it is called; returns when it may go on. */
void loop_parks_by(struct loop *loop, void (*park)(void *arg), void *arg);

/*
 * Calls the loop to park between two turns, until it is called off. Wakes it if it sleeps.
 * From any thread, after loop_parks_by().
 */
void loop_call(struct loop *loop);
void loop_call_off(struct loop *loop);

/* ---- timers.c ---- */

/* false: errno says why. timers_free(): frees all timer queues; no timer may be set. */
bool timers_init(struct loop *loop);
void timers_free(struct loop *loop);

/* It is the time of the alarm: calls on_due() of all timers that are due. */
void timers_fire(struct loop *loop);

/* ---- threads beside the main thread: crew.c ---- */

/* For threads that call little; a loop needs more. */
#define THREAD_STACK_SIZE ((size_t)1024 * 1024)

/* All signals are blocked: the main thread handles them. false: *err says why. */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, size_t stack_size,
                  struct err *err);

#endif
