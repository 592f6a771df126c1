/* SPDX-License-Identifier: ISC */
#include "pgweir/base/heap.h"

#include <stdlib.h>

#include "pgweir/base/buf.h"

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
	return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void put(struct heap *heap, size_t place, struct heap_node *node)
{
	heap->list[place] = node;
	node->place = place;
}

static void rise(struct heap *heap, struct heap_node *node)
{
	size_t place = node->place;

	while (place && is_before(node, heap->list[(place - 1) / 2])) {
		put(heap, place, heap->list[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	put(heap, place, node);
}

static void sink(struct heap *heap, struct heap_node *node)
{
	size_t place = node->place, child;

	while ((child = 2 * place + 1) < heap->count) {
		if (child + 1 < heap->count && is_before(heap->list[child + 1], heap->list[child]))
			child++;
		if (!is_before(heap->list[child], node))
			break;
		put(heap, place, heap->list[child]);
		place = child;
	}
	put(heap, place, node);
}

void heap_moved(struct heap *heap, struct heap_node *node)
{
	rise(heap, node);
	sink(heap, node);
}

bool heap_add(struct heap *heap, struct heap_node *node)
{
	struct heap_node **list =
	    array_room(heap->list, heap->count, &heap->size, sizeof(struct heap_node *));

	if (!list)
		return false;
	heap->list = list;
	put(heap, heap->count++, node);
	rise(heap, node);
	return true;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
	struct heap_node *last = heap->list[--heap->count];

	if (last == node)
		return;
	put(heap, node->place, last);
	heap_moved(heap, last);
}

void heap_done(struct heap *heap)
{
	free(heap->list);
	*heap = (struct heap){ 0 };
}
