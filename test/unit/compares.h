/* SPDX-License-Identifier: ISC */
/*
 * Counts comparisons of names, to test bounds of work: new input must not be compared with all
 * earlier input. Include it in only one source file of a test.
 */
#ifndef PGWEIR_TEST_COMPARES_H
#define PGWEIR_TEST_COMPARES_H

#include <ctype.h>
#include <stddef.h>
#include <strings.h>

static size_t compare_count;

/* Replaces the function of libc in the whole program. */
int strcasecmp(const char *a, const char *b)
{
	compare_count++;
	while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
		a++;
		b++;
	}
	return tolower((unsigned char)*a) - tolower((unsigned char)*b);
}

#endif
