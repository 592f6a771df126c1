/* SPDX-License-Identifier: ISC */
#ifndef PGWEIR_BASE_LOG_JSON_PRIV_H
#define PGWEIR_BASE_LOG_JSON_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/log.h"

/* Adds one log line as a JSON object, with its newline. Its time is the current time. */
void log_json_add(struct buf *out, struct bytes level, long pid, const struct log_who *who,
                  struct bytes text);

#endif
