/* SPDX-License-Identifier: ISC */
/*
 * From a member, which a callback gets, to the struct that contains it; and a walk over a list of
 * such structs.
 */
#ifndef PGWEIR_BASE_CONTAINER_OF_H
#define PGWEIR_BASE_CONTAINER_OF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

/*
 * The struct of this type whose `member` `pointer` points to. The compiler warns if the pointer is
 * not of the member's type: both sides of `?:` must have one type. Only the first is evaluated.
 */
#define container_of(pointer, type, member) \
	((type *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

/* As TAILQ_FOREACH(), of an element that it declares. */
#define TAILQ_EACH(each, head, field)                                                \
	for (__typeof__(*TAILQ_FIRST(head)) *each = TAILQ_FIRST(head); each != NULL; \
	     each = TAILQ_NEXT(each, field))

/* As TAILQ_FOREACH(), and the body may end the element that it is at. */
#define TAILQ_FOREACH_SAFE(at, head, field, next)                                      \
	for ((at) = TAILQ_FIRST(head); (at) && ((next) = TAILQ_NEXT(at, field), true); \
	     (at) = (next))

#endif
