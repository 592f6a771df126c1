/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the scan of SQL texts for session state: names must fit, and a text with another
 * statement in front or behind must not touch less, unless it changes where quotes end.
 */
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_touch.h"

#include "pgweir/base/buf.h"

#include "../lib/unclear.h"

#include <assert.h>

/* Whether a text that PostgreSQL refuses touches these depends on how much of it is read. */
#define MISSPELT \
	((unsigned int)(SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE | SQL_TOUCH_CREATE | SQL_TOUCH_TEMP))

/* One more statement in front takes no name away. */
static void look_for_names(struct bytes text)
{
	struct sql_toucher what = { .bits = 1, .is_called = true };
	struct sql_touchers set = { 0 };
	struct buf both = { 0 };

	sql_touchers_add(&set, bytes_text("set_config"), &what);
	what = (struct sql_toucher){ .bits = 2 };
	sql_touchers_add(&set, bytes_text("f"), &what);
	buf_add_text(&both, "SELECT 1;");
	buf_add(&both, text.at, text.count);
	assert((sql_touchers_in(&set, buf_bytes(&both), NULL) &
	        sql_touchers_in(&set, text, NULL)) == sql_touchers_in(&set, text, NULL));
	buf_free(&both);
	sql_touchers_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a text is found to touch, by its items. */
struct judged {
	size_t size; /* of the text */
	bool is_reset;
};

static void judge_item(void *context, const struct sql_item *item)
{
	struct judged *judged = context;
	size_t size = strlen(item->name);

	judged->is_reset |= item->kind == SQL_ITEM_RESET || item->kind == SQL_ITEM_DISCARD;
	switch (item->kind) {
	case SQL_ITEM_LIBRARY:
	case SQL_ITEM_LISTEN:
	case SQL_ITEM_UNLISTEN:
		assert(size > 0 && size <= judged->size);
		break;
	case SQL_ITEM_SET:
	case SQL_ITEM_RESET:
		assert(size <= SQL_SET_NAME_MAX &&
		       size <= judged->size + sizeof("session_authorization"));
		break;
	default:
		assert(size == 0);
	}
}

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.count; i++) {
		if (text.at[i] & 0x80)
			return false;
	}
	return true;
}

/* A statement in front changes nothing of what follows it. */
static void has_company(struct bytes text, unsigned int bits)
{
	struct buf both = { 0 };
	unsigned int more;

	buf_add_text(&both, "SELECT 1;");
	buf_add(&both, text.at, text.count);
	assert((sql_touch(buf_bytes(&both)) & bits) == bits);
	assert((unclear_touches(buf_bytes(&both)) & bits) == (unclear_touches(text) & bits));
	buf_clear(&both);
	buf_add(&both, text.at, text.count);
	buf_add_text(&both, "\n;SELECT 1");
	assert((sql_touch(buf_bytes(&both)) & bits) == bits);
	/*
	 * With this the tokens of all statements are read: the first step must not miss any. It
	 * looks for an UPDATE of pg_settings only where PostgreSQL allows it.
	 */
	buf_add_text(&both, "\n;LISTEN a");
	more = sql_touch(buf_bytes(&both)) & ~(unsigned int)SQL_TOUCH_LISTEN;
	/* What strings may run counts only in a text that hides something. */
	if (more & SQL_TOUCH_HIDDEN)
		more &= ~(unsigned int)(SQL_TOUCH_LIBRARY | SQL_TOUCH_EXTENSION);
	more &= ~MISSPELT;
	if (memmem(text.at, text.count, "tting", 5))
		more &= ~(unsigned int)(SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT);
	assert((more & ~bits) == 0);
	buf_free(&both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_of(data, size);
	unsigned int bits = sql_touch(text), unclear = unclear_touches(text);
	struct judged judged = { .size = size };
	struct sql_set set;

	bits &= ~MISSPELT;
	/* Without quotes and comments to follow, no word is missing. */
	assert((unclear & bits) == bits);
	/* Otherwise words may count anywhere, but only if the tokens are read. */
	if (is_ascii(text))
		has_company(text, bits);
	if (sql_items(text, judge_item, &judged) && judged.is_reset)
		assert(bits & SQL_TOUCH_DEFAULT);
	if (sql_set_read(text, &set)) {
		assert(bits & SQL_TOUCH_PARAMS);
		assert(set.name[0] && strlen(set.name) <= SQL_SET_NAME_MAX);
		assert(strlen(set.value) <= SQL_SET_VALUE_MAX);
	}
	look_for_names(text);
	sql_calls_unknown(text);
	return 0;
}
