/* SPDX-License-Identifier: ISC */
/*
 * The first step of the scan of a text.
 */
#ifndef PGWEIR_PGWIRE_SQL_TOUCH_PRIV_H
#define PGWEIR_PGWIRE_SQL_TOUCH_PRIV_H

#include "pgweir/pgwire/sql_touch.h"

/*
 * Looks at few bytes of a text, and does not know what is a quote. false: the text has no bits
 * but those in *bits. true: its tokens must be read.
 */
bool sql_touch_quick(struct bytes text, unsigned int *bits);

#endif
