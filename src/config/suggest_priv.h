/* SPDX-License-Identifier: ISC */
/*
 * Names that are no setting's.
 */
#ifndef PGWEIR_CONFIG_SUGGEST_PRIV_H
#define PGWEIR_CONFIG_SUGGEST_PRIV_H

#include <stdbool.h>

#include "pgweir/base/err.h"

/* Says that there is no such setting, and the nearest one that is. Always false. */
bool suggest_refuse(const char *name, struct err *err);

/* The nearest name of any setting; NULL: none is near. */
const char *suggest_nearest(const char *name);

#endif
