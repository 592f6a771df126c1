/* SPDX-License-Identifier: ISC */
/*
 * Base64: encoded by OpenSSL's libcrypto, decoded here.
 */
#include "pgweir/auth/base64.h"

#include <openssl/evp.h>

#include "pgweir/base/banned.h"

void base64_encode(struct bytes in, char *out)
{
	EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)in.at, (int)in.count);
	out[BASE64_SIZE(in.count) - 1] = 0;
}

/* Value of each base64 digit plus one; 0: not a digit. */
static const unsigned char base64_digits[256] = {
	['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,
	['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14,
	['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21,
	['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28,
	['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35,
	['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42,
	['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49,
	['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
	['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
	['/'] = 64,
};

/* Decodes up to three bytes from four digits, of which `count` (2 to 4) are not padding. */
static bool base64_group(const char *in, size_t count, unsigned char out[3])
{
	unsigned long bits = 0;

	for (size_t i = 0; i < 4; i++) {
		unsigned long digit = i < count ? base64_digits[(unsigned char)in[i]] : 1;

		if (digit == 0)
			return false;
		bits = bits << 6 | (digit - 1);
	}
	out[0] = (unsigned char)(bits >> 16);
	out[1] = (unsigned char)(bits >> 8);
	out[2] = (unsigned char)bits;
	return true;
}

/*
 * EVP_DecodeBlock() cannot be used: it skips blanks, does not report padding, and writes past a
 * buffer that is just large enough.
 */
bool base64_decode(struct bytes in, void *out, size_t capacity, size_t *count)
{
	unsigned char *to = out;
	size_t padding = 0;

	*count = 0;
	if (in.count % 4 != 0)
		return false;
	while (padding < 2 && padding < in.count && in.at[in.count - 1 - padding] == '=')
		padding++;
	if (in.count / 4 * 3 - padding > capacity)
		return false;
	for (size_t i = 0; i < in.count; i += 4) {
		size_t missing = i + 4 == in.count ? padding : 0;
		unsigned char group[3];

		if (!base64_group(in.at + i, 4 - missing, group))
			return false;
		memcpy(to + *count, group, 3 - missing);
		*count += 3 - missing;
	}
	return true;
}
