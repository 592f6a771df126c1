/* SPDX-License-Identifier: ISC */
/*
 * SQL's own PREPARE, EXECUTE and DEALLOCATE, for clients whose statements are tracked.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_SQL_STATEMENTS_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_SQL_STATEMENTS_PRIV_H

#include "pgweir/pgwire/sql.h"

#include "pgweir/pool/server/server.h"

#include "statements_priv.h"

struct channel;
struct pools_arrival;
struct record;

/* The client's unnamed statement is a PREPARE, EXECUTE, DEALLOCATE or similar. */
struct sql_unnamed {
	enum sql_kind kind;
	bool is_bound; /* the unnamed portal is bound to it */
	struct statements *statements;
	struct statement *statement; /* holds one reference; NULL: without one */
	char name[SQL_NAME_MAX + 1]; /* the client's name for the statement */
	struct server_renaming renaming;
};

/* Stores that the unnamed statement is `read`. statement: may be NULL. false: no memory. */
bool sql_remember(struct client *client, const struct sql_statement *read,
                  struct statement *statement);

/* Adds a Query that always fails; the client gets `err`. STATEMENTS_DROP or END. */
enum statements_result sql_refuse_query(struct client *client, const struct err *err,
                                        struct batch *batch);

/* Handles a Query. */
enum statements_result sql_query(struct client *client, const struct frame *frame, struct bytes in,
                                 struct batch *batch);

/*
 * Handles a Parse of the unnamed statement. `body`: what has been received of `length`
 * bytes, at least its name. STATEMENTS_HEAD: the Parse is in `batch` with another name in
 * its text, and the caller notes it. STATEMENTS_DROP: it is refused.
 */
enum statements_result sql_parse(struct client *client, struct bytes body, size_t length,
                                 struct batch *batch);

/*
 * Whether a text that is prepared with a name of the protocol means another statement by its name:
 * what it does depends on the server. *is_forgetting: it drops all statements.
 */
bool sql_is_by_name(struct bytes text, bool *is_forgetting);

/*
 * Comes before a Parse, Bind or Describe of such a text: adds the statement that it may mean. PASS,
 * WAIT,
 * END, or DROP: it is refused.
 */
enum statements_result sql_before_named(struct client *client, const char *text,
                                        struct batch *batch);

/* Handles a Bind that concerns the unnamed portal or the unnamed statement. */
enum statements_result sql_bind(struct client *client, const char *portal, const char *statement,
                                struct batch *batch);

/* Handles an Execute. STATEMENTS_HEAD: it has been noted. */
enum statements_result sql_execute(struct client *client, const char *portal, struct batch *batch);

/* The client's server is returned: its portals are gone. */
void sql_leave(struct client *client);

/* Drops what is stored: the unnamed statement is gone or replaced. */
void sql_forget(struct client *client);

/*
 * statements_judge.c: writes what the unnamed statement contains as fields of the client's
 * record, and reads it. false: could not be sent.
 */
bool sql_unnamed_write(const struct client *client, struct buf *record, struct channel *channel);
void sql_unnamed_read(struct client *client, struct record *record,
                      const struct pools_arrival *arrival);

#endif
