/* SPDX-License-Identifier: ISC */
/*
 * The list of all SHOW tables.
 */
#include "show_priv.h"

#include <strings.h>

#include "pgweir/base/banned.h"

#define SHOW_ADDRESS(name) &show_##name,

/* clang-format off */
const struct show *const shows[] = {
	SHOW_TABLES(SHOW_ADDRESS)
	NULL,
};
/* clang-format on */

const struct show *show_find(const char *item)
{
	for (size_t i = 0; shows[i]; i++) {
		if (strcasecmp(shows[i]->item, item) == 0)
			return shows[i];
	}
	return NULL;
}

const char *show_argument_name(enum show_argument argument)
{
	static const char *const names[] = {
		[SHOW_ALONE] = "",
		[SHOW_OF_DATABASE] = " [db]",
		[SHOW_OF_TABLE] = " [table]",
		[SHOW_HIT] = " [HIT]",
		[SHOW_OF_STATEMENTS] = " [n] [BY time|calls|wait|rows|errors]",
	};

	return names[argument];
}
