/* SPDX-License-Identifier: ISC */
/*
 * currval() and lastval() in transaction mode: the client's own value, or an error; never the value
 * of another client.
 *
 * A client that has asked once, and any client behind a statement that a question mostly follows,
 * keeps its server from a transaction that may call nextval() to its next statement, but not longer
 * than SEQUENCES_HOLD_MAX. If others wait for a server: SEQUENCES_HOLD_WANTED, and SEQUENCES_HOLD
 * behind statements that a question rarely follows.
 */
#ifndef PGWEIR_CLIENT_SESSION_SEQUENCES_PRIV_H
#define PGWEIR_CLIENT_SESSION_SEQUENCES_PRIV_H

#include "session_priv.h"

#define SEQUENCES_HOLD ((usec_t)20 * 1000)
#define SEQUENCES_HOLD_WANTED ((usec_t)200 * 1000)
#define SEQUENCES_HOLD_MAX USEC_PER_SEC

#define SEQUENCES_CONCERN \
	(SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE | SQL_TOUCH_HIDDEN | SQL_TOUCH_FORGET)

/*
 * A statement that touches one of these is about to be executed. What must run before it is added
 * to the batch. false: no memory.
 */
bool sequences_use(struct client *client, unsigned int touches, struct bytes text,
                   struct batch *batch);

/* The client's transaction has ended: SESSION_PIN_SEQUENCE, or 0 if it need not keep its server. */
unsigned int sequences_pin(const struct client *client);

/* The client is idle with a server that only sequences_pin() keeps: it does so for a while. */
void sequences_idle_begin(struct client *client);

#endif
