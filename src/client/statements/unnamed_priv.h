/* SPDX-License-Identifier: ISC */
/*
 * The unnamed statement, where each transaction may be on another server.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_UNNAMED_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_UNNAMED_PRIV_H

#include "statements_priv.h"

struct channel;
struct pools_arrival;
struct record;

/* Longer Parse messages of it pass in pieces and are not kept. */
#define UNNAMED_KEPT_MAX ((uint32_t)64 * 1024)

/* A Parse of it. What is kept of the text until unnamed_keep() lies in `in`. */
enum statements_result unnamed_parse(struct client *client, const struct frame *frame,
                                     struct bytes in, struct batch *batch);

/* A Bind or Describe of it. PASS: what it needs stands in front; HEAD: and it is noted. */
enum statements_result unnamed_use(struct client *client, char type, struct batch *batch);

/* A Close of it, or a Query: there is none any more. */
void unnamed_drop(struct client *client, struct batch *batch);

/* What was read has been judged and sent: a text that was not bound yet is kept. */
void unnamed_keep(struct client *client, const struct batch *batch);

/* The server is given back: it may get another's. */
void unnamed_leave_server(struct client *client);

/* Frees it; the ledger has settled what was under way. */
void unnamed_free(struct client *client);

/* For another process of ours: fields of the client's record, and back. false: not sent. */
bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel);
void unnamed_read(struct client *client, struct record *record,
                  const struct pools_arrival *arrival);

#endif
