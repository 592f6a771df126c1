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
	bool is_long = wait > rule->target ||
	               (shed->phase == SHED_REFUSES && now - shed->refused_at < rule->interval);

	turn_window(shed, rule, now);
	if (is_long == (shed->phase == SHED_REFUSES)) {
		shed->turned_at = 0;
	} else if (!shed->turned_at) {
		shed->turned_at = now;
	} else if (now - shed->turned_at >= rule->interval) {
		shed->phase = is_long ? SHED_REFUSES : SHED_RESTS;
		shed->turned_at = 0;
	}
}

void shed_serve(struct shed *shed, const struct shed_rule *rule, usec_t now)
{
	turn_window(shed, rule, now);
	shed->served++;
}

/* So many are served in an interval: in this window, and in that part of the last one. */
static uint64_t served_lately(const struct shed *shed, usec_t interval, usec_t now)
{
	usec_t past = now - shed->window_at;
	uint64_t before = past < interval ? (uint64_t)(interval - past) : 0;

	return shed->served + shed->served_before * before / (uint64_t)interval;
}

bool shed_refuses(const struct shed *shed, const struct shed_rule *rule,
                  const struct shed_queue *queue)
{
	uint64_t room;

	if (shed->phase != SHED_REFUSES || queue->wait < rule->target / 2 ||
	    queue->waiting <= queue->least)
		return false;
	room = served_lately(shed, rule->interval, queue->now) * (uint64_t)rule->target /
	       (uint64_t)rule->interval;
	return queue->waiting > room;
}

bool shed_is_late(const struct shed *shed, const struct shed_rule *rule,
                  const struct shed_queue *queue)
{
	return shed->phase == SHED_REFUSES && queue->wait > rule->target + rule->target / 2 &&
	       queue->waiting > queue->least;
}
