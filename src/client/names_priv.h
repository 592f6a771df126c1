/* SPDX-License-Identifier: ISC */
/*
 * The names by which a client calls its statements.
 */
#ifndef PGWEIR_CLIENT_NAMES_PRIV_H
#define PGWEIR_CLIENT_NAMES_PRIV_H

#include "pgweir/client/client.h"

struct client_statement {
	UT_hash_handle hh;
	struct ledger_change use; /* of every Bind and Describe that is under way */
	struct statements *statements;
	struct statement *statement; /* one owner */
	uint32_t use_count;
	bool is_gone; /* freed when it is not used any more */
	bool is_confirmed;
	char name[];
};

/* Where the texts of all clients are held. */
struct statements *names_store(const struct client *client);

/* NULL: there is no such name. */
struct client_statement *names_find(const struct client *client, const char *name);

/*
 * The name is there from now on, together with what the server learns (or NULL); it is
 * gone again if the request that this is noted with fails. NULL: no memory.
 */
struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change);

/* The name is gone from now on, if it was there, and comes back if that fails. NULL: no memory. */
struct ledger_change *names_go(struct client *client, const char *name);

/* Whether a batch that was sent may yet change what is found under the names. */
bool names_are_unsure(const struct client *client);

/* The names are gone: all (is_all), or those that had been confirmed. */
void names_forget(struct client *client, bool is_all);

#endif
