/* SPDX-License-Identifier: ISC */
/*
 * Writes and reads records. An optional field that was left out is read as 0, false or empty.
 */
#include "pgweir/base/record.h"

/* Bytes of a field before its value: tag and length. */
#define HEADER_SIZE ((size_t)5)
#define NUMBER_SIZE ((size_t)8)
#define TIME_MAX ((uint64_t)INT64_MAX / 4)

static void add_bytes(struct buf *record, char tag, struct bytes bytes)
{
	if (bytes.count > UINT32_MAX) {
		record->is_broken = true;
		return;
	}
	buf_add_byte(record, tag);
	buf_add_be32(record, (uint32_t)bytes.count);
	buf_add(record, bytes.at, bytes.count);
}

static void add_number(struct buf *record, char tag, uint64_t value)
{
	unsigned char bytes[NUMBER_SIZE];

	store_be32(bytes, (uint32_t)(value >> 32));
	store_be32(bytes + 4, (uint32_t)value);
	add_bytes(record, tag, bytes_of(bytes, sizeof(bytes)));
}

static bool has_tag(const struct record *record, char tag)
{
	return !record->is_bad && record->rest.count && *record->rest.at == tag;
}

static struct bytes bad(struct record *record)
{
	record->is_bad = true;
	return bytes_of("", 0);
}

static struct bytes read_bytes(struct record *record, char tag, size_t max)
{
	struct bytes bytes;
	uint32_t count;

	if (!has_tag(record, tag) || record->rest.count < HEADER_SIZE)
		return bad(record);
	count = load_be32(record->rest.at + 1);
	bytes = bytes_skip(record->rest, HEADER_SIZE);
	if (count > max || count > bytes.count)
		return bad(record);
	record->rest = bytes_skip(bytes, count);
	bytes.count = count;
	return bytes;
}

bool record_is_whole(const struct record *record)
{
	return !record->is_bad && record->rest.count == 0;
}

/* ---- whole tables ---- */

/* There are at most as many counters as tags. */
#define COUNTER_SIZE (HEADER_SIZE + NUMBER_SIZE)
#define COUNTERS_SIZE_MAX (256 * COUNTER_SIZE)

/* The greatest value of each kind of number; 0: the kind is none. */
static const uint64_t number_max[RECORD_SMALL + 1] = {
	[RECORD_NUMBER] = UINT64_MAX,
	[RECORD_TIME] = TIME_MAX,
	[RECORD_FLAG] = 1,
	[RECORD_SMALL] = UINT32_MAX,
};

static void *place_of(const void *values, const struct record_field *field)
{
	return (char *)values + field->offset;
}

static uint64_t load_number(const void *at, enum record_kind kind)
{
	if (kind == RECORD_FLAG)
		return *(const bool *)at;
	return kind == RECORD_SMALL ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static void store_number(void *at, enum record_kind kind, uint64_t value)
{
	if (kind == RECORD_FLAG)
		*(bool *)at = value;
	else if (kind == RECORD_SMALL)
		*(uint32_t *)at = (uint32_t)value;
	else
		*(uint64_t *)at = value;
}

static bool is_nothing(const void *at, enum record_kind kind)
{
	if (kind == RECORD_TEXT)
		return !*(const char *)at;
	if (kind == RECORD_BYTES)
		return ((const struct bytes *)at)->count == 0;
	return number_max[kind] && load_number(at, kind) == 0;
}

static void write_field(struct buf *record, const struct record_field *field, const void *at)
{
	switch (field->kind) {
	case RECORD_TEXT:
		add_bytes(record, field->tag, bytes_text(at));
		break;
	case RECORD_BYTES:
		add_bytes(record, field->tag, *(const struct bytes *)at);
		break;
	case RECORD_BLOCK:
		add_bytes(record, field->tag, bytes_of(at, field->size));
		break;
	case RECORD_COUNTERS:
		buf_add_byte(record, field->tag);
		buf_add_be32(record, (uint32_t)(field->counters->count * COUNTER_SIZE));
		record_write(record, field->counters, at);
		break;
	default:
		add_number(record, field->tag, load_number(at, field->kind));
	}
}

void record_write(struct buf *record, const struct record_table *table, const void *values)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct record_field *field = &table->fields[i];
		const void *at = place_of(values, field);

		if (!field->is_optional || !is_nothing(at, field->kind))
			write_field(record, field, at);
	}
}

/* The most bytes that the value of a field may have in a record. */
static size_t size_max(const struct record_field *field)
{
	if (number_max[field->kind])
		return NUMBER_SIZE;
	if (field->kind == RECORD_COUNTERS)
		return COUNTERS_SIZE_MAX;
	return field->kind == RECORD_TEXT ? field->size - 1 : field->size;
}

static bool read_number(struct bytes bytes, enum record_kind kind, void *at)
{
	uint64_t value;

	if (bytes.count != NUMBER_SIZE)
		return false;
	value = (uint64_t)load_be32(bytes.at) << 32 | load_be32(bytes.at + 4);
	if (value > number_max[kind])
		return false;
	store_number(at, kind, value);
	return true;
}

static bool read_counters(struct bytes bytes, const struct record_table *table, void *values)
{
	struct record inner = { .rest = bytes };
	uint64_t unknown;

	while (inner.rest.count && !inner.is_bad) {
		char tag = *inner.rest.at;
		struct bytes number = read_bytes(&inner, tag, NUMBER_SIZE);
		void *at = &unknown;

		for (size_t i = 0; i < table->count; i++) {
			if (table->fields[i].tag == tag)
				at = place_of(values, &table->fields[i]);
		}
		inner.is_bad |= !read_number(number, RECORD_NUMBER, at);
	}
	return !inner.is_bad;
}

static void set_nothing(const struct record_field *field, void *at)
{
	if (field->kind == RECORD_BYTES)
		*(struct bytes *)at = bytes_of("", 0);
	else if (field->kind != RECORD_COUNTERS)
		memset(at, 0, field->size);
	for (size_t i = 0; field->counters && i < field->counters->count; i++)
		store_number(place_of(at, &field->counters->fields[i]), RECORD_NUMBER, 0);
}

/* *at is nothing so far, and stays so if this returns false. */
static bool read_value(const struct record_field *field, struct bytes bytes, void *at)
{
	switch (field->kind) {
	case RECORD_TEXT:
		if (bytes.count && memchr(bytes.at, 0, bytes.count))
			return false;
		memcpy(at, bytes.at, bytes.count);
		return true;
	case RECORD_BYTES:
		*(struct bytes *)at = bytes;
		return true;
	case RECORD_BLOCK:
		if (bytes.count != field->size)
			return false;
		memcpy(at, bytes.at, bytes.count);
		return true;
	case RECORD_COUNTERS:
		return read_counters(bytes, field->counters, at);
	default:
		return read_number(bytes, field->kind, at);
	}
}

void record_read(struct record *record, const struct record_table *table, void *values)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct record_field *field = &table->fields[i];
		void *at = place_of(values, field);
		struct bytes bytes;

		set_nothing(field, at);
		if (field->is_optional && !has_tag(record, field->tag))
			continue;
		bytes = read_bytes(record, field->tag, size_max(field));
		if (!record->is_bad && !read_value(field, bytes, at))
			record->is_bad = true;
		if (record->is_bad && !record->flaw)
			record->flaw = field->name;
	}
	if (!record->is_bad && table->is_good && !table->is_good(values)) {
		bad(record);
		record->flaw = table->name;
	}
}

bool record_has_table(const struct record *record, const struct record_table *table)
{
	return has_tag(record, table->fields[0].tag);
}
