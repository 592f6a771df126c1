/* SPDX-License-Identifier: ISC */
/* The loop, as its own files see it. */
#ifndef PGWEIR_LOOP_LOOP_PRIV_H
#define PGWEIR_LOOP_LOOP_PRIV_H

#include "pgweir/loop/loop.h"

struct event_base;
struct signal_watch;

TAILQ_HEAD(task_list, task);

struct loop {
	struct event_base *base;
	usec_t now; /* of this turn; 0 = not read yet */
	unsigned long turn_count;
	bool is_turning;
	bool is_stopping;
	usec_t poll_limit;
	usec_t poll_until;         /* when it may sleep again */
	unsigned long call_count;  /* callbacks of libevent's */
	unsigned long ready_count; /* those of them for descriptors */
	unsigned long poll_count;  /* turns that found something by polling */
	struct task_list tasks;
	void (*at_turn_end)(void *arg);
	void *at_turn_end_arg;
	struct timer_queue *lines;
	struct signal_watch *signals;
	int *leaving; /* descriptors to be closed when the kernel has been told */
	size_t leaving_count, leaving_capacity;
	char scratch[LOOP_SCRATCH_SIZE];
};

/* ---- timers.c ---- */

/* All lines go; no timer may be set any more. */
void timers_free(struct loop *loop);

#endif
