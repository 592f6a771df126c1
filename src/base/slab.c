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
#include <sys/mman.h>

/* In other builds its macros do nothing; a compiler without sanitizers has no such header. */
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

#define BLOCK_SIZE ((size_t)32 * 1024)

struct slab_block {
	struct slab_block *next;
	size_t size; /* bytes of objects[] */
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
		ASAN_UNPOISON_MEMORY_REGION(block->objects, block->size);
		if (slab->is_secret)
			munmap(block, sizeof(*block) + block->size);
		else
			free(block);
	}
	*slab =
	    (struct slab){ .name = slab->name, .size = slab->size, .is_secret = slab->is_secret };
}

static void push_free(struct slab *slab, void *object)
{
	memcpy(object, &slab->free_list, sizeof(void *));
	slab->free_list = object;
	slab->free_count++;
	ASAN_POISON_MEMORY_REGION(object, slab->size);
}

/* Pages of their own, as the advice is for pages: malloc would leave gaps between such blocks. */
static struct slab_block *new_pages(size_t size)
{
	struct slab_block *block =
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	madvise(block, size, MADV_DONTDUMP);
	return block;
}

static void add_block(struct slab *slab)
{
	size_t left = BLOCK_SIZE - sizeof(struct slab_block);
	size_t count = left / slab->size ? left / slab->size : 1;
	size_t size = sizeof(struct slab_block) + count * slab->size;
	struct slab_block *block = slab->is_secret ? new_pages(size) : malloc(size);

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
	ASAN_UNPOISON_MEMORY_REGION(object, slab->size);
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
	if (slab->is_secret)
		explicit_bzero(object, slab->size);
	push_free(slab, object);
}
