/* SPDX-License-Identifier: ISC */
/*
 * Generates documentation from the tables of settings and keys.
 */
#ifndef PGWEIR_CONFIG_MANUAL_PRIV_H
#define PGWEIR_CONFIG_MANUAL_PRIV_H

#include "pgweir/base/buf.h"

/*
 * Copies a template to *out and replaces each line that consists of a mark by a list:
 *
 *   @settings@        all settings, for the manual page
 *   @database_keys@   the keys of [databases], for the manual page
 *   @user_keys@       the keys of [users], for the manual page
 *   @example@         all settings with their defaults, commented out, for an ini file
 */
void manual_fill(struct bytes template, struct buf *out);

#endif
