/* SPDX-License-Identifier: ISC */
/*
 * Sixteen bytes of a text that are looked at together.
 */
#ifndef PGWEIR_PGWIRE_SQL_SIXTEEN_PRIV_H
#define PGWEIR_PGWIRE_SQL_SIXTEEN_PRIV_H

#include <endian.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SIXTEEN ((size_t)16)

typedef unsigned char sixteen __attribute__((vector_size(16)));
typedef signed char sixteen_signed __attribute__((vector_size(16)));
typedef uint64_t sixteen_halves __attribute__((vector_size(16)));

static inline sixteen sixteen_at(const char *at)
{
	sixteen bytes;

	memcpy(&bytes, at, sizeof(bytes));
	return bytes;
}

/* Whether each byte is one of `count` from `first` on. Processors compare signed bytes best. */
static inline sixteen sixteen_are_in(sixteen bytes, unsigned char first, int count)
{
	sixteen_signed moved = (sixteen_signed)(bytes + (unsigned char)(0x80 - first));

	return (sixteen)(moved < (signed char)(INT8_MIN + count));
}

/* The highest bit of each byte; that of the first byte is the lowest. */
static inline uint64_t sixteen_bits(sixteen bytes)
{
#ifdef __SSE2__
	return (uint64_t)(unsigned int)_mm_movemask_epi8((__m128i)bytes);
#else
	sixteen_halves ones = (sixteen_halves)(bytes >> 7);
	const uint64_t gather = UINT64_C(0x0102040810204080);

	return le64toh(ones[0]) * gather >> 56 | le64toh(ones[1]) * gather >> 56 << 8;
#endif
}

#endif
