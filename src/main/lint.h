/* SPDX-License-Identifier: ISC */
/*
 * The warnings of --check: valid settings that are probably a mistake.
 */
#ifndef PGWEIR_MAIN_LINT_H
#define PGWEIR_MAIN_LINT_H

#include "pgweir/auth/users.h"
#include "pgweir/config/config.h"

/* users: those of auth_file; NULL: they could not be read. */
void lint(const struct config *config, const struct users *users, struct problems *problems);

#endif
