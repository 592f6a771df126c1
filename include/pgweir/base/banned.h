/* SPDX-License-Identifier: ISC */
/*
 * Bans functions of the C library that invite mistakes: they do not compile. The build includes
 * this header before everything else in each file.
 */
#ifndef PGWEIR_BASE_BANNED_H
#define PGWEIR_BASE_BANNED_H

/* What declares them comes first: a banned name may not even be declared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* With clang and _FORTIFY_SOURCE, the C library defines these as macros. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncat sprintf vsprintf strtok gets atoi atol atoll atof asctime \
    ctime

#endif
