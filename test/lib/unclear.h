/* SPDX-License-Identifier: ISC */
/*
 * What sql_touch() finds in a text of which it is not known where its quotes end.
 */
#ifndef PGWEIR_TEST_UNCLEAR_H
#define PGWEIR_TEST_UNCLEAR_H

#include "pgweir/base/buf.h"
#include "pgweir/pgwire/sql_touch.h"

/*
 * The text is in a string, where no token of it is read. A character in front of it may be one of
 * Shift JIS that looks like a backslash, so words count wherever they are. A statement that is not
 * known is found by its first token only.
 */
static inline unsigned int unclear_touches(struct bytes text)
{
	struct buf quoted = { 0 };
	unsigned int bits;

	buf_add_text(&quoted, "SELECT $q$\225\\;\n");
	buf_add(&quoted, text.at, text.count);
	buf_add_text(&quoted, "$q$");
	bits = sql_touch(buf_bytes(&quoted));
	buf_free(&quoted);
	return bits ? bits : sql_touch(text) & SQL_TOUCH_HIDDEN;
}

#endif
