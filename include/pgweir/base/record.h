/* SPDX-License-Identifier: ISC */
/*
 * Records: what one process tells another of one of its objects. A record is a run of
 * fields, each with a tag, a length and that many bytes:
 *
 *   tag (1)  length (4, network order)  bytes
 *
 * Writer and reader name the same tags in the same order. A field that is missing, that
 * nobody asks for, that is cut, too long or of another size than its kind has makes the
 * whole record bad; nothing in it is believed then.
 */
#ifndef PGWEIR_BASE_RECORD_H
#define PGWEIR_BASE_RECORD_H

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"

/* Bytes that a field has in front of its own. */
#define RECORD_HEADER_SIZE ((size_t)5)

/* ---- writing: as all that is added to a buf, asked about once, by buf_ok() ---- */

void record_add_number(struct buf *record, char tag, uint64_t value);
void record_add_text(struct buf *record, char tag, const char *text); /* NULL: as "" */
void record_add_bytes(struct buf *record, char tag, struct bytes bytes);

/* ---- reading ---- */

/* Zeroed but for `rest`, which is borrowed. */
struct record {
	struct bytes rest; /* what has not been taken yet */
	bool is_bad;       /* for good: what is taken from now on is nothing */
	const char *flaw;  /* by a table: the first bad field, or the table, by name */
};

/* The next field, which must have this tag. Nothing (0, "", no bytes) when it is bad. */
uint64_t record_number(struct record *record, char tag);
usec_t record_time(struct record *record, char tag); /* no time is negative, or past all reason */
bool record_flag(struct record *record, char tag);   /* a number, 0 or 1 */

/* Of `max` bytes at most; the bytes lie in the record. */
struct bytes record_bytes(struct record *record, char tag, size_t max);

/* Copied into out[size], cut by nothing: what does not fit, or holds a zero, is bad. */
void record_text(struct record *record, char tag, char *out, size_t size);

/* Whether the next field has this tag: for what comes any number of times. */
bool record_has(const struct record *record, char tag);

/* Whether all of it was good, and all of it has been taken. */
bool record_is_whole(const struct record *record);

/* ---- by a table ---- */

/*
 * What an object hands over is a struct of plain values, and a table says which of them stand
 * in a record, under which tag and in which order. The same table writes and reads.
 */
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
	 * is no fault: two versions need not count the same things.
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

/* Adds the fields of a table. */
void record_write(struct buf *record, const struct record_table *table, const void *values);

/* Takes the fields of a table. After a bad one each value is nothing: 0, false, "", no bytes. */
void record_read(struct record *record, const struct record_table *table, void *values);

/* Whether the fields of this table come next: for what comes seldom, or any number of times. */
bool record_has_table(const struct record *record, const struct record_table *table);

/*
 * A number for the format of a record: it depends on each tag, kind and size, on their order,
 * and on `hash`, which is that of the tables before. Counters do not count.
 */
uint64_t record_hash(uint64_t hash, const struct record_table *table);

#endif
