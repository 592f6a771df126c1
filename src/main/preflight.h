/* SPDX-License-Identifier: ISC */
/*
 * Finds what would fail at the start or at the first login, without doing it: no file is
 * created, no socket is opened.
 */
#ifndef PGWEIR_MAIN_PREFLIGHT_H
#define PGWEIR_MAIN_PREFLIGHT_H

#include "pgweir/auth/users.h"
#include "pgweir/config/config.h"

/*
 * Checks the folders and files of the start. Call it with the rights of the daemon's user:
 * privileges_borrow().
 */
void preflight_files(const struct config *config, struct problems *problems);

/*
 * Checks settings that prevent lookups of users, or logins. users: those of auth_file;
 * NULL: they could not be read, which was reported already.
 */
void preflight_logins(const struct config *config, const struct users *users,
                      struct problems *problems);

#endif
