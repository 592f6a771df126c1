/* SPDX-License-Identifier: ISC */
/*
 * Settings that PgBouncer knows and pgweir does not do yet.
 */
#ifndef PGWEIR_CONFIG_KNOWN_PRIV_H
#define PGWEIR_CONFIG_KNOWN_PRIV_H

#include <stdbool.h>

#include "pgweir/base/err.h"

/*
 * Judges a setting that has no row of its own. true: the value asks for exactly
 * what happens anyway, so it may stand. false: *err says that it is not
 * supported yet (ERR_UNSUPPORTED), or not known at all (ERR_NO_PARAMETER), with
 * the nearest name that is.
 */
bool known_judge(const char *name, const char *value, struct err *err);

/* The nearest name of any setting; NULL: none is near. */
const char *known_nearest(const char *name);

#endif
