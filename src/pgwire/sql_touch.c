/* SPDX-License-Identifier: ISC */
/*
 * Which session state a text may touch.
 */
#include "pgweir/pgwire/sql_touch.h"
#include <string.h>
#include <stdlib.h>
#include <strings.h>
unsigned int sql_touch(struct bytes text)
{
	char *t = strndup(text.at, text.count);
	unsigned int r = 0;
	if (!strncasecmp(t, "set ", 4) && strncasecmp(t, "set local", 9))
		r |= SQL_TOUCH_PARAMS;
	if (strcasestr(t, "set_config"))
		r |= SQL_TOUCH_PARAMS;
	if (!strncasecmp(t, "reset ", 6))
		r |= SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT;
	if (!strncasecmp(t, "discard ", 8))
		r |= SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_UNLISTEN | SQL_TOUCH_RELEASE;
	if (strcasestr(t, "temp"))
		r |= SQL_TOUCH_TEMP;
	if (strcasestr(t, "pg_advisory_lock"))
		r |= SQL_TOUCH_LOCK;
	if (strcasestr(t, "unlock"))
		r |= SQL_TOUCH_RELEASE;
	if (strcasestr(t, " hold"))
		r |= SQL_TOUCH_CURSOR;
	if (!strncasecmp(t, "close ", 6) || !strncasecmp(t, "drop ", 5))
		r |= SQL_TOUCH_RELEASE;
	if (!strncasecmp(t, "do ", 3))
		r |= SQL_TOUCH_HIDDEN;
	free(t);
	return r;
}
