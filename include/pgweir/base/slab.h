/* SPDX-License-Identifier: ISC */
/*
 * A cache of objects of one size, cut from blocks of about 32 KiB, without a header each. A
 * freed object is the first to be used again. SHOW MEM shows each cache as a row. Blocks are
 * kept until slab_done(), for the next peak. In a build with sanitizers, free objects are
 * poisoned.
 */
#ifndef PGWEIR_BASE_SLAB_H
#define PGWEIR_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>

struct slab_block;

struct slab {
	const char *name;  /* name in SHOW MEM */
	size_t size;       /* bytes of an object, rounded up for alignment */
	size_t used_count; /* objects in use */
	size_t free_count; /* free objects */
	void *free_list;
	struct slab_block *blocks;
	/* set after slab_init(): objects have keys, are wiped when freed, and in no core dump */
	bool is_secret;
};

/* `name` must outlive the slab. */
void slab_init(struct slab *slab, const char *name, size_t size);

/* Frees all blocks. No object may be in use. */
void slab_done(struct slab *slab);

/* Returns a zeroed object; NULL: no memory. */
void *slab_take(struct slab *slab);

/* Frees *object and sets it to NULL. It may be NULL. */
#define slab_give(slab, object)              \
	do {                                 \
		slab_put((slab), *(object)); \
		*(object) = NULL;            \
	} while (0)

/* Frees an object, which may be NULL. Use slab_give(). */
void slab_put(struct slab *slab, void *object);

#endif
