/* SPDX-License-Identifier: ISC */
/*
 * Zones of the resolver's names. The serial number of each zone is queried from time to time.
 * If it has grown, all names of the zone are looked up again, and watches whose address is gone
 * are notified.
 *
 * Hard here: a zone ends with its last name. This may happen while its serial number is being
 * queried, or while its names are walked through.
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "resolver_priv.h"

/* Removes a zone without names from the table; frees it when no query is running. */
static void release(struct resolver_zone *zone)
{
	struct resolver *resolver = zone->resolver;

	if (zone->name_count > 0)
		return;
	if (zone->is_filed)
		HASH_DEL(resolver->zones, zone);
	zone->is_filed = false;
	timer_clear(&zone->timer);
	loop_undefer(resolver->loop, &zone->task);
	if (!zone->is_asking)
		free(zone);
}

static void on_zone_due(struct timer *timer);

static void wait_period(struct resolver_zone *zone)
{
	struct resolver *resolver = zone->resolver;

	timer_begin(&zone->timer, resolver->loop, resolver->zone_period, on_zone_due);
}

/* Serial number arithmetic (RFC 1982): the value after the largest is 0. */
static bool has_grown(uint32_t before, uint32_t after) { return (int32_t)(after - before) > 0; }

static void on_serial(void *arg, const struct dns_answer *answer)
{
	struct resolver_zone *zone = arg;

	zone->is_asking = false;
	if (zone->resolver->is_ending || !zone->is_filed) {
		release(zone);
		return;
	}
	wait_period(zone);
	if (!answer->serial)
		return;
	if (zone->has_serial && has_grown(zone->serial, *answer->serial))
		loop_defer(zone->resolver->loop, &zone->task);
	zone->serial = *answer->serial;
	zone->has_serial = true;
}

static void ask_for_serial(struct resolver_zone *zone)
{
	struct err err;

	if (zone->is_asking)
		return;
	zone->is_asking = true;
	if (dns_query_serial(zone->resolver->dns, zone->text, on_serial, zone, &err))
		return;
	zone->is_asking = false;
	wait_period(zone);
}

static void on_zone_due(struct timer *timer)
{
	ask_for_serial(container_of(timer, struct resolver_zone, timer));
}

static void refresh_names(struct task *task)
{
	struct resolver_zone *zone = container_of(task, struct resolver_zone, task);
	struct resolver_name *name, *next;

	TAILQ_FOREACH_SAFE (name, &zone->names, zone_node, next) {
		resolver_refresh_name(name); /* may end the name, and with the last name the zone */
	}
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
	zone->task.run = refresh_names;
	TAILQ_INIT(&zone->names);
	HASH_ADD_KEYPTR(hh, resolver->zones, zone->text, size - 1, zone);
	if (!zone->is_lost) {
		zone->is_filed = true;
		return zone;
	}
	free(zone);
	return NULL;
}

void resolver_zone_enter(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;
	const char *dot = strchr(name->host, '.');
	struct resolver_zone *zone;

	if (resolver->leader || resolver->zone_period <= 0 || !dot || !dot[1] || name->zone)
		return;
	HASH_FIND(hh, resolver->zones, dot + 1, strlen(dot + 1), zone);
	if (!zone)
		zone = add_zone(resolver, dot + 1);
	if (!zone)
		return; /* no memory: the name is looked up again when its time is over */
	name->zone = zone;
	TAILQ_INSERT_TAIL(&zone->names, name, zone_node);
	if (zone->name_count++ == 0)
		ask_for_serial(zone);
}

void resolver_zone_leave(struct resolver_name *name)
{
	struct resolver_zone *zone = name->zone;

	if (!zone)
		return;
	name->zone = NULL;
	TAILQ_REMOVE(&zone->names, name, zone_node);
	zone->name_count--;
	release(zone);
}

void resolver_set_zone_period(struct resolver *resolver, usec_t period)
{
	struct resolver_name *name, *next_name;
	struct resolver_zone *zone, *next;

	if (period == resolver->zone_period)
		return;
	resolver->zone_period = period;
	HASH_ITER (hh, resolver->zones, zone, next) {
		if (!zone->is_asking)
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

/*
 * ---- resolver notes ----
 *
 * Notes between the resolvers of several loops: letters about one name.
 *
 * Hard here: at the end, one resolver may be freed before another one that still has a note for
 * it. So a note is sent to a loop, which lives longer, and a late one is only freed.
 */

struct resolver_note *resolver_note_new(struct resolver *follower, enum note_kind kind,
                                        const char *host, unsigned int room)
{
	size_t size = strlen(host) + 1;
	struct resolver_note *note = calloc(1, sizeof(*note) + size);

	if (!note)
		return NULL;
	memcpy(note->host, host, size);
	note->kind = kind;
	note->follower = follower;
	note->addresses = room ? malloc(room * sizeof(*note->addresses)) : NULL;
	if (!room || note->addresses)
		return note;
	free(note);
	return NULL;
}

void resolver_note_free(struct resolver_note **note)
{
	free((*note)->addresses);
	free(*note);
	*note = NULL;
}

static void on_letter(struct letter *letter)
{
	struct resolver_note *note = container_of(letter, struct resolver_note, letter);

	if (letter->is_late)
		resolver_note_free(&note);
	else
		note->to->on_note(note->to, note);
}

void resolver_note_post(struct resolver_note *note)
{
	struct resolver *follower = note->follower;
	bool is_result = note->kind == NOTE_FOUND;

	note->to = is_result ? follower : follower->leader;
	note->letter.open = on_letter;
	loop_post(is_result ? follower->loop : follower->leader_loop, &note->letter);
}
