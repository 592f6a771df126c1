/* SPDX-License-Identifier: ISC */
/*
 * The unnamed statement, when each transaction may be on another server.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_UNNAMED_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_UNNAMED_PRIV_H

#include "statements_priv.h"

struct channel;
struct pools_arrival;
struct record;

/* Maximum length of a Parse that is kept. A longer one is forwarded in pieces. */
#define UNNAMED_KEPT_MAX ((uint32_t)64 * 1024)

/* Handles a Parse. The text points into `in` until unnamed_keep(). */
enum statements_result unnamed_parse(struct client *client, const struct frame *frame,
                                     struct bytes in, struct batch *batch);

/* Handles a Bind or Describe. PASS: what it needs was added before it. HEAD: also noted. */
enum statements_result unnamed_use(struct client *client, char type, struct batch *batch);

/* Handles a Close or a Query: there is no unnamed statement any more. */
void unnamed_drop(struct client *client, struct batch *batch);

/* Call when all received frames were judged and sent: keeps a text that was not bound yet. */
void unnamed_keep(struct client *client, const struct batch *batch);

/* The client's server is returned. The next one may have another client's statement. */
void unnamed_leave_server(struct client *client);

/* Whether it can be prepared again if it is not there any more. */
bool unnamed_can_leave(const struct client *client);

/* What it touches, if it is executed. */
unsigned int unnamed_touches(const struct client *client);

/* Frees it. The ledger must have settled the open changes. */
void unnamed_free(struct client *client);

/* Write it as fields of the client's record for another process, and read it. false: not sent. */
bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel);
void unnamed_read(struct client *client, struct record *record,
                  const struct pools_arrival *arrival);

#endif
