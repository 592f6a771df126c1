/* SPDX-License-Identifier: ISC */
/*
 * The role question.
 *
 * Hard here: the timeline of a primary is that of the WAL which it writes. What
 * pg_control_checkpoint says is that of the last checkpoint, which is one too low for minutes after
 * a promotion. A standby has no such function, so the greatest value that any view shows is taken.
 * And the position of a primary is what it has flushed: behind the header of a page, the insert
 * position is one that a standby reaches only when more is written.
 *
 * All names are qualified: search_path of the user may lead elsewhere. Numbers are computed here
 * and not by the query, as operators have schemas too.
 */
#include "pgweir/pool/server/role_question.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/fields.h"

#define DIGITS_MAX 32

static const char short_text[] = "SELECT pg_catalog.pg_is_in_recovery(), "
				 "pg_catalog.current_setting('default_transaction_read_only')";

static const char full_text[] =
    "SELECT pg_catalog.pg_is_in_recovery(), "
    "pg_catalog.current_setting('default_transaction_read_only'), "
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN "
    "(SELECT GREATEST((SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() c), "
    "(SELECT r.min_recovery_end_timeline FROM pg_catalog.pg_control_recovery() r), "
    "(SELECT w.received_tli FROM pg_catalog.pg_stat_wal_receiver w)))::pg_catalog.text "
    "ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END, "
    "(SELECT s.system_identifier FROM pg_catalog.pg_control_system() s), "
    "pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()), "
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() "
    "ELSE pg_catalog.pg_current_wal_flush_lsn() END, "
    "pg_catalog.date_part('epoch', pg_catalog.timestamptz_mi(pg_catalog.clock_timestamp(), "
    "pg_catalog.pg_last_xact_replay_timestamp()))";

const char *role_question_text(bool is_short) { return is_short ? short_text : full_text; }

/* Digits of this base at the start of a text. false: there is none, or the number is too great. */
static bool take_number(struct bytes *text, unsigned int base, uint64_t max, uint64_t *value)
{
	size_t count = 0;

	*value = 0;
	for (; count < text->count; count++) {
		char c = text->at[count];
		unsigned int digit = c >= '0' && c <= '9'   ? (unsigned int)(c - '0')
		                     : c >= 'A' && c <= 'F' ? (unsigned int)(c - 'A') + 10
		                                            : base;

		if (digit >= base)
			break;
		if (*value > (max - digit) / base)
			return false;
		*value = *value * base + digit;
	}
	*text = bytes_skip(*text, count);
	return count > 0;
}

static bool read_number(struct bytes text, uint64_t max, uint64_t *value)
{
	return take_number(&text, 10, max, value) && text.count == 0;
}

/* Seconds as PostgreSQL writes a double, in microseconds. Negative ones are 0. */
bool role_question_seconds(struct bytes text, uint64_t *value)
{
	char digits[DIGITS_MAX + 1], *end;
	double seconds;

	if (!text.at || text.count == 0 || text.count > DIGITS_MAX)
		return false;
	memcpy(digits, text.at, text.count);
	digits[text.count] = '\0';
	seconds = strtod(digits, &end);
	if (*end || !(seconds < 1e11))
		return false;
	*value = seconds > 0 ? (uint64_t)(seconds * (double)USEC_PER_SEC + 0.5) : 0;
	return true;
}

/* Two hexadecimal numbers: 16/B374D848. */
static bool read_position(struct bytes text, uint64_t *position)
{
	uint64_t high, low;

	if (!take_number(&text, 16, UINT32_MAX, &high) || text.count == 0 || text.at[0] != '/')
		return false;
	text = bytes_skip(text, 1);
	if (!take_number(&text, 16, UINT32_MAX, &low) || text.count)
		return false;
	*position = high << 32 | low;
	return true;
}

#define TIMELINE_DIGITS 8

/* Of a standby a number, of a primary the name of a WAL file, which begins with it. */
static bool read_timeline(struct bytes text, enum host_role role, uint32_t *timeline)
{
	uint64_t value;
	bool is_good;

	if (role == HOST_STANDBY) {
		is_good = read_number(text, UINT32_MAX, &value);
	} else {
		struct bytes first = bytes_of(text.at, TIMELINE_DIGITS);

		is_good = text.count > TIMELINE_DIGITS &&
		          take_number(&first, 16, UINT32_MAX, &value) && first.count == 0;
	}
	*timeline = is_good ? (uint32_t)value : 0;
	return is_good;
}

static bool read_short(const struct bytes *columns, struct host_report *report)
{
	bool is_standby = bytes_are(columns[0], "t");

	report->role = is_standby ? HOST_STANDBY : HOST_PRIMARY;
	report->is_read_only = bytes_are(columns[1], "on");
	return (is_standby || bytes_are(columns[0], "f")) &&
	       (report->is_read_only || bytes_are(columns[1], "off"));
}

/* A value that is NULL stays 0. */
static bool read_full(const struct bytes *columns, struct host_report *report)
{
	uint64_t age = 0;
	bool is_good =
	    (!columns[2].at || read_timeline(columns[2], report->role, &report->timeline)) &&
	    (!columns[3].at || read_number(columns[3], UINT64_MAX, &report->system)) &&
	    (!columns[4].at || role_question_seconds(columns[4], &report->started)) &&
	    (!columns[5].at || read_position(columns[5], &report->position)) &&
	    (!columns[6].at || role_question_seconds(columns[6], &age));

	report->is_full = true;
	report->replay_age = (usec_t)age;
	return is_good;
}

bool role_question_answer(struct bytes body, struct host_report *report)
{
	struct bytes columns[ROLE_QUESTION_COLUMNS];
	struct row_walk walk;
	size_t count = 0;

	*report = (struct host_report){ 0 };
	if (fields_row(body, &walk) != WIRE_OK || walk.left > ROLE_QUESTION_COLUMNS)
		return false;
	while (walk.left) {
		if (fields_value(&walk, &columns[count++]) != WALK_ITEM)
			return false;
	}
	if (walk.rest.count)
		return false;
	if (count == ROLE_QUESTION_SHORT_COLUMNS)
		return read_short(columns, report);
	return count == ROLE_QUESTION_COLUMNS && read_short(columns, report) &&
	       read_full(columns, report);
}
