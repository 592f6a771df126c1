/* SPDX-License-Identifier: ISC */
/*
 * Errands: what we ask a server ourselves. There is one at a time; the replies are ours.
 *
 *   server_errand()       --> sent at once; its end: server_errand_done()
 *   server_errand_ahead() --> sent ahead of the borrower's next message; nobody waits for its end
 *   server_ask()          --> the question about session state; if it fails, asked in another way
 *   server_ask_behind()   --> the same, behind the borrower's last message
 *
 * What is done for a borrower ends with its on_answer().
 */
#include "server_priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_names.h"
#include "pgweir/pool/server/question.h"

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

/*
 * The first version that tells whether a name is a placeholder. A parameter of that name may be one
 * that this role must not read, and asking for it would be an error.
 */
#define MAJOR_WITH_FLAGS 15

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

static void add_put_aside(struct buf *out)
{
	buf_add_text(out, "SELECT 'r'");
	for (size_t i = 0; i < sizeof(put_aside) / sizeof(put_aside[0]); i++)
		add_hex(out, put_aside[i]);
	buf_add_byte(out, ';');
}

void question_text(unsigned int parts, struct bytes names, unsigned int major, struct buf *out)
{
	const char *between = "";

	assert(parts);
	buf_add_text(out,
	             "SET TRANSACTION ISOLATION LEVEL READ COMMITTED,READ ONLY,NOT DEFERRABLE;");
	if (parts & QUESTION_PARAMS)
		add_put_aside(out);
	else
		buf_add_text(out, "SET LOCAL statement_timeout=0;");
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
 * Names and values are in hexadecimal digits. The value is NULL if it is too long.
 *
 * Hard here: the session may have as much as it likes, so what is kept is limited.
 */

#define ANSWER_MAX PARAMS_SIZE_MAX /* bytes kept of one part */
#define HELD_SIZE_MAX 2048         /* bytes kept of the names of what keeps a server */
#define COUNT_DIGITS_MAX 9
#define COLUMNS_MAX 9

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Adds the bytes that the digits stand for, and a zero. false: the question has no such value. */
static bool add_decoded(struct buf *out, struct bytes hex)
{
	if (!hex.at || hex.count % 2)
		return false;
	for (size_t i = 0; i < hex.count; i += 2) {
		int high = digit_of(hex.at[i]), low = digit_of(hex.at[i + 1]);

		if (high < 0 || low < 0 || high + low == 0)
			return false;
		buf_add_byte(out, (char)(high << 4 | low));
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

	if (!bytes_are(columns[7], none)) {
		buf_add_cstr(&facts->defaults, "role");
		is_good = is_good && add_decoded(&facts->defaults, columns[7]);
	}
	settle(facts, QUESTION_PARAMS, &facts->defaults, is_good);
	return settle(facts, QUESTION_PARAMS, &facts->params, is_good);
}

static bool read_count(unsigned int *count, struct bytes hex)
{
	struct buf digits = { 0 };
	bool is_good = add_decoded(&digits, hex) && buf_ok(&digits) && digits.count > 1 &&
	               digits.count <= COUNT_DIGITS_MAX + 1;

	*count = 0;
	for (size_t i = 0; is_good && i < digits.count - 1; i++) {
		is_good = digits.at[i] >= '0' && digits.at[i] <= '9';
		*count = *count * 10 + (unsigned int)(digits.at[i] - '0');
	}
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

#define DIGITS_MAX 32

bool question_seconds(struct bytes text, uint64_t *value)
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
	unsigned int page = 0, high, low;
	int size = 0;
	bool is_good = read_count(&page, columns[1]) && page >= 512 &&
	               add_decoded(&text, columns[2]) && buf_ok(&text) &&
	               sscanf(text.at, "%8X/%8X %n", &high, &low, &size) == 2 && size;

	if (is_good) {
		facts->position = without_header((uint64_t)high << 32 | low, page);
		is_good = question_seconds(bytes_text(text.at + size), &facts->started);
	}
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
	struct row_walk walk;
	size_t count = 0;

	if (facts->is_broken)
		return;
	facts->is_broken = true;
	if (fields_row(row, &walk) != WIRE_OK || walk.left == 0 || walk.left > COLUMNS_MAX)
		return;
	while (walk.left) {
		if (fields_value(&walk, &columns[count++]) != WALK_ITEM)
			return;
	}
	if (walk.rest.count || columns[0].count != 1)
		return;
	if (count == COLUMNS_MAX)
		facts->is_broken = columns[0].at[0] != 'r' || !take_roles(facts, columns);
	else
		facts->is_broken = count != 3 || !take_row(facts, columns);
}

/*
 * ---- sequences ----
 *
 * DISCARD SEQUENCES goes ahead of a message that asks for their values or calls nextval().
 *
 * Hard here: it may fail, because a request to cancel the borrower's statement may come while it
 * runs. Nothing that relies on it may be answered then: the server is closed before.
 */

void server_discard_begin(struct server *server)
{
	server->session.discard = DISCARD_SENT;
	server->session.sequences = SEQUENCES_OWN;
}

void server_discard_end(struct server *server, bool is_done)
{
	enum server_discard discard = server->session.discard;

	server->session.discard = DISCARD_NONE;
	if (discard == DISCARD_NONE || is_done)
		return;
	server->session.sequences = SEQUENCES_FOREIGN;
	if (discard == DISCARD_NEEDED)
		server->wire.prefix_failure = CLOSE_SEQUENCES_KEPT;
}

/* The reply to a query of ours has arrived, which has the cleaning in it if server->is_cleaning. */
static void server_cleaning_end(struct server *server, bool is_done)
{
	if (!server->is_cleaning)
		return;
	server->is_cleaning = false;
	if (is_done)
		server->session.doubt = DOUBT_NONE;
	/* More may be sent now, which is kept only where there are other hosts. */
	if (is_done && server->site->hosts->count == 1)
		replay_end_resend(&server->lease.replay);
}

/* ---- errands ---- */

#define QUESTION_TRIES 5

/* Whoever may have such state keeps the server, so the question may go without an answer. */
#define NOT_VITAL                                                                             \
	((unsigned int)(QUESTION_PARAMS | QUESTION_CURSORS | QUESTION_TEMP | QUESTION_LOCKS | \
	                QUESTION_STATEMENTS))

static const struct {
	const char *name;
	enum close_reason failure; /* CLOSE_NONE: a failure is only logged */
} errands[] = {
	[ERRAND_NONE] = { "nothing", CLOSE_NONE },
	[ERRAND_CONNECT] = { "connect_query", CLOSE_NONE },
	[ERRAND_CHECK] = { "server_check_query", CLOSE_NONE },
	[ERRAND_RESET] = { "server_reset_query", CLOSE_RESET_FAILED },
	[ERRAND_REPLAY] = { "parameters", CLOSE_NONE },
	[ERRAND_SET_BACK] = { "parameters", CLOSE_BAD_SERVER_PARAMETER },
	[ERRAND_CHANNELS] = { "UNLISTEN", CLOSE_QUESTION_FAILED },
	[ERRAND_CLOSES] = { "Close", CLOSE_QUESTION_FAILED },
	[ERRAND_ASK] = { "the question about session state", CLOSE_QUESTION_FAILED },
	[ERRAND_CATALOG] = { "the question about the catalog", CLOSE_NONE },
	[ERRAND_ROLE] = { "the role question", CLOSE_NONE },
};

static void begin_errand(struct server *server, enum errand_kind kind)
{
	assert(server->errand == ERRAND_NONE);
	server->errand = kind;
	server->errand_failed = false;
	server->wire.is_ready = false;
	if (server->state == SERVER_LENT) /* the other states have this limit anyway */
		timer_set(&server->timer, server->site->limits.connect,
		          loop_now(server->site->shared->loop));
}

/* Sends the messages, which are in the ledger if is_noted. */
static bool send_errand(struct server *server, bool is_noted)
{
	struct buf *out = server->site->shared->errand_message;
	bool is_sent = is_noted && buf_ok(out) && stream_send(&server->wire.stream, buf_bytes(out));

	buf_reuse(out, ERRAND_KEEP_MAX);
	if (!is_sent)
		server_break(server);
	return is_sent;
}

static bool note(struct server *server, enum ledger_kind kind)
{
	return ledger_add(&server->wire.ledger, kind, LEDGER_OURS);
}

/* Closes the portal and the statement with the scratch name. */
static bool add_closes(struct server *server, enum ledger_fate fate, struct buf *out)
{
	MESSAGE_STATIC(portal, 'C', "P" SCRATCH_NAME);
	MESSAGE_STATIC(statement, 'C', "S" SCRATCH_NAME);

	buf_add(out, (const char *)&portal, sizeof(portal));
	buf_add(out, (const char *)&statement, sizeof(statement));
	return server_note_change(server, LEDGER_CLOSE, fate, NULL) &&
	       server_note_change(server, LEDGER_CLOSE, fate, NULL);
}

bool server_add_apart(struct server *server, struct bytes statement, enum ledger_fate fate,
                      struct ledger_change *change, struct buf *out)
{
	/* without parameters and formats, and all rows of it */
	MESSAGE_STATIC(bind, 'B', SCRATCH_NAME "\0" SCRATCH_NAME "\0\0\0\0\0\0");
	MESSAGE_STATIC(execute, 'E', SCRATCH_NAME "\0\0\0\0");
	size_t at;

	if (!add_closes(server, fate, out))
		return false;
	at = message_begin(out, 'P');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add(out, statement.at, statement.count);
	buf_add(out, "\0\0", 3);
	message_end(out, at);
	buf_add(out, (const char *)&bind, sizeof(bind));
	buf_add(out, (const char *)&execute, sizeof(execute));
	return server_note_change(server, LEDGER_PARSE, fate, NULL) &&
	       server_note_change(server, LEDGER_BIND, fate, NULL) &&
	       server_note_change(server, LEDGER_EXECUTE, fate, change) &&
	       add_closes(server, fate, out);
}

/* The statements of the text have no semicolon but between them. All is one transaction. */
static bool add_all_apart(struct server *server, const char *text, struct buf *out)
{
	bool is_noted = true;

	for (; is_noted && *text; text += strcspn(text, ";"), text += *text == ';')
		is_noted = server_add_apart(server, bytes_of(text, strcspn(text, ";")), LEDGER_OURS,
		                            NULL, out);
	message_sync(out);
	return is_noted && note(server, LEDGER_SYNC);
}

bool server_errand(struct server *server, enum errand_kind kind, enum errand_how how,
                   const char *text)
{
	struct buf *out = server->site->shared->errand_message;

	begin_errand(server, kind);
	if (how == ERRAND_APART)
		return send_errand(server, add_all_apart(server, text, out));
	message_query(out, text);
	return send_errand(server, note(server, LEDGER_QUERY));
}

void server_close_statements(struct server *server, struct bytes names)
{
	struct buf *out = server->site->shared->errand_message;
	bool is_noted = true;
	const char *name;

	begin_errand(server, ERRAND_CLOSES);
	while (is_noted && bytes_take_text(&names, &name)) {
		size_t at = message_begin(out, 'C');

		buf_add_byte(out, 'S');
		buf_add_cstr(out, name);
		message_end(out, at);
		is_noted = note(server, LEDGER_CLOSE);
	}
	message_sync(out);
	send_errand(server, is_noted && note(server, LEDGER_SYNC));
}

static void settle_ahead(struct ledger_change *change, bool is_done)
{
	struct server *server = container_of(change, struct server, wire.prefix_change);
	bool was_cleaning = server->is_cleaning;

	server_discard_end(server, is_done);
	server_cleaning_end(server, is_done);
	if (is_done || server_is_over(server))
		return;
	if (was_cleaning) {
		server->wire.prefix_failure = CLOSE_CLEANING_FAILED;
		return;
	}
	log_warning(&server->log, "parameters could not be set; it is closed after this client");
	server_need_close(server, CLOSE_PARAMETERS_NOT_SET);
}

static bool note_ahead(struct server *server, enum ledger_kind kind, struct ledger_change *change)
{
	return server_note_change(server, kind, LEDGER_OURS, change);
}

/*
 * Adds a transaction block, and behind it a Parse that fails if the block has failed: then
 * PostgreSQL skips all that it reads before the next Sync, Queries too. The statement of the Parse
 * is never executed. The session's own modes may be others: to wait, or to be refused on a standby.
 */
static bool add_fenced(struct server *server, const char *query)
{
	MESSAGE_STATIC(close, 'C', "S" SCRATCH_NAME);
	MESSAGE_STATIC(parse, 'P', SCRATCH_NAME "\0CLOSE ALL\0\0");
	struct buf *prefix = &server->wire.prefix;
	size_t at = message_begin(prefix, 'Q');

	buf_add_text(prefix, "BEGIN ISOLATION LEVEL READ COMMITTED,READ ONLY;");
	buf_add_text(prefix, query);
	buf_add_text(prefix, "COMMIT");
	buf_add_byte(prefix, 0);
	message_end(prefix, at);
	buf_add(prefix, (const char *)&close, sizeof(close));
	buf_add(prefix, (const char *)&parse, sizeof(parse));
	buf_add(prefix, (const char *)&close, sizeof(close));
	return note_ahead(server, LEDGER_QUERY, NULL) && note_ahead(server, LEDGER_CLOSE, NULL) &&
	       note_ahead(server, LEDGER_PARSE, &server->wire.prefix_change) &&
	       note_ahead(server, LEDGER_CLOSE, NULL);
}

bool server_errand_ahead(struct server *server, const char *query)
{
	bool is_noted;

	server->wire.prefix_change = (struct ledger_change){ .settle = settle_ahead };
	if (server->is_cleaning) {
		is_noted = add_fenced(server, query);
	} else {
		message_query(&server->wire.prefix, query);
		is_noted = note_ahead(server, LEDGER_QUERY, &server->wire.prefix_change);
	}
	if (is_noted && buf_ok(&server->wire.prefix))
		return true;
	server_break(server);
	return false;
}

/* ---- asking ---- */

static void write_question(const struct server *server, struct buf *text)
{
	const char *version = params_find(server->session.baseline, "server_version");
	struct server_question *question = server->question;

	question->try_count++;
	question_text(question->facts.parts, buf_bytes(&question->names),
	              version ? (unsigned int)strtoul(version, NULL, 10) : 0, text);
	buf_add_byte(text, 0);
}

static void send_question(struct server *server)
{
	struct buf text = { 0 };

	write_question(server, &text);
	if (!buf_ok(&server->question->names) || !buf_ok(&text))
		server_break(server);
	else
		server_errand(server, ERRAND_ASK, server->question->how, text.at);
	buf_free(&text);
}

void server_ask(struct server *server, enum errand_how how, unsigned int parts, struct bytes names)
{
	server->question = calloc(1, sizeof(*server->question));
	if (!server->question) {
		server_break(server);
		return;
	}
	server->question->how = how;
	server->question->facts.parts = parts;
	buf_add(&server->question->names, names.at, names.count);
	send_question(server);
}

bool server_ask_behind(struct server *server, unsigned int parts, struct buf *out)
{
	struct buf text = { 0 };
	bool is_added;

	server->question = calloc(1, sizeof(*server->question));
	if (!server->question)
		return false;
	server->question->facts.parts = parts;
	write_question(server, &text);
	if (buf_ok(&text))
		message_query(out, text.at);
	is_added =
	    buf_ok(&text) && buf_ok(out) && out->count <= UINT16_MAX && note(server, LEDGER_QUERY);
	if (is_added)
		server->ask_size = (uint16_t)out->count;
	else
		server_question_free(&server->question);
	buf_free(&text);
	return is_added;
}

void server_begin_ask(struct server *server)
{
	server->ask_size = 0;
	server->errand = ERRAND_ASK;
	server->errand_failed = false;
	timer_set(&server->timer, server->site->limits.connect,
	          loop_now(server->site->shared->loop));
}

void server_drop_question(struct server *server)
{
	if (!server->ask_size)
		return;
	server->ask_size = 0;
	server_question_free(&server->question);
}

/*
 * The question has failed. It is canceled by a cancel request that came late, or by a short
 * statement_timeout before that is put aside. Otherwise a name may be one that this role must not
 * ask for, or it must not call a function that the question needs. false: it is not asked again;
 * then facts.parts is 0 if that does not matter.
 */
static bool ask_again(struct server *server)
{
	struct server_question *question = server->question;
	unsigned int parts = question->facts.parts;
	unsigned int unknown = question->facts.unknown;
	bool lacks_names = question->facts.lacks_names;

	if (server->wire.status != 'I' || question->try_count >= QUESTION_TRIES)
		return false;
	facts_done(&question->facts);
	question->facts.parts = parts;
	if (question->was_canceled) {
		/* the same again */
	} else if (question->names.count) {
		buf_free(&question->names);
		lacks_names = true;
	} else if (question->lacks_rights && (parts & NOT_VITAL)) {
		unknown |= parts & NOT_VITAL;
		parts &= ~NOT_VITAL;
	} else {
		return false;
	}
	question->was_canceled = false;
	question->facts.parts = parts;
	question->facts.unknown = unknown;
	question->facts.lacks_names = lacks_names;
	if (parts)
		send_question(server);
	return parts;
}

void server_clear_channels(struct server *server)
{
	server_errand(server, ERRAND_CHANNELS, ERRAND_AT_ONCE, "UNLISTEN *");
}

/* An errand for the borrower is done. */
static void answer(struct server *server, enum errand_kind kind)
{
	struct server_question *question = server->question;
	const struct borrower_ops *ops = server->lease.borrower->ops;

	server->question = NULL;
	timer_clear(&server->timer);
	if (question && question->facts.is_broken)
		server_close_for(server, CLOSE_QUESTION_FAILED);
	else
		ops->on_answer(server->lease.borrower, kind, question ? &question->facts : NULL);
	server_question_free(&question);
}

/* The errand has done what it is for, or its failure does not matter. */
static void go_on_after(struct server *server, enum errand_kind kind)
{
	switch (kind) {
	case ERRAND_CONNECT:
		if (server->site->is_followed && !server_is_dedicated(server))
			server_ask_defaults(server);
		else
			server->site->ops->on_login_done(server);
		return;
	case ERRAND_REPLAY:
		server_discard_end(server, !server->errand_failed);
		server_cleaning_end(server, !server->errand_failed);
		if (server->errand_failed) {
			server->site->ops->on_params_refused(server);
			return;
		}
		params_release(server->site->shared->params, &server->session.before);
		timer_clear(&server->timer);
		server->lease.borrower->ops->on_lent(server->lease.borrower);
		return;
	case ERRAND_ASK:
		if (server->state != SERVER_LOGIN)
			break;
		server_take_defaults(server, &server->question->facts);
		server_question_free(&server->question);
		server->site->ops->on_login_done(server);
		return;
	case ERRAND_CATALOG:
		server->site->ops->on_catalog_end(server, server->errand_failed);
		break;
	case ERRAND_RESET:
		server->session.has_session = server->session.is_dirty = false;
		server->session.doubt = DOUBT_NONE;
		break;
	default:
		break;
	}
	if (server->state == SERVER_LENT)
		answer(server, kind);
	else
		server->site->ops->on_home(server);
}

void server_errand_done(struct server *server)
{
	enum errand_kind kind = server->errand;

	server->errand = ERRAND_NONE;
	if (server->errand_failed && kind != ERRAND_ROLE)
		log_warning(&server->log, "%s failed", errands[kind].name);
	if (server->errand_failed && kind == ERRAND_ASK && ask_again(server))
		return;
	if (server->errand_failed && errands[kind].failure && server->state != SERVER_LOGIN &&
	    (kind != ERRAND_ASK || server->question->facts.parts)) {
		server_close_for(server, errands[kind].failure);
		return;
	}
	if (server->wire.status != 'I') {
		server_close_with(server, ERR_STATE, "a query of our own left a transaction open");
		return;
	}
	server->wire.is_ready = true;
	go_on_after(server, kind);
}
