/* SPDX-License-Identifier: ISC */
/*
 * What a server replies to auth_query, read into a name and a secret. No socket.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_REPLY_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_REPLY_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

/* Rows that are asked for: the second one can only be the like of the first, or an error. */
#define AUTH_REPLY_ROWS_MAX 16

enum auth_reply_verdict {
	AUTH_REPLY_NONE,   /* nothing that would be an answer */
	AUTH_REPLY_NOBODY, /* there is no such user */
	AUTH_REPLY_USER,   /* name is filled, and secret if there is one */
	AUTH_REPLY_BAD     /* replies.why */
};

/* At rest zeroed. */
struct auth_reply {
	struct buf kept; /* of a frame whose end is still to come */
	enum auth_reply_verdict verdict;
	bool is_done; /* the query has come to its end */
	bool has_row;
	struct err why; /* AUTH_REPLY_BAD: for the log */
	char *name;     /* good for AUTH_REPLY_USER only, and so is the secret */
	char *secret;   /* NULL: SQL's NULL */
};

/* Takes what came: whole frames and pieces. Never fails visibly: see the verdict. */
void auth_reply_take(struct auth_reply *replies, struct bytes bytes);

/* All that was owed has come. */
enum auth_reply_verdict auth_reply_end(struct auth_reply *replies);

/* Wipes and frees; leaves it at rest. */
void auth_reply_done(struct auth_reply *replies);

#endif
