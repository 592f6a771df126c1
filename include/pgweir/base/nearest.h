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

#define NEAREST_NAME_MAX 63 /* longer names are near to nothing */

struct nearest {
	const char *wanted;
	const char *found; /* the nearest one so far, as it was offered; NULL: none is near */
	size_t distance;   /* from one this far on a name is not near */
};

/* `wanted` is borrowed, as are the names that are offered. */
struct nearest nearest_begin(const char *wanted);

/* Upper and lower case are alike. Of names that are equally near the first one counts. */
void nearest_offer(struct nearest *nearest, const char *name);

#endif
