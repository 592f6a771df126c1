/* SPDX-License-Identifier: ISC */
/*
 * The login of a client: from its first bytes until it is admitted to the console or to a
 * pool.
 *
 *   startup --> authentication --> admit: to its pool, or to the console
 *                 |  auth_query
 */
#ifndef PGWEIR_CLIENT_LOGIN_LOGIN_PRIV_H
#define PGWEIR_CLIENT_LOGIN_LOGIN_PRIV_H

#include <string.h>

#include "pgweir/auth/auth_server.h"
#include "pgweir/auth/failures.h"
#include "pgweir/pgwire/frame.h"

#include "../client_priv.h"

/* What its listener says, but for the settings. */
static inline const struct gate_rules *login_rules(const struct client *client)
{
	return &client_gate(client)->rules;
}

/* The settings of a login: those of the client's listener. */
static inline const struct config *login_config(const struct client *client)
{
	const struct config *config = login_rules(client)->config;

	return config ? config : client->clients->config;
}

/* Frees client->login, which must not be NULL, and sets it to NULL. */
void login_free(struct client *client);

/* ---- startup_packets.c ---- */

/* Handles input in CLIENT_STARTUP. false: do not read more now; the client may be closed. */
bool startup_input(struct client *client, struct bytes in);

/* The TLS handshake has ended. err: it failed; NULL: the connection is encrypted. */
void startup_secured(struct client *client, const struct err *err);

/* ---- authentication.c ---- */

/* Begins authentication. The names of user and database are set. */
void authentication_begin(struct client *client);
/* A name that authentication needs has been looked up: decides again. */
void authentication_go_on(struct client *client);
/* Handles input in CLIENT_AUTHENTICATION. false: do not read more now; the client may be closed. */
bool authentication_input(struct client *client, struct bytes in);

/* ---- admit.c ---- */

/* Counts the client for max_client_conn, unless it asked for the console. false: it was refused. */
bool admit_hold(struct client *client);

/* Whether the client asked for the console. */
bool admit_is_console(const struct client *client);

/* The system user of pgweir, over the Unix socket, as pgbouncer: needs no authentication. */
bool admit_is_owner(const struct client *client);

/* Sets the client's rights on the console. false: it has none, and was refused. */
bool admit_console_role(struct client *client);

/* Counts it for its user and database. false: at a limit, it was refused. */
bool admit_count(struct client *client);

/* After admit_count(): connects the client to the console or to a pool, or refuses it. */
void admit_enter(struct client *client);

/*
 * Limits the file descriptors of clients that have not logged in. unauthenticated_add()
 * adds a client; if descriptors run short, it closes the oldest other one.
 * unauthenticated_is_short(): descriptors run short, and this client must be refused.
 */
void unauthenticated_add(struct client *client);
bool unauthenticated_is_short(const struct client *client);

/* Sends NegotiateProtocolVersion if the client asked for a newer version or unknown options. */
void welcome_negotiate(struct client *client);

/*
 * The pool has its welcome: sends it. If a server is at rest, it first says what it makes of the
 * client's parameters: welcome_tried(), or welcome_lost().
 */
void welcome_try(struct client *client);
void welcome_tried(struct client *client);
void welcome_lost(struct client *client, const struct err *err);
/* Replication: the welcome has what the client's dedicated server reported. */
void welcome_send_dedicated(struct client *client);

/* ---- admit.c: the console ---- */

/* The client requested the console, and is admitted. */
void console_begin(struct client *client);
bool console_input(struct client *client, struct bytes in);
void console_flushed(struct client *client);
bool console_cancel(struct client *client);
void console_end(struct client *client);

/* ---- auth_query.c ---- */

enum auth_query_result {
	AUTH_QUERY_FOUND,   /* *secret is set */
	AUTH_QUERY_UNKNOWN, /* there is no such user */
	AUTH_QUERY_RENAMED, /* login->user has changed: choose the method again */
	AUTH_QUERY_LOOKING, /* a query runs; authentication_go_on() is called afterwards */
	AUTH_QUERY_OVER     /* the client was refused */
};

/* Finds the secret. *secret is borrowed: it is valid until the login ends, or until a reload. */
enum auth_query_result auth_query_find(struct client *client, struct secret *secret);

/* What an exchange with an unknown user imitates. false: a user of auth_file. */
bool auth_query_likeness(const struct client *client, struct mock_form *like);

/* The name that the client sent and uses in the exchange; auth_query may replace it. */
const char *auth_query_claimed(const struct client *client);

/* Whether its secret is in force after a reload. false: it may have been refused already. */
bool auth_query_holds(struct client *client);

/* Call when authentication failed: a cached answer may be out of date, and is dropped. */
void auth_query_failed(struct client *client);

void auth_query_done(struct auth_query *auth_query);

/* Frees all lookups. No login may be waiting. */
void auth_lookups_free(struct clients *clients);

/* Applies a new snapshot: drops all cached answers. New logins do not join running queries. */
void auth_lookups_configure(struct clients *clients);

/* ---- auth_cache.c: answers of auth_query, and the cache of them ---- */

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
