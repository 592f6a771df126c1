/* SPDX-License-Identifier: ISC */
/*
 * Outages: the lines in the log about places (a host of an entry, or an address of it) that
 * cannot be reached.
 */
#ifndef PGWEIR_POOL_OUTAGE_PRIV_H
#define PGWEIR_POOL_OUTAGE_PRIV_H

#include "pgweir/pool/database.h"

#define OUTAGE_WHERE_SIZE 384 /* a host's name, an address and a port */

struct server;

/* One place that fails, or failed lately. */
struct outage {
	TAILQ_ENTRY(outage) node;
	usec_t since;          /* good if is_bad: when it failed first */
	usec_t said_at;        /* good if was_said: when the last WARNING was written */
	unsigned int failures; /* since then, this one included */
	bool is_bad;           /* it has failed, and nothing came through since */
	bool is_said;          /* with a WARNING */
	bool was_said;         /* there was one at any time */
	char where[OUTAGE_WHERE_SIZE];
};

/*
 * An attempt there has failed. Returns the outage if a line is due: when it begins, and
 * then at a slow pace; else NULL. The caller writes it, and calls outage_said().
 */
struct outage *outages_failed(struct outages *outages, const char *where, usec_t now);
void outage_said(struct outage *outage, usec_t now);

/* One has come through. true: that is worth a line, *lasted is how long it was out. */
bool outages_over(struct outages *outages, const char *where, usec_t now, usec_t *lasted);

void outages_done(struct outages *outages);

/* ---- for pool_servers.c and server_launch.c: the same, and the lines ---- */

/* The login of this server has failed; whatever the reason. */
void outage_of_server(struct server *server, const struct err *err);

/* PostgreSQL there has answered. */
void outage_of_server_over(struct server *server);

#endif
