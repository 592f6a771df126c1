/* SPDX-License-Identifier: ISC */
/*
 * The manual's lists of commands and columns, made from their tables.
 */
#ifndef PGWEIR_ADMIN_MANUAL_PRIV_H
#define PGWEIR_ADMIN_MANUAL_PRIV_H

#include "pgweir/base/buf.h"

/*
 * Copies a template to *out; a line that is a mark alone gives way to its list:
 *
 *   @commands@   all commands but SHOW
 *   @shows@      each SHOW with its columns
 */
void admin_manual_fill(struct bytes template, struct buf *out);

#endif
