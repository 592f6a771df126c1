/* SPDX-License-Identifier: ISC */
/*
 * The roster of a cluster: what is reported about its hosts, which primary counts, which hosts fit,
 * and how far the standbys are behind.
 *
 *   roster_note(), roster_fail() --> a row --> elect(): which primary counts, who is fenced
 *                                          --> what has changed, for the log and the pools
 *
 * Hard here: more than one host may say that it is primary. Its timeline decides, as a promotion
 * always begins a newer one. If timelines are equal or not known, a host that answers counts
 * before one that does not, and then the one that has counted so far. Two addresses may lead to
 * the same server, which is not fenced because of itself.
 *
 * Functions that are static are called with the lock.
 */
#include "pgweir/pool/server/roster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/lock.h"
#include "pgweir/base/text.h"

/* ---- rows ---- */

static bool row_is_of(const struct roster_row *row, const struct roster_at *at)
{
	if (row->host != at->host)
		return false;
	if (!at->address)
		return row->address.family == AF_UNSPEC;
	return row->address.family != AF_UNSPEC && address_equal_host(&row->address, at->address);
}

static struct roster_row *find_row(const struct roster *roster, const struct roster_at *at)
{
	for (unsigned int i = 0; i < roster->count; i++) {
		if (row_is_of(&roster->rows[i], at))
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
	rows[place] = (struct roster_row){ .host = at->host, .lag = ROSTER_LAG_UNKNOWN };
	if (at->address) {
		rows[place].address = *at->address;
		address_set_port(&rows[place].address, 0);
	}
	return &rows[place];
}

/* It is made if necessary. NULL: no memory, or no such host. */
static struct roster_row *row_of(struct roster *roster, const struct roster_at *at)
{
	struct roster_row *row = find_row(roster, at);

	if (row || at->host >= roster->host_count)
		return row;
	make_space(roster, at->host);
	return insert_row(roster, at);
}

static bool copy_row(const struct roster_row *found, struct roster_row *row)
{
	if (found)
		*row = *found;
	return found != NULL;
}

bool roster_find(struct roster *roster, const struct roster_at *at, struct roster_row *row)
{
	LOCKED(&roster->lock);
	return copy_row(find_row(roster, at), row);
}

bool roster_row_at(struct roster *roster, unsigned int number, struct roster_row *row)
{
	LOCKED(&roster->lock);
	return copy_row(number < roster->count ? &roster->rows[number] : NULL, row);
}

void roster_keep(struct roster *roster, unsigned int host, const struct address *addresses,
                 unsigned int count)
{
	LOCKED(&roster->lock);
	for (unsigned int i = roster->count; i-- > 0;) {
		const struct roster_row *row = &roster->rows[i];

		if (row->host == host && (row->address.family == AF_UNSPEC ||
		                          !address_is_among(&row->address, addresses, count)))
			remove_row(roster, i);
	}
}

/* ---- changes ---- */

#define SECONDS "%lld.%d s"
#define SECONDS_OF(time) \
	(long long)((time) / USEC_PER_SEC), (int)((time) % USEC_PER_SEC / (USEC_PER_SEC / 10))

const char *roster_where(const struct roster *roster, const struct roster_row *row,
                         char text[ROSTER_WHERE_SIZE])
{
	struct strbuf out = strbuf_begin(text, ROSTER_WHERE_SIZE);
	char address[ADDRESS_TEXT_SIZE];
	struct bytes host = { "", 0 };

	config_host_at(roster->text, row->host, &host);
	strbuf_add_bytes(&out, host.at, host.count);
	if (row->address.family == AF_UNSPEC)
		return text;
	address_format_host(&row->address, address, sizeof(address));
	config_host_port(&host, 0);
	if (!bytes_are(host, address))
		strbuf_printf(&out, " (%s)", address);
	return text;
}

/* A line for the log about a row: unless nobody wants it, or there are too many. */
__attribute__((format(printf, 5, 6))) static void
tell(struct roster_changes *changes, enum log_level level, const struct roster *roster,
     const struct roster_row *row, const char *format, ...)
{
	char where[ROSTER_WHERE_SIZE];
	struct strbuf out;
	va_list args;

	if (!changes || changes->count == ROSTER_LINES_MAX)
		return;
	out = strbuf_begin(changes->lines[changes->count].text, ROSTER_LINE_SIZE);
	changes->lines[changes->count++].level = level;
	strbuf_printf(&out, "host %s", roster_where(roster, row, where));
	va_start(args, format);
	strbuf_vprintf(&out, format, args);
	va_end(args);
}

/* Other hosts may fit now: the pools must look. */
static void bump(struct roster *roster, struct roster_changes *changes)
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

/* If no watch finds out that the row fits, logins do. */
static enum roster_fit no_fit(const struct roster_row *row, usec_t *due)
{
	usec_t last = row->seen_at > row->tried_at ? row->seen_at : row->tried_at;

	*due = row->is_watched ? INT64_MAX : last + ROSTER_GAP;
	return ROSTER_NO;
}

static enum roster_fit fit_of(const struct roster_row *row, const struct roster_want *want,
                              usec_t *due)
{
	enum roster_fit fit = ROSTER_GOOD;

	*due = 0;
	if (row->is_fenced || (row->is_lost && want->target != TARGET_ANY))
		return no_fit(row, due);
	if (want->target != TARGET_ANY)
		fit = fit_of_role(row, want->target);
	if (fit == ROSTER_NO)
		return no_fit(row, due);
	if (!roster_row_is_behind(row, &want->limit))
		return fit;
	if (!want->is_strict)
		return ROSTER_BEHIND;
	*due = INT64_MAX; /* its watch finds out when it has caught up */
	return ROSTER_NO;
}

enum roster_fit roster_fit(struct roster *roster, const struct roster_at *at,
                           const struct roster_want *want, usec_t *due)
{
	LOCKED(&roster->lock);
	enum roster_fit best = ROSTER_NO;
	bool has_row = false;

	*due = INT64_MAX;
	if (!is_open(roster, at->host))
		return ROSTER_NO;
	for (unsigned int i = 0; i < roster->count; i++) {
		enum roster_fit fit;
		usec_t one;

		if (at->address ? !row_is_of(&roster->rows[i], at)
		                : roster->rows[i].host != at->host)
			continue;
		has_row = true;
		fit = fit_of(&roster->rows[i], want, &one);
		best = fit > best ? fit : best;
		*due = one < *due ? one : *due;
	}
	if (has_row)
		return best;
	*due = 0;
	return want->target == TARGET_ANY ? ROSTER_GOOD : ROSTER_MAYBE;
}

enum close_reason roster_stay(struct roster *roster, const struct roster_at *at,
                              enum target_session_attrs target)
{
	LOCKED(&roster->lock);
	const struct roster_row *row = find_row(roster, at);

	if (row && row->is_fenced)
		return CLOSE_HOST_FENCED;
	if (!is_open(roster, at->host))
		return roster->admins[at->host] == HOST_DISABLED ? CLOSE_HOST_DISABLED
		                                                 : CLOSE_HOST_DRAINED;
	if (!row || target == TARGET_ANY)
		return CLOSE_NONE;
	if (fit_of_role(row, target) == ROSTER_NO ||
	    (row->is_doubted && (target == TARGET_PRIMARY || target == TARGET_READ_WRITE)))
		return CLOSE_HOST_ROLE;
	return row->is_lost ? CLOSE_HOST_LOST : CLOSE_NONE;
}

void roster_try(struct roster *roster, const struct roster_at *at, usec_t now)
{
	LOCKED(&roster->lock);
	struct roster_row *row = find_row(roster, at);

	if (row)
		row->tried_at = now;
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

/* The one whose absence makes the least difference for its age: lags stay nearly exact. */
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

/* The primary has written so far. */
static void add_sample(struct roster *roster, uint64_t position, usec_t now)
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
static void set_lag(const struct roster *roster, struct roster_row *row, usec_t now)
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

/* Exact numbers: they are compared with the limit. */
static void tell_behind(const struct roster *roster, const struct roster_row *row,
                        const struct roster_row *before, const struct roster_limit *limit,
                        struct roster_changes *changes)
{
	bool is_behind = roster_row_is_behind(row, limit);
	bool was_behind = before->known.role == HOST_STANDBY && before->lag != ROSTER_LAG_UNKNOWN &&
	                  roster_row_is_behind(before, limit);
	char text[128];
	struct strbuf out = strbuf_begin(text, sizeof(text));

	if (row->known.role != HOST_STANDBY || row->lag == ROSTER_LAG_UNKNOWN ||
	    is_behind == was_behind)
		return;
	if (limit->lag)
		strbuf_printf(&out, "max_standby_lag = " SECONDS, SECONDS_OF(limit->lag));
	if (limit->bytes)
		strbuf_printf(&out, "%smax_standby_lag_bytes = %" PRIu64, limit->lag ? ", " : "",
		              limit->bytes);
	tell(changes, is_behind ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, roster, row,
	     " gets %s: it is " SECONDS " and %" PRIu64 " bytes behind the primary (%s)",
	     is_behind ? "no reads" : "reads again", SECONDS_OF(row->lag), row->lag_bytes, text);
}

/* What of a row has changed, as far as limits are concerned. */
static void look_at_limits(struct roster *roster, const struct roster_row *row,
                           const struct roster_row *before, struct roster_changes *changes)
{
	for (unsigned int i = 0; i < roster->limit_count; i++) {
		const struct roster_limit *limit = &roster->limits[i];

		tell_behind(roster, row, before, limit, changes);
		if (roster_row_is_behind(row, limit) != roster_row_is_behind(before, limit))
			bump(roster, changes);
	}
}

bool roster_add_limit(struct roster *roster, const struct roster_limit *limit)
{
	LOCKED(&roster->lock);
	struct roster_limit *limits;

	if (!roster_has_limit(limit))
		return true;
	for (unsigned int i = 0; i < roster->limit_count; i++) {
		if (roster->limits[i].lag == limit->lag && roster->limits[i].bytes == limit->bytes)
			return true;
	}
	limits = realloc(roster->limits, (roster->limit_count + 1) * sizeof(*limits));
	if (!limits)
		return false;
	roster->limits = limits;
	limits[roster->limit_count++] = *limit;
	return true;
}

void roster_drop_limits(struct roster *roster)
{
	LOCKED(&roster->lock);
	roster->limit_count = 0;
}

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

static struct roster_row *find_primary(const struct roster *roster)
{
	struct roster_row *best = NULL;

	for (unsigned int i = 0; i < roster->count; i++) {
		struct roster_row *row = &roster->rows[i];

		if (is_primary(row) && !is_foreign(roster, row) && !is_outdated(roster, row) &&
		    (!best || is_before(row, best)))
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

static void fence(const struct roster *roster, struct roster_row *row,
                  const struct roster_row *primary, struct roster_changes *changes)
{
	char other[ROSTER_WHERE_SIZE] = "its other hosts";

	row->is_fenced = true;
	if (row->is_lost || row->is_told || (!primary && !row->is_foreign))
		return;
	/* it has said so before the other one was promoted, and may be dead */
	if (!row->is_foreign && row->seen_at < primary->since)
		return;
	row->is_told = true;
	if (primary)
		roster_where(roster, primary, other);
	if (row->is_foreign)
		tell(changes, LOG_LEVEL_ERROR, roster, row,
		     " is fenced and not used: it is of another cluster (system identifier %" PRIu64
		     ") than %s (%" PRIu64 ")",
		     row->known.system, other, roster->system);
	else
		tell(changes, LOG_LEVEL_ERROR, roster, row,
		     " is fenced and not used: it says that it is primary (timeline %u), but %s is "
		     "(timeline %u)",
		     row->known.timeline, other, primary->known.timeline);
}

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
			fence(roster, row, primary, changes);
		else
			row->is_fenced = row->is_told = false;
		if (row->is_fenced != was_fenced)
			bump(roster, changes);
	}
	if (has_any && roster->without_since && changes)
		changes->without = now - roster->without_since;
	if (has_any)
		roster->without_since = 0;
	else if (!roster->without_since)
		roster->without_since = now;
}

usec_t roster_without_since(struct roster *roster)
{
	LOCKED(&roster->lock);
	return roster->without_since;
}

bool roster_primary(struct roster *roster, struct roster_row *row)
{
	LOCKED(&roster->lock);
	return copy_row(find_primary(roster), row);
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

void roster_copies(struct roster *roster, const char *host, usec_t since, roster_copied *found,
                   void *arg)
{
	LOCKED(&roster->lock);
	const struct roster_row *primary = find_primary(roster), *row;
	char text[ROSTER_WHERE_SIZE];
	struct bytes name;

	if (!primary || !config_host_at(roster->text, primary->host, &name) ||
	    !bytes_are(name, host))
		return;
	for (row = roster->rows; row < roster->rows + roster->count; row++) {
		if (row->known.role == HOST_STANDBY)
			found(arg, roster_where(roster, row, text), compare(primary, row, since),
			      primary->known.position - row->known.position);
	}
}

/* ---- reports ---- */

/* What a partial report lacks stays, unless the role has changed; is_read_only, as watched. */
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

/* before: its former role, if it is another one. */
static void tell_role(const struct roster *roster, const struct roster_row *row,
                      enum host_role before, const char *back, struct roster_changes *changes)
{
	const struct host_report *known = &row->known;
	bool is_read_only = is_primary(row) && known->is_read_only;
	char timeline[32] = "";

	if (known->timeline)
		snprintf(timeline, sizeof(timeline), ", timeline %u", known->timeline);
	tell(changes, LOG_LEVEL_INFO, roster, row, "%s%s%s%s%s%s", back,
	     is_primary(row) ? " is primary" : " is a standby",
	     is_read_only ? ", read-only by default" : "", timeline, before ? ", and was " : "",
	     before ? roster_role_name(before) : "");
}

static void tell_back(const struct roster *roster, const struct roster_row *row, usec_t now,
                      struct roster_changes *changes)
{
	char back[64];

	snprintf(back, sizeof(back), " answers again after " SECONDS,
	         SECONDS_OF(now - row->lost_at));
	tell_role(roster, row, HOST_ROLE_UNKNOWN, back, changes);
}

/* At the start the first answer takes a moment, which is not worth a word. */
static void tell_without(const struct roster_row *row, enum host_role before,
                         struct roster_changes *changes)
{
	bool is_sudden = before && before != row->known.role;
	struct strbuf out;

	if (!changes || !is_primary(row) || changes->without < (is_sudden ? 1 : USEC_PER_SEC))
		return;
	out = (struct strbuf){ changes->lines[0].text, strlen(changes->lines[0].text),
		               ROSTER_LINE_SIZE };
	strbuf_printf(&out, "; there was no primary for " SECONDS, SECONDS_OF(changes->without));
}

/* Whether there is a line about its role. */
static bool note_row(struct roster *roster, struct roster_row *row,
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
	if (has_changed)
		tell_role(roster, row, is_same_role ? HOST_ROLE_UNKNOWN : before, "", changes);
	else if (was_lost)
		tell_back(roster, row, now, changes);
	if (is_news)
		bump(roster, changes);
	return has_changed || was_lost;
}

/* What was seen of the former timeline's WAL beyond this one's beginning is lost, or more. */
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
	tell(changes, LOG_LEVEL_WARNING, roster, row,
	     " has become primary without what its predecessor had written: %" PRIu64
	     " bytes of WAL at least are lost",
	     row->lost_bytes);
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
	bump(roster, changes);
	if (row->is_diverged)
		tell(
		    changes, LOG_LEVEL_WARNING, roster, row,
		    " has diverged and gets no reads: it is a standby on timeline %u, and does not "
		    "follow the primary to timeline %u",
		    row->known.timeline, roster->timeline);
	else if (row->known.role == HOST_STANDBY)
		tell(changes, LOG_LEVEL_INFO, roster, row, " follows the primary again");
}

void roster_note(struct roster *roster, const struct roster_at *at,
                 const struct host_report *report, usec_t now, struct roster_changes *changes)
{
	LOCKED(&roster->lock);
	struct roster_row *row = row_of(roster, at), before;
	uint32_t former = roster->timeline;
	bool is_told;

	if (!row)
		return;
	before = *row;
	is_told = note_row(roster, row, report, now, changes);
	elect(roster, now, changes);
	if (is_told)
		tell_without(row, before.known.role, changes);
	measure_loss(roster, row, former, changes);
	if (report->position && is_primary(row) && !row->is_fenced)
		add_sample(roster, report->position, now);
	if (report->is_full)
		set_lag(roster, row, now);
	judge_following(roster, row, changes);
	look_at_limits(roster, row, &before, changes);
}

void roster_fail(struct roster *roster, const struct roster_at *at, enum roster_failure how,
                 const char *error, usec_t now, struct roster_changes *changes)
{
	LOCKED(&roster->lock);
	struct roster_row *row = row_of(roster, at);
	bool was_lost;

	if (!row)
		return;
	text_copy(row->error, sizeof(row->error), error);
	if (how == ROSTER_FAILED)
		return;
	was_lost = row->is_lost;
	/* a lost one will be noticed when it is back */
	row->is_lost = row->is_watched = how == ROSTER_LOST;
	row->lag = ROSTER_LAG_UNKNOWN;
	if (row->is_lost)
		row->is_sure = row->is_told = false;
	if (row->is_lost && !was_lost) {
		row->lost_at = now;
		tell(changes, LOG_LEVEL_WARNING, roster, row, " (%s) is lost: %s",
		     roster_role_name(row->known.role), row->error);
	} else if (was_lost && !row->is_lost) {
		tell_back(roster, row, now, changes);
	}
	if (row->is_lost != was_lost)
		bump(roster, changes);
	elect(roster, now, changes);
	if (was_lost && !row->is_lost)
		tell_without(row, HOST_ROLE_UNKNOWN, changes);
}

void roster_watch(struct roster *roster, const struct roster_at *at)
{
	LOCKED(&roster->lock);
	struct roster_row *row = row_of(roster, at);

	if (row)
		row->is_watched = true;
}

void roster_unwatch(struct roster *roster)
{
	LOCKED(&roster->lock);
	for (unsigned int i = 0; i < roster->count; i++) {
		struct roster_row *row = &roster->rows[i];

		row->is_lost = row->is_sure = row->is_watched = false;
		row->lag = ROSTER_LAG_UNKNOWN;
	}
	roster->sample_count = 0;
	bump(roster, NULL);
}

/* ---- what another roster knew ---- */

void roster_remember(struct roster *roster, const struct roster_row *row, uint32_t timeline,
                     uint64_t system, usec_t now)
{
	LOCKED(&roster->lock);
	struct roster_at at = { row->host,
		                row->address.family != AF_UNSPEC ? &row->address : NULL };
	struct roster_row *mine = row_of(roster, &at);

	if (timeline > roster->timeline)
		roster->timeline = timeline;
	if (!roster->system)
		roster->system = system;
	if (mine && mine->seen_at < row->seen_at) {
		mine->known = row->known;
		mine->is_elected = row->is_elected;
		mine->is_sure = row->is_sure && !row->is_lost;
		/* it stays lost until its watch, which begins now, or a login finds it */
		mine->is_lost = row->is_lost;
		mine->lost_at = row->lost_at;
		if (row->is_lost)
			mine->tried_at = now;
		mine->seen_at = row->seen_at;
		mine->since = row->since;
		text_copy(mine->error, sizeof(mine->error), row->error);
	}
	elect(roster, now, NULL);
	bump(roster, NULL);
}

/* ---- for administrators ---- */

void roster_set_admin(struct roster *roster, unsigned int host, enum host_admin admin, usec_t now)
{
	LOCKED(&roster->lock);
	if (host >= roster->host_count || roster->admins[host] == admin)
		return;
	roster->admins[host] = admin;
	elect(roster, now, NULL);
	bump(roster, NULL);
}

void roster_trust_again(struct roster *roster, usec_t now)
{
	LOCKED(&roster->lock);
	roster->timeline = 0;
	roster->system = 0;
	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster->rows[i].is_lost)
			roster->rows[i].known = (struct host_report){ 0 };
		else if (!roster->system)
			roster->system = roster->rows[i].known.system;
	}
	elect(roster, now, NULL);
	bump(roster, NULL);
}

/* ---- the roster itself ---- */

bool roster_init(struct roster *roster, const char *list, usec_t now)
{
	*roster = (struct roster){ .without_since = now, .host_count = config_host_count(list) };
	lock_init(&roster->lock);
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
