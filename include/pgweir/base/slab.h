/* SPDX-License-Identifier: ISC */
/*
 * A cache of objects of one size. Thousands of clients come and go: their
 * objects are cut from blocks of about 32 KiB, without a header each, and a
 * freed one is the first to be used again. SHOW MEM shows each cache as a row.
 *
 * Blocks are kept until slab_done(): the memory of a peak is kept for the next.
 * In a build with sanitizers each object is poisoned while it is free.
 */
#ifndef PGWEIR_BASE_SLAB_H
#define PGWEIR_BASE_SLAB_H

#include <stddef.h>

struct slab_block;

struct slab {
	const char *name;  /* as SHOW MEM calls it */
	size_t size;       /* bytes of one object, rounded up for alignment */
	size_t used_count; /* objects in use */
	size_t free_count; /* objects waiting for use */
	void *free_list;
	struct slab_block *blocks;
};

/* `name` must outlive the slab. */
void slab_init(struct slab *slab, const char *name, size_t size);

/* Frees all blocks; no object may be in use any more. */
void slab_done(struct slab *slab);

/* A zeroed object, or NULL when memory has run out. */
void *slab_take(struct slab *slab);

/* Takes the pointer's address, accepts NULL, leaves NULL behind. */
#define slab_give(slab, object)              \
	do {                                 \
		slab_put((slab), *(object)); \
		*(object) = NULL;            \
	} while (0)

void slab_put(struct slab *slab, void *object);

#endif
