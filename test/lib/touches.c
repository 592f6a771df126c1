/* SPDX-License-Identifier: ISC */
/*
 * Prints what texts touch, for test_sql_touch.py. Each text of the standard input has a zero after
 * it. For each, a line with sql_touch() and unclear_touches(), and for each item that sql_items()
 * and sql_set_read() find: `item`, its kind, its name; `set`, name, value. Then an empty line.
 */
#include <stdio.h>

#include "pgweir/base/buf.h"
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_touch.h"

#include "unclear.h"

static void print_item(void *context, const struct sql_item *item)
{
	(void)context;
	printf("item\t%d\t%s\n", (int)item->kind, item->name);
}

static void print(struct bytes text)
{
	struct sql_set set;

	printf("%u\t%u\n", sql_touch(text), unclear_touches(text));
	if (!sql_items(text, print_item, NULL))
		printf("item\t%d\t\n", (int)SQL_ITEM_UNSURE);
	if (sql_set_read(text, &set))
		printf("set\t%s\t%s\n", set.name, set.value);
	printf("\n");
}

int main(void)
{
	struct buf texts = { 0 };
	struct bytes rest;
	const char *text;
	size_t count;

	do {
		char *at = buf_reserve(&texts, 65536);

		if (!at)
			return 1;
		count = fread(at, 1, 65536, stdin);
		texts.count += count;
	} while (count);
	rest = buf_bytes(&texts);
	while (bytes_take_text(&rest, &text))
		print(bytes_text(text));
	buf_free(&texts);
	return 0;
}
