/* SPDX-License-Identifier: ISC */
/*
 * Records: how one process hands an object over to another. A record is a sequence of fields.
 * Each field has a tag, a length and that many bytes:
 *
 *   tag (1)  length (4, network order)  bytes
 *
 * A table of rows {tag, kind, offset, name} writes the fields from a struct of plain values,
 * and reads them into such a struct, in the same order. If a field is missing, unexpected,
 * truncated, too long, or of a wrong size for its kind, the whole record is invalid and none of
 * it is used.
 */
#ifndef PGWEIR_BASE_RECORD_H
#define PGWEIR_BASE_RECORD_H

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"

enum record_kind {
	RECORD_NUMBER,   /* uint64_t */
	RECORD_TIME,     /* usec_t: not negative, at most INT64_MAX / 4 */
	RECORD_FLAG,     /* bool */
	RECORD_TEXT,     /* char[size]: at most size - 1 bytes, none of them zero */
	RECORD_BYTES,    /* struct bytes: at most `size` bytes; read bytes point into the record */
	RECORD_BLOCK,    /* exactly `size` bytes, as they are in memory */
	RECORD_COUNTERS, /* a struct of numbers: a record in the record, see `counters` */
	RECORD_SMALL     /* uint32_t, or an enum; on the wire as RECORD_NUMBER */
};

struct record_field {
	char tag; /* never change it, nor use it again for another value of the same table */
	enum record_kind kind;
	bool is_optional; /* not written if it is 0, false or empty */
	size_t offset, size;
	const char *name;
	/*
	 * COUNTERS: its numbers. They may come in any order, and unknown or missing ones are
	 * accepted: two versions may count different things.
	 */
	const struct record_table *counters;
};

struct record_table {
	const char *name;
	const struct record_field *fields;
	size_t count;
	/* Checks values against each other. NULL: no check needed. */
	bool (*is_good)(const void *values);
};

/* clang-format off */
#define RECORD_KIND_OF(type, field) _Generic(((type *)0)->field, \
	uint64_t: RECORD_NUMBER, uint32_t: RECORD_SMALL, usec_t: RECORD_TIME, bool: RECORD_FLAG, char *: RECORD_TEXT)

/* A row for a number, a time, a flag or a text: RECORD_FIELD('i', struct server_record, id). */
#define RECORD_FIELD(letter, type, field, ...) \
	{ .tag = (letter), .kind = RECORD_KIND_OF(type, field), .offset = offsetof(type, field), \
	  .size = sizeof(((type *)0)->field), .name = #field, __VA_ARGS__ }

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

/* Adds the fields of a table. buf_ok() is false if there was no memory. */
void record_write(struct buf *record, const struct record_table *table, const void *values);

/* A record that is being read. Set `rest`, which is borrowed, and zero the other fields. */
struct record {
	struct bytes rest; /* not read yet */
	bool is_bad;       /* invalid; everything read after this is 0, false or empty */
	const char *flaw;  /* name of the first invalid field, or of the table */
};

/* Reads the fields of a table. After an invalid field all values are 0, false or empty. */
void record_read(struct record *record, const struct record_table *table, void *values);

/* Whether the fields of this table are next: for optional and repeated tables. */
bool record_has_table(const struct record *record, const struct record_table *table);

/* Whether everything was valid and the record has been read to its end. */
bool record_is_whole(const struct record *record);

#endif
