/* SPDX-License-Identifier: ISC */
/*
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
#include "pgweir/pool/server/facts.h"

#include <stdio.h>

#include "pgweir/pgwire/fields.h"
#include "pgweir/pool/server/params.h"
#include "pgweir/pool/server/question.h"

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

static bool take_channel(struct facts *facts, const struct bytes *columns)
{
	return take_name(facts, QUESTION_CHANNELS, &facts->channels, columns[1]);
}

static bool take_exposed(struct facts *facts, const struct bytes *columns)
{
	return take_name(facts, QUESTION_EXPOSED, &facts->exposed, columns[1]);
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

static bool take_cursors(struct facts *facts, const struct bytes *columns)
{
	return take_held(facts, &facts->cursor_count, columns);
}

static bool take_temp(struct facts *facts, const struct bytes *columns)
{
	return take_held(facts, &facts->temp_count, columns);
}

static bool take_locks(struct facts *facts, const struct bytes *columns)
{
	return take_held(facts, &facts->lock_count, columns);
}

static bool take_statements(struct facts *facts, const struct bytes *columns)
{
	facts->has_own_count = true;
	return read_count(&facts->own_count, columns[1]) &&
	       read_count(&facts->statement_count, columns[2]);
}

static bool take_statement(struct facts *facts, const struct bytes *columns)
{
	return add_held(facts, 's', columns[1]);
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
		is_good = role_question_seconds(bytes_text(text.at + size), &facts->started);
	}
	buf_free(&text);
	return is_good;
}

static const struct {
	const char *kind;
	size_t columns;
	bool (*take)(struct facts *facts, const struct bytes *columns);
} kinds[] = {
	{ "r", 9, take_roles },      { "p", 3, take_param },   { "c", 3, take_channel },
	{ "u", 3, take_cursors },    { "t", 3, take_temp },    { "l", 3, take_locks },
	{ "s", 3, take_statements }, { "e", 3, take_exposed }, { "m", 3, take_statement },
	{ "w", 3, take_position },
};

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
	for (size_t i = 0; walk.rest.count == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (bytes_are(columns[0], kinds[i].kind) && count == kinds[i].columns)
			facts->is_broken = !kinds[i].take(facts, columns);
	}
}

void facts_done(struct facts *facts)
{
	buf_free(&facts->params);
	buf_free(&facts->defaults);
	buf_free(&facts->channels);
	buf_free(&facts->exposed);
	buf_free(&facts->held);
	*facts = (struct facts){ 0 };
}
