/* SPDX-License-Identifier: ISC */
/*
 * A heap of nodes that are embedded in what they order: the node with the least key is the first;
 * among equal keys, the one with the least order. Each change takes O(log n). Zeroed: empty.
 */
#ifndef PGWEIR_BASE_HEAP_H
#define PGWEIR_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t key, order;
	size_t place; /* in the list, while it is in a heap */
};

struct heap {
	struct heap_node **list;
	size_t count, size;
};

static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->count ? heap->list[0] : NULL;
}

/* false: no memory. */
bool heap_add(struct heap *heap, struct heap_node *node);
void heap_remove(struct heap *heap, struct heap_node *node);

/* The key of a node in the heap has changed. */
void heap_moved(struct heap *heap, struct heap_node *node);

/* Frees the list, and no node. */
void heap_done(struct heap *heap);

#endif
