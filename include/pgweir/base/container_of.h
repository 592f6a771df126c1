/* SPDX-License-Identifier: ISC */
/*
 * From a member, which a callback gets, to the struct that contains it.
 */
#ifndef PGWEIR_BASE_CONTAINER_OF_H
#define PGWEIR_BASE_CONTAINER_OF_H

#include <stddef.h>

/*
 * The struct of this type whose `member` `pointer` points to. The compiler warns if the pointer is
 * not of the member's type: both sides of `?:` must have one type. Only the first is evaluated.
 */
#define container_of(pointer, type, member) \
	((type *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

#endif
