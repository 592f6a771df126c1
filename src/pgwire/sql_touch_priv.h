/* SPDX-License-Identifier: ISC */
/*
 * The first step of the scan of a text.
 */
#ifndef PGWEIR_PGWIRE_SQL_TOUCH_PRIV_H
#define PGWEIR_PGWIRE_SQL_TOUCH_PRIV_H

#include "pgweir/pgwire/sql_touch.h"

/* Beside enum sql_touch: the tokens of the text must be read. */
#define SQL_TOUCH_UNREAD (1u << 31)

/*
 * Looks at few bytes of a text, and does not know what is a quote. The text has no bits but those
 * returned, unless SQL_TOUCH_UNREAD is among them.
 */
unsigned int sql_touch_quick(struct bytes text);

/* Whether the end of a quoted text may be another than it seems, in some encodings. */
bool sql_touch_is_unclear(struct bytes text);

#endif
