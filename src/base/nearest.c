/* SPDX-License-Identifier: ISC */
/*
 * Finds the name that is nearest to a wanted one, by edit distance. One letter in three may be
 * wrong.
 */
#include "pgweir/base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "pgweir/base/banned.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static bool is_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Number of letters changed, added, left out, or exchanged with their neighbour. */
static size_t distance_of(const char *a, const char *b)
{
	size_t rows[3][NEAREST_NAME_MAX + 1], count = strlen(b);
	size_t *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= count; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t *oldest = before;

		row[0] = i;
		for (size_t j = 1; j <= count; j++) {
			row[j] = least(last[j - 1] + !is_same(a[i - 1], b[j - 1]),
			               least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) &&
			    is_same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[count];
}

struct nearest nearest_begin(const char *wanted)
{
	return (struct nearest){ .wanted = wanted, .distance = strlen(wanted) / 3 + 1 };
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	size_t distance;

	if (strlen(nearest->wanted) > NEAREST_NAME_MAX || strlen(name) > NEAREST_NAME_MAX)
		return;
	distance = distance_of(nearest->wanted, name);
	if (distance >= nearest->distance)
		return;
	nearest->distance = distance;
	nearest->found = name;
}
