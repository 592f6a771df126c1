/* SPDX-License-Identifier: ISC */
/*
 * Which hosts of a roster fit a target: for a new server, and for one that is there.
 */
#include "roster_priv.h"

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
