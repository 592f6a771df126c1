/* SPDX-License-Identifier: ISC */
#ifndef PGWEIR_MAIN_PRIVILEGES_H
#define PGWEIR_MAIN_PRIVILEGES_H

#include <stdbool.h>

#include "pgweir/base/err.h"

/*
 * Becomes `user` with its groups, for good (NULL or "": stays who it is). false:
 * there is no such user, we may not become it, or we would run as root: then
 * the daemon must not go on.
 */
bool privileges_drop(const char *user, struct err *err);

#endif
