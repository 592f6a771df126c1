/* SPDX-License-Identifier: ISC */
/*
 * Settings that PgBouncer knows and pgweir does not do yet: to refuse them by
 * name is kinder than to leave someone without what they asked for.
 *
 * A value that asks for what happens anyway is let through, so that a file that
 * only spells out its defaults can be used as it is.
 */
#include "known_priv.h"

#include <string.h>

#include "pgweir/config/settings.h"
#include "value_priv.h"

#include "pgweir/base/banned.h"

#define FINE_MAX 5

static const struct known {
	const char *name;
	const char *fine[FINE_MAX]; /* values that may stand, up to NULL */
} known[] = {
	{ "suspend_timeout", { NULL } },
};

static const size_t known_count = sizeof(known) / sizeof(known[0]);

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

	for (size_t i = 0; i < settings_count + known_count; i++) {
		const char *other =
		    i < settings_count ? settings[i].name : known[i - settings_count].name;
		size_t distance = name_distance(name, other);

		if (distance < best) {
			best = distance;
			nearest = other;
		}
	}
	return nearest;
}

static bool refuse_unsupported(const struct known *setting, struct err *err)
{
	const char *fine = setting->fine[0];

	if (!fine)
		return err_set(err, ERR_UNSUPPORTED, "setting \"%s\" is not supported yet",
		               setting->name);
	return err_set(err, ERR_UNSUPPORTED,
	               "setting \"%s\" is not supported yet: leave it out, or %s%s", setting->name,
	               *fine ? "set it to " : "leave its value empty", fine);
}

bool known_judge(const char *name, const char *value, struct err *err)
{
	const char *nearest;

	for (size_t i = 0; i < known_count; i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		return value_word(value, known[i].fine) >= 0 || refuse_unsupported(&known[i], err);
	}
	nearest = known_nearest(name);
	if (nearest)
		return err_set(err, ERR_NO_PARAMETER,
		               "unknown setting \"%s\": did you mean \"%s\"?", name, nearest);
	return err_set(err, ERR_NO_PARAMETER, "unknown setting \"%s\"", name);
}
