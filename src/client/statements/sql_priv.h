/* SPDX-License-Identifier: ISC */
/*
 * SQL's own PREPARE, EXECUTE and DEALLOCATE, for clients whose statements are followed.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_SQL_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_SQL_PRIV_H

#include "pgweir/pgwire/sql.h"

#include "statements_priv.h"

struct channel;
struct pools_arrival;
struct record;

/* The client's unnamed statement is one of these. */
struct sql_unnamed {
	enum sql_kind kind;
	bool is_bound; /* the unnamed portal is of it */
	struct statements *statements;
	struct statement *statement; /* one owner; NULL for DEALLOCATE */
	char name[SQL_NAME_MAX + 1];
};

/* It is about that from now on; statement: may be NULL. false: no memory. */
bool sql_remember(struct client *client, const struct sql_statement *read,
                  struct statement *statement);

/* A Query that fails in any case, for which the client hears `err`. STATEMENTS_DROP or END. */
enum statements_result sql_refuse_query(struct client *client, const struct err *err,
                                        struct batch *batch);

/* A Query. */
enum statements_result sql_query(struct client *client, const struct frame *frame, struct bytes in,
                                 struct batch *batch);

/*
 * A Parse of the unnamed statement: `body` is what has come of `length` bytes, with at least
 * its name. STATEMENTS_HEAD: it stands in `gather` with another name in its text, and is to
 * be noted; STATEMENTS_DROP: it is refused.
 */
enum statements_result sql_parse(struct client *client, struct bytes body, size_t length,
                                 struct batch *batch);

/*
 * Whether a text may not be prepared under a name of the protocol; *err says why. If it may:
 * whether it throws all statements away.
 */
bool sql_is_refused(const char *text, struct err *err, bool *is_forgetting);

/* A Bind that concerns the unnamed portal or the unnamed statement. */
enum statements_result sql_bind(struct client *client, const char *portal, const char *statement,
                                struct batch *batch);

/* An Execute; STATEMENTS_HEAD: it has been noted. */
enum statements_result sql_execute(struct client *client, const char *portal, struct batch *batch);

/* The server is given back: the portals are gone. */
void sql_leave(struct client *client);

/* The unnamed statement is gone, or another. */
void sql_forget(struct client *client);

/* sql_handover.c: what the unnamed statement is about, as fields of the client's record, and back.
 * false: bad. */
bool sql_unnamed_write(const struct client *client, struct buf *record, struct channel *channel);
void sql_unnamed_read(struct client *client, struct record *record,
                      const struct pools_arrival *arrival);

#endif
