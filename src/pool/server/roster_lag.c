/* SPDX-License-Identifier: ISC */
/*
 * How far the standbys of a roster are behind.
 *
 *   positions of the primary --> samples: at this time it had written so far
 *   position of a standby    --> the last sample that it has in full: so old is what it shows
 *
 * A lag may be looked at by several pools, each with a limit of its own. What is noted is whether
 * a standby exceeds one of them, not each change of a lag.
 */
#include <stdlib.h>
#include <string.h>

#include "roster_priv.h"

/*
 * Drops the sample whose absence makes the least difference in relation to its age, so that the
 * error of a great lag is a small part of it.
 */
static void drop_sample(struct roster *roster, usec_t now)
{
	struct roster_sample *samples = roster->samples;
	double least = 0;
	unsigned int drop = 0;

	for (unsigned int i = 1; i + 1 < roster->sample_count; i++) {
		double gap = (double)(samples[i + 1].at - samples[i - 1].at);
		double part = gap / (double)(now - samples[i].at + 1);

		if (drop == 0 || part < least) {
			least = part;
			drop = i;
		}
	}
	roster->sample_count--;
	memmove(&samples[drop], &samples[drop + 1],
	        (roster->sample_count - drop) * sizeof(*samples));
}

void roster_add_sample(struct roster *roster, uint64_t position, usec_t now)
{
	struct roster_sample *last =
	    roster->sample_count ? &roster->samples[roster->sample_count - 1] : NULL;

	if (last && position < last->position) {
		roster->sample_count = 0; /* another primary, or it has lost some of its WAL */
		last = NULL;
	}
	if (last && position == last->position) {
		last->at = now;
		return;
	}
	if (roster->sample_count == ROSTER_SAMPLES)
		drop_sample(roster, now);
	roster->samples[roster->sample_count++] = (struct roster_sample){ position, now };
}

/* Without a watch there is no lag: a position that nobody asks for again says little. */
static bool has_lag(const struct roster *roster, const struct roster_row *row)
{
	if (!row->is_watched || row->known.role != HOST_STANDBY || !row->known.position)
		return false;
	for (unsigned int i = 0; i < roster->count; i++) {
		const struct roster_row *primary = &roster->rows[i];

		if (primary->is_elected && !primary->is_lost && !primary->is_watched)
			return false;
	}
	return roster->sample_count;
}

/* A standby has everything that the primary had written when its position was not greater. */
void roster_set_lag(const struct roster *roster, struct roster_row *row, usec_t now)
{
	unsigned int count = roster->sample_count;
	uint64_t position = row->known.position, newest;

	row->lag = ROSTER_LAG_UNKNOWN;
	row->lag_bytes = 0;
	if (!has_lag(roster, row))
		return;
	newest = roster->samples[count - 1].position;
	if (position >= newest) {
		row->lag = 0;
		return;
	}
	row->lag_bytes = newest - position;
	while (count && roster->samples[count - 1].position > position)
		count--;
	row->lag = now - roster->samples[count ? count - 1 : 0].at;
	if (!count && row->known.replay_age > row->lag)
		row->lag = row->known.replay_age; /* it was behind before the first sample */
}

/* ---- copies ---- */

/* Whether its last answer is to a question that was asked at that time or later. */
static bool is_asked_since(const struct roster_row *row, usec_t at)
{
	return row->asked_at && row->asked_at - row->known.latency >= at;
}

static bool can_be_asked(const struct roster_row *row)
{
	return row->is_watched && !row->is_lost && row->known.position;
}

/* A primary that is lost now may have answered before. */
static enum roster_copy compare(const struct roster_row *primary, const struct roster_row *standby,
                                usec_t since)
{
	if (!is_asked_since(primary, since))
		return can_be_asked(primary) ? ROSTER_COPY_ASKED : ROSTER_COPY_UNKNOWN;
	if (!can_be_asked(standby) || standby->is_foreign ||
	    standby->known.timeline != primary->known.timeline)
		return ROSTER_COPY_UNKNOWN;
	if (standby->known.position >= primary->known.position)
		return ROSTER_COPY_WHOLE;
	return is_asked_since(standby, since + ROSTER_COPY_WAIT) ? ROSTER_COPY_BEHIND
	                                                         : ROSTER_COPY_ASKED;
}

bool roster_copy_at(struct roster *roster, unsigned int number, unsigned int host, usec_t since,
                    struct roster_row *row, enum roster_copy *copy, uint64_t *missing)
{
	const struct roster_row *primary = NULL;
	bool is_row;

	roster_lock(roster);
	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster->rows[i].is_elected && roster->rows[i].host == host)
			primary = &roster->rows[i];
	}
	*copy = ROSTER_COPY_NONE;
	is_row = number < roster->count;
	if (is_row) {
		*row = roster->rows[number];
		if (primary && row->known.role == HOST_STANDBY)
			*copy = compare(primary, row, since);
		if (*copy == ROSTER_COPY_BEHIND)
			*missing = primary->known.position - row->known.position;
	}
	roster_unlock(roster);
	return is_row;
}

/* ---- limits ---- */

bool roster_row_is_behind(const struct roster_row *row, const struct roster_limit *limit)
{
	if (!roster_has_limit(limit) || row->known.role != HOST_STANDBY)
		return false;
	if (row->lag == ROSTER_LAG_UNKNOWN)
		return true;
	return (limit->lag && row->lag > limit->lag) ||
	       (limit->bytes && row->lag_bytes > limit->bytes);
}

static void tell_behind(const struct roster_row *row, const struct roster_row *before,
                        const struct roster_limit *limit, struct roster_changes *changes)
{
	bool is_behind = roster_row_is_behind(row, limit);
	bool was_behind = before->known.role == HOST_STANDBY && before->lag != ROSTER_LAG_UNKNOWN &&
	                  roster_row_is_behind(before, limit);
	struct roster_change *change;

	if (row->known.role != HOST_STANDBY || row->lag == ROSTER_LAG_UNKNOWN ||
	    is_behind == was_behind)
		return;
	change = roster_add_change(changes,
	                           is_behind ? ROSTER_EVENT_BEHIND : ROSTER_EVENT_CAUGHT_UP, row);
	if (change)
		change->limit = *limit;
}

void roster_look_at_limits(struct roster *roster, const struct roster_row *row,
                           const struct roster_row *before, struct roster_changes *changes)
{
	for (unsigned int i = 0; i < roster->limit_count; i++) {
		const struct roster_limit *limit = &roster->limits[i];

		tell_behind(row, before, limit, changes);
		if (roster_row_is_behind(row, limit) != roster_row_is_behind(before, limit))
			roster_bump(roster, changes);
	}
}

bool roster_is_behind(struct roster *roster, const struct roster_at *at,
                      const struct roster_limit *limit)
{
	bool has_row = false, is_behind = true;

	roster_lock(roster);
	for (unsigned int i = 0; i < roster->count; i++) {
		const struct roster_row *row = &roster->rows[i];

		if (at->address ? !roster_row_is_of(row, at) : row->host != at->host)
			continue;
		has_row = true;
		is_behind = is_behind && roster_row_is_behind(row, limit);
	}
	roster_unlock(roster);
	return has_row && is_behind;
}

bool roster_set_limits(struct roster *roster, const struct roster_limit *limits, unsigned int count)
{
	struct roster_limit *copy = count ? calloc(count, sizeof(*copy)) : NULL;

	if (count && !copy)
		return false;
	if (count)
		memcpy(copy, limits, count * sizeof(*copy));
	roster_lock(roster);
	free(roster->limits);
	roster->limits = copy;
	roster->limit_count = count;
	roster_unlock(roster);
	return true;
}
