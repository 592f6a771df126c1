/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state (client/features.h), and what belongs to one of them.
 */
#ifndef PGWEIR_CLIENT_SESSION_FEATURES_PRIV_H
#define PGWEIR_CLIENT_SESSION_FEATURES_PRIV_H

#include "pgweir/client/features.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pool/server/server.h"

#include "session_priv.h"

/* How many of it the server has; parameters are not counted. */
unsigned int feature_count(const struct feature *feature, const struct facts *facts);

/* The first one that is touched and has a name. NULL: there is none. */
const struct feature *features_first(unsigned int touches);

/* Which parts of the question concern what was touched, or one of these pins. */
unsigned int features_parts(unsigned int touches, unsigned int pins);

/* The pins that the server's answer shows. */
unsigned int features_pins(const struct facts *facts);

/* The pins about which an answer with these parts says nothing. */
unsigned int features_unasked(unsigned int parts);

/* Refuse it with *err, in the same words as in the log. They return false. */
bool features_refuse(const struct client *client, const struct feature *feature, struct err *err);
bool features_refuse_pin(const struct client *client, const struct feature *feature,
                         struct err *err);

/*
 * ---- placeholders.c ----
 *
 * The names of placeholders that a transaction may have set: session->names. If they are too many,
 * that set is unknown.
 */

/* Notes the names of a text, and which values of a Bind may be names. */
void placeholders_note(struct session *session, const struct sql_names *names);

/* Notes the values of a Bind or a FunctionCall that may be names. */
void placeholders_note_values(struct session *session, struct row_walk values);

/* Notes the names in the bodies of functions that may set some, as far as the pool knows them. */
void placeholders_note_catalog(struct session *session);

void placeholders_note_map(struct session *session, const struct params *params);

/* ---- libraries that a transaction may have loaded: session->libraries ---- */

/* Notes the names in a text that is about to run. */
void libraries_note(struct session *session, struct bytes text);

/* They become part of the server's parameters. false: it is not known which they are. */
bool libraries_take(struct session *session, struct server *server);

/*
 * ---- on a standby ----
 *
 * With route_reads: what is refused to a client whose transaction runs on a standby, and words for
 * what PostgreSQL refuses there.
 */

/*
 * A statement that touches these (enum sql_touch) is about to run. false: it must be refused with
 * *err, as it takes a lock that is not the one that the client means.
 */
bool standby_allows(const struct client *client, unsigned int touches, struct err *err);

/* explains_refusal() of the borrower. */
const char *standby_explains(struct borrower *borrower, struct buf *detail);

/*
 * ---- sequences.c ----
 *
 * currval() and lastval() in transaction mode: the client's own value, or an error; never the value
 * of another client.
 *
 * A client that has asked once, and any client behind a statement that a question mostly follows,
 * keeps its server from a transaction that may call nextval() to its next statement, but not longer
 * than SEQUENCES_HOLD_MAX. If others wait for a server: SEQUENCES_HOLD_WANTED, and SEQUENCES_HOLD
 * behind statements that a question rarely follows.
 */

#define SEQUENCES_HOLD ((usec_t)20 * 1000)
#define SEQUENCES_HOLD_WANTED ((usec_t)200 * 1000)
#define SEQUENCES_HOLD_MAX USEC_PER_SEC

#define SEQUENCES_CONCERN \
	(SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE | SQL_TOUCH_HIDDEN | SQL_TOUCH_FORGET)

/*
 * A statement that touches one of these is about to be executed. What must run before it is added
 * to the batch. false: no memory.
 */
bool sequences_use(struct client *client, unsigned int touches, struct bytes text,
                   struct batch *batch);

/* The client's transaction has ended: SESSION_PIN_SEQUENCE, or 0 if it need not keep its server. */
unsigned int sequences_pin(const struct client *client);

/* The client is idle with a server that only sequences_pin() keeps: it does so for a while. */
void sequences_idle_begin(struct client *client);

#endif
