/* SPDX-License-Identifier: ISC */
/*
 * Rows: sends the values of a struct as a DataRow, in text or in binary.
 *
 * Source for the binary formats: PostgreSQL's numeric_send(), int4send() and similar
 * functions, and its manual, "Frontend/Backend Protocol", "Formats and Format Codes".
 */
#include "show_priv.h"

#include <fnmatch.h>
#include <stdio.h>
#include <time.h>

#include "pgweir/base/text.h"
#include "pgweir/base/version.h"
#include "pgweir/pgwire/message.h"

_Static_assert(sizeof(struct bytes) <= 2 * ROW_SLOT, "a value does not fit into its slots");

static const struct value_kind {
	uint32_t oid;
	int16_t size;
	const char *name;
} kinds[VALUE_TYPES] = {
	[VALUE_TEXT] = { 25, -1, "text" },    [VALUE_VOID] = { 2278, 4, "void" },
	[VALUE_INT4] = { 23, 4, "int4" },     [VALUE_INT8] = { 20, 8, "int8" },
	[VALUE_BYTEA] = { 17, -1, "bytea" },  [VALUE_NUMERIC] = { 1700, -1, "numeric" },
	[VALUE_POINTER] = { 25, -1, "text" }, [VALUE_TIME] = { 25, -1, "text" },
	[VALUE_HOST] = { 25, -1, "text" },
};

const char *rows_type_name(enum value_type type) { return kinds[type].name; }

const char *rows_column_name(struct columns columns, const struct column *column)
{
	bool is_renamed = columns.renamed && strcmp(columns.renamed, column->name) == 0;

	return is_renamed ? columns.renamed_to : column->name;
}

size_t rows_columns_shown(struct columns columns)
{
	return columns.count - (size_t)__builtin_popcount(columns.hidden);
}

void rows_describe(struct buf *out, struct columns columns, uint32_t binary)
{
	size_t at = message_columns_begin(out, (uint16_t)rows_columns_shown(columns));

	for (size_t i = 0; i < columns.count; i++) {
		const struct value_kind *kind = &kinds[columns.at[i].type];
		struct message_column column = { .name = rows_column_name(columns, &columns.at[i]),
			                         .type = kind->oid,
			                         .size = kind->size,
			                         .format = binary & 1 };

		if ((columns.hidden >> i) & 1)
			continue;
		message_column(out, &column);
		binary >>= 1;
	}
	message_end(out, at);
}

/* ---- binary ---- */

/* Digits in base 10000, the highest first, without trailing zeros. */
static void add_numeric(struct buf *out, int64_t number)
{
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
	uint16_t digits[5]; /* 10000^5 > 2^64 */
	uint16_t count = 0, weight, skip = 0;

	for (; left; left /= 10000)
		digits[count++] = (uint16_t)(left % 10000);
	weight = count ? (uint16_t)(count - 1) : 0;
	while (skip < count && digits[skip] == 0)
		skip++;
	buf_add_be32(out, 8 + 2 * (uint32_t)(count - skip));
	buf_add_be16(out, (uint16_t)(count - skip));
	buf_add_be16(out, weight);
	buf_add_be16(out, number < 0 ? 0x4000 : 0);
	buf_add_be16(out, 0); /* no digits after the decimal point */
	while (count > skip)
		buf_add_be16(out, digits[--count]);
}

/* ---- values ---- */

static void add_number(struct buf *out, enum value_type type, bool is_binary, int64_t number)
{
	char text[24];

	if (number == ROWS_NULL) {
		message_row_null(out);
		return;
	}
	if (type == VALUE_INT4 && number != (int32_t)number)
		number = number > 0 ? INT32_MAX : INT32_MIN;
	if (!is_binary) {
		snprintf(text, sizeof(text), "%lld", (long long)number);
		message_row_text(out, text);
	} else if (type == VALUE_NUMERIC) {
		add_numeric(out, number);
	} else {
		buf_add_be32(out, type == VALUE_INT4 ? 4 : 8);
		if (type != VALUE_INT4)
			buf_add_be32(out, (uint32_t)((uint64_t)number >> 32));
		buf_add_be32(out, (uint32_t)number);
	}
}

static void add_time(struct buf *out, usec_t wall)
{
	time_t seconds = (time_t)(wall / USEC_PER_SEC);
	char text[48] = "";
	struct tm parts;

	if (wall && localtime_r(&seconds, &parts))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &parts);
	message_row_text(out, wall ? text : NULL);
}

static void add_bytea(struct buf *out, bool is_binary, struct bytes bytes)
{
	if (!bytes.at) {
		message_row_null(out);
	} else if (is_binary) {
		message_row_bytes(out, bytes);
	} else {
		char *buffer;

		buf_add_be32(out, (uint32_t)(2 + 2 * bytes.count));
		buf_add_text(out, "\\x");
		buffer = buf_reserve(out, 2 * bytes.count + 1);
		if (!buffer)
			return;
		text_hex(buffer, bytes.at, bytes.count);
		out->count += 2 * bytes.count;
	}
}

void rows_add(struct buf *out, struct columns columns, uint32_t binary, const void *row)
{
	size_t at = message_row_begin(out, (uint16_t)rows_columns_shown(columns));
	const struct address *address;
	char text[ADDRESS_TEXT_SIZE];
	size_t next = 0;

	for (size_t i = 0; i < columns.count; i++) {
		const struct column *column = &columns.at[i];
		size_t begin = column->at == ROW_NEXT ? next : column->at;
		const void *value = (const char *)row + begin;
		bool is_binary = binary & 1;

		next = begin + (column->type == VALUE_BYTEA ? 2 * ROW_SLOT : ROW_SLOT);
		if ((columns.hidden >> i) & 1)
			continue;
		binary >>= 1;
		switch (column->type) {
		case VALUE_TEXT:
		case VALUE_VOID:
			message_row_text(out, *(const char *const *)value);
			break;
		case VALUE_POINTER:
			*text = 0;
			if (*(const void *const *)value)
				snprintf(text, sizeof(text), "%p", *(const void *const *)value);
			message_row_text(out, text);
			break;
		case VALUE_TIME:
			add_time(out, *(const usec_t *)value);
			break;
		case VALUE_HOST:
			address = *(const struct address *const *)value;
			message_row_text(
			    out, address ? address_format_host(address, text, sizeof(text)) : NULL);
			break;
		case VALUE_BYTEA:
			add_bytea(out, is_binary, *(const struct bytes *)value);
			break;
		default:
			add_number(out, column->type, is_binary, *(const int64_t *)value);
		}
	}
	message_end(out, at);
}

/*
 * ---- console_version ----
 *
 * Columns that are newer than the oldest one; * is any text. Checked with the programs of 1.24 and
 * 1.26, and by release notes for 1.23.
 */
static const struct newer {
	const char *item, *column;
	enum console_version since;
	const char *before; /* its name in older ones; NULL: they do not have it */
} newer[] = {
	{ "CLIENTS", "id", CONSOLE_VERSION_1_24, NULL },
	{ "SERVERS", "id", CONSOLE_VERSION_1_24, NULL },
	{ "SOCKETS", "id", CONSOLE_VERSION_1_24, NULL },
	{ "ACTIVE_SOCKETS", "id", CONSOLE_VERSION_1_24, NULL },
	{ "POOLS", "load_balance_hosts", CONSOLE_VERSION_1_24, NULL },
	{ "DATABASES", "reserve_pool_size", CONSOLE_VERSION_1_24, "reserve_pool" },
	{ "DATABASES", "load_balance_hosts", CONSOLE_VERSION_1_24, NULL },
	{ "DATABASES", "*_client_connections", CONSOLE_VERSION_1_24, NULL },
	{ "USERS", "reserve_pool_size", CONSOLE_VERSION_1_24, NULL },
	{ "USERS", "*_client_connections", CONSOLE_VERSION_1_24, NULL },
	{ "STATS*", "*_parse_count", CONSOLE_VERSION_1_24, NULL },
	{ "STATS*", "*bind_count", CONSOLE_VERSION_1_24, NULL },
	{ "STATS*", "*client_login_count", CONSOLE_VERSION_1_26, NULL },
};

/* NULL: the column is the same in this version. */
static const struct newer *find_newer(const char *item, const char *column,
                                      enum console_version version)
{
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
		if (version < newer[i].since && fnmatch(newer[i].item, item, 0) == 0 &&
		    fnmatch(newer[i].column, column, 0) == 0)
			return &newer[i];
	}
	return NULL;
}

bool rows_have(const char *item, const char *column, enum console_version version)
{
	return !find_newer(item, column, version);
}

struct columns rows_columns(const struct show *show, enum console_version version)
{
	struct columns columns = show->columns;

	for (size_t i = 0; version < CONSOLE_VERSION_1_26 && i < columns.count; i++) {
		const struct newer *row = find_newer(show->item, columns.at[i].name, version);

		if (row && row->before) {
			columns.renamed = row->column;
			columns.renamed_to = row->before;
		} else if (row) {
			columns.hidden |= (uint32_t)1 << i;
		}
	}
	return columns;
}

#define RELEASE(number)                                                             \
	{                                                                           \
		number, "PgBouncer " number " (" VERSION_OWN ")", number "/bouncer" \
	}

const struct release *rows_release(const struct show_source *source)
{
	static const struct release releases[] = {
		[CONSOLE_VERSION_1_23] = RELEASE("1.23.1"),
		[CONSOLE_VERSION_1_24] = RELEASE("1.24.1"),
		[CONSOLE_VERSION_1_25] = RELEASE("1.25.2"),
		[CONSOLE_VERSION_1_26] = RELEASE(VERSION_COMPATIBLE),
	};

	return &releases[show_source_config(source)->console_version];
}
