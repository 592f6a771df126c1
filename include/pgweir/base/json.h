/* SPDX-License-Identifier: ISC */
/*
 * JSON, written (RFC 8259).
 */
#ifndef PGWEIR_BASE_JSON_H
#define PGWEIR_BASE_JSON_H

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"

/*
 * The text as a JSON string, quotes included. Always valid UTF-8: bytes that are none become
 * U+FFFD, one for each; control characters (C1 and line separators too) are escaped.
 */
void json_add_text(struct buf *out, struct bytes text);

#endif
