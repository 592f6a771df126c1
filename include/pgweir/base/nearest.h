/* SPDX-License-Identifier: ISC */
/*
 * The nearest of some names, for "did you mean" after an unknown name.
 *
 *	struct nearest nearest = nearest_begin(wanted);
 *
 *	for (...)
 *		nearest_offer(&nearest, name);
 *	if (nearest.found) ...
 */
#ifndef PGWEIR_BASE_NEAREST_H
#define PGWEIR_BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_NAME_MAX 63 /* longer names are never near */

struct nearest {
	const char *wanted;
	const char *found; /* the nearest name so far, as offered; NULL: none is near */
	size_t distance;   /* a name is near if its distance is less */
};

/* Borrows `wanted` and all offered names. */
struct nearest nearest_begin(const char *wanted);

/* Offers a name. Upper and lower case are equal. Of names at the same distance the first wins. */
void nearest_offer(struct nearest *nearest, const char *name);

#endif
