/* SPDX-License-Identifier: ISC */
/*
 * Clients pass from one process to another, with the servers that are lent to them: see
 * net/channel.h for the order of things, and pool/handover.h for servers.
 *
 * Who is encrypted, replicates, logs in or talks to the console stays where it is.
 */
#ifndef PGWEIR_CLIENT_HANDOVER_H
#define PGWEIR_CLIENT_HANDOVER_H

#include "pgweir/client/clients.h"
#include "pgweir/pool/handover.h"

/* ---- who goes ---- */

/* Whether one of them may leave now. */
bool clients_have_leavers(const struct clients *clients);

/* All that may leave, each behind its server, and marked. */
bool clients_write(struct clients *clients, struct channel *channel);

/* Those that were marked are let go, without a word. How many there were. */
unsigned int clients_let_go(struct clients *clients);

/* They stay. */
void clients_keep(struct clients *clients);

/*
 * Those that could leave if they had a moment's rest are read no more once they have said
 * all that they must say for that. To be called now and then; clients_go_on() ends it.
 */
void clients_calm(struct clients *clients);

/* Those whom the process still serves: all but the console's. */
unsigned int clients_served_count(const struct clients *clients);

/* All of them are told that. */
void clients_dismiss(struct clients *clients, const struct err *err);

/* ---- who comes ---- */

/* Whether a record is whole; *err says what is wrong with it. */
bool client_judge(const struct clients *clients, struct bytes body, struct err *err);

/* Takes it up; it does nothing yet. *fd becomes -1 where it is used. */
void client_take(struct clients *clients, struct pools_arrival *arrival, struct bytes body,
                 int *fd);

/* Those who were taken up go on. */
void clients_start(struct clients *clients);

/* See record_hash(): the format of all records of clients and pools. */
uint64_t handover_clients_hash(uint64_t hash);

#endif
