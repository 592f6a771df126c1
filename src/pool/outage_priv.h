/* SPDX-License-Identifier: ISC */
/*
 * Outages: log lines about targets (a host of an entry, or one of its addresses) that cannot be
 * reached. For pool_logins.c: note the outcome, and log if a line is due.
 */
#ifndef PGWEIR_POOL_OUTAGE_PRIV_H
#define PGWEIR_POOL_OUTAGE_PRIV_H

#include "pgweir/pool/database.h"

/* The login of this server has failed, for any reason. */
void outage_of_server(struct server *server, const struct err *err);

/* PostgreSQL at this server's address has answered. */
void outage_of_server_over(struct server *server);

#endif
