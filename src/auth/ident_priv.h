/* SPDX-License-Identifier: ISC */
/*
 * The maps of an ident file: which system user may log in as which database user.
 */
#ifndef PGWEIR_AUTH_IDENT_PRIV_H
#define PGWEIR_AUTH_IDENT_PRIV_H

#include "pgweir/auth/hba.h"

struct ident;

/* Loads a file; path NULL or "": no maps. NULL: *problems has the errors. */
struct ident *ident_load(const char *path, struct problems *problems);
struct ident *ident_parse(struct bytes text, const char *name, struct problems *problems);
void ident_free(struct ident **ident);

/* Whether there is a line of this map. */
bool ident_has_map(const struct ident *ident, const char *map);

/* Whether this map lets `system_user` log in as `user`. */
bool ident_admits(const struct ident *ident, const char *map, const char *system_user,
                  const char *user);

/* Returns line `index` for SHOW; false: it is past the last line. */
bool ident_row(const struct ident *ident, size_t index, struct ident_row *row);

#endif
