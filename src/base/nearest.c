/* SPDX-License-Identifier: ISC */
/*
 * The nearest of some names: by how many letters must be changed, added or left out to make
 * one name of the other. One letter in three may be wrong.
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

static size_t distance_of(const char *a, const char *b)
{
	size_t row[NEAREST_NAME_MAX + 1], count = strlen(b);

	for (size_t j = 0; j <= count; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= count; j++) {
			size_t changed = corner + !is_same(a[i - 1], b[j - 1]);

			corner = row[j];
			row[j] = least(changed, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[count];
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
