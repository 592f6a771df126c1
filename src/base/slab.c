/* SPDX-License-Identifier: ISC */
/*
 * Caches of objects of one size.
 *
 * Hard here: the sanitizers only know malloc(). So free objects are poisoned here; otherwise a
 * use after free would not be detected.
 */
#include "pgweir/base/slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(at, size) ASAN_POISON_MEMORY_REGION(at, size)
#define UNPOISON(at, size) ASAN_UNPOISON_MEMORY_REGION(at, size)
#else
#define POISON(at, size) ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
#endif

#define BLOCK_SIZE ((size_t)32 * 1024)

struct slab_block {
	struct slab_block *next;
	size_t size;
	max_align_t objects[];
};

void slab_init(struct slab *slab, const char *name, size_t size)
{
	size_t align = _Alignof(void *) * 2;

	*slab = (struct slab){ .name = name, .size = (size + align - 1) / align * align };
}

void slab_done(struct slab *slab)
{
	assert(slab->used_count == 0);
	while (slab->blocks) {
		struct slab_block *block = slab->blocks;

		slab->blocks = block->next;
		UNPOISON(block->objects, block->size);
		free(block);
	}
	*slab = (struct slab){ .name = slab->name, .size = slab->size };
}

static void push_free(struct slab *slab, void *object)
{
	memcpy(object, &slab->free_list, sizeof(void *));
	slab->free_list = object;
	slab->free_count++;
	POISON(object, slab->size);
}

static void add_block(struct slab *slab)
{
	size_t count = BLOCK_SIZE / slab->size ? BLOCK_SIZE / slab->size : 1;
	struct slab_block *block = malloc(sizeof(*block) + count * slab->size);

	if (!block)
		return;
	block->size = count * slab->size;
	block->next = slab->blocks;
	slab->blocks = block;
	for (size_t i = count; i-- > 0;)
		push_free(slab, (char *)block->objects + i * slab->size);
}

void *slab_take(struct slab *slab)
{
	void *object;

	if (!slab->free_list)
		add_block(slab);
	object = slab->free_list;
	if (!object)
		return NULL;
	UNPOISON(object, slab->size);
	memcpy(&slab->free_list, object, sizeof(void *));
	slab->free_count--;
	slab->used_count++;
	return memset(object, 0, slab->size);
}

void slab_put(struct slab *slab, void *object)
{
	if (!object)
		return;
	slab->used_count--;
	push_free(slab, object);
}
