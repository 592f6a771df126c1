/* SPDX-License-Identifier: ISC */
/*
 * UNLISTEN: finds out which channels a transaction has unlistened. listening_priv.h has the rules.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_UNLISTEN_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_UNLISTEN_PRIV_H

#include "listening_names_priv.h"
#include "listening_state_priv.h"

/* A message of a client that listens is about to be sent: see listening_before(). */
enum listening_go listening_unlisten_before(struct client *client, char type, unsigned int touches,
                                            struct bytes text, struct batch *batch);

/* Adds the second mark, if it is due: see listening_follow(). */
enum listening_go listening_unlisten_follow(struct client *client, char type, struct batch *batch);

/*
 * The transaction has ended, and its server listens to these: removes the client's channels that it
 * has unlistened, and what waits of them. false: no memory.
 */
bool listening_unlisten_judge(struct client_listening *listening,
                              const struct listening_names *names);

/* Frees what is kept for the transaction. The ledger may still own a part of it. */
void listening_unlisten_free(struct client_listening *listening);

#endif
