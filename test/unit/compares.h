/* SPDX-License-Identifier: ISC */
/*
 * Counts comparisons of names. A bound of work is tested with it: what somebody sends must
 * not be compared with all that was sent before. Include it in one source of a test only.
 */
#ifndef PGWEIR_TEST_COMPARES_H
#define PGWEIR_TEST_COMPARES_H

#include <ctype.h>
#include <stddef.h>
#include <strings.h>

static size_t compare_count;

/* The one of libc, for all that this program is linked from. */
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
