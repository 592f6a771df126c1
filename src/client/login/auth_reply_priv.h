/* SPDX-License-Identifier: ISC */
/*
 * Parses what a server replies to auth_query, into a name and a secret. Has no socket.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_REPLY_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_REPLY_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

/* Maximum number of rows that are requested. More than one is allowed if all are equal. */
#define AUTH_REPLY_ROWS_MAX 16

enum auth_reply_verdict {
	AUTH_REPLY_NONE,   /* no row so far */
	AUTH_REPLY_NOBODY, /* there is no such user */
	AUTH_REPLY_USER,   /* name is set, and secret if the user has one */
	AUTH_REPLY_BAD     /* why has the reason */
};

/* All zeros: unused. */
struct auth_reply {
	struct buf kept; /* an incomplete message */
	enum auth_reply_verdict verdict;
	bool is_done; /* CommandComplete or an error has come */
	bool has_row;
	struct err why; /* AUTH_REPLY_BAD: for the log, not for the client */
	char *name;     /* valid only with AUTH_REPLY_USER; owned */
	char *secret;   /* valid only with AUTH_REPLY_USER; NULL: SQL's NULL; owned */
};

/* Parses the next bytes, which may begin or end within a message. Errors set the verdict. */
void auth_reply_take(struct auth_reply *replies, struct bytes bytes);

/* Call at ReadyForQuery. Returns the final verdict. */
enum auth_reply_verdict auth_reply_end(struct auth_reply *replies);

/* Wipes and frees; leaves it unused. */
void auth_reply_done(struct auth_reply *replies);

#endif
