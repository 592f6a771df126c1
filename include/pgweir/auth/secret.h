/* SPDX-License-Identifier: ISC */
/*
 * Secrets in memory: they are wiped before their memory is freed or reused.
 */
#ifndef PGWEIR_AUTH_SECRET_H
#define PGWEIR_AUTH_SECRET_H

#include <stddef.h>

/* Overwrites a secret; the compiler cannot optimise it away. */
void secret_wipe(void *at, size_t count);

/* Wipes and frees a text; accepts NULL, sets NULL. */
void secret_free(char **text);

#endif
