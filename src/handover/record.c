/* SPDX-License-Identifier: ISC */
/*
 * Records, written and read.
 */
#include "pgweir/handover/record.h"

#include "pgweir/base/banned.h"

#define NUMBER_SIZE ((size_t)8)
#define TIME_MAX ((uint64_t)INT64_MAX / 4)

void record_add_bytes(struct buf *record, char tag, struct bytes bytes)
{
	if (bytes.count > UINT32_MAX) {
		record->is_broken = true;
		return;
	}
	buf_add_byte(record, tag);
	buf_add_be32(record, (uint32_t)bytes.count);
	buf_add(record, bytes.at, bytes.count);
}

void record_add_number(struct buf *record, char tag, uint64_t value)
{
	unsigned char bytes[NUMBER_SIZE];

	store_be32(bytes, (uint32_t)(value >> 32));
	store_be32(bytes + 4, (uint32_t)value);
	record_add_bytes(record, tag, bytes_of(bytes, sizeof(bytes)));
}

void record_add_text(struct buf *record, char tag, const char *text)
{
	record_add_bytes(record, tag, bytes_text(text ? text : ""));
}

bool record_has(const struct record *record, char tag)
{
	return !record->is_bad && record->rest.count && *record->rest.at == tag;
}

static struct bytes bad(struct record *record)
{
	record->is_bad = true;
	return bytes_of("", 0);
}

struct bytes record_bytes(struct record *record, char tag, size_t max)
{
	struct bytes bytes;
	uint32_t count;

	if (!record_has(record, tag) || record->rest.count < RECORD_HEADER_SIZE)
		return bad(record);
	count = load_be32(record->rest.at + 1);
	bytes = bytes_skip(record->rest, RECORD_HEADER_SIZE);
	if (count > max || count > bytes.count)
		return bad(record);
	record->rest = bytes_skip(bytes, count);
	bytes.count = count;
	return bytes;
}

uint64_t record_number(struct record *record, char tag)
{
	struct bytes bytes = record_bytes(record, tag, NUMBER_SIZE);

	if (bytes.count != NUMBER_SIZE)
		return bad(record), 0;
	return (uint64_t)load_be32(bytes.at) << 32 | load_be32(bytes.at + 4);
}

usec_t record_time(struct record *record, char tag)
{
	uint64_t value = record_number(record, tag);

	if (value > TIME_MAX)
		return bad(record), 0;
	return (usec_t)value;
}

bool record_flag(struct record *record, char tag)
{
	uint64_t value = record_number(record, tag);

	if (value > 1)
		bad(record);
	return value == 1;
}

void record_text(struct record *record, char tag, char *out, size_t size)
{
	struct bytes bytes = record_bytes(record, tag, size - 1);

	*out = 0;
	if (bytes.count && memchr(bytes.at, 0, bytes.count)) {
		bad(record);
		return;
	}
	if (bytes.count)
		memcpy(out, bytes.at, bytes.count);
	out[bytes.count] = 0;
}

bool record_is_whole(const struct record *record)
{
	return !record->is_bad && record->rest.count == 0;
}
