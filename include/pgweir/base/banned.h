/* SPDX-License-Identifier: ISC */
/*
 * Bans functions of the C library that invite mistakes: they do not compile. Each source file
 * includes this header last.
 */
#ifndef PGWEIR_BASE_BANNED_H
#define PGWEIR_BASE_BANNED_H

/* With clang and _FORTIFY_SOURCE, the C library defines these as macros. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncat sprintf vsprintf strtok gets atoi atol atoll atof asctime \
    ctime

#endif
