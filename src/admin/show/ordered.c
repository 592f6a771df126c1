/* SPDX-License-Identifier: ISC */
/*
 * Rows in the order of names. No sorted list is kept, and nothing else while the client
 * does not read.
 *
 * Hard here: items are created and freed between two turns. A cursor only keeps a copy of
 * the names of its last row. When it continues, one pass over all items finds the next
 * ORDERED_BATCH items after those names, with a heap whose top is the last of them in
 * order. The pointers in the batch are dropped at the end of the turn. So a freed item is
 * not found, and a new one is shown if its position has not been passed yet.
 */
#include "cursor_priv.h"

#include <stdlib.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

static int compare(const struct ordered_item *a, const struct ordered_item *b)
{
	int order = strcmp(a->first, b->first);

	return order ? order : strcmp(a->second, b->second);
}

static int compare_items(const void *a, const void *b) { return compare(a, b); }

static void swap(struct ordered_item *a, struct ordered_item *b)
{
	struct ordered_item other = *a;

	*a = *b;
	*b = other;
}

static void rise(struct ordered_item *items, size_t at)
{
	while (at && compare(&items[at], &items[(at - 1) / 2]) > 0) {
		swap(&items[at], &items[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

static void sink(struct ordered_item *items, size_t count)
{
	size_t at = 0, child;

	while ((child = 2 * at + 1) < count) {
		if (child + 1 < count && compare(&items[child + 1], &items[child]) > 0)
			child++;
		if (compare(&items[child], &items[at]) <= 0)
			return;
		swap(&items[at], &items[child]);
		at = child;
	}
}

static bool is_behind(const struct ordered *ordered, const struct ordered_item *item)
{
	struct ordered_item last = { ordered->first, ordered->second, NULL };

	return !ordered->has_last || compare(item, &last) > 0;
}

void ordered_offer(struct cursor *cursor, struct ordered_item item)
{
	struct ordered_batch *batch = &cursor->source->batch;

	if (!is_behind(&cursor->ordered, &item))
		return;
	if (batch->count < ORDERED_BATCH) {
		batch->items[batch->count++] = item;
		rise(batch->items, batch->count - 1);
	} else if (compare(&item, &batch->items[0]) < 0) {
		batch->items[0] = item;
		sink(batch->items, batch->count);
	}
}

static void refill(struct cursor *cursor, void (*collect)(struct cursor *cursor))
{
	struct ordered_batch *batch = &cursor->source->batch;
	struct ordered *ordered = &cursor->ordered;

	batch->count = 0;
	collect(cursor);
	qsort(batch->items, batch->count, sizeof(batch->items[0]), compare_items);
	ordered->at = 0;
	ordered->count = batch->count;
	ordered->is_last_batch = batch->count < ORDERED_BATCH;
}

bool ordered_next(struct cursor *cursor, void (*collect)(struct cursor *cursor),
                  struct ordered_item *item)
{
	struct ordered *ordered = &cursor->ordered;

	for (;;) {
		if (ordered->at == ordered->count) {
			if (ordered->is_last_batch)
				return false;
			refill(cursor, collect);
			if (ordered->count == 0)
				return false;
		}
		*item = cursor->source->batch.items[ordered->at++];
		if (is_behind(ordered, item))
			break; /* otherwise the same names were offered twice */
	}
	ordered->has_last = true;
	text_copy(ordered->first, sizeof(ordered->first), item->first);
	text_copy(ordered->second, sizeof(ordered->second), item->second);
	return true;
}
