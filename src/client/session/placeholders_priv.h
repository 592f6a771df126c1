/* SPDX-License-Identifier: ISC */
/*
 * The names of placeholders that a transaction may have set: session->names. If they are too many,
 * that set is unknown.
 */
#ifndef PGWEIR_CLIENT_SESSION_PLACEHOLDERS_PRIV_H
#define PGWEIR_CLIENT_SESSION_PLACEHOLDERS_PRIV_H

#include "session_priv.h"

#include "pgweir/pgwire/fields.h"

/* Notes the names of a text, and which values of a Bind may be names. */
void placeholders_note(struct session *session, const struct sql_names *names);

/* Notes the values of a Bind or a FunctionCall that may be names. */
void placeholders_note_values(struct session *session, struct row_walk values);

/* Notes the names in the bodies of functions that may set some, as far as the pool knows them. */
void placeholders_note_catalog(struct session *session);

/* Notes the names of a map. */
void placeholders_note_map(struct session *session, const struct params *params);

#endif
