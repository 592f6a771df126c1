/* SPDX-License-Identifier: ISC */
/*
 * The loop as its own files see it.
 */
#ifndef PGWEIR_LOOP_LOOP_PRIV_H
#define PGWEIR_LOOP_LOOP_PRIV_H

#include "pgweir/loop/loop.h"

struct event_base;
struct signal_watch;

TAILQ_HEAD(task_list, task);

struct loop {
	struct event_base *base;
	usec_t now; /* time of this turn; 0 = not read yet */
	unsigned long turn_count;
	bool is_turning;
	bool is_stopping;
	usec_t poll_limit;
	usec_t poll_until;         /* when the loop may sleep again */
	unsigned long call_count;  /* callbacks made by libevent */
	unsigned long ready_count; /* those for descriptors */
	unsigned long poll_count;  /* turns in which polling found something */
	struct task_list tasks;
	void (*at_turn_end)(void *arg);
	void *at_turn_end_arg;
	struct timer_queue *timer_queues;
	struct signal_watch *signals;
	int *leaving; /* descriptors to close once the kernel no longer watches them */
	size_t leaving_count, leaving_capacity;
	char scratch[LOOP_SCRATCH_SIZE];
};

/* ---- timers.c ---- */

/* Frees all timer queues; no timer may be set. */
void timers_free(struct loop *loop);

#endif
