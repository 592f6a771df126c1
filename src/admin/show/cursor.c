/* SPDX-License-Identifier: ISC */
/*
 * Cursors, rows in the order of names, and how a row is sent: see show_priv.h.
 */
#include "show_priv.h"

#include <assert.h>
#include <ctype.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pgweir/base/text.h"
#include "pgweir/base/version.h"
#include "pgweir/pgwire/message.h"

const struct config *show_source_config(const struct show_source *source)
{
	return source->with->lanes->at->pools->config;
}

unsigned int show_source_console_count(const struct show_source *source)
{
	return source->with->lanes->at->clients->state_counts[CLIENT_CONSOLE];
}

usec_t show_wall(usec_t at, usec_t now) { return wall_now() - (now - at); }

const char *show_application(const struct client *client)
{
	const char *name = params_find(client->params, "application_name");

	return name ? name : "";
}

void cursor_begin(struct cursor *cursor, struct show_source *source, const struct show *show,
                  const struct words *words)
{
	const struct lane *first = source->with->lanes->at;

	*cursor = (struct cursor){ .show = show,
		                   .argument = words->count >= 2 ? words->value : NULL,
		                   .other = words->argument,
		                   .source = source,
		                   .lanes = source->with->lanes,
		                   .pools_lane = first,
		                   .clients_lane = first };
	pools_walk_start(first->pools, &cursor->pools);
	clients_walk_start(first->clients, &cursor->clients);
}

static void end_applications(struct applications_walk *walk)
{
	struct named_clients *clients, *next;

	HASH_ITER (hh, walk->table, clients, next) {
		HASH_DEL(walk->table, clients);
		free(clients);
	}
}

void cursor_end(struct cursor *cursor)
{
	const struct lane *first;
	bool is_elsewhere;

	if (!cursor->show)
		return;
	first = cursor->lanes->at;
	is_elsewhere = cursor->pools_lane != first || cursor->clients_lane != first;
	if (is_elsewhere)
		lanes_hold(cursor->lanes);
	pools_walk_stop(cursor->pools_lane->pools, &cursor->pools);
	clients_walk_stop(cursor->clients_lane->clients, &cursor->clients);
	if (is_elsewhere)
		lanes_release(cursor->lanes);
	buf_free(&cursor->group);
	for (size_t i = 0; i < CURSOR_TEXTS; i++)
		buf_free(&cursor->texts[i]);
	catalog_reading_release(&cursor->reading);
	end_applications(&cursor->applications);
	free(cursor->latency);
	cursor->latency = NULL;
	free(cursor->statements.picks);
	cursor->statements.picks = NULL;
	cursor->show = NULL;
}

bool cursor_may_look(struct cursor *cursor)
{
	cursor->has_more = cursor->look_count++ >= SHOW_LOOKS_MAX;
	return !cursor->has_more;
}

static bool is_last(const struct cursor *cursor, const struct lane *lane)
{
	const struct lanes *lanes = cursor->lanes;

	return lane + 1 == lanes->at + lanes->count;
}

const struct client *cursor_next_client(struct cursor *cursor)
{
	const struct client *client;

	do {
		while (!cursor->clients.next && !is_last(cursor, cursor->clients_lane)) {
			clients_walk_stop(cursor->clients_lane->clients, &cursor->clients);
			cursor->clients_lane++;
			clients_walk_start(cursor->clients_lane->clients, &cursor->clients);
		}
		client = cursor->clients.next;
		if (!client || !cursor_may_look(cursor))
			return NULL;
		cursor->clients.next = TAILQ_NEXT(client, node);
	} while (!cursor_wants(cursor, client_database(client)));
	return client;
}

/* Servers that are being closed are skipped. */
static const struct server *next_server(struct cursor *cursor)
{
	const struct server *server;

	do {
		while (!cursor->pools.next_server && !is_last(cursor, cursor->pools_lane)) {
			pools_walk_stop(cursor->pools_lane->pools, &cursor->pools);
			cursor->pools_lane++;
			pools_walk_start(cursor->pools_lane->pools, &cursor->pools);
		}
		server = cursor->pools.next_server;
		if (!server || !cursor_may_look(cursor))
			return NULL;
		cursor->pools.next_server = TAILQ_NEXT(server, place.all_node);
	} while (server->state == SERVER_CLOSING ||
	         !cursor_wants(cursor, server->pool->database->name));
	return server;
}

bool cursor_wants(const struct cursor *cursor, const char *database)
{
	return cursor->show->argument != SHOW_OF_DATABASE || !cursor->argument ||
	       strcmp(cursor->argument, database) == 0;
}

void cursor_suspend(struct cursor *cursor)
{
	cursor->ordered.at = cursor->ordered.count = 0;
	cursor->ordered.is_last_batch = false;
	cursor->waiting.is_entered = false;
}

/*
 * ---- rows in the order of names ----
 *
 * Hard here: items are created and freed between two turns. A cursor only keeps a copy of the
 * names of its last row. When it continues, one pass over all items finds the next ORDERED_BATCH
 * after those names, and the pointers to them are dropped at the end of the turn. So a freed item
 * is not found, and a new one is shown if its position has not been passed yet.
 */

static int compare(const void *first, const void *second)
{
	const struct ordered_item *a = first, *b = second;
	int order = strcmp(a->first, b->first);

	return order ? order : strcmp(a->second, b->second);
}

static bool is_behind(const struct ordered *ordered, const struct ordered_item *item)
{
	struct ordered_item last = { ordered->first, ordered->second, NULL };

	return !ordered->has_last || compare(item, &last) > 0;
}

/* Sorts what was offered, and drops what comes after the first ORDERED_BATCH. */
static void sort_batch(struct ordered_batch *batch)
{
	qsort(batch->items, batch->count, sizeof(batch->items[0]), compare);
	batch->is_full = batch->count >= ORDERED_BATCH;
	if (batch->is_full)
		batch->count = ORDERED_BATCH;
}

void cursor_offer(struct cursor *cursor, const char *first, const char *second, const void *object)
{
	struct ordered_item item = { first, second, object };
	struct ordered_batch *batch = &cursor->source->batch;

	if (!is_behind(&cursor->ordered, &item) ||
	    (batch->is_full && compare(&item, &batch->items[ORDERED_BATCH - 1]) >= 0))
		return;
	batch->items[batch->count++] = item;
	if (batch->count == 2 * ORDERED_BATCH)
		sort_batch(batch);
}

void cursor_offer_databases(struct cursor *cursor, bool (*wants)(const struct cursor *cursor,
                                                                 const struct database *database))
{
	LANES_EACH (lane, cursor->lanes)
		TAILQ_EACH (database, &lane->pools->databases, node) {
			if (cursor_wants(cursor, database->name) && wants(cursor, database))
				cursor_offer(cursor, database->name, "", database);
		}
}

void cursor_offer_pools(struct cursor *cursor, bool (*wants)(const struct pool *pool))
{
	LANES_EACH (lane, cursor->lanes)
		TAILQ_EACH (pool, &lane->pools->list, node) {
			if (cursor_wants(cursor, pool->database->name) && (!wants || wants(pool)))
				cursor_offer(cursor, pool->database->name, pool->role->name, pool);
		}
}

static void refill(struct cursor *cursor, void (*collect)(struct cursor *cursor))
{
	struct ordered_batch *batch = &cursor->source->batch;
	struct ordered *ordered = &cursor->ordered;

	batch->count = 0;
	batch->is_full = false;
	collect(cursor);
	sort_batch(batch);
	ordered->at = 0;
	ordered->count = batch->count;
	ordered->is_last_batch = !batch->is_full;
}

bool cursor_next_ordered(struct cursor *cursor, void (*collect)(struct cursor *cursor))
{
	struct ordered *ordered = &cursor->ordered;
	const struct ordered_item *item;

	for (;;) {
		if (ordered->at == ordered->count) {
			if (ordered->is_last_batch)
				return false;
			refill(cursor, collect);
			if (ordered->count == 0)
				return false;
		}
		item = &cursor->source->batch.items[ordered->at++];
		if (is_behind(ordered, item))
			break; /* otherwise the same names were offered twice */
	}
	ordered->has_last = true;
	text_copy(ordered->first, sizeof(ordered->first), item->first);
	text_copy(ordered->second, sizeof(ordered->second), item->second);
	ordered->object = item->object;
	return true;
}

/* ---- the next row ---- */

/* A row may have been begun before, and not be shown. */
static bool fill(struct cursor *cursor, void *row, bool (*next)(struct cursor *cursor, void *row))
{
	memset(row, 0, ROW_SIZE_MAX);
	cursor->text_count = 0;
	return next && next(cursor, row);
}

static bool next_of_items(struct cursor *cursor, void *row)
{
	const struct show *show = cursor->show;

	for (;;) {
		if (cursor->ordered.has_last && !(show->has_one_row && cursor->index++) &&
		    fill(cursor, row, show->next))
			return true;
		if (!cursor_may_look(cursor) || !cursor_next_ordered(cursor, show->collect))
			return false;
		cursor->index = 0;
	}
}

static bool next_of_connections(struct cursor *cursor, void *row)
{
	const struct show *show = cursor->show;

	if (fill(cursor, row, show->before))
		return true;
	while (show->is_of_clients && (cursor->client = cursor_next_client(cursor))) {
		if (fill(cursor, row, show->next))
			return true;
	}
	while (show->is_of_servers && !cursor->has_more && (cursor->server = next_server(cursor))) {
		if (fill(cursor, row, show->next))
			return true;
	}
	return false;
}

bool cursor_next(struct cursor *cursor, void *row)
{
	const struct show *show = cursor->show;

	cursor->has_more = false;
	cursor->look_count = 0;
	if (show->collect)
		return next_of_items(cursor, row);
	if (show->is_of_clients || show->is_of_servers)
		return next_of_connections(cursor, row);
	return fill(cursor, row, show->next);
}

struct buf *cursor_text(struct cursor *cursor)
{
	struct buf *text;

	assert(cursor->text_count < CURSOR_TEXTS);
	text = &cursor->texts[cursor->text_count++];
	buf_clear(text);
	return text;
}

const char *cursor_print(struct cursor *cursor, const char *format, ...)
{
	struct buf *text = cursor_text(cursor);
	va_list arguments;

	va_start(arguments, format);
	buf_vprintf(text, format, arguments);
	va_end(arguments);
	return buf_text(text);
}

const char *cursor_lower(struct cursor *cursor, const char *text)
{
	struct buf *lower = cursor_text(cursor);

	for (; *text; text++)
		buf_add_byte(lower, (char)tolower((unsigned char)*text));
	return buf_text(lower);
}

const char *cursor_host(struct cursor *cursor, const struct address *address)
{
	char text[ADDRESS_TEXT_SIZE];

	return cursor_print(cursor, "%s", address_format_host(address, text, sizeof(text)));
}

/*
 * ---- rows: the values of a struct as a DataRow, in text or in binary ----
 *
 * Source for the binary formats: PostgreSQL's numeric_send(), int4send() and similar
 * functions, and its manual, "Frontend/Backend Protocol", "Formats and Format Codes".
 */

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
