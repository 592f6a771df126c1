/* SPDX-License-Identifier: ISC */
/*
 * Writes and reads records. An optional field that was left out is read as 0, false or empty.
 */
#include "pgweir/base/record.h"

#include "pgweir/base/hash.h"

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

static uint64_t read_number(struct record *record, char tag)
{
	struct bytes bytes = read_bytes(record, tag, NUMBER_SIZE);

	if (bytes.count != NUMBER_SIZE)
		return bad(record), 0;
	return (uint64_t)load_be32(bytes.at) << 32 | load_be32(bytes.at + 4);
}

static uint32_t read_small(struct record *record, char tag)
{
	uint64_t value = read_number(record, tag);

	if (value > UINT32_MAX)
		return bad(record), 0;
	return (uint32_t)value;
}

static usec_t read_time(struct record *record, char tag)
{
	uint64_t value = read_number(record, tag);

	if (value > TIME_MAX)
		return bad(record), 0;
	return (usec_t)value;
}

static bool read_flag(struct record *record, char tag)
{
	uint64_t value = read_number(record, tag);

	if (value > 1)
		bad(record);
	return value == 1;
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

/* Pointer to a field of the struct of values. */
union value {
	void *at;
	uint64_t *number;
	uint32_t *small;
	usec_t *time;
	bool *flag;
	char *text;
	struct bytes *bytes;
};

static union value value_of(const void *values, const struct record_field *field)
{
	return (union value){ .at = (char *)values + field->offset };
}

static bool is_nothing(union value value, enum record_kind kind)
{
	switch (kind) {
	case RECORD_NUMBER:
		return *value.number == 0;
	case RECORD_SMALL:
		return *value.small == 0;
	case RECORD_TIME:
		return *value.time == 0;
	case RECORD_FLAG:
		return !*value.flag;
	case RECORD_TEXT:
		return !*value.text;
	case RECORD_BYTES:
		return value.bytes->count == 0;
	case RECORD_BLOCK:
	case RECORD_COUNTERS:
		break;
	}
	return false;
}

static void write_counters(struct buf *record, char tag, const struct record_table *table,
                           const void *values)
{
	buf_add_byte(record, tag);
	buf_add_be32(record, (uint32_t)(table->count * (HEADER_SIZE + NUMBER_SIZE)));
	record_write(record, table, values);
}

static void write_field(struct buf *record, const struct record_field *field, union value value)
{
	switch (field->kind) {
	case RECORD_NUMBER:
		add_number(record, field->tag, *value.number);
		break;
	case RECORD_SMALL:
		add_number(record, field->tag, *value.small);
		break;
	case RECORD_TIME:
		add_number(record, field->tag, (uint64_t)*value.time);
		break;
	case RECORD_FLAG:
		add_number(record, field->tag, *value.flag);
		break;
	case RECORD_TEXT:
		add_bytes(record, field->tag, bytes_text(value.text));
		break;
	case RECORD_BYTES:
		add_bytes(record, field->tag, *value.bytes);
		break;
	case RECORD_BLOCK:
		add_bytes(record, field->tag, bytes_of(value.at, field->size));
		break;
	case RECORD_COUNTERS:
		write_counters(record, field->tag, field->counters, value.at);
		break;
	}
}

void record_write(struct buf *record, const struct record_table *table, const void *values)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct record_field *field = &table->fields[i];
		union value value = value_of(values, field);

		if (!field->is_optional || !is_nothing(value, field->kind))
			write_field(record, field, value);
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
		*value_of(values, &table->fields[i]).number = 0;
	while (inner.rest.count && !inner.is_bad) {
		char counter = *inner.rest.at;
		uint64_t number = read_number(&inner, counter);

		for (size_t i = 0; i < table->count; i++) {
			if (table->fields[i].tag == counter)
				*value_of(values, &table->fields[i]).number = number;
		}
	}
	if (inner.is_bad)
		bad(record);
}

static void set_nothing(const struct record_field *field, union value value)
{
	if (field->kind == RECORD_BYTES)
		*value.bytes = bytes_of("", 0);
	else
		memset(value.at, 0, field->size);
}

static void read_field(struct record *record, const struct record_field *field, union value value)
{
	switch (field->kind) {
	case RECORD_NUMBER:
		*value.number = read_number(record, field->tag);
		break;
	case RECORD_SMALL:
		*value.small = read_small(record, field->tag);
		break;
	case RECORD_TIME:
		*value.time = read_time(record, field->tag);
		break;
	case RECORD_FLAG:
		*value.flag = read_flag(record, field->tag);
		break;
	case RECORD_TEXT:
		read_text(record, field->tag, value.text, field->size);
		break;
	case RECORD_BYTES:
		*value.bytes = read_bytes(record, field->tag, field->size);
		break;
	case RECORD_BLOCK:
		read_block(record, field->tag, value.at, field->size);
		break;
	case RECORD_COUNTERS:
		read_counters(record, field->tag, field->counters, value.at);
		break;
	}
}

void record_read(struct record *record, const struct record_table *table, void *values)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct record_field *field = &table->fields[i];
		union value value = value_of(values, field);

		if (field->is_optional && !has_tag(record, field->tag))
			set_nothing(field, value);
		else
			read_field(record, field, value);
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

uint64_t record_hash(uint64_t hash, const struct record_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct record_field *field = &table->fields[i];
		bool is_small = field->kind == RECORD_SMALL;
		unsigned char kind = (unsigned char)(is_small ? RECORD_NUMBER : field->kind);
		unsigned char row[7] = { (unsigned char)field->tag, kind, field->is_optional };

		store_be32(row + 3, (uint32_t)(is_small ? sizeof(uint64_t) : field->size));
		hash = hash_bytes(&(struct hash_key){ { hash, table->count } }, row, sizeof(row));
	}
	return hash;
}
