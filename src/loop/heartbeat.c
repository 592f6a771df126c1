/* SPDX-License-Identifier: ISC */
/*
 * The heartbeat of all loops.
 *
 *   the first loop's timer: all have answered? --> beat(), a letter to each other loop
 *   another loop: opens its letter, which is its answer
 */
#include "pgweir/loop/heartbeat.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/loop/letter.h"

#include "pgweir/base/banned.h"

struct pulse {
	struct letter letter;
	struct loop *loop;
	struct heartbeat *heartbeat;
};

struct heartbeat {
	struct heartbeat_with with;
	struct loop *loop; /* the first */
	struct timer timer;
	atomic_uint missing_count; /* letters that have not been opened */
	unsigned int count;
	struct pulse pulses[]; /* of all loops but the first */
};

static void on_pulse(struct letter *letter)
{
	struct pulse *pulse = container_of(letter, struct pulse, letter);

	atomic_fetch_sub_explicit(&pulse->heartbeat->missing_count, 1, memory_order_release);
}

static void ask_all(struct heartbeat *heartbeat)
{
	atomic_store_explicit(&heartbeat->missing_count, heartbeat->count, memory_order_relaxed);
	for (unsigned int i = 0; i < heartbeat->count; i++)
		loop_post(heartbeat->pulses[i].loop, &heartbeat->pulses[i].letter);
}

static void on_timer(struct timer *timer)
{
	struct heartbeat *heartbeat = container_of(timer, struct heartbeat, timer);

	if (atomic_load_explicit(&heartbeat->missing_count, memory_order_acquire) == 0) {
		ask_all(heartbeat);
		heartbeat->with.beat(heartbeat->with.arg);
	}
	timer_set(timer, loop_timer_queue(heartbeat->loop, heartbeat->with.interval, on_timer),
	          loop_now(heartbeat->loop));
}

struct heartbeat *heartbeat_new(const struct heartbeat_with *with, struct err *err)
{
	unsigned int count = with->count - 1;
	struct heartbeat *heartbeat = calloc(1, sizeof(*heartbeat) + count * sizeof(struct pulse));

	if (!heartbeat) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	heartbeat->with = *with;
	heartbeat->with.loops = NULL;
	heartbeat->loop = with->loops[0];
	heartbeat->count = count;
	for (unsigned int i = 0; i < count; i++)
		heartbeat->pulses[i] = (struct pulse){ .letter.open = on_pulse,
			                               .loop = with->loops[i + 1],
			                               .heartbeat = heartbeat };
	on_timer(&heartbeat->timer);
	return heartbeat;
}

void heartbeat_free(struct heartbeat **heartbeatp)
{
	struct heartbeat *heartbeat = *heartbeatp;

	if (!heartbeat)
		return;
	timer_clear(&heartbeat->timer);
	for (unsigned int i = 0; i < heartbeat->count; i++)
		loop_take_back(heartbeat->pulses[i].loop, &heartbeat->pulses[i].letter);
	free(heartbeat);
	*heartbeatp = NULL;
}
