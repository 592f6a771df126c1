/* SPDX-License-Identifier: ISC */
/*
 * Finders: each asks one source (hosts_from) for the hosts of its entries, again and again. They
 * belong to the pools of the main thread.
 */
#ifndef PGWEIR_POOL_FINDERS_PRIV_H
#define PGWEIR_POOL_FINDERS_PRIV_H

#include "pgweir/pool/pools.h"

#define FINDER_ERROR_SIZE 160
#define FINDER_SOURCE_SIZE 256

/* Makes pools->finders, or changes them. New ones ask when the loop runs. */
void finders_configure(struct pools *pools);

/* Accepts NULL, sets NULL. */
void finders_free(struct finders **finders);

#endif
