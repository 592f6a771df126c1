/* SPDX-License-Identifier: ISC */
/*
 * Gathering what goes to a server: runs of the client's bytes as they lie, and
 * pieces of our own between them, all with one write.
 */
#ifndef PGWEIR_CLIENT_GATHER_PRIV_H
#define PGWEIR_CLIENT_GATHER_PRIV_H

#include "pgweir/pool/server.h"

#define GATHER_PIECES 32
#define GATHER_ROOM 1024

struct gather {
	struct server *server; /* to whom; NULL: what is gathered goes nowhere */
	struct iovec pieces[GATHER_PIECES];
	int count;
	size_t used;                /* of room */
	struct bytes unnamed;       /* a Parse message's text that may have to be kept. unnamed.c */
	const char *replay;         /* where a batch began that may be said again. heal.c */
	bool is_described;          /* its first statement is described anew before it runs */
	bool is_again;              /* it is being said again */
	enum ledger_wait waits_for; /* JUDGE_WAIT: what the client waits for before it sends more */
	char room[GATHER_ROOM];
};

static inline void gather_begin(struct gather *gather)
{
	gather->server = NULL;
	gather->count = 0;
	gather->used = 0;
	gather->replay = NULL;
	gather->is_described = gather->is_again = false;
	gather->waits_for = LEDGER_WAIT_NOT;
	gather->unnamed = bytes_of(NULL, 0);
}

/* Bytes that stay where they are until gather_send(). */
void gather_run(struct gather *gather, struct bytes bytes);

/* Bytes that do not: they are copied. At most GATHER_ROOM. */
void gather_copy(struct gather *gather, struct bytes bytes);

/* Sends all; false: the connection is broken, and on_lost() will come. */
bool gather_send(struct gather *gather);

#endif
