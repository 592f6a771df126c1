/* SPDX-License-Identifier: ISC */
/*
 * Origins of values: functions for this module.
 */
#ifndef PGWEIR_CONFIG_ORIGIN_PRIV_H
#define PGWEIR_CONFIG_ORIGIN_PRIV_H

#include "pgweir/config/origin.h"

/*
 * Makes the origins of a new snapshot: all defaults, or a copy of those of `old`. false: no
 * memory.
 */
bool origins_make(struct config *config, const struct config *old);

/* Notes nothing if there is no memory, or if `name` is not a setting. */
void origins_note_file(struct config *config, const char *name, struct source_pos pos);
void origins_note_set(struct config *config, const char *name);

/* Copies the origin from another snapshot, whose entries may be freed later. */
void origins_take(struct config *config, const struct config *from, const char *name);

#endif
