/* SPDX-License-Identifier: ISC */
/*
 * Walks over all clients. A client that is closed advances each walk that points to it: client.c.
 */
#include "client_priv.h"

void clients_walk_start(struct clients *clients, struct clients_walk *walk)
{
	walk->next = TAILQ_FIRST(&clients->list);
	TAILQ_INSERT_TAIL(&clients->walks, walk, node);
}

void clients_walk_stop(struct clients *clients, struct clients_walk *walk)
{
	TAILQ_REMOVE(&clients->walks, walk, node);
}
