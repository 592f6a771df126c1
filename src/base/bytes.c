/* SPDX-License-Identifier: ISC */
/*
 * Borrowed runs of bytes: functions that are too long for the header.
 */
#include "pgweir/base/bytes.h"

#include <strings.h>

#include "pgweir/base/banned.h"

bool bytes_equal_secret(struct bytes a, struct bytes b)
{
	unsigned char differ = 0;

	if (a.count != b.count)
		return false;
	for (size_t i = 0; i < a.count; i++)
		differ |= (unsigned char)(a.at[i] ^ b.at[i]);
	return differ == 0;
}

bool bytes_list_has(struct bytes list, const char *name)
{
	const char *other;

	while (bytes_take_text(&list, &other)) {
		if (strcasecmp(other, name) == 0)
			return true;
	}
	return false;
}

bool bytes_contain(struct bytes bytes, const char *text)
{
	for (size_t size = strlen(text); bytes.count >= size; bytes = bytes_skip(bytes, 1)) {
		/* A call for each byte would take most of the time. */
		if ((bytes.at[0] | 0x20) == (text[0] | 0x20) &&
		    strncasecmp(bytes.at, text, size) == 0)
			return true;
	}
	return false;
}
