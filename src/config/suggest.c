/* SPDX-License-Identifier: ISC */
/*
 * Unknown names of settings: mostly typing errors, so the nearest name is suggested.
 */
#include "suggest_priv.h"

#include "pgweir/base/nearest.h"
#include "pgweir/config/settings.h"

#include "pgweir/base/banned.h"

const char *suggest_nearest(const char *name)
{
	struct nearest nearest = nearest_begin(name);

	for (size_t i = 0; i < settings_count; i++)
		nearest_offer(&nearest, settings[i].name);
	return nearest.found;
}

bool suggest_refuse(const char *name, struct err *err)
{
	const char *nearest = suggest_nearest(name);

	if (nearest)
		return err_set(err, ERR_NO_PARAMETER,
		               "unknown setting \"%s\": did you mean \"%s\"?", name, nearest);
	return err_set(err, ERR_NO_PARAMETER, "unknown setting \"%s\"", name);
}
