/* SPDX-License-Identifier: ISC */
/*
 * Records: what one process tells another about one of its objects. A record is a run of
 * fields, each with a tag, a length and that many bytes:
 *
 *   tag (1)  length (4, network order)  bytes
 *
 * A table of rows {tag, kind, offset, name} writes the fields from a struct of plain values, and
 * reads them into one, in the same order. A field that is missing, unexpected, cut, too long or
 * of another size than its kind has makes the whole record bad; nothing in it is believed then.
 */
#ifndef PGWEIR_BASE_RECORD_H
#define PGWEIR_BASE_RECORD_H

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"

enum record_kind {
	RECORD_NUMBER,  /* uint64_t */
	RECORD_TIME,    /* usec_t: neither negative nor beyond all reason */
	RECORD_FLAG,    /* bool */
	RECORD_TEXT,    /* char[size]: at most size - 1 bytes, no zero among them */
	RECORD_BYTES,   /* struct bytes: at most `size`; what was read points into the record */
	RECORD_BLOCK,   /* exactly `size` bytes, as they are in memory */
	RECORD_COUNTERS /* a struct of numbers: a record within the record, see `counters` */
};

struct record_field {
	char tag; /* never changed, and never used again for another value of the same table */
	enum record_kind kind;
	bool is_optional; /* left out if it is 0, false or empty */
	size_t offset, size;
	const char *name;
	/*
	 * COUNTERS: its numbers. They may come in any order, and one that is unknown or missing
	 * is accepted: two versions need not count the same things.
	 */
	const struct record_table *counters;
};

struct record_table {
	const char *name;
	const struct record_field *fields;
	size_t count;
	/* Whether values that are each good are good together. NULL: always. */
	bool (*is_good)(const void *values);
};

/* clang-format off */
#define RECORD_KIND_OF(type, field) _Generic(((type *)0)->field, \
	uint64_t: RECORD_NUMBER, usec_t: RECORD_TIME, bool: RECORD_FLAG, char *: RECORD_TEXT)

/* A row for a number, a time, a flag or a text; RECORD_FIELD('i', struct server_record, id). */
#define RECORD_FIELD(letter, type, field, ...) \
	{ .tag = (letter), .kind = RECORD_KIND_OF(type, field), .offset = offsetof(type, field), \
	  .size = sizeof(((type *)0)->field), .name = #field, __VA_ARGS__ }

/* A row for a struct bytes of `max` bytes at most. */
#define RECORD_BYTES_FIELD(letter, type, field, max, ...) \
	{ .tag = (letter), .kind = RECORD_BYTES, .offset = offsetof(type, field), .size = (max), \
	  .name = #field, __VA_ARGS__ }

#define RECORD_BLOCK_FIELD(letter, type, field) \
	{ .tag = (letter), .kind = RECORD_BLOCK, .offset = offsetof(type, field), \
	  .size = sizeof(((type *)0)->field), .name = #field }

#define RECORD_COUNTERS_FIELD(letter, type, field, table) \
	{ .tag = (letter), .kind = RECORD_COUNTERS, .offset = offsetof(type, field), \
	  .name = #field, .counters = (table) }

#define RECORD_OPTIONAL .is_optional = true

#define RECORD_TABLE(what, rows, check) \
	{ .name = (what), .fields = (rows), .count = sizeof(rows) / sizeof((rows)[0]), \
	  .is_good = (check) }
/* clang-format on */

/* Adds the fields of a table; buf_ok() tells whether all of it could be added. */
void record_write(struct buf *record, const struct record_table *table, const void *values);

/* What is read. Zeroed but for `rest`, which is borrowed. */
struct record {
	struct bytes rest; /* not read yet */
	bool is_bad;       /* for good: what is read from now on is nothing */
	const char *flaw;  /* the first bad field, or the table, by name */
};

/* Reads the fields of a table. After a bad one each value is nothing: 0, false, "", no bytes. */
void record_read(struct record *record, const struct record_table *table, void *values);

/* Whether the fields of this table come next: for optional and repeated ones. */
bool record_has_table(const struct record *record, const struct record_table *table);

/* Whether all of it was good, and all of it has been read. */
bool record_is_whole(const struct record *record);

/*
 * A number for the format of a record: it depends on each tag, kind and size, on their order,
 * and on `hash`, which is that of the tables before. Counters do not count.
 */
uint64_t record_hash(uint64_t hash, const struct record_table *table);

#endif
