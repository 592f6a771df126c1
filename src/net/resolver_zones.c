/* SPDX-License-Identifier: ISC */
/*
 * Zones of the resolver's names. The serial number of each zone is queried from time to time.
 * If it has grown, all names of the zone are looked up again, and watches whose address is gone
 * are notified.
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "resolver_priv.h"

static void on_zone_due(struct timer *timer);

static void wait_period(struct resolver_zone *zone)
{
	struct resolver *resolver = zone->resolver;

	timer_begin(&zone->timer, resolver->loop, resolver->zone_period, on_zone_due);
}

/* Each one may end, and with the last one the zone. */
static void refresh_names(struct resolver_zone *zone)
{
	struct resolver_name *name, *next;

	TAILQ_FOREACH_SAFE (name, &zone->names, zone_node, next)
		resolver_refresh_name(name);
}

/* Serial number arithmetic (RFC 1982): the value after the largest is 0. */
static bool has_grown(uint32_t before, uint32_t after) { return (int32_t)(after - before) > 0; }

static void on_serial(struct dns_query **query, struct dns_answer *answer)
{
	struct resolver_zone *zone = container_of(query, struct resolver_zone, query);
	bool is_news = zone->has_serial && has_grown(zone->serial, answer->serial);

	wait_period(zone);
	if (!answer->count)
		return;
	zone->serial = answer->serial;
	zone->has_serial = true;
	if (is_news)
		refresh_names(zone);
}

static void on_zone_due(struct timer *timer)
{
	struct resolver_zone *zone = container_of(timer, struct resolver_zone, timer);
	struct err err;

	if (!dns_query(zone->resolver->dns, DNS_SERIAL, zone->text, &zone->query, on_serial, &err))
		wait_period(zone);
}

static struct resolver_zone *add_zone(struct resolver *resolver, const char *text)
{
	size_t size = strlen(text) + 1;
	struct resolver_zone *zone = calloc(1, sizeof(*zone) + size);

	if (!zone)
		return NULL;
	memcpy(zone->text, text, size);
	zone->resolver = resolver;
	zone->number = ++resolver->serial;
	TAILQ_INIT(&zone->names);
	HASH_ADD_KEYPTR(hh, resolver->zones, zone->text, size - 1, zone);
	if (zone->hh.tbl)
		return zone;
	free(zone);
	return NULL;
}

void resolver_zone_enter(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;
	const char *dot = strchr(name->host, '.');
	struct resolver_zone *zone;

	if (resolver->zone_period <= 0 || !dot || !dot[1] || name->zone)
		return;
	HASH_FIND(hh, resolver->zones, dot + 1, strlen(dot + 1), zone);
	if (!zone)
		zone = add_zone(resolver, dot + 1);
	if (!zone)
		return; /* no memory: the name is looked up again when its time is over */
	name->zone = zone;
	TAILQ_INSERT_TAIL(&zone->names, name, zone_node);
	if (zone->name_count++ == 0)
		on_zone_due(&zone->timer);
}

void resolver_zone_leave(struct resolver_name *name)
{
	struct resolver_zone *zone = name->zone;

	if (!zone)
		return;
	name->zone = NULL;
	TAILQ_REMOVE(&zone->names, name, zone_node);
	if (--zone->name_count > 0)
		return;
	HASH_DEL(name->resolver->zones, zone);
	timer_clear(&zone->timer);
	dns_forget(&zone->query);
	free(zone);
}

void resolver_set_zone_period(struct resolver *resolver, usec_t period)
{
	struct resolver_name *name, *next_name;
	struct resolver_zone *zone, *next;

	if (period == resolver->zone_period)
		return;
	resolver->zone_period = period;
	HASH_ITER (hh, resolver->zones, zone, next) {
		if (!zone->query)
			wait_period(zone);
	}
	HASH_ITER (hh, resolver->names, name, next_name) {
		if (period > 0)
			resolver_zone_enter(name);
		else
			resolver_zone_leave(name);
	}
}

/* ---- for SHOW ---- */

unsigned int resolver_zone_count(const struct resolver *resolver)
{
	return HASH_COUNT(resolver->zones);
}

bool resolver_next_zone(struct resolver *resolver, unsigned long *cursor,
                        struct resolver_zone_row *row)
{
	struct resolver_zone *zone = resolver->zones;

	while (zone && zone->number <= *cursor)
		zone = zone->hh.next;
	if (!zone)
		return false;
	*cursor = zone->number;
	*row = (struct resolver_zone_row){ zone->text, zone->serial, zone->name_count };
	return true;
}
