/* SPDX-License-Identifier: ISC */
/*
 * Outages: log lines about targets (a host of an entry, or one of its addresses) that cannot be
 * reached.
 */
#ifndef PGWEIR_POOL_OUTAGE_PRIV_H
#define PGWEIR_POOL_OUTAGE_PRIV_H

#include "pgweir/pool/database.h"

#define OUTAGE_WHERE_SIZE 384 /* size of a text with a host name, an address and a port */

struct server;

/* A target that fails now, or failed recently. */
struct outage {
	TAILQ_ENTRY(outage) node;
	usec_t since;          /* valid if is_bad: time of the first failure */
	usec_t said_at;        /* valid if was_said: time of the last WARNING */
	unsigned int failures; /* number since then, including this one */
	bool is_bad;           /* it has failed, and no connection has succeeded since */
	bool is_said;          /* a WARNING was written for this outage */
	bool was_said;         /* a WARNING was ever written */
	char where[OUTAGE_WHERE_SIZE];
};

/*
 * A connection has failed. Returns the outage if a line is due: at its start, and then at long
 * intervals; else NULL. The caller writes the line, and calls outage_said().
 */
struct outage *outages_failed(struct outages *outages, const char *where, usec_t now);
void outage_said(struct outage *outage, usec_t now);

/* A connection has succeeded. true: a line is due; *lasted: the length of the outage. */
bool outages_over(struct outages *outages, const char *where, usec_t now, usec_t *lasted);

void outages_done(struct outages *outages);

/* ---- for pool_servers.c and server_launch.c: note the outcome, and log if a line is due ---- */

/* The login of this server has failed, for any reason. */
void outage_of_server(struct server *server, const struct err *err);

/* PostgreSQL at this server's address has answered. */
void outage_of_server_over(struct server *server);

#endif
