/* SPDX-License-Identifier: ISC */
/*
 * Origins, inside the room.
 */
#ifndef PGWEIR_CONFIG_ORIGIN_PRIV_H
#define PGWEIR_CONFIG_ORIGIN_PRIV_H

#include "pgweir/config/origin.h"

/* Those of a new snapshot: all defaults, or as `old` has them. false: no memory. */
bool origins_make(struct config *config, const struct config *old);

/* Without memory, or for what is no setting, nothing is noted. */
void origins_note_file(struct config *config, const char *name, struct source_pos place);
void origins_note_set(struct config *config, const char *name);

/* The value was taken from another snapshot, whose entries may go. */
void origins_take(struct config *config, const struct config *from, const char *name);

#endif
