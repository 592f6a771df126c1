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

/* Notes the names in a text of a sample, which need not set anything. */
void placeholders_note_sample(struct session *session, struct bytes text);

/* Notes the values of a Bind or a FunctionCall that may be names. */
void placeholders_note_values(struct session *session, struct row_walk values);

/*
 * Notes the names in the sources of the database's functions, as far as the pool knows them. false:
 * they must be asked for (QUESTION_SOURCES).
 */
bool placeholders_note_sources(struct session *session);

/* The answer, which may be that they cannot be read. */
void placeholders_take_sources(struct client *client, const struct facts *facts);

/* Whether a text may create functions. When that is committed, their sources must be asked for. */
bool placeholders_are_added(struct bytes text);
static inline void placeholders_forget_sources(struct client *client)
{
	client->borrower.pool->sources_at = 0;
}

/* Notes the names of a map. */
void placeholders_note_map(struct session *session, const struct params *params);

#endif
