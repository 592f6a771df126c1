/* SPDX-License-Identifier: ISC */
/*
 * The roster of a cluster: what is reported about its hosts, and which primary counts. Its rows,
 * how far standbys are behind and which hosts fit are in roster_rows.c.
 *
 *   roster_note(), roster_lose() --> a row --> elect(): which primary counts, who is fenced
 *                                          --> what has changed, for the log and the pools
 *
 * Hard here: more than one host may say that it is primary. Its timeline decides, as a promotion
 * always begins a newer one. If timelines are equal or not known, a host that answers counts
 * before one that does not, and then the one that has counted so far. Two addresses may lead to
 * the same server, which is not fenced because of itself.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "roster_priv.h"

/* ---- who is primary ---- */

static bool is_primary(const struct roster_row *row) { return row->known.role == HOST_PRIMARY; }

static bool is_foreign(const struct roster *roster, const struct roster_row *row)
{
	return roster->system && row->known.system && row->known.system != roster->system;
}

static bool is_outdated(const struct roster *roster, const struct roster_row *row)
{
	return row->known.timeline && row->known.timeline < roster->timeline;
}

static bool may_count(const struct roster *roster, const struct roster_row *row)
{
	return is_primary(row) && !is_foreign(roster, row) && !is_outdated(roster, row);
}

/* Whether `a` counts before `b`; both may count. */
static bool is_before(const struct roster_row *a, const struct roster_row *b)
{
	uint32_t one = a->known.timeline, other = b->known.timeline;

	if (one && other && one != other)
		return one > other;
	if (a->is_lost != b->is_lost)
		return b->is_lost;
	if (!one != !other)
		return one != 0;
	return a->is_elected && !b->is_elected;
}

/* NULL: no host is known to be primary. */
static struct roster_row *find_primary(const struct roster *roster)
{
	struct roster_row *best = NULL;

	for (unsigned int i = 0; i < roster->count; i++) {
		struct roster_row *row = &roster->rows[i];

		if (may_count(roster, row) && (!best || is_before(row, best)))
			best = row;
	}
	return best;
}

/* Two addresses of one server. */
static bool is_same_server(const struct roster_row *a, const struct roster_row *b)
{
	return a == b || (a->known.started && a->known.started == b->known.started &&
	                  a->known.system == b->known.system);
}

static void fence(struct roster_row *row, const struct roster_row *primary,
                  struct roster_changes *changes)
{
	struct roster_change *change;

	row->is_fenced = true;
	if (row->is_lost || row->is_told || (!primary && !row->is_foreign))
		return;
	/* it has said so before the other one was promoted, and may be dead */
	if (!row->is_foreign && row->seen_at < primary->since)
		return;
	row->is_told = true;
	change = roster_add_change(
	    changes, row->is_foreign ? ROSTER_EVENT_FOREIGN : ROSTER_EVENT_FENCED, row);
	if (change && primary)
		change->other = *primary;
}

/* Decides which primary counts, and fences the others. */
static void elect(struct roster *roster, usec_t now, struct roster_changes *changes)
{
	struct roster_row *primary = find_primary(roster);
	bool has_any =
	    primary && !primary->is_lost && roster->admins[primary->host] == HOST_ENABLED;

	if (primary && primary->known.timeline > roster->timeline)
		roster->timeline = primary->known.timeline;
	for (unsigned int i = 0; i < roster->count; i++) {
		struct roster_row *row = &roster->rows[i];
		bool was_fenced = row->is_fenced;

		row->is_elected = row == primary;
		row->is_foreign = is_foreign(roster, row);
		if (row->is_foreign ||
		    (is_primary(row) && !(primary && is_same_server(row, primary))))
			fence(row, primary, changes);
		else
			row->is_fenced = row->is_told = false;
		if (row->is_fenced != was_fenced)
			roster_bump(roster, changes);
	}
	if (has_any && roster->without_since && changes)
		changes->without = now - roster->without_since;
	if (has_any)
		roster->without_since = 0;
	else if (!roster->without_since)
		roster->without_since = now;
}

bool roster_primary(struct roster *roster, struct roster_row *row)
{
	const struct roster_row *found;

	roster_lock(roster);
	found = find_primary(roster);
	if (found)
		*row = *found;
	roster_unlock(roster);
	return found != NULL;
}

/* ---- reports ---- */

/*
 * What is not in a report that is not full stays, unless the role has changed. is_read_only may be
 * that of one user only, so a watch knows better.
 */
static struct host_report merged(const struct roster_row *row, const struct host_report *report)
{
	struct host_report known = *report;

	if (report->is_full || report->role != row->known.role)
		return known;
	known = row->known;
	if (!row->is_watched)
		known.is_read_only = report->is_read_only;
	return known;
}

static void note_row(struct roster *roster, struct roster_row *row,
                     const struct host_report *report, usec_t now, struct roster_changes *changes)
{
	struct host_report known = merged(row, report);
	bool is_same_role = known.role == row->known.role;
	bool has_changed = !is_same_role || known.is_read_only != row->known.is_read_only;
	bool is_doubted = report->is_doubtful || (row->is_doubted && !report->is_full);
	bool is_sure = !is_doubted && (report->is_full || (row->is_sure && is_same_role));
	bool is_news = has_changed || row->is_lost || is_sure != row->is_sure;
	enum host_role before = row->known.role;
	bool was_lost = row->is_lost;
	struct roster_change *change;

	if (!is_same_role || !row->since)
		row->since = now;
	row->known = known;
	row->is_sure = is_sure;
	row->is_doubted = is_doubted;
	row->seen_at = now;
	if (report->is_full)
		row->asked_at = now;
	row->is_lost = false;
	if (!roster->system && known.system)
		roster->system = known.system;
	if (has_changed && (change = roster_add_change(changes, ROSTER_EVENT_ROLE, row)))
		change->before = before;
	else if (was_lost && (change = roster_add_change(changes, ROSTER_EVENT_BACK, row)))
		change->lasted = now - row->lost_at;
	if (is_news)
		roster_bump(roster, changes);
}

/*
 * A newer timeline has begun: what was seen of the former one's WAL beyond its beginning is lost.
 * It has grown a little when it is first seen, so more may be lost than this.
 */
static void measure_loss(const struct roster *roster, struct roster_row *row, uint32_t former,
                         struct roster_changes *changes)
{
	unsigned int count = roster->sample_count;

	if (!former || former == roster->timeline || !row->is_elected || !row->known.position)
		return;
	row->lost_bytes = 0;
	if (!count || roster->samples[count - 1].position <= row->known.position)
		return;
	row->lost_bytes = roster->samples[count - 1].position - row->known.position;
	roster_add_change(changes, ROSTER_EVENT_LOSS, row);
}

/* Views may show an older timeline of a standby that follows: so its lag counts too. */
static void judge_following(struct roster *roster, struct roster_row *row,
                            struct roster_changes *changes)
{
	bool was_diverged = row->is_diverged;

	row->is_diverged =
	    row->known.role == HOST_STANDBY && is_outdated(roster, row) &&
	    (row->lag > ROSTER_DIVERGED_LAG || (was_diverged && row->lag == ROSTER_LAG_UNKNOWN));
	if (row->is_diverged == was_diverged)
		return;
	roster_bump(roster, changes);
	if (row->known.role == HOST_STANDBY)
		roster_add_change(changes,
		                  was_diverged ? ROSTER_EVENT_FOLLOWS : ROSTER_EVENT_DIVERGED, row);
}

void roster_note(struct roster *roster, const struct roster_at *at,
                 const struct host_report *report, usec_t now, struct roster_changes *changes)
{
	struct roster_row *row, before;
	uint32_t former;

	roster_lock(roster);
	row = roster_row_of(roster, at);
	if (row) {
		before = *row;
		former = roster->timeline;
		note_row(roster, row, report, now, changes);
		elect(roster, now, changes);
		measure_loss(roster, row, former, changes);
		if (report->position && is_primary(row) && !row->is_fenced)
			roster_add_sample(roster, report->position, now);
		if (report->is_full)
			roster_set_lag(roster, row, now);
		judge_following(roster, row, changes);
		roster_look_at_limits(roster, row, &before, changes);
	}
	roster_unlock(roster);
}

static void set_error(struct roster_row *row, const char *error, usec_t now)
{
	text_copy(row->error, sizeof(row->error), error);
	row->error_at = now;
}

void roster_lose(struct roster *roster, const struct roster_at *at, const char *error, usec_t now,
                 struct roster_changes *changes)
{
	struct roster_row *row;

	roster_lock(roster);
	row = roster_row_of(roster, at);
	if (row) {
		set_error(row, error, now);
		row->lag = ROSTER_LAG_UNKNOWN;
		row->is_sure = row->is_told = false;
		if (!row->is_lost) {
			row->is_lost = true;
			row->lost_at = now;
			roster_add_change(changes, ROSTER_EVENT_LOST, row);
			roster_bump(roster, changes);
		}
		elect(roster, now, changes);
	}
	roster_unlock(roster);
}

void roster_answer(struct roster *roster, const struct roster_at *at, usec_t now,
                   struct roster_changes *changes)
{
	struct roster_change *change;
	struct roster_row *row;

	roster_lock(roster);
	row = roster_find_row(roster, at);
	if (row && row->is_lost) {
		row->is_lost = false;
		change = roster_add_change(changes, ROSTER_EVENT_BACK, row);
		if (change)
			change->lasted = now - row->lost_at;
		roster_bump(roster, changes);
		elect(roster, now, changes);
	}
	roster_unlock(roster);
}

void roster_note_error(struct roster *roster, const struct roster_at *at, const char *error,
                       usec_t now)
{
	struct roster_row *row;

	roster_lock(roster);
	row = roster_row_of(roster, at);
	if (row)
		set_error(row, error, now);
	roster_unlock(roster);
}

void roster_watch(struct roster *roster, const struct roster_at *at, bool is_watched)
{
	struct roster_row *row;

	roster_lock(roster);
	row = roster_row_of(roster, at);
	if (row) {
		row->is_watched = is_watched;
		if (!is_watched)
			row->lag = ROSTER_LAG_UNKNOWN;
	}
	roster_unlock(roster);
}

void roster_unwatch(struct roster *roster)
{
	roster_lock(roster);
	for (unsigned int i = 0; i < roster->count; i++) {
		roster->rows[i].is_lost = roster->rows[i].is_sure = false;
		roster->rows[i].is_watched = false;
		roster->rows[i].lag = ROSTER_LAG_UNKNOWN;
	}
	roster->sample_count = 0;
	roster_bump(roster, NULL);
	roster_unlock(roster);
}

/* ---- what another roster knew ---- */

/* A lost host stays lost until its watch, which begins now, or a login finds out that it is back.
 */
static void remember_row(struct roster *roster, const struct roster_row *old, usec_t now)
{
	struct roster_at at = { .host = old->host };
	struct roster_row *row;

	if (old->address.family != AF_UNSPEC)
		at.address = &old->address;
	row = roster_row_of(roster, &at);
	if (!row || row->seen_at >= old->seen_at)
		return;
	row->known = old->known;
	row->is_elected = old->is_elected;
	row->is_sure = old->is_sure && !old->is_lost;
	row->is_lost = old->is_lost;
	row->lost_at = old->lost_at;
	if (old->is_lost)
		row->tried_at = now;
	row->seen_at = old->seen_at;
	row->since = old->since;
	row->error_at = old->error_at;
	text_copy(row->error, sizeof(row->error), old->error);
}

void roster_remember(struct roster *roster, const struct roster_memory *memory, usec_t now)
{
	roster_lock(roster);
	if (memory->timeline > roster->timeline)
		roster->timeline = memory->timeline;
	if (!roster->system)
		roster->system = memory->system;
	remember_row(roster, &memory->row, now);
	elect(roster, now, NULL);
	roster_bump(roster, NULL);
	roster_unlock(roster);
}

bool roster_memory_at(struct roster *roster, unsigned int number, struct roster_memory *memory)
{
	bool has;

	roster_lock(roster);
	has = number < roster->count;
	if (has)
		*memory = (struct roster_memory){ .row = roster->rows[number],
			                          .timeline = roster->timeline,
			                          .system = roster->system };
	roster_unlock(roster);
	return has;
}

/* ---- for administrators ---- */

bool roster_set_admin(struct roster *roster, unsigned int host, enum host_admin admin, usec_t now)
{
	bool has_changed;

	if (host >= roster->host_count)
		return false;
	roster_lock(roster);
	has_changed = roster->admins[host] != admin;
	roster->admins[host] = admin;
	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster->rows[i].host == host)
			roster->rows[i].admin = admin;
	}
	if (has_changed) {
		elect(roster, now, NULL);
		roster_bump(roster, NULL);
	}
	roster_unlock(roster);
	return has_changed;
}

void roster_trust_again(struct roster *roster, usec_t now)
{
	roster_lock(roster);
	roster->timeline = 0;
	roster->system = 0;
	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster->rows[i].is_lost)
			roster->rows[i].known = (struct host_report){ 0 };
		else if (!roster->system)
			roster->system = roster->rows[i].known.system;
	}
	elect(roster, now, NULL);
	roster_bump(roster, NULL);
	roster_unlock(roster);
}

/* ---- the roster itself ---- */

bool roster_init(struct roster *roster, const char *list, usec_t now)
{
	struct bytes host;

	*roster = (struct roster){ .without_since = now };
	pthread_mutex_init(&roster->lock, NULL);
	for (const char *at = list; config_host_next(&at, &host);)
		roster->host_count++;
	roster->text = strdup(list);
	roster->admins = calloc(roster->host_count, sizeof(*roster->admins));
	return roster->text && roster->admins;
}

void roster_done(struct roster *roster)
{
	free(roster->text);
	free(roster->admins);
	free(roster->rows);
	free(roster->limits);
	pthread_mutex_destroy(&roster->lock);
	*roster = (struct roster){ 0 };
}

const char *roster_role_name(enum host_role role)
{
	static const char *const names[] = {
		[HOST_ROLE_UNKNOWN] = "unknown",
		[HOST_PRIMARY] = "primary",
		[HOST_STANDBY] = "standby",
	};

	return names[role];
}
