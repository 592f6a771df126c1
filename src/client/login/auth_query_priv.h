/* SPDX-License-Identifier: ISC */
/*
 * As whom a client is known: by auth_file, or by auth_query.
 */
#ifndef PGWEIR_CLIENT_LOGIN_AUTH_QUERY_PRIV_H
#define PGWEIR_CLIENT_LOGIN_AUTH_QUERY_PRIV_H

#include "login_priv.h"

enum auth_query_result {
	AUTH_QUERY_FOUND,   /* the secret is the user's */
	AUTH_QUERY_UNKNOWN, /* there is no such user */
	AUTH_QUERY_RENAMED, /* it is another name's: find out anew what that one is asked for */
	AUTH_QUERY_LOOKING, /* login->on_looked_up() is called when it is known */
	AUTH_QUERY_OVER     /* the client is done with: it was told why */
};

/* *secret is good as long as the client's login, and until a reload. */
enum auth_query_result auth_query_find(struct client *client, struct secret *secret);

/* Users of whom an unknown name imitates one. */
const struct users *auth_query_likeness(const struct client *client);

/* The name with which the client makes its proof: what it said, not what auth_query made of it. */
const char *auth_query_claimed(const struct client *client);

/* Whether what it has proved itself by still counts, after a reload; false: perhaps it was told. */
bool auth_query_holds(struct client *client);

/* Its proof has failed. */
void auth_query_failed(struct client *client);

void auth_query_free(struct client_login *login);

#endif
