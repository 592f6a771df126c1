/* SPDX-License-Identifier: ISC */
/*
 * A batch: what goes to a server in one write. It consists of runs of the client's bytes, which are
 * not copied, and of pieces of our own between them.
 */
#ifndef PGWEIR_CLIENT_BATCH_PRIV_H
#define PGWEIR_CLIENT_BATCH_PRIV_H

#include "pgweir/pool/server/server.h"

#define BATCH_PIECES 32
#define BATCH_SIZE 1024

/* What becomes of a frame. */
enum judgement {
	JUDGE_SEND,  /* send it to the server; if nothing else is to be done, it is not noted yet */
	JUDGE_HEAD,  /* noted; `batch` has other bytes for the first *head: send the rest */
	JUDGE_DROP,  /* send nothing of the frame itself; what is owed for it was noted */
	JUDGE_MORE,  /* more bytes of the frame are needed */
	JUDGE_WAIT,  /* leave it in the input; with a server: until batch.waits_for */
	JUDGE_LEAVE, /* the client has sent Terminate */
	JUDGE_MEMORY, /* there is no memory: the client is to be refused */
	JUDGE_END     /* the client was refused or closed */
};

struct batch {
	struct server *server; /* the destination; NULL: the bytes are dropped */
	int count;             /* of `pieces` */
	int write_count;       /* of the bytes before these */
	size_t used;           /* of `buffer` */
	struct bytes unnamed;  /* the text of a Parse message that may be kept. unnamed.c */
	const char *rest;      /* the input behind what was answered here: Syncs, BEGIN; or NULL */
	struct ledger_change *change; /* of the next frame; NULL: it changes nothing */
	unsigned int touches;         /* of the last Parse message: enum sql_touch */
	/* the named statement of the last Bind and its portal, in what was received; or NULL */
	struct client_statement *bound;
	const char *bound_portal;
	const char *replay; /* start of a batch that may be sent again. statements_judge.c */
	bool is_query;      /* the message that is judged is a Query or FunctionCall */
	bool is_again;      /* it is being sent again */
	bool is_answered;   /* the client has got a reply to it that we made */
	bool is_borrowed;   /* it may have bytes of the text that the client has kept: unnamed.c */
	bool ends;          /* its last message ends the transaction: causal.c */
	/* JUDGE_WAIT: what the client waits for before it sends more */
	enum ledger_wait waits_for;
	/* not zeroed */
	struct iovec pieces[BATCH_PIECES];
	char buffer[BATCH_SIZE];
};

static inline void batch_begin(struct batch *batch)
{
	memset(batch, 0, offsetof(struct batch, pieces));
}

static inline enum judgement batch_wait(struct batch *batch, enum ledger_wait what)
{
	batch->waits_for = what;
	return JUDGE_WAIT;
}

/* Adds bytes that stay in place until batch_send(). */
void batch_run(struct batch *batch, struct bytes bytes);

/* Adds a copy of bytes. Of more than BATCH_SIZE, a part is sent at once. */
void batch_copy(struct batch *batch, struct bytes bytes);

/* Adds the header of a message, whose body has `size` bytes. */
void batch_header(struct batch *batch, char type, size_t size);

/* Sends all pieces. false: the connection is broken; on_lost() comes. */
bool batch_send(struct batch *batch);

/* ---- messages of our own ---- */

/* Adds a Sync. false: no memory. */
bool batch_sync(struct batch *batch, struct server *server, enum ledger_fate fate);

/*
 * Adds statements (text;\0), as one Query, or as messages that end with the client's Sync. The
 * change is that of the first one. false: no memory.
 */
bool batch_add_statements(struct batch *batch, struct server *server, bool is_query,
                          struct bytes statements, struct ledger_change *change);

#endif
