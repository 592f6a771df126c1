/* SPDX-License-Identifier: ISC */
/*
 * SQL's own PREPARE, EXECUTE and DEALLOCATE, for clients whose statements are followed.
 */
#ifndef PGWEIR_CLIENT_SQL_PRIV_H
#define PGWEIR_CLIENT_SQL_PRIV_H

#include "prepared_priv.h"

/* A Query. */
enum prepared_result sql_query(struct client *client, const struct frame *frame, struct bytes in,
                               struct gather *gather);

/* A Parse of the unnamed statement. */
enum prepared_result sql_parse(struct client *client, const struct frame *frame, struct bytes in,
                               struct gather *gather);

/* Whether a text may not be prepared under a name of the protocol; *err says why. */
bool sql_is_refused(const char *text, struct err *err);

/* A Bind that concerns the unnamed portal or the unnamed statement. */
enum prepared_result sql_bind(struct client *client, const char *portal, const char *statement,
                              struct gather *gather);

/* An Execute; PREPARED_HEAD: it has been noted. */
enum prepared_result sql_execute(struct client *client, const char *portal, struct gather *gather);

/* The unnamed statement is gone, or another. */
void sql_forget(struct client *client);

#endif
