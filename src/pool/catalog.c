/* SPDX-License-Identifier: ISC */
/* Reads the answer of the question about a database's catalog. Its texts are in catalog_sql.c. */
#include "pgweir/pool/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/hash.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql_touch.h"

#define COLUMNS_OF_NAME 4

static const char *const kinds[CATALOG_KINDS] = {
	[CATALOG_FUNCTION] = "function",
	[CATALOG_PROCEDURE] = "procedure",
	[CATALOG_AGGREGATE] = "aggregate",
	[CATALOG_TABLE] = "table",
	[CATALOG_VIEW] = "view",
	[CATALOG_MATERIALIZED_VIEW] = "materialized view",
	[CATALOG_FOREIGN_TABLE] = "foreign table",
	[CATALOG_DEFINITION] = "event trigger",
	[CATALOG_INDEX] = "index",
};

static const struct {
	char letter;
	unsigned int bits;
} letters[] = {
	{ 'p', SQL_TOUCH_PARAMS },    { 't', SQL_TOUCH_TEMP },   { 'l', SQL_TOUCH_LOCK },
	{ 'c', SQL_TOUCH_LISTEN },    { 'n', SQL_TOUCH_NOTIFY }, { 'u', SQL_TOUCH_CURSOR },
	{ 'x', SQL_TOUCH_EXTENSION }, { 's', SQL_TOUCH_SCOPE },  { 'h', SQL_TOUCH_HIDDEN },
};

/* A statement that may start an event trigger has one of these. */
static const char *const definitions[] = { "alter",   "analyze", "cluster", "comment", "create",
	                                   "drop",    "grant",   "import",  "into",    "reassign",
	                                   "refresh", "reindex", "revoke",  "security" };

/* One that works on indexes, of all tables if it names none, or whose name is in a string. */
static const char *const maintenance[] = { "analyze",
	                                   "analyse",
	                                   "cluster",
	                                   "reindex",
	                                   "repack",
	                                   "vacuum",
	                                   "brin_summarize_new_values",
	                                   "brin_summarize_range",
	                                   "bt_index_check",
	                                   "bt_index_parent_check" };

const char *catalog_kind_name(enum catalog_kind kind) { return kinds[kind]; }

/* ---- readings ---- */

struct catalog_reading *catalog_ask(bool reads_all, unsigned int ddl_count, usec_t now)
{
	struct catalog_reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	atomic_init(&reading->holder_count, 1);
	reading->is_look = !reads_all;
	reading->asked_at = now;
	reading->ddl_count = ddl_count;
	reading->since_wall = wall_now();
	reading->names.names.limit = reading->parameters.limit = CATALOG_SIZE_MAX;
	return reading;
}

struct catalog_reading *catalog_reading_hold(struct catalog_reading *reading)
{
	atomic_fetch_add_explicit(&reading->holder_count, 1, memory_order_relaxed);
	return reading;
}

void catalog_reading_release(struct catalog_reading **readingp)
{
	struct catalog_reading *reading = *readingp;

	*readingp = NULL;
	if (!reading ||
	    atomic_fetch_sub_explicit(&reading->holder_count, 1, memory_order_acq_rel) != 1)
		return;
	sql_touchers_free(&reading->names);
	buf_free(&reading->parameters);
	free(reading);
}

bool catalog_knows(const struct catalog_reading *reading, struct bytes texts)
{
	if (reading->state == CATALOG_UNREAD)
		return false;
	for (const char *text; bytes_take_text(&texts, &text);) {
		/* With CATALOG_ANY no name is needed: it may be anything already. */
		if (reading->state != CATALOG_ANY &&
		    sql_touchers_in(&reading->names, bytes_text(text), NULL))
			return false;
	}
	return true;
}

/* ---- the question ---- */

void catalog_text(const struct catalog_reading *reading, struct buf *out)
{
	buf_add_text(out, catalog_sql_begin);
	buf_add_text(out, catalog_sql_changes);
	if (!reading->is_look) {
		buf_add_byte(out, ';');
		buf_add_text(out, catalog_sql_names);
	}
	buf_add_byte(out, 0);
}

/* ---- the answer ---- */

/* Cuts what is too long. */
static void keep(char *to, size_t size, struct bytes from)
{
	size_t count = from.count < size ? from.count : size - 1;

	if (count)
		memcpy(to, from.at, count);
	to[count] = 0;
}

static void set_any(struct catalog_reading *reading, struct bytes why)
{
	if (reading->state < CATALOG_ANY)
		keep(reading->why, sizeof(reading->why), why);
	reading->state = CATALOG_ANY;
}

static unsigned int bits_of(struct bytes text)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < text.count; i++) {
		unsigned int found = SQL_TOUCH_HIDDEN;

		for (size_t at = 0; at < sizeof(letters) / sizeof(letters[0]); at++) {
			if (letters[at].letter == text.at[i])
				found = letters[at].bits;
		}
		bits |= found;
	}
	return bits ? bits : SQL_TOUCH_HIDDEN;
}

static void add_toucher(struct catalog_reading *reading, struct bytes name, enum catalog_kind kind,
                        unsigned int bits)
{
	struct sql_toucher what = { .bits = bits,
		                    .kind = (unsigned char)kind,
		                    .is_called = kind <= CATALOG_AGGREGATE };

	if (bits & ~(unsigned int)(SQL_TOUCH_NOTIFY | SQL_TOUCH_SCOPE) &&
	    reading->state == CATALOG_QUIET)
		reading->state = CATALOG_TOUCHES;
	if (reading->names.count == CATALOG_NAMES_MAX)
		set_any(reading, bytes_text("too many names"));
	else if (!sql_touchers_add(&reading->names, name, &what))
		set_any(reading, bytes_text("names too long, or no memory"));
}

static void add_parameter(struct catalog_reading *reading, struct bytes name)
{
	if (reading->parameters.count + name.count < CATALOG_SIZE_MAX / 8) {
		buf_add(&reading->parameters, name.at, name.count);
		buf_add_byte(&reading->parameters, 0);
	}
}

static void take_sequences(struct catalog_reading *reading, struct bytes use, struct bytes none)
{
	reading->sequences_if_any =
	    bytes_are(use, "written") ? CATALOG_SEQUENCES_WRITTEN : CATALOG_SEQUENCES_CALLED;
	reading->sequences =
	    bytes_are(none, "none") ? CATALOG_SEQUENCES_NONE : reading->sequences_if_any;
}

static void add_words(struct catalog_reading *reading, const char *const *words, size_t count,
                      enum catalog_kind kind, unsigned int bits)
{
	for (size_t i = 0; i < count; i++)
		add_toucher(reading, bytes_text(words[i]), kind, bits);
}

/* kind, name, letters */
static void take_name(struct catalog_reading *reading, const struct bytes *values)
{
	unsigned int bits;

	if (bytes_are(values[0], "parameter")) {
		add_parameter(reading, values[1]);
		return;
	}
	if (bytes_are(values[0], "sequences")) {
		take_sequences(reading, values[1], values[2]);
		return;
	}
	bits = bits_of(values[2]);
	if (bytes_are(values[0], "any text")) {
		set_any(reading,
		        bytes_are(values[1], "*")
		            ? bytes_text("an operator, cast, type or domain has such a function")
		            : values[1]);
		return;
	}
	for (int kind = 0; kind < CATALOG_DEFINITION; kind++) {
		if (bytes_are(values[0], kinds[kind])) {
			add_toucher(reading, values[1], (enum catalog_kind)kind, bits);
			return;
		}
	}
	if (bytes_are(values[0], kinds[CATALOG_INDEX]))
		add_words(reading, maintenance, sizeof(maintenance) / sizeof(maintenance[0]),
		          CATALOG_INDEX, bits);
	else
		add_words(reading, definitions, sizeof(definitions) / sizeof(definitions[0]),
		          CATALOG_DEFINITION, bits);
}

/* Rows come in no certain order, so what is added to the digest has none. */
static void digest(struct catalog_reading *reading, struct bytes body)
{
	static const struct hash_key plain;

	reading->digest += hash_bytes(&plain, body.at, body.count);
}

void catalog_row(struct catalog_reading *reading, struct bytes body)
{
	struct bytes values[COLUMNS_OF_NAME] = { { 0 } };
	struct row_walk walk;
	size_t count = 0;

	if (fields_row(body, &walk) != WIRE_OK)
		return;
	while (count < COLUMNS_OF_NAME && fields_value(&walk, &values[count]) == WALK_ITEM)
		count++;
	if (!reading->is_look && count == COLUMNS_OF_NAME) {
		digest(reading, body);
		take_name(reading, values);
	} else {
		reading->has_row = count > 0 && values[0].at;
		keep(reading->changes, sizeof(reading->changes), values[0]);
	}
}

bool catalog_end(struct catalog_reading *reading, bool has_failed)
{
	bool is_answer = !has_failed && reading->has_row;

	if (!is_answer) {
		reading->state = CATALOG_UNREAD;
		keep(reading->why, sizeof(reading->why), bytes_text("it could not be read"));
	}
	return is_answer;
}

/* Whether two answers are of one server: they begin with its start. */
static bool is_same_server(const char *one, const char *other)
{
	size_t count = strcspn(one, " ");

	return strcspn(other, " ") == count && strncmp(one, other, count) == 0;
}

bool catalog_has_changed(const struct catalog_reading *look, const struct catalog_reading *reading,
                         bool *is_other_server)
{
	*is_other_server = !is_same_server(look->changes, reading->changes);
	return strcmp(look->changes, reading->changes) != 0;
}
