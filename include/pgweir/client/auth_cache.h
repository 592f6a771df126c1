/* SPDX-License-Identifier: ISC */
/*
 * The answers of auth_query that are cached, the same in all loops. client/login/auth_cache.c
 */
#ifndef PGWEIR_CLIENT_AUTH_CACHE_H
#define PGWEIR_CLIENT_AUTH_CACHE_H

#include "pgweir/base/err.h"

struct auth_cache;

/* NULL: *err says why. */
struct auth_cache *auth_cache_new(struct err *err);
void auth_cache_free(struct auth_cache **cache);

#endif
