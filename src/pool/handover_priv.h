/* SPDX-License-Identifier: ISC */
/*
 * Handing servers over, inside the room: handover_server.c.
 */
#ifndef PGWEIR_POOL_HANDOVER_PRIV_H
#define PGWEIR_POOL_HANDOVER_PRIV_H

#include "pgweir/pool/handover.h"

/* What has been counted, as fields, and back. handover_parts.c */
void handover_write_stats(struct buf *record, const struct stats *stats);
void handover_read_stats(struct record *record, struct stats *stats);

/* Whether the record of a server is whole; database[CONFIG_DATABASE_NAME_MAX + 1]: whose it is. */
bool server_judge(struct bytes body, char *database, struct err *err);

void server_take(struct pools_arrival *arrival, struct bytes body, int *fd);

/* It is forgotten: nothing is said to PostgreSQL, and the borrower hears nothing. */
void server_let_go(struct server *server);

#endif
