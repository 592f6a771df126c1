/* SPDX-License-Identifier: ISC */
/*
 * Suggestions for unknown names of settings.
 */
#ifndef PGWEIR_CONFIG_SUGGEST_PRIV_H
#define PGWEIR_CONFIG_SUGGEST_PRIV_H

#include <stdbool.h>

#include "pgweir/base/err.h"

/* Sets the error for an unknown setting, with the nearest name. Always returns false. */
bool suggest_refuse(const char *name, struct err *err);

/* Returns the nearest name of a setting; NULL: none is near. */
const char *suggest_nearest(const char *name);

#endif
