/* SPDX-License-Identifier: ISC */
/*
 * What a server replies to auth_query, read into a name and a secret. No socket.
 */
#ifndef PGWEIR_CLIENT_REPLIES_PRIV_H
#define PGWEIR_CLIENT_REPLIES_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

/* Rows that are asked for: the second one can only be the like of the first, or an error. */
#define REPLIES_ROWS_MAX 16

enum replies_verdict {
	REPLIES_NONE,   /* nothing that would be an answer */
	REPLIES_NOBODY, /* there is no such user */
	REPLIES_USER,   /* name is filled, and secret if there is one */
	REPLIES_BAD     /* replies.why */
};

/* At rest zeroed. */
struct replies {
	struct buf kept; /* of a frame whose end is still to come */
	enum replies_verdict verdict;
	bool is_done; /* the query has come to its end */
	bool has_row;
	struct err why; /* REPLIES_BAD: for the log */
	char *name;     /* good for REPLIES_USER only, and so is the secret */
	char *secret;   /* NULL: SQL's NULL */
};

/* Takes what came: whole frames and pieces. Never fails visibly: see the verdict. */
void replies_take(struct replies *replies, struct bytes bytes);

/* All that was owed has come. */
enum replies_verdict replies_end(struct replies *replies);

/* Wipes and frees; leaves it at rest. */
void replies_done(struct replies *replies);

#endif
