/* SPDX-License-Identifier: ISC */
/*
 * References to an object that never changes, from any thread.
 */
#ifndef PGWEIR_BASE_REFS_H
#define PGWEIR_BASE_REFS_H

#include <stdatomic.h>
#include <stddef.h>

/* Zeroed: one reference. */
struct refs {
	atomic_size_t more;
};

/*
 * Defines hold(), which adds a reference and returns the object, or NULL for NULL; and release(),
 * which gives one back and leaves NULL. The last one calls free_object(). The object has a field
 * `struct refs refs`.
 */
#define REFS_FUNCTIONS(hold, release, type, free_object)                               \
	type *hold(type *object)                                                       \
	{                                                                              \
		if (object)                                                            \
			atomic_fetch_add((atomic_size_t *)&object->refs.more, 1);      \
		return object;                                                         \
	}                                                                              \
                                                                                       \
	void release(type **object)                                                    \
	{                                                                              \
		type *old = *object;                                                   \
                                                                                       \
		*object = NULL;                                                        \
		if (old && atomic_fetch_sub((atomic_size_t *)&old->refs.more, 1) == 0) \
			free_object(old);                                              \
	}

#endif
