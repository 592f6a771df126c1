/* SPDX-License-Identifier: ISC */
/*
 * Checks a configuration from the command line.
 */
#ifndef PGWEIR_MAIN_CHECK_H
#define PGWEIR_MAIN_CHECK_H

#include <stdbool.h>

#include "pgweir/auth/users.h"
#include "pgweir/config/config.h"

#include "options.h"

/*
 * --check: prints all problems of a file, and of the files that it names, to stderr: one
 * line each, with file, line, setting and reason. Without problems, prints to stdout that
 * the configuration is good. With `against`, also prints what a RELOAD with this file would
 * change in that daemon. false: there is a problem, or that daemon does not answer.
 */
bool check_file(const struct options *options);

/*
 * ---- lint ----
 *
 * The warnings of --check: valid settings that are probably a mistake.
 */

/* users: those of auth_file; NULL: they could not be read. */
void lint(const struct config *config, const struct users *users, struct problems *problems);

/*
 * ---- preflight ----
 *
 * Finds what would fail at the start or at the first login, without doing it: no file is
 * created, no socket is opened.
 */

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
