/* SPDX-License-Identifier: ISC */
/*
 * As whom a client is known: by auth_file, or by auth_query.
 */
#ifndef PGWEIR_CLIENT_IDENTITY_PRIV_H
#define PGWEIR_CLIENT_IDENTITY_PRIV_H

#include "client_priv.h"

enum identity_result {
	IDENTITY_FOUND,   /* the secret is the user's */
	IDENTITY_UNKNOWN, /* there is no such user */
	IDENTITY_RENAMED, /* it is another name's: find out anew what that one is asked for */
	IDENTITY_LOOKING, /* proof_choose() is called again when it is known */
	IDENTITY_OVER     /* the client is done with: it was told why */
};

/* *secret is good as long as the client's entrance, and until a reload. */
enum identity_result identity_find(struct client *client, struct secret *secret);

/* Users of whom an unknown name imitates one. */
const struct users *identity_likeness(const struct client *client);

/* The name with which the client makes its proof: what it said, not what auth_query made of it. */
const char *identity_claimed(const struct client *client);

/* Whether what it has proved itself by still counts, after a reload; false: perhaps it was told. */
bool identity_holds(struct client *client);

/* Its proof has failed. */
void identity_failed(struct client *client);

void identity_free(struct client_entrance *entrance);

#endif
