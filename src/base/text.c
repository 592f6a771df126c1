/* SPDX-License-Identifier: ISC */
/*
 * Small work on text.
 */
#include "pgweir/base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

static const char digits[] = "0123456789abcdef";

bool text_copy(char *out, size_t size, const char *text)
{
	size_t count = strlen(text);
	bool fits = count < size;

	if (!fits)
		count = size - 1;
	memcpy(out, text, count);
	out[count] = 0;
	return fits;
}

bool text_to_i64(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return end != text && *end == 0 && errno == 0;
}

void text_hex(char *out, const void *bytes, size_t count)
{
	const unsigned char *in = bytes;

	for (size_t i = 0; i < count; i++) {
		*out++ = digits[in[i] >> 4];
		*out++ = digits[in[i] & 15];
	}
	*out = 0;
}

char *text_trim(char *text)
{
	size_t count;

	text += strspn(text, " \t\r\n");
	for (count = strlen(text); count && strchr(" \t\r\n", text[count - 1]); count--)
		;
	text[count] = 0;
	return text;
}
