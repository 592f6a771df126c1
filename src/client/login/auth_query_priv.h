/* SPDX-License-Identifier: ISC */
/*
 * Finds the name and the secret of a client's user, in auth_file or with auth_query.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_QUERY_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_QUERY_PRIV_H

#include "login_priv.h"

enum auth_query_result {
	AUTH_QUERY_FOUND,   /* *secret is set */
	AUTH_QUERY_UNKNOWN, /* there is no such user */
	AUTH_QUERY_RENAMED, /* login->user has changed: choose the method again */
	AUTH_QUERY_LOOKING, /* a query runs; login->on_looked_up() is called afterwards */
	AUTH_QUERY_OVER     /* the client was refused */
};

/* Finds the secret. *secret is borrowed: it is valid until the login ends, or until a reload. */
enum auth_query_result auth_query_find(struct client *client, struct secret *secret);

/* The users whose secrets an exchange with an unknown user imitates; the caller gets a reference.
 */
struct users *auth_query_likeness(const struct client *client);

/*
 * The name that the client sent, which it also uses in the exchange; auth_query may have
 * replaced it.
 */
const char *auth_query_claimed(const struct client *client);

/*
 * Whether the secret that the client authenticated with is still in force after a reload.
 * false: it is not; the client may have been refused already.
 */
bool auth_query_holds(struct client *client);

/* Call when authentication failed: a cached answer may be out of date, and is dropped. */
void auth_query_failed(struct client *client);

void auth_query_free(struct client_login *login);

#endif
