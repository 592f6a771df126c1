/* SPDX-License-Identifier: ISC */
/*
 * What would fail at the start or at the first login, found without doing it: no file is made,
 * no socket is opened.
 */
#ifndef PGWEIR_MAIN_PREFLIGHT_H
#define PGWEIR_MAIN_PREFLIGHT_H

#include "pgweir/auth/users.h"
#include "pgweir/config/config.h"

/* The folders and files of the start. As the user that the daemon becomes: privileges_borrow(). */
void preflight_files(const struct config *config, struct problems *problems);

/*
 * Settings by which nobody could be looked up, or come in. users: those of auth_file, NULL if they
 * cannot be read, which has been said.
 */
void preflight_logins(const struct config *config, const struct users *users,
                      struct problems *problems);

#endif
