/* SPDX-License-Identifier: ISC */
/*
 * Hash tables: uthash, with a hash function that every compiler takes without a
 * warning. Include this instead of uthash.h.
 */
#ifndef PGWEIR_BASE_TABLE_H
#define PGWEIR_BASE_TABLE_H

#ifndef HASH_FUNCTION
#define HASH_FUNCTION HASH_OAT
#endif
#include <uthash.h>

#endif
