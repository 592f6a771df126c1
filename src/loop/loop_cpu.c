/* SPDX-License-Identifier: ISC */
/*
 * The processor time of a loop.
 *
 * Hard here: other threads read it while the loop runs. Polling that finds nothing is taken off the
 * time at its end, and until then the time stands still.
 */
#include "loop_priv.h"

#include "pgweir/base/banned.h"

static usec_t read_clock(clockid_t clock)
{
	struct timespec time = { 0 };

	clock_gettime(clock, &time);
	return time.tv_sec * USEC_PER_SEC + time.tv_nsec / 1000;
}

void loop_cpu_begin(struct loop *loop)
{
	bool has_clock = pthread_getcpuclockid(pthread_self(), &loop->cpu_clock) == 0;

	__atomic_sub_fetch(&loop->cpu_before, read_clock(CLOCK_THREAD_CPUTIME_ID),
	                   __ATOMIC_RELAXED);
	__atomic_store_n(&loop->is_running, has_clock, __ATOMIC_RELEASE);
}

void loop_cpu_end(struct loop *loop)
{
	__atomic_store_n(&loop->is_running, false, __ATOMIC_RELEASE);
	__atomic_add_fetch(&loop->cpu_before, read_clock(CLOCK_THREAD_CPUTIME_ID),
	                   __ATOMIC_RELAXED);
}

void loop_cpu_begin_waste(struct loop *loop)
{
	__atomic_store_n(&loop->wasted_since, read_clock(CLOCK_THREAD_CPUTIME_ID),
	                 __ATOMIC_RELEASE);
}

void loop_cpu_end_waste(struct loop *loop)
{
	usec_t wasted = read_clock(CLOCK_THREAD_CPUTIME_ID) - loop->wasted_since;

	__atomic_sub_fetch(&loop->cpu_before, wasted, __ATOMIC_RELAXED);
	__atomic_store_n(&loop->wasted_since, 0, __ATOMIC_RELEASE);
}

usec_t loop_cpu(const struct loop *loop)
{
	bool is_running = __atomic_load_n(&loop->is_running, __ATOMIC_ACQUIRE);
	usec_t now = __atomic_load_n(&loop->wasted_since, __ATOMIC_ACQUIRE);

	if (is_running && !now)
		now = read_clock(loop->cpu_clock);
	return __atomic_load_n(&loop->cpu_before, __ATOMIC_RELAXED) + now;
}
