/* SPDX-License-Identifier: ISC */
/*
 * Writes JSON (RFC 8259).
 */
#ifndef PGWEIR_BASE_JSON_H
#define PGWEIR_BASE_JSON_H

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"

/*
 * Adds a text as a JSON string, with quotes. The output is always valid UTF-8: each invalid
 * byte becomes U+FFFD. Control characters (also C1 and line separators) are escaped.
 */
void json_add_text(struct buf *out, struct bytes text);

#endif
