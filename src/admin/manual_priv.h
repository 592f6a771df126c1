/* SPDX-License-Identifier: ISC */
/*
 * The manual's lists of commands and columns, generated from their tables.
 */
#ifndef PGWEIR_ADMIN_MANUAL_PRIV_H
#define PGWEIR_ADMIN_MANUAL_PRIV_H

#include "pgweir/base/buf.h"

/*
 * Copies a template to *out. A line that is only a mark is replaced by its list:
 *
 *   @commands@   all commands but SHOW
 *   @shows@      each SHOW with its columns
 */
void admin_manual_fill(struct bytes template, struct buf *out);

#endif
