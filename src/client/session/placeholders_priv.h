/* SPDX-License-Identifier: ISC */
/*
 * The names of placeholders that a transaction may have set: session->names. If they are too many,
 * that buffer is broken.
 */
#ifndef PGWEIR_CLIENT_SESSION_PLACEHOLDERS_PRIV_H
#define PGWEIR_CLIENT_SESSION_PLACEHOLDERS_PRIV_H

#include "session_priv.h"

/* Notes the names in a text. */
void placeholders_note(struct session *session, struct bytes text);

/*
 * Whether each set_config() in the text has its name as a constant or as a parameter of a Bind. If
 * not, nobody knows what it may set.
 */
bool placeholders_are_known(struct bytes text);

/* Notes the values of a Bind that may be names. body: all of it. */
void placeholders_note_values(struct session *session, struct bytes body);

/* Notes the names in the bodies of functions that may set some, as far as the pool knows them. */
void placeholders_note_catalog(struct session *session);

/* Notes the names of a map. */
void placeholders_note_map(struct session *session, const struct params *params);

#endif
