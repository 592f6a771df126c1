/* SPDX-License-Identifier: ISC */
/*
 * Named prepared statements in transaction and statement mode. Each client has its own
 * names; on servers the statements have names of pgweir.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_PREPARED_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_PREPARED_PRIV_H

#include "statements_priv.h"

#include "pgweir/pgwire/fields.h"

/* Handles a Parse with a name. */
enum statements_result prepared_parse(struct client *client, const struct frame *frame,
                                      struct bytes in, struct batch *batch);

/* Handles a Bind or Describe of a named statement. */
enum statements_result prepared_use(struct client *client, const struct frame *frame,
                                    struct bytes in, const struct object_names *names,
                                    struct batch *batch, size_t *head);

/* Handles a Describe of the portal that was bound last: batch->bound. */
enum statements_result prepared_describe_portal(struct client *client, struct batch *batch);

/* Handles a Close of a named statement. */
enum statements_result prepared_close(struct client *client, const char *name);

#endif
