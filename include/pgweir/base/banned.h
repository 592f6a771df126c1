/* SPDX-License-Identifier: ISC */
/*
 * Functions of the C library that invite mistakes: with this header they do not
 * compile. Every source file includes it last.
 */
#ifndef PGWEIR_BASE_BANNED_H
#define PGWEIR_BASE_BANNED_H

/* With clang and _FORTIFY_SOURCE the C library has these as macros. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncat sprintf vsprintf strtok gets atoi atol atoll atof asctime \
    ctime

#endif
