/* SPDX-License-Identifier: ISC */
/*
 * What deserves a look in a configuration that is good: warnings of --check.
 */
#ifndef PGWEIR_MAIN_LINT_H
#define PGWEIR_MAIN_LINT_H

#include "pgweir/auth/users.h"
#include "pgweir/config/config.h"

/* users: those of auth_file, NULL if they cannot be read. */
void lint(const struct config *config, const struct users *users, struct problems *problems);

#endif
