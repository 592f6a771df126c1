/* SPDX-License-Identifier: ISC */
/*
 * The names by which a client calls its statements.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_NAMES_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_NAMES_PRIV_H

#include "pgweir/client/client.h"

/*
 * Small, since there may be thousands of clients with hundreds of them each. They
 * stand in a tree (tsearch) by name: a third of what a hash table would need.
 */
struct client_statement {
	struct ledger_change use; /* of every Bind and Describe that is under way; owns the
	                             statement once */
	uint32_t use_count;
	uint32_t come_number : 30; /* of the change that has brought it */
	uint32_t is_gone : 1;      /* freed when it is not used any more */
	uint32_t is_confirmed : 1;
	char name[];
};

/* What `use` says is const for those who only read. */
static inline struct statement *names_statement(const struct client_statement *entry)
{
	return (struct statement *)entry->use.statement;
}

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

/*
 * The statement is prepared in the scope that its client's server has now from now on, unless the
 * server still has it as it was described. false: no memory.
 */
bool names_enter_scope(struct client *client, struct client_statement *entry);

/*
 * For a Describe of it, under its statement's own name: when the types of its parameters come,
 * it is the statement with these types from then on, on every server. NULL: no memory.
 */
struct ledger_change *names_describe(struct client *client, struct client_statement *entry);

/* All names are gone from now on, and come back if that fails. NULL: no memory. */
struct ledger_change *names_go_all(struct client *client);

/* Whether a batch that was sent may yet change what is found under the names. */
bool names_are_unsure(const struct client *client);

/* Those that had been confirmed are gone. */
void names_forget(struct client *client);

/* All are gone, and nothing is under way any more. */
void names_free(struct client *client);

/* All names, for another process of ours; and one that was there. true: go on. */
struct names_walk {
	bool (*see)(struct names_walk *walk, const struct client_statement *entry);
	bool is_over;
};
void names_each(const struct client *client, struct names_walk *walk);
void names_restore(struct client *client, const char *name, struct statement *statement);

#endif
