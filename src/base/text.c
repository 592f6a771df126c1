/* SPDX-License-Identifier: ISC */
/*
 * Small functions on texts.
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

/*
 * Hard here: the bytes may come from any peer. Overlong forms, surrogates and values above
 * U+10FFFF are not UTF-8, although they look like it.
 */
size_t text_utf8(const char *text, size_t capacity, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *at = (const unsigned char *)text;
	size_t count = at[0] < 0x80   ? 1
	               : at[0] < 0xc2 ? 0
	               : at[0] < 0xe0 ? 2
	               : at[0] < 0xf0 ? 3
	                              : 4;

	if (count == 0 || at[0] > 0xf4 || count > capacity)
		return 0;
	*point = count == 1 ? at[0] : at[0] & (0x7fu >> count);
	for (size_t i = 1; i < count; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (at[i] & 0x3f);
	}
	if (*point < least[count] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
		return 0;
	return count;
}
