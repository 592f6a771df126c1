/* SPDX-License-Identifier: ISC */
/*
 * Wipes secrets.
 */
#include "pgweir/auth/secret.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

void secret_wipe(void *at, size_t count) { explicit_bzero(at, count); }

void secret_free(char **text)
{
	if (*text)
		secret_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}
