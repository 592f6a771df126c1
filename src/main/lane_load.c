/* SPDX-License-Identifier: ISC */
#include "lane_load.h"

#include "pgweir/base/banned.h"

#define LOOK_PERIOD (200 * USEC_PER_MS)
#define BUSY_PERCENT 70

void lane_load_init(struct lane_load *load)
{
	*load = (struct lane_load){ .is_looking = ATOMIC_FLAG_INIT };
	atomic_store(&load->looked_at, clock_now());
}

static void measure(struct lane_load *load, const struct lanes *lanes, usec_t time)
{
	const struct lane *lane;
	uint64_t busy = 0;

	LANES_EACH(lane, lanes)
	{
		usec_t cpu = loop_cpu(lane->loop);

		if ((cpu - load->cpu[lane->number]) * 100 > time * BUSY_PERCENT)
			busy |= UINT64_C(1) << lane->number;
		load->cpu[lane->number] = cpu;
	}
	atomic_store(&load->busy, busy);
}

uint64_t lane_load_busy(struct lane_load *load, const struct lanes *lanes)
{
	usec_t now = clock_now();

	if (now - atomic_load(&load->looked_at) >= LOOK_PERIOD &&
	    !atomic_flag_test_and_set(&load->is_looking)) {
		measure(load, lanes, now - atomic_load(&load->looked_at));
		atomic_store(&load->looked_at, now);
		atomic_flag_clear(&load->is_looking);
	}
	return atomic_load(&load->busy);
}
