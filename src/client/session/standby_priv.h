/* SPDX-License-Identifier: ISC */
/*
 * With route_reads: what is refused to a client whose transaction runs on a standby, and words for
 * what PostgreSQL refuses there.
 */
#ifndef PGWEIR_CLIENT_SESSION_STANDBY_PRIV_H
#define PGWEIR_CLIENT_SESSION_STANDBY_PRIV_H

#include "session_priv.h"

/*
 * A statement that touches these (enum sql_touch) is about to run. false: it must be refused with
 * *err, as it takes a lock that is not the one that the client means.
 */
bool standby_allows(const struct client *client, unsigned int touches, struct err *err);

/* explains_refusal() of the borrower. */
const char *standby_explains(struct borrower *borrower, struct buf *detail);

#endif
