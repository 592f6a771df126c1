/* SPDX-License-Identifier: ISC */
/*
 * Which session state a text may touch.
 */
#ifndef PGWEIR_PGWIRE_SQL_TOUCH_H
#define PGWEIR_PGWIRE_SQL_TOUCH_H
#include "pgweir/base/bytes.h"
enum sql_touch {
	SQL_TOUCH_PARAMS = 1 << 0,
	SQL_TOUCH_DEFAULT = 1 << 1,
	SQL_TOUCH_LIBRARY = 1 << 2,
	SQL_TOUCH_LISTEN = 1 << 3,
	SQL_TOUCH_UNLISTEN = 1 << 4,
	SQL_TOUCH_NOTIFY = 1 << 5,
	SQL_TOUCH_CURSOR = 1 << 6,
	SQL_TOUCH_TEMP = 1 << 7,
	SQL_TOUCH_LOCK = 1 << 8,
	SQL_TOUCH_SEQUENCE = 1 << 9,
	SQL_TOUCH_EXTENSION = 1 << 10,
	SQL_TOUCH_HIDDEN = 1 << 11,
	SQL_TOUCH_EXECUTE = 1 << 12,
	SQL_TOUCH_RELEASE = 1 << 13,
	SQL_TOUCH_WRITE = 1 << 14
};
#define SQL_TOUCH_PINS (SQL_TOUCH_CURSOR | SQL_TOUCH_TEMP | SQL_TOUCH_LOCK | SQL_TOUCH_EXTENSION)
unsigned int sql_touch(struct bytes text);
unsigned int sql_touch_unclear(struct bytes text);
#endif
