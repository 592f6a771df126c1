/* SPDX-License-Identifier: ISC */
/*
 * Secrets in memory: what held one is overwritten before it is freed or used for something else.
 */
#ifndef PGWEIR_AUTH_SECRET_H
#define PGWEIR_AUTH_SECRET_H

#include <stddef.h>

/* Overwrites a secret, whatever the optimiser thinks of it. */
void secret_wipe(void *at, size_t count);

/* Wipes and frees a text on the heap; accepts NULL, leaves NULL behind. */
void secret_free(char **text);

#endif
