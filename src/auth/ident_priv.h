/* SPDX-License-Identifier: ISC */
/*
 * The maps of an ident file: who may come in as whom, by another name.
 */
#ifndef PGWEIR_AUTH_IDENT_PRIV_H
#define PGWEIR_AUTH_IDENT_PRIV_H

#include "pgweir/auth/hba.h"

struct ident;

/* Reads a file; path NULL or "": there are no maps. NULL: *problems says what is wrong. */
struct ident *ident_load(const char *path, struct problems *problems);
struct ident *ident_parse(struct bytes text, const char *name, struct problems *problems);
void ident_free(struct ident **ident);

bool ident_has_map(const struct ident *ident, const char *map);

/* Whether `system_user` may come in as `user` by this map. */
bool ident_admits(const struct ident *ident, const char *map, const char *system_user,
                  const char *user);

/* Line `index` for SHOW; false behind the last one. */
bool ident_row(const struct ident *ident, size_t index, struct ident_row *row);

#endif
