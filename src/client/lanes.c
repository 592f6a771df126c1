/* SPDX-License-Identifier: ISC */
/*
 * Lanes: what is summed over all of them.
 */
#include "pgweir/client/lanes.h"

void lanes_drain(const struct lanes *lanes, struct drain_progress *sum)
{
	const struct lane *lane;

	*sum = (struct drain_progress){ .is_done = true };
	lanes_hold(lanes);
	LANES_EACH(lane, lanes)
	drain_add(lane->clients, sum);
	lanes_release(lanes);
}
