/* SPDX-License-Identifier: ISC */
/*
 * Cursors: see cursor_priv.h.
 */
#include "cursor_priv.h"

#include <string.h>

#include "pgweir/base/banned.h"

void cursor_begin(struct cursor *cursor, struct show_source *source, struct show_asked asked)
{
	*cursor = (struct cursor){ .asked = asked, .source = source };
	pools_walk_start(source->with->pools, &cursor->pools);
	clients_walk_start(source->clients, &cursor->clients);
}

void cursor_end(struct cursor *cursor)
{
	if (!cursor->asked.show)
		return;
	pools_walk_stop(cursor->source->with->pools, &cursor->pools);
	clients_walk_stop(cursor->source->clients, &cursor->clients);
	buf_free(&cursor->text);
	cursor->asked.show = NULL;
}

bool cursor_next(struct cursor *cursor, void *row)
{
	memset(row, 0, ROW_SIZE_MAX);
	cursor->has_more = false;
	cursor->look_count = 0;
	return cursor->asked.show->next(cursor, row);
}

bool cursor_may_look(struct cursor *cursor)
{
	cursor->has_more = cursor->look_count++ >= SHOW_LOOKS_MAX;
	return !cursor->has_more;
}

bool cursor_wants(const struct cursor *cursor, const char *database)
{
	return !cursor->asked.argument || strcmp(cursor->asked.argument, database) == 0;
}

void cursor_suspend(struct cursor *cursor)
{
	cursor->ordered.at = cursor->ordered.count = 0;
	cursor->ordered.is_last_batch = false;
	cursor->waiting.pool = NULL;
	cursor->waiting.next = NULL;
}
