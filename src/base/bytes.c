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
