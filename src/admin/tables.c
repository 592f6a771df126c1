/* SPDX-License-Identifier: ISC */
/*
 * SHOW tables for other readers than sessions of the console.
 */
#include "admin_priv.h"

#include <stdlib.h>

/*
 * What one piece may take: bytes, and time on the main thread while all lanes are held. To find the
 * first row takes as long as there are pools, in each turn again, so it does not count, and some
 * rows are always made.
 */
#define PIECE_BYTES ((size_t)64 * 1024)
#define PIECE_TIME ((usec_t)250)
#define PIECE_ROWS 32

struct table {
	struct console *console;
	struct request request; /* the cursor has pointers into it */
	struct cursor cursor;
};

const struct show *tables_find(const char *words)
{
	struct request request;

	return request_read_table(words, &request, NULL) ? request.show : NULL;
}

static bool read_request(struct table *table, const char *words, struct err *err)
{
	if (!request_read_table(words, &table->request, err))
		return false;
	if (table->request.show->role > CONSOLE_STATS)
		return err_set(err, ERR_RIGHTS, "admin access needed");
	return request_check(&table->request, table->console, err);
}

struct table *table_begin(struct console *console, const char *words, bool skips_unused,
                          struct err *err)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	table->console = console;
	if (!read_request(table, words, err)) {
		free(table);
		return NULL;
	}
	cursor_begin(&table->cursor, &console->source, request_asked(&table->request));
	table->cursor.role = CONSOLE_STATS;
	table->cursor.skips_unused = skips_unused;
	return table;
}

static enum table_result add_rows(struct table *table, struct buf *out)
{
	struct columns columns = table->request.show->columns;
	_Alignas(max_align_t) char row[ROW_SIZE_MAX];
	unsigned int count = 0;
	usec_t until = 0;

	do {
		if (!cursor_next(&table->cursor, row))
			return table->cursor.has_more ? TABLE_MORE : TABLE_END;
		rows_add(out, columns, 0, row);
		if (count++ == 0)
			until = clock_now() + PIECE_TIME;
	} while (buf_ok(out) && out->count < PIECE_BYTES &&
	         (count < PIECE_ROWS || clock_now() < until));
	return buf_ok(out) ? TABLE_MORE : TABLE_BROKEN;
}

enum table_result table_next(struct table *table, struct buf *out)
{
	enum table_result result;

	lanes_hold(table->console->with.lanes);
	result = add_rows(table, out);
	cursor_suspend(&table->cursor);
	lanes_release(table->console->with.lanes);
	return result;
}

void table_end(struct table **table)
{
	if (!*table)
		return;
	cursor_end(&(*table)->cursor);
	free(*table);
	*table = NULL;
}
