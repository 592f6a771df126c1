/* SPDX-License-Identifier: ISC */
/*
 * The trace that an SQL text belongs to, if its client has said so in a comment at the beginning or
 * at the end:
 *
 *   traceparent='00-<32 hex digits>-<16 hex digits>-<2 hex digits>'
 *
 * Source: sqlcommenter's specification; W3C, "Trace Context", the header traceparent.
 */
#ifndef PGWEIR_PGWIRE_SQL_TRACEPARENT_H
#define PGWEIR_PGWIRE_SQL_TRACEPARENT_H

#include <stdbool.h>

#include "pgweir/base/bytes.h"

#define SQL_TRACEPARENT_SIZE 55 /* bytes of a value */

/* Only a comment that ends within so many bytes of the text's beginning or end counts. */
#define SQL_TRACEPARENT_REACH 2048

/* *value points into the text. false: it has none, or one that is not valid. */
bool sql_traceparent(struct bytes text, struct bytes *value);

/*
 * The value of any key in such a comment. key: with the equals sign and the quote. The value may be
 * any text without a quote.
 */
bool sql_traceparent_key(struct bytes text, const char *key, struct bytes *value);

#endif
