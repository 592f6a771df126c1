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
	bool is_any = false;

	for (const char *name; bytes_take_text(&names, &name);) {
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

/* What the question sets for itself. */
static const char *const own_names[] = { "statement_timeout", "transaction_deferrable",
	                                 "transaction_isolation", "transaction_read_only" };

/*
 * What the digits stand for, as texts in `out`. false: the question has no such value. NULL is only
 * the value of a parameter.
 */
static bool decode(const struct bytes *columns, size_t count, struct buf *out, const char **values)
{
	const char *text;
	struct bytes rest;

	for (size_t i = 1; i < count; i++) {
		if (columns[i].count % 2 || !(columns[i].at || (i == 2 && columns[0].at[0] == 'p')))
			return false;
		for (size_t at = 0; at < columns[i].count; at += 2) {
			int value = text_unhex(columns[i].at + at);

			if (value <= 0)
				return false;
			buf_add_byte(out, (char)value);
		}
		buf_add_byte(out, 0);
	}
	rest = buf_bytes(out);
	for (size_t i = 1; buf_ok(out) && bytes_take_text(&rest, &text); i++)
		values[i] = columns[i].at ? text : NULL;
	return buf_ok(out);
}

/* Of an answer that does not fit nothing is kept. value NULL: the answer is a list of names. */
static void add(struct facts *facts, enum question_part part, struct buf *out, const char *name,
                const char *value)
{
	if (facts->too_long & part)
		return;
	out->limit = ANSWER_MAX;
	buf_add_cstr(out, name);
	if (value)
		buf_add_cstr(out, value);
	if (buf_ok(out))
		return;
	facts->too_long |= part;
	buf_free(out);
}

static void take_param(struct facts *facts, const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
		if (strcmp(name, own_names[i]) == 0)
			return;
	}
	facts->params.is_broken |= !value; /* it is too long */
	add(facts, QUESTION_PARAMS, &facts->params, name, value);
}

/* Adds a parameter whose default is known, unless it has that. */
static void add_changed(struct facts *facts, const char *name, const char *value,
                        const char *normal)
{
	if (strcmp(value, normal) != 0)
		add(facts, QUESTION_PARAMS, &facts->params, name, value);
}

static void take_roles(struct facts *facts, const char *const *values)
{
	add_changed(facts, "statement_timeout", values[1], values[2]);
	add_changed(facts, "role", values[4], values[7]);
	add_changed(facts, "session_authorization", values[5], values[6]);
	if (strcmp(values[7], "none") != 0)
		add(facts, QUESTION_PARAMS, &facts->role, values[7], NULL);
}

static bool read_count(unsigned int *count, const char *digits)
{
	uint64_t number = 0;
	bool is_good = question_number(bytes_text(digits), 10, COUNT_MAX, &number);

	*count = (unsigned int)number;
	return is_good;
}

/* The name of one of the things that keep a server. What does not fit is only counted. */
static void add_held(struct facts *facts, char kind, const char *name)
{
	if (!*name || facts->held.count + strlen(name) + 2 > HELD_SIZE_MAX)
		return;
	buf_add_byte(&facts->held, kind);
	buf_add_cstr(&facts->held, name);
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

static bool take_position(struct facts *facts, const char *const *values)
{
	struct bytes started = bytes_text(values[2]);
	struct bytes position = bytes_take_until(&started, ' ');
	unsigned int page;

	if (!read_count(&page, values[1]) || page < 512 ||
	    !read_position(position, &facts->position) || !read_seconds(started, &facts->started))
		return false;
	facts->position = without_header(facts->position, page);
	return true;
}

static bool take_row(struct facts *facts, char kind, const char *const *values)
{
	switch (kind) {
	case 'p':
		take_param(facts, values[1], values[2]);
		return true;
	case 'c':
		add(facts, QUESTION_CHANNELS, &facts->channels, values[1], NULL);
		return true;
	case 'e':
		add(facts, QUESTION_EXPOSED, &facts->exposed, values[1], NULL);
		return true;
	case 'm':
		add_held(facts, 's', values[1]);
		return true;
	case 's':
		facts->has_own_count = true;
		return read_count(&facts->own_count, values[1]) &&
		       read_count(&facts->statement_count, values[2]);
	case 'w':
		return take_position(facts, values);
	case 'u':
	case 't':
	case 'l':
		add_held(facts, kind, values[1]);
		return read_count(kind == 'u'   ? &facts->cursor_count
		                  : kind == 't' ? &facts->temp_count
		                                : &facts->lock_count,
		                  values[2]);
	default:
		return false;
	}
}

void facts_row(struct facts *facts, struct bytes row)
{
	struct bytes columns[COLUMNS_MAX];
	const char *values[COLUMNS_MAX];
	size_t count = question_values(row, columns, COLUMNS_MAX);
	struct buf text = { 0 };

	if (facts->is_broken || count == 1)
		return;
	facts->is_broken = (count != 3 && count != COLUMNS_MAX) || columns[0].count != 1 ||
	                   !decode(columns, count, &text, values);
	if (!facts->is_broken && count == 3)
		facts->is_broken = !take_row(facts, columns[0].at[0], values);
	else if (!facts->is_broken && columns[0].at[0] == 'r')
		take_roles(facts, values);
	else
		facts->is_broken = true;
	buf_free(&text);
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
