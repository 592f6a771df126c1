/* SPDX-License-Identifier: ISC */
/*
 * The rows of a roster: how a change of one is noted for the log and the pools, which hosts fit,
 * and how far the standbys are behind.
 */
#include "roster_priv.h"

#include <stdlib.h>
#include <string.h>

static bool roster_row_is_of(const struct roster_row *row, const struct roster_at *at)
{
	if (row->host != at->host)
		return false;
	if (!at->address)
		return row->address.family == AF_UNSPEC;
	return row->address.family != AF_UNSPEC && address_equal_host(&row->address, at->address);
}

struct roster_row *roster_find_row(const struct roster *roster, const struct roster_at *at)
{
	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster_row_is_of(&roster->rows[i], at))
			return &roster->rows[i];
	}
	return NULL;
}

static void remove_row(struct roster *roster, unsigned int number)
{
	roster->count--;
	memmove(&roster->rows[number], &roster->rows[number + 1],
	        (roster->count - number) * sizeof(*roster->rows));
}

/* A host with as many rows as it may have loses that which was not seen for the longest time. */
static void make_space(struct roster *roster, unsigned int host)
{
	unsigned int count = 0, oldest = 0;

	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster->rows[i].host != host)
			continue;
		if (count++ == 0 || roster->rows[i].seen_at < roster->rows[oldest].seen_at)
			oldest = i;
	}
	if (count >= ROSTER_ADDRESSES)
		remove_row(roster, oldest);
}

/* Rows are in the order of their hosts, and of a host in the order in which they were found. */
static struct roster_row *insert_row(struct roster *roster, const struct roster_at *at)
{
	struct roster_row *rows = realloc(roster->rows, (roster->count + 1) * sizeof(*rows));
	unsigned int place = roster->count;

	if (!rows)
		return NULL;
	roster->rows = rows;
	while (place > 0 && rows[place - 1].host > at->host)
		place--;
	memmove(&rows[place + 1], &rows[place], (roster->count - place) * sizeof(*rows));
	roster->count++;
	rows[place] = (struct roster_row){ .host = at->host,
		                           .admin = roster->admins[at->host],
		                           .lag = ROSTER_LAG_UNKNOWN };
	if (at->address) {
		rows[place].address = *at->address;
		address_set_port(&rows[place].address, 0);
	}
	return &rows[place];
}

struct roster_row *roster_row_of(struct roster *roster, const struct roster_at *at)
{
	struct roster_row *row = roster_find_row(roster, at);

	if (row || at->host >= roster->host_count)
		return row;
	make_space(roster, at->host);
	return insert_row(roster, at);
}

bool roster_find(struct roster *roster, const struct roster_at *at, struct roster_row *row)
{
	const struct roster_row *found;

	roster_lock(roster);
	found = roster_find_row(roster, at);
	if (found)
		*row = *found;
	roster_unlock(roster);
	return found != NULL;
}

bool roster_row_at(struct roster *roster, unsigned int number, struct roster_row *row)
{
	bool has;

	roster_lock(roster);
	has = number < roster->count;
	if (has)
		*row = roster->rows[number];
	roster_unlock(roster);
	return has;
}

static bool is_one_of(const struct address *address, const struct address *addresses,
                      unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (address_equal_host(address, &addresses[i]))
			return true;
	}
	return false;
}

void roster_keep(struct roster *roster, unsigned int host, const struct address *addresses,
                 unsigned int count)
{
	roster_lock(roster);
	for (unsigned int i = roster->count; i-- > 0;) {
		const struct roster_row *row = &roster->rows[i];

		if (row->host == host && (row->address.family == AF_UNSPEC ||
		                          !is_one_of(&row->address, addresses, count)))
			remove_row(roster, i);
	}
	roster_unlock(roster);
}

/* ---- changes ---- */

struct roster_change *roster_add_change(struct roster_changes *changes, enum roster_event event,
                                        const struct roster_row *row)
{
	struct roster_change *change;

	if (!changes || changes->count == ROSTER_CHANGES_MAX)
		return NULL;
	change = &changes->list[changes->count++];
	*change = (struct roster_change){ .event = event, .row = *row };
	return change;
}

void roster_bump(struct roster *roster, struct roster_changes *changes)
{
	atomic_fetch_add_explicit(&roster->number, 1, memory_order_release);
	if (changes)
		changes->has_news = true;
}

/* ---- which fit a target: for a new server, and for one that is there ---- */

bool roster_is_target(enum target_session_attrs target, enum host_role role, bool is_read_only)
{
	switch (target) {
	case TARGET_READ_WRITE:
		return role == HOST_PRIMARY && !is_read_only;
	case TARGET_READ_ONLY:
		return role == HOST_STANDBY || is_read_only;
	case TARGET_PRIMARY:
		return role == HOST_PRIMARY;
	case TARGET_STANDBY:
		return role == HOST_STANDBY;
	case TARGET_ANY:
	case TARGET_PREFER_STANDBY:
		return true;
	}
	return true;
}

static enum roster_fit fit_of_role(const struct roster_row *row, enum target_session_attrs target)
{
	enum host_role role = row->known.role;

	if (role == HOST_ROLE_UNKNOWN)
		return ROSTER_MAYBE;
	if (row->is_diverged)
		return ROSTER_NO;
	if (target == TARGET_PREFER_STANDBY)
		return role == HOST_STANDBY ? ROSTER_GOOD : ROSTER_SPARE;
	return roster_is_target(target, role, row->known.is_read_only) ? ROSTER_GOOD : ROSTER_NO;
}

static bool is_open(const struct roster *roster, unsigned int host)
{
	return host >= roster->host_count || roster->admins[host] == HOST_ENABLED;
}

static enum roster_fit no_fit(usec_t when, usec_t *due)
{
	*due = when;
	return ROSTER_NO;
}

/* If no watch finds out that the row fits, logins do. */
static enum roster_fit no_fit_now(const struct roster_row *row, usec_t gap, usec_t *due)
{
	usec_t last = row->seen_at > row->tried_at ? row->seen_at : row->tried_at;

	return no_fit(row->is_watched ? INT64_MAX : last + gap, due);
}

static enum roster_fit fit_of(const struct roster_row *row, enum target_session_attrs target,
                              usec_t gap, usec_t *due)
{
	enum roster_fit fit;

	*due = 0;
	if (row->is_fenced)
		return no_fit_now(row, gap, due);
	if (target == TARGET_ANY)
		return ROSTER_GOOD;
	if (row->is_lost)
		return no_fit_now(row, gap, due);
	fit = fit_of_role(row, target);
	return fit != ROSTER_NO ? fit : no_fit_now(row, gap, due);
}

static enum roster_fit fit_of_none(enum target_session_attrs target, usec_t *due)
{
	*due = 0;
	return target == TARGET_ANY ? ROSTER_GOOD : ROSTER_MAYBE;
}

enum roster_fit roster_fit(struct roster *roster, const struct roster_at *at,
                           enum target_session_attrs target, usec_t gap, usec_t *due)
{
	const struct roster_row *row;
	enum roster_fit fit;

	roster_lock(roster);
	row = roster_find_row(roster, at);
	if (!is_open(roster, at->host))
		fit = no_fit(INT64_MAX, due);
	else
		fit = row ? fit_of(row, target, gap, due) : fit_of_none(target, due);
	roster_unlock(roster);
	return fit;
}

/* The caller has the lock. */
static enum roster_fit best_fit(const struct roster *roster, unsigned int host,
                                enum target_session_attrs target, usec_t gap, usec_t *due)
{
	enum roster_fit best = ROSTER_NO;
	bool has_row = false;

	*due = INT64_MAX;
	for (unsigned int i = 0; i < roster->count; i++) {
		enum roster_fit fit;
		usec_t one;

		if (roster->rows[i].host != host)
			continue;
		has_row = true;
		fit = fit_of(&roster->rows[i], target, gap, &one);
		best = fit > best ? fit : best;
		*due = one < *due ? one : *due;
	}
	return has_row ? best : fit_of_none(target, due);
}

enum roster_fit roster_fit_host(struct roster *roster, unsigned int host,
                                enum target_session_attrs target, usec_t gap, usec_t *due)
{
	enum roster_fit fit;

	roster_lock(roster);
	if (is_open(roster, host))
		fit = best_fit(roster, host, target, gap, due);
	else
		fit = no_fit(INT64_MAX, due);
	roster_unlock(roster);
	return fit;
}

static enum roster_stay stay_of(const struct roster *roster, const struct roster_at *at,
                                enum target_session_attrs target)
{
	const struct roster_row *row = roster_find_row(roster, at);
	enum host_admin admin =
	    at->host < roster->host_count ? roster->admins[at->host] : HOST_ENABLED;

	if (row && row->is_fenced)
		return ROSTER_FENCED;
	if (admin != HOST_ENABLED)
		return admin == HOST_DISABLED ? ROSTER_DISABLED : ROSTER_DRAINED;
	if (!row || target == TARGET_ANY)
		return ROSTER_STAYS;
	if (row->known.role != HOST_ROLE_UNKNOWN &&
	    !roster_is_target(target, row->known.role, row->known.is_read_only))
		return ROSTER_ROLE;
	if (row->is_diverged)
		return ROSTER_ROLE;
	if (row->is_doubted && (target == TARGET_PRIMARY || target == TARGET_READ_WRITE))
		return ROSTER_ROLE;
	return row->is_lost ? ROSTER_LOST_THERE : ROSTER_STAYS;
}

enum roster_stay roster_stay(struct roster *roster, const struct roster_at *at,
                             enum target_session_attrs target)
{
	enum roster_stay stay;

	roster_lock(roster);
	stay = stay_of(roster, at, target);
	roster_unlock(roster);
	return stay;
}

void roster_try(struct roster *roster, const struct roster_at *at, usec_t now)
{
	struct roster_row *row;

	roster_lock(roster);
	row = roster_find_row(roster, at);
	if (row)
		row->tried_at = now;
	roster_unlock(roster);
}

/*
 * ---- lag ----
 *
 * How far the standbys of a roster are behind.
 *
 *   positions of the primary --> samples: at this time it had written so far
 *   position of a standby    --> the last sample that it has in full: so old is what it shows
 *
 * A lag may be looked at by several pools, each with a limit of its own. What is noted is whether
 * a standby exceeds one of them, not each change of a lag.
 */

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
