/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/shed.h"

#include <stdint.h>

static void turn_window(struct shed *shed, const struct shed_rule *rule, usec_t now)
{
	usec_t past = now - shed->window_at;

	if (past < rule->interval)
		return;
	shed->served_before = past < 2 * rule->interval ? shed->served : 0;
	shed->served = 0;
	shed->window_at = now;
}

void shed_look(struct shed *shed, const struct shed_rule *rule, usec_t now, usec_t wait)
{
	bool is_long =
	    wait > rule->target || (shed->is_shedding && now - shed->refused_at < rule->interval);

	turn_window(shed, rule, now);
	if (is_long == shed->is_shedding) {
		shed->turned_at = 0;
	} else if (!shed->turned_at) {
		shed->turned_at = now;
	} else if (now - shed->turned_at >= rule->interval) {
		shed->is_shedding = is_long;
		shed->turned_at = 0;
	}
}

void shed_serve(struct shed *shed, const struct shed_rule *rule, usec_t now)
{
	turn_window(shed, rule, now);
	shed->served++;
}

bool shed_refuses(const struct shed *shed, const struct shed_rule *rule, unsigned int waiting,
                  unsigned int least, usec_t wait)
{
	unsigned int served =
	    shed->served > shed->served_before ? shed->served : shed->served_before;
	uint64_t room = (uint64_t)served * (uint64_t)rule->target / (uint64_t)rule->interval;

	return shed->is_shedding && wait >= rule->target / 2 &&
	       waiting > (room > least ? room : least);
}
