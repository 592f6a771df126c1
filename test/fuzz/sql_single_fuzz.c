/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the recognition of single statements: what other scanners find in the text must fit, and
 * with another statement behind it there is more than one.
 */
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_touch.h"

#include "pgweir/base/buf.h"

#include <assert.h>

/* Statements and functions that no read may have. */
#define NOT_READ                                                                                  \
	((unsigned int)(SQL_TOUCH_LIBRARY | SQL_TOUCH_LISTEN | SQL_TOUCH_NOTIFY |                 \
	                SQL_TOUCH_CURSOR | SQL_TOUCH_TEMP | SQL_TOUCH_LOCK | SQL_TOUCH_SEQUENCE | \
	                SQL_TOUCH_EXTENSION | SQL_TOUCH_EXECUTE | SQL_TOUCH_PREPARE |             \
	                SQL_TOUCH_FORGET))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.count; i++) {
		if (text.at[i] & 0x80)
			return false;
	}
	return true;
}

static enum sql_single with(struct bytes text, const char *behind, struct bytes functions)
{
	struct buf both = { 0 };
	enum sql_single what;

	buf_add(&both, text.at, text.count);
	buf_add_text(&both, behind);
	what = sql_single(buf_bytes(&both), functions);
	buf_free(&both);
	return what;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_of(data, size);
	struct bytes none = bytes_of("", 0), some = bytes_of("f\0nextval", 10);
	enum sql_single what = sql_single(text, none);

	assert(what <= sql_single(text, some));
	assert((what == SQL_SINGLE_NOT) == (sql_single(text, some) == SQL_SINGLE_NOT));
	if (what == SQL_SINGLE_NOT)
		return 0;
	assert(sql_block_read(text).kind == SQL_BLOCK_OTHER);
	assert(!is_ascii(text) ||
	       !(sql_touch(text) & (SQL_TOUCH_LISTEN | SQL_TOUCH_PREPARE | SQL_TOUCH_EXECUTE)));
	assert(with(text, "\n;;", none) == what);
	assert(with(text, "\n;BEGIN", none) == SQL_SINGLE_NOT);
	/* Where quotes end may depend on the encoding; then the other scanner finds more words. */
	if (what == SQL_SINGLE_READ && is_ascii(text)) {
		assert(!sql_calls_unknown(text));
		assert(!(sql_touch(text) & NOT_READ));
	}
	return 0;
}
