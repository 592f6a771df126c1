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
#ifndef PGWEIR_HANDOVER_RECORD_H
#define PGWEIR_HANDOVER_RECORD_H

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

#endif
