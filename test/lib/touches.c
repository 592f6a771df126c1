/* SPDX-License-Identifier: ISC */
/*
 * Prints what texts touch, for test_sql_touch.py: for each text of the standard input, which has
 * a zero after it, a line with two numbers: sql_touch() and sql_touch_unclear().
 */
#include <stdio.h>

#include "pgweir/base/buf.h"
#include "pgweir/pgwire/sql_touch.h"

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
		printf("%u %u\n", sql_touch(bytes_text(text)), sql_touch_unclear(bytes_text(text)));
	buf_free(&texts);
	return 0;
}
