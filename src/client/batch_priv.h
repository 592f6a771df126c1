/* SPDX-License-Identifier: ISC */
/*
 * Gathering what goes to a server: runs of the client's bytes as they lie, and
 * pieces of our own between them, all with one write.
 */
#ifndef PGWEIR_CLIENT_BATCH_PRIV_H
#define PGWEIR_CLIENT_BATCH_PRIV_H

#include "pgweir/pool/server/server.h"

#define BATCH_PIECES 32
#define BATCH_SIZE 1024

struct batch {
	struct server *server; /* to whom; NULL: what is gathered goes nowhere */
	struct iovec pieces[BATCH_PIECES];
	int count;
	size_t used;                /* of room */
	struct bytes unnamed;       /* a Parse message's text that may have to be kept. unnamed.c */
	const char *replay;         /* where a batch began that may be said again. heal.c */
	bool is_described;          /* its first statement is described anew before it runs */
	bool is_again;              /* it is being said again */
	enum ledger_wait waits_for; /* JUDGE_WAIT: what the client waits for before it sends more */
	char buffer[BATCH_SIZE];
};

static inline void batch_begin(struct batch *batch)
{
	batch->server = NULL;
	batch->count = 0;
	batch->used = 0;
	batch->replay = NULL;
	batch->is_described = batch->is_again = false;
	batch->waits_for = LEDGER_WAIT_NOT;
	batch->unnamed = bytes_of(NULL, 0);
}

/* Bytes that stay where they are until batch_send(). */
void batch_run(struct batch *batch, struct bytes bytes);

/* Bytes that do not: they are copied. At most BATCH_SIZE. */
void batch_copy(struct batch *batch, struct bytes bytes);

/* Sends all; false: the connection is broken, and on_lost() will come. */
bool batch_send(struct batch *batch);

#endif
