/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and the cache of them, which all loops share. For auth_query.c.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_CACHE_PRIV_H

#include <pthread.h>

#include "pgweir/auth/derived.h"
#include "pgweir/auth/failures.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/client/clients.h"
#include "pgweir/config/config.h"
#include "pgweir/pool/pools.h"

/* Maximum number of cached answers, and of their bytes. */
#define AUTH_CACHE_MAX 10000
#define AUTH_CACHE_SIZE_MAX ((size_t)32 * 1024 * 1024)

/*
 * A question, and its answer once there is one. Immutable from then on, but for its place in the
 * cache; reference-counted.
 */
struct auth_answer {
	UT_hash_handle hh; /* in the table, while it is cached */
	usec_t until;      /* when it is dropped from the cache; 0: it is not there */
	struct refs refs;
	char *name;                           /* NULL: there is no such user */
	char *secret;                         /* NULL: the user has none */
	const char *auth_user, *query, *user; /* in `key` */
	size_t key_count;
	char key[]; /* the question: database, auth_user, query and user, each with a zero */
};

/* A question without an answer. Returns one reference. NULL: no memory. */
struct auth_answer *auth_answer_new(const char *database, const char *auth_user, const char *query,
                                    const char *user);
struct auth_answer *auth_answer_hold(struct auth_answer *answer);

/* The last one wipes and frees it. Sets *answer to NULL; it may be NULL. */
void auth_answer_release(struct auth_answer **answer);

/* Whether both are of the same question. */
bool auth_answer_is_for(const struct auth_answer *answer, const struct auth_answer *question);

/* What the logins of all loops share. */
struct logins {
	pthread_mutex_t lock; /* guards all of this, and `until` of answers */
	/* failed logins, while their answers are delayed: authentication.c */
	struct failures failures;
	struct auth_answer *table; /* the cache, by key; walked from the oldest on */
	struct hash_key secret;    /* of the table */
	size_t size;               /* bytes of all answers */
	/*
	 * What unknown users imitate where auth_query decides about users: the first answer, so
	 * that they get the same kind of exchange each time.
	 */
	struct mock_form likeness;
	bool is_learnt; /* the likeness is that of an answer */
};

/*
 * Adds an answer and holds a reference to it. Replaces an answer with the same key. until 0: it is
 * not kept.
 */
void auth_cache_keep(struct logins *logins, struct auth_answer *answer, usec_t until);

/* Returns one reference, which the caller owns. NULL: no such answer. */
struct auth_answer *auth_cache_find(struct logins *logins, const struct auth_answer *question,
                                    usec_t now);

/* Drops the answer if it is in the cache. */
void auth_cache_forget(struct logins *logins, struct auth_answer *answer);

/* auth_query may be another query now: drops all answers, and learns from the next one. */
void auth_cache_forget_all(struct logins *logins);

/* An answer has this secret: the likeness, if it is the first one. */
void auth_cache_learn(struct logins *logins, const char *secret);
struct mock_form auth_cache_likeness(struct logins *logins);

/* ---- replies of the server ---- */

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
	bool is_done;   /* CommandComplete or an error has come */
	struct err why; /* AUTH_REPLY_BAD: for the log, not for the client */
	char *name;     /* valid only with AUTH_REPLY_USER; owned */
	char *secret;   /* valid only with AUTH_REPLY_USER; NULL: SQL's NULL; owned */
};

/* Parses the next bytes, which may begin or end within a message. Errors set the verdict. */
void auth_reply_take(struct auth_reply *replies, struct bytes bytes);

/* Call at ReadyForQuery. Returns the final verdict. */
enum auth_reply_verdict auth_reply_end(struct auth_reply *replies);

/* AUTH_REPLY_USER: takes over name and secret. */
void auth_answer_take(struct auth_answer *answer, struct auth_reply *replies);

/* Wipes and frees; leaves it unused. */
void auth_reply_done(struct auth_reply *replies);

#endif
