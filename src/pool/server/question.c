/* SPDX-License-Identifier: ISC */
/* The texts of the questions about session state and about roles, and what their answers say. */
#include "pgweir/pool/server/question.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/clock.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql_names.h"
#include "pgweir/pool/server/params.h"
#include "pgweir/pool/server/statements.h"

/* ---- values of rows ---- */

size_t question_values(struct bytes row, struct bytes *columns, size_t most)
{
	struct row_walk walk;
	size_t count = 0;

	if (fields_row(row, &walk) != WIRE_OK || walk.left > most)
		return 0;
	while (walk.left) {
		if (fields_value(&walk, &columns[count++]) != WALK_ITEM)
			return 0;
	}
	return walk.rest.count ? 0 : count;
}

bool question_number(struct bytes text, int base, uint64_t max, uint64_t *value)
{
	char copy[24], *end;

	if (text.count == 0 || text.count >= sizeof(copy) || !isxdigit((unsigned char)*text.at))
		return false;
	memcpy(copy, text.at, text.count);
	copy[text.count] = '\0';
	errno = 0;
	*value = strtoull(copy, &end, base);
	return !*end && errno == 0 && *value <= max;
}

/* Two hexadecimal numbers: 16/B374D848. */
static bool read_position(struct bytes text, uint64_t *position)
{
	struct bytes first = bytes_take_until(&text, '/');
	uint64_t high, low;

	if (!question_number(first, 16, UINT32_MAX, &high) ||
	    !question_number(text, 16, UINT32_MAX, &low))
		return false;
	*position = high << 32 | low;
	return true;
}

#define DIGITS_MAX 32

/* A time in seconds as PostgreSQL writes a double, in microseconds. Negative ones are 0. */
static bool read_seconds(struct bytes text, uint64_t *value)
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

/*
 * ---- the question ----
 *
 * Hard here: the session may be in any state. So each name in the query is qualified, operators
 * included, and no construct is used that looks for an operator by itself (IN, LIKE, CASE x WHEN).
 * The transaction's own level is set first, as that of the session may wait (DEFERRABLE) or be
 * refused on a standby (SERIALIZABLE). The role and the session authorization are put aside for the
 * rest of the transaction, as a role of few rights does not see all parameters; and so is
 * statement_timeout, which may be short.
 */

#define VALUE_MAX "65536" /* bytes; a longer value is not sent */
#define EXPOSED_MAX "1000"
#define CHANNELS_MAX "40000" /* more do not fit into what is kept */

/* Before, a name that is no placeholder may be one this role must not read: an error. */
#define MAJOR_WITH_FLAGS 15

#define MAJOR_WITH_WAIT 19 /* WAIT FOR */

/* Adds the names as items of an array; they need no quotes inside. */
static bool add_names(struct bytes names, struct buf *out)
{
	const char *name;
	bool is_any = false;

	while (bytes_take_text(&names, &name)) {
		if (sql_name_judge(bytes_text(name)) != SQL_NAME_PLACEHOLDER)
			continue;
		buf_add_text(out, is_any ? ",'" : "'");
		buf_add_text(out, name);
		buf_add_byte(out, '\'');
		is_any = true;
	}
	return is_any;
}

static void add_placeholders(struct bytes names, unsigned int major, struct buf *out)
{
	size_t before = out->count;

	buf_add_text(out, " UNION ALL SELECT 'p',n,");
	if (major >= MAJOR_WITH_FLAGS)
		buf_add_text(out, "CASE WHEN pg_catalog.pg_settings_get_flags(n)"
		                  "OPERATOR(pg_catalog.@>)CAST('{NO_SHOW_ALL}'AS pg_catalog.text[])"
		                  "THEN pg_catalog.current_setting(n,true)END");
	else
		buf_add_text(out, "pg_catalog.current_setting(n,true)");
	buf_add_text(out, " FROM pg_catalog.unnest(CAST(ARRAY[");
	if (add_names(names, out))
		buf_add_text(out, "]AS pg_catalog.text[]))AS g(n)");
	else if (buf_ok(out))
		out->count = before;
}

/* What keeps a server is counted; the first ones are named, with so many characters each. */
#define HELD_MAX "5"
#define TOTAL "CAST(pg_catalog.count(*)OVER()AS pg_catalog.text)"

/* Each part of the question, as a SELECT of three columns. */
static const struct {
	enum question_part part;
	const char *text;
} selects[] = {
	{ QUESTION_PARAMS, "SELECT 'p',s.name,s.setting FROM pg_catalog.pg_show_all_settings()AS s "
	                   "WHERE s.source OPERATOR(pg_catalog.=)'session'" },
	{ QUESTION_CHANNELS, "(SELECT 'c',c,''FROM pg_catalog.pg_listening_channels()AS c "
	                     "LIMIT " CHANNELS_MAX ")" },
	{ QUESTION_CURSORS,
	  "(SELECT 'u',pg_catalog.left(c.name,64)," TOTAL "FROM pg_catalog.pg_cursor()AS c "
	  "WHERE c.is_holdable LIMIT " HELD_MAX ")" },
	/* 2615 is pg_namespace: what depends on the schema is removed at the session's end. */
	{ QUESTION_TEMP,
	  "SELECT 't',pg_catalog.left(pg_catalog.concat(o.type,' "
	  "',COALESCE(o.name,o.identity)),64),"
	  "d.n FROM(SELECT d.classid,d.objid," TOTAL "FROM pg_catalog.pg_depend AS d "
	  "WHERE d.refclassid OPERATOR(pg_catalog.=)CAST(2615 AS pg_catalog.oid)"
	  "AND d.refobjid OPERATOR(pg_catalog.=)pg_catalog.pg_my_temp_schema()"
	  "ORDER BY d.objid LIMIT " HELD_MAX ")AS d(classid,objid,n),"
	  "pg_catalog.pg_identify_object(d.classid,d.objid,0)AS o" },
	/* One key of 64 bits, or two of 32. */
	{ QUESTION_LOCKS,
	  "(SELECT 'l',CASE WHEN l.objsubid OPERATOR(pg_catalog.=)1 THEN CAST("
	  "CAST(l.classid AS pg_catalog.int8)OPERATOR(pg_catalog.<<)32 "
	  "OPERATOR(pg_catalog.|)CAST(l.objid AS pg_catalog.int8)AS pg_catalog.text)"
	  "ELSE pg_catalog.concat('(',CAST(l.classid AS pg_catalog.int4),',',"
	  "CAST(l.objid AS pg_catalog.int4),')')END," TOTAL "FROM pg_catalog.pg_lock_status()AS l "
	  "WHERE l.locktype OPERATOR(pg_catalog.=)'advisory'"
	  "AND l.pid OPERATOR(pg_catalog.=)pg_catalog.pg_backend_pid()LIMIT " HELD_MAX ")" },
	/* A name of ours that SQL has made is not ours. */
	{ QUESTION_STATEMENTS,
	  "SELECT 's',CAST(pg_catalog.count(*)FILTER(WHERE NOT s.from_sql "
	  "AND pg_catalog.starts_with(s.name,'" STATEMENT_NAMES "'))AS pg_catalog.text),"
	  "CAST(pg_catalog.count(*)FILTER(WHERE s.from_sql)AS pg_catalog.text)"
	  "FROM pg_catalog.pg_prepared_statement()AS s "
	  "WHERE s.name OPERATOR(pg_catalog.<>)'" SCRATCH_NAME "'UNION ALL"
	  "(SELECT 'm',pg_catalog.left(s.name,64),''FROM pg_catalog.pg_prepared_statement()AS s "
	  "WHERE s.from_sql AND s.name OPERATOR(pg_catalog.<>)'" SCRATCH_NAME "'LIMIT " HELD_MAX
	  ")" },
	{ QUESTION_EXPOSED,
	  "(SELECT 'e',s.name,''FROM pg_catalog.pg_prepared_statement()AS s WHERE NOT s.from_sql "
	  "AND NOT pg_catalog.starts_with(s.name,'" STATEMENT_NAMES "')LIMIT " EXPOSED_MAX ")" },
	{ QUESTION_POSITION,
	  "SELECT 'w',pg_catalog.current_setting('wal_block_size'),"
	  "pg_catalog.concat("
	  "CASE WHEN pg_catalog.pg_is_in_recovery()"
	  "THEN pg_catalog.pg_last_wal_replay_lsn()"
	  "ELSE pg_catalog.pg_current_wal_insert_lsn()END,' ',"
	  "pg_catalog.date_part('epoch',pg_catalog.pg_postmaster_start_time()))" },
};

/* Adds a column with the hexadecimal digits of a value. */
static void add_hex(struct buf *out, const char *value)
{
	buf_add_text(out, ",pg_catalog.encode(pg_catalog.convert_to(");
	buf_add_text(out, value);
	buf_add_text(out, ",pg_catalog.getdatabaseencoding()),'hex')");
}

/* They are called in this order. */
static const char *const put_aside[] = {
	"pg_catalog.current_setting('statement_timeout')",
	"pg_catalog.set_config('statement_timeout',NULL,true)", /* to its default */
	"pg_catalog.set_config('statement_timeout','0',true)",
	"pg_catalog.current_setting('role')",
	"pg_catalog.current_setting('session_authorization')",
	"pg_catalog.set_config('session_authorization',NULL,true)",
	"pg_catalog.set_config('role',NULL,true)",
	"pg_catalog.set_config('role','none',true)",
};

void question_text(unsigned int parts, struct bytes names, unsigned int major,
                   const struct question_wait *wait, struct buf *out)
{
	const char *between = "";

	assert(parts);
	buf_add_text(out,
	             "SET TRANSACTION ISOLATION LEVEL READ COMMITTED,READ ONLY,NOT DEFERRABLE;");
	buf_add_text(out, parts & QUESTION_PARAMS ? "SELECT 'r'" : "SET LOCAL statement_timeout=0");
	for (size_t i = 0; i < sizeof(put_aside) / sizeof(put_aside[0]); i++) {
		if (parts & QUESTION_PARAMS)
			add_hex(out, put_aside[i]);
	}
	buf_add_byte(out, ';');
	/* A session waits before it has a snapshot. On a primary, and after the limit, it goes on.
	 */
	if (wait->position && major >= MAJOR_WITH_WAIT)
		buf_printf(out, "WAIT FOR LSN '%X/%X' WITH (TIMEOUT '%lldms',NO_THROW);",
		           (unsigned int)(wait->position >> 32), (unsigned int)wait->position,
		           (long long)(wait->limit / USEC_PER_MS) + 1);
	buf_add_text(out, "SELECT k");
	add_hex(out, "n");
	add_hex(out, "CASE WHEN pg_catalog.octet_length(v)"
	             "OPERATOR(pg_catalog.<=)" VALUE_MAX " THEN v END");
	buf_add_text(out, " FROM(");
	for (size_t i = 0; i < sizeof(selects) / sizeof(selects[0]); i++) {
		if (!(parts & selects[i].part))
			continue;
		buf_add_text(out, between);
		buf_add_text(out, selects[i].text);
		if (selects[i].part == QUESTION_PARAMS)
			add_placeholders(names, major, out);
		between = " UNION ALL ";
	}
	buf_add_text(out, ")AS f(k,n,v)WHERE v IS NOT NULL");
}

/*
 * ---- facts ----
 *
 * Reads the rows of the question:
 *
 *   r | statement_timeout, its default, 0 | role, session_authorization, their defaults, none
 *   p | name of a parameter | value
 *   c | name of a channel |
 *   u | name of a cursor | number of cursors
 *   t | kind and name of a temporary object | number of temporary objects
 *   l | key of a lock | number of locks
 *   s | number of statements of ours | number of statements of SQL's PREPARE
 *   m | name of a statement of SQL's PREPARE |
 *   e | name of a statement |
 *   w | wal_block_size | position in the WAL, a blank, and when PostgreSQL was started
 *
 * Names and values are in hexadecimal digits. The value is NULL if it is too long. A row of one
 * column is how WAIT FOR has ended, which the position says, too.
 *
 * Hard here: the session may have as much as it likes, so what is kept is limited.
 */

#define ANSWER_MAX PARAMS_SIZE_MAX /* bytes kept of one part */
#define HELD_SIZE_MAX 2048         /* bytes kept of the names of what keeps a server */
#define COUNT_MAX 999999999
#define COLUMNS_MAX 9

/* Adds the bytes that the digits stand for, and a zero. false: the question has no such value. */
static bool add_decoded(struct buf *out, struct bytes hex)
{
	if (!hex.at || hex.count % 2)
		return false;
	for (size_t i = 0; i < hex.count; i += 2) {
		int value = text_unhex(hex.at + i);

		if (value <= 0)
			return false;
		buf_add_byte(out, (char)value);
	}
	buf_add_byte(out, 0);
	return true;
}

/* Of an answer that does not fit nothing is kept. Returns whether the row was a good one. */
static bool settle(struct facts *facts, enum question_part part, struct buf *answer, bool is_good)
{
	if (!buf_ok(answer)) {
		facts->too_long |= part;
		buf_free(answer);
	}
	return is_good;
}

/* What the question sets for itself. In hexadecimal digits, as it comes. */
static const char *const own_names[] = {
	"73746174656d656e745f74696d656f7574",           /* statement_timeout */
	"7472616e73616374696f6e5f64656665727261626c65", /* transaction_deferrable */
	"7472616e73616374696f6e5f69736f6c6174696f6e",   /* transaction_isolation */
	"7472616e73616374696f6e5f726561645f6f6e6c79",   /* transaction_read_only */
};

static bool is_own(struct bytes name)
{
	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
		if (bytes_are(name, own_names[i]))
			return true;
	}
	return false;
}

static bool take_param(struct facts *facts, const struct bytes *columns)
{
	struct buf *out = &facts->params;
	bool is_good;

	if (facts->too_long & QUESTION_PARAMS || is_own(columns[1]))
		return true;
	out->limit = ANSWER_MAX;
	is_good = add_decoded(out, columns[1]);
	if (columns[2].at)
		is_good = is_good && add_decoded(out, columns[2]);
	else
		out->is_broken = true; /* its value is too long */
	return settle(facts, QUESTION_PARAMS, out, is_good);
}

/* Adds a name to an answer that is a list of names. */
static bool take_name(struct facts *facts, enum question_part part, struct buf *out,
                      struct bytes name)
{
	if (facts->too_long & part)
		return true;
	out->limit = ANSWER_MAX;
	return settle(facts, part, out, add_decoded(out, name));
}

/* Adds a parameter whose default is known, unless it has that. */
static bool add_changed(struct facts *facts, const char *name, struct bytes value,
                        struct bytes normal)
{
	if (bytes_equal(value, normal))
		return true;
	buf_add_cstr(&facts->params, name);
	return add_decoded(&facts->params, value);
}

static bool take_roles(struct facts *facts, const struct bytes *columns)
{
	static const char none[] = "6e6f6e65";
	bool is_good = add_changed(facts, "statement_timeout", columns[1], columns[2]) &&
	               add_changed(facts, "role", columns[4], columns[7]) &&
	               add_changed(facts, "session_authorization", columns[5], columns[6]);

	if (!bytes_are(columns[7], none))
		is_good = is_good && add_decoded(&facts->role, columns[7]);
	settle(facts, QUESTION_PARAMS, &facts->role, is_good);
	return settle(facts, QUESTION_PARAMS, &facts->params, is_good);
}

static bool read_count(unsigned int *count, struct bytes hex)
{
	struct buf digits = { 0 };
	uint64_t number = 0;
	bool is_good = add_decoded(&digits, hex) && buf_ok(&digits) &&
	               question_number(bytes_text(digits.at), 10, COUNT_MAX, &number);

	*count = (unsigned int)number;
	buf_free(&digits);
	return is_good;
}

/* The name of one of the things that keep a server. What does not fit is only counted. */
static bool add_held(struct facts *facts, char kind, struct bytes name)
{
	size_t size = 2 + name.count / 2; /* with its kind, and a zero */

	if (!name.count || facts->held.count + size > HELD_SIZE_MAX)
		return true;
	buf_add_byte(&facts->held, kind);
	return add_decoded(&facts->held, name);
}

static bool take_held(struct facts *facts, unsigned int *count, const struct bytes *columns)
{
	return add_held(facts, columns[0].at[0], columns[1]) && read_count(count, columns[2]);
}

/* Bytes of the header of a page of the WAL, and of the first page of a segment. */
#define PAGE_HEADER 24
#define SEGMENT_HEADER 40

/*
 * Where the next record would begin. If that is behind the header of a page, no record ends between
 * the header's begin and there, and a standby that has replayed everything shows the header's
 * begin.
 */
static uint64_t without_header(uint64_t position, uint64_t page)
{
	uint64_t offset = position % page;

	return offset == PAGE_HEADER || offset == SEGMENT_HEADER ? position - offset : position;
}

static bool take_position(struct facts *facts, const struct bytes *columns)
{
	struct buf text = { 0 };
	unsigned int page = 0;
	bool is_good = read_count(&page, columns[1]) && page >= 512 &&
	               add_decoded(&text, columns[2]) && buf_ok(&text);
	struct bytes started = is_good ? bytes_text(text.at) : bytes_of("", 0);
	struct bytes position = bytes_take_until(&started, ' ');

	is_good = is_good && read_position(position, &facts->position) &&
	          read_seconds(started, &facts->started);
	if (is_good)
		facts->position = without_header(facts->position, page);
	buf_free(&text);
	return is_good;
}

static bool take_row(struct facts *facts, const struct bytes *columns)
{
	switch (columns[0].at[0]) {
	case 'p':
		return take_param(facts, columns);
	case 'c':
		return take_name(facts, QUESTION_CHANNELS, &facts->channels, columns[1]);
	case 'e':
		return take_name(facts, QUESTION_EXPOSED, &facts->exposed, columns[1]);
	case 'u':
		return take_held(facts, &facts->cursor_count, columns);
	case 't':
		return take_held(facts, &facts->temp_count, columns);
	case 'l':
		return take_held(facts, &facts->lock_count, columns);
	case 's':
		facts->has_own_count = true;
		return read_count(&facts->own_count, columns[1]) &&
		       read_count(&facts->statement_count, columns[2]);
	case 'm':
		return add_held(facts, 's', columns[1]);
	case 'w':
		return take_position(facts, columns);
	default:
		return false;
	}
}

void facts_row(struct facts *facts, struct bytes row)
{
	struct bytes columns[COLUMNS_MAX];
	size_t count = question_values(row, columns, COLUMNS_MAX);
	bool is_good = count == 1;

	if (facts->is_broken)
		return;
	if (count > 1 && columns[0].count == 1)
		is_good = count == COLUMNS_MAX
		              ? columns[0].at[0] == 'r' && take_roles(facts, columns)
		              : count == 3 && take_row(facts, columns);
	facts->is_broken = !is_good;
}

/*
 * ---- the role question ----
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

#define TIMELINE_DIGITS 8

/* Of a standby a number, of a primary the name of a WAL file, which begins with it. */
static bool read_timeline(struct bytes text, enum host_role role, uint32_t *timeline)
{
	uint64_t value = 0;
	bool is_good;

	if (role == HOST_STANDBY)
		is_good = question_number(text, 10, UINT32_MAX, &value);
	else
		is_good =
		    text.count > TIMELINE_DIGITS &&
		    question_number(bytes_of(text.at, TIMELINE_DIGITS), 16, UINT32_MAX, &value);
	*timeline = (uint32_t)value;
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
	    (!columns[3].at || question_number(columns[3], 10, UINT64_MAX, &report->system)) &&
	    (!columns[4].at || read_seconds(columns[4], &report->started)) &&
	    (!columns[5].at || read_position(columns[5], &report->position)) &&
	    (!columns[6].at || read_seconds(columns[6], &age));

	report->is_full = true;
	report->replay_age = (usec_t)age;
	return is_good;
}

bool role_question_answer(struct bytes body, struct host_report *report)
{
	struct bytes columns[ROLE_QUESTION_COLUMNS];
	size_t count = question_values(body, columns, ROLE_QUESTION_COLUMNS);

	*report = (struct host_report){ 0 };
	if (count != ROLE_QUESTION_COLUMNS && count != ROLE_QUESTION_SHORT_COLUMNS)
		return false;
	return read_short(columns, report) &&
	       (count == ROLE_QUESTION_SHORT_COLUMNS || read_full(columns, report));
}
