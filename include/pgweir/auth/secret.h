/* SPDX-License-Identifier: ISC */
/*
 * Wipes secrets.
 */
#ifndef PGWEIR_AUTH_SECRET_H
#define PGWEIR_AUTH_SECRET_H

#include <stdlib.h>
#include <string.h>

/* Overwrites memory, even if the compiler sees that nothing reads it any more. */
static inline void secret_wipe(void *at, size_t count) { explicit_bzero(at, count); }

/* Wipes and frees a text, and leaves NULL. */
static inline void secret_free(char **text)
{
	if (*text)
		secret_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

#endif
