/* SPDX-License-Identifier: ISC */
#ifndef PGWEIR_BASE_LOG_JSON_PRIV_H
#define PGWEIR_BASE_LOG_JSON_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/log.h"

/* One line of the log as a JSON object, with its newline; the time is now. */
void log_json_add(struct buf *out, struct bytes level, long pid, const struct log_who *who,
                  struct bytes text);

#endif
