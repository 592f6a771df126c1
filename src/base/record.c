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

static uint64_t read_number(struct record *record, char tag, uint64_t max)
{
	struct bytes bytes = read_bytes(record, tag, NUMBER_SIZE);
	uint64_t value = 0;

	if (bytes.count == NUMBER_SIZE)
		value = (uint64_t)load_be32(bytes.at) << 32 | load_be32(bytes.at + 4);
	if (bytes.count == NUMBER_SIZE && value <= max)
		return value;
	bad(record);
	return 0;
}

static void read_text(struct record *record, char tag, char *out, size_t size)
{
	struct bytes bytes = read_bytes(record, tag, size - 1);

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

/* ---- whole tables ---- */

/* There are at most as many counters as tags. */
#define COUNTERS_SIZE_MAX (256 * (HEADER_SIZE + NUMBER_SIZE))

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

static void write_counters(struct buf *record, char tag, const struct record_table *table,
                           const void *values)
{
	buf_add_byte(record, tag);
	buf_add_be32(record, (uint32_t)(table->count * (HEADER_SIZE + NUMBER_SIZE)));
	record_write(record, table, values);
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
		write_counters(record, field->tag, field->counters, at);
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

static void read_block(struct record *record, char tag, void *out, size_t size)
{
	struct bytes bytes = read_bytes(record, tag, size);

	memset(out, 0, size);
	if (bytes.count == size)
		memcpy(out, bytes.at, size);
	else
		bad(record);
}

static void read_counters(struct record *record, char tag, const struct record_table *table,
                          void *values)
{
	struct record inner = { .rest = read_bytes(record, tag, COUNTERS_SIZE_MAX) };

	for (size_t i = 0; i < table->count; i++)
		store_number(place_of(values, &table->fields[i]), RECORD_NUMBER, 0);
	while (inner.rest.count && !inner.is_bad) {
		char counter = *inner.rest.at;
		uint64_t number = read_number(&inner, counter, UINT64_MAX);

		for (size_t i = 0; i < table->count; i++) {
			if (table->fields[i].tag == counter)
				store_number(place_of(values, &table->fields[i]), RECORD_NUMBER,
				             number);
		}
	}
	if (inner.is_bad)
		bad(record);
}

static void set_nothing(const struct record_field *field, void *at)
{
	if (field->kind == RECORD_BYTES)
		*(struct bytes *)at = bytes_of("", 0);
	else
		memset(at, 0, field->size);
}

static void read_field(struct record *record, const struct record_field *field, void *at)
{
	switch (field->kind) {
	case RECORD_TEXT:
		read_text(record, field->tag, at, field->size);
		break;
	case RECORD_BYTES:
		*(struct bytes *)at = read_bytes(record, field->tag, field->size);
		break;
	case RECORD_BLOCK:
		read_block(record, field->tag, at, field->size);
		break;
	case RECORD_COUNTERS:
		read_counters(record, field->tag, field->counters, at);
		break;
	default:
		store_number(at, field->kind,
		             read_number(record, field->tag, number_max[field->kind]));
	}
}

void record_read(struct record *record, const struct record_table *table, void *values)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct record_field *field = &table->fields[i];
		void *at = place_of(values, field);

		if (field->is_optional && !has_tag(record, field->tag))
			set_nothing(field, at);
		else
			read_field(record, field, at);
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
