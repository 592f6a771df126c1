/* SPDX-License-Identifier: ISC */
#include "lane_load.h"

#define LOOK_PERIOD (200 * USEC_PER_MS)
#define BUSY_PERCENT 70

void lane_load_init(struct lane_load *load, usec_t now)
{
	*load = (struct lane_load){ .is_looking = ATOMIC_FLAG_INIT, .looked_at = now };
}

static uint64_t measure(struct lane_load *load, const struct lane_clocks *clocks, usec_t time)
{
	uint64_t busy = 0;

	for (unsigned int number = 0; number < clocks->count; number++) {
		usec_t cpu = clocks->cpu(clocks->arg, number);

		if ((cpu - load->cpu[number]) * 100 > time * BUSY_PERCENT)
			busy |= UINT64_C(1) << number;
		load->cpu[number] = cpu;
	}
	return busy;
}

/* Another lane may have looked since the caller has read its clock: `now` may be before that. */
uint64_t lane_load_busy(struct lane_load *load, const struct lane_clocks *clocks, usec_t now)
{
	if (!atomic_flag_test_and_set(&load->is_looking)) {
		usec_t time = now - load->looked_at;

		if (time >= LOOK_PERIOD) {
			atomic_store(&load->busy, measure(load, clocks, time));
			load->looked_at = now;
		}
		atomic_flag_clear(&load->is_looking);
	}
	return atomic_load(&load->busy);
}
