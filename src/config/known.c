/* SPDX-License-Identifier: ISC */
/*
 * Names that are no setting's: mostly somebody's slip, so the nearest one is told.
 */
#include "known_priv.h"

#include <string.h>

#include "pgweir/config/settings.h"

#include "pgweir/base/banned.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many letters must be changed, added or left out to make one name of the other. */
static size_t name_distance(const char *a, const char *b)
{
	size_t row[64], count = strlen(b);

	if (count >= 64 || strlen(a) >= 64)
		return 64;
	for (size_t j = 0; j <= count; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= count; j++) {
			size_t changed = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			row[j] = least(changed, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[count];
}

const char *known_nearest(const char *name)
{
	const char *nearest = NULL;
	size_t best = strlen(name) / 3 + 1;

	for (size_t i = 0; i < settings_count; i++) {
		size_t distance = name_distance(name, settings[i].name);

		if (distance < best) {
			best = distance;
			nearest = settings[i].name;
		}
	}
	return nearest;
}

bool known_refuse(const char *name, struct err *err)
{
	const char *nearest = known_nearest(name);

	if (nearest)
		return err_set(err, ERR_NO_PARAMETER,
		               "unknown setting \"%s\": did you mean \"%s\"?", name, nearest);
	return err_set(err, ERR_NO_PARAMETER, "unknown setting \"%s\"", name);
}
