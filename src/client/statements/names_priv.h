/* SPDX-License-Identifier: ISC */
/*
 * The names by which a client calls its prepared statements.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_NAMES_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_NAMES_PRIV_H

#include "pgweir/client/client.h"

/*
 * One name of a client. Small, since thousands of clients may have hundreds of names each.
 * The names of a client are in a tree (tsearch), which needs a third of the memory of a
 * hash table.
 */
struct client_statement {
	/* change of each open Bind and Describe; `statement` holds a reference */
	struct ledger_change use;
	uint32_t use_count;        /* open uses of `use` */
	uint32_t size;             /* of the text when the name was added */
	uint32_t come_number : 29; /* number of the change that added the name */
	uint32_t is_sql : 1;       /* SQL's PREPARE has made it */
	uint32_t is_gone : 1;      /* removed; freed after the last use */
	uint32_t is_confirmed : 1; /* the server has accepted the name */
	/* the result columns that the client was told: fields_columns(). 0: it was not */
	uint32_t columns;
	usec_t parsed_at; /* when the client's Parse was answered; 0: not yet */
	char name[];
};

/* The statement of a name. `use` has a pointer to const, because others only read it. */
static inline struct statement *names_statement(const struct client_statement *entry)
{
	return (struct statement *)entry->use.statement;
}

/* Where the texts of all clients' statements are kept. */
struct statements *names_store(const struct client *client);

/* NULL: the client has no such name. */
struct client_statement *names_find(const struct client *client, const char *name);

/* Whether the client may have one more. false: refuse it with *err. */
bool names_have_room(const struct client *client, const struct statement *statement,
                     struct err *err);

/*
 * Adds a name. The result is the change to note with the request: if the request fails, the
 * name is removed again. server_change: the change of the server's statements that is
 * settled together with it; or NULL. NULL: no memory.
 */
struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change);

/* Removes a name, if it exists. If the request fails, the name is added again. NULL: no memory. */
struct ledger_change *names_go(struct client *client, const char *name);

/*
 * Makes the name mean the statement prepared in the current scope of the client's server,
 * unless the server still has it with the types that were described. What the server has
 * analyzed before the client's Parse is stale then. false: no memory.
 */
bool names_enter_scope(struct client *client, struct client_statement *entry);

/*
 * Whether the client's server would read the statement's text as the server did that parsed it
 * first: text_scope_merge(). Call names_enter_scope() before.
 */
bool names_can_parse(struct client *client, const struct client_statement *entry);

/*
 * Whether the server has the statement, or can parse it. is_sql: for an EXECUTE, which needs it
 * under its own name. Call it when the server's statements are sure. false: *err says why not.
 */
bool names_can_run(struct client *client, const struct client_statement *entry, bool is_sql,
                   struct err *err);

/*
 * For a Describe of the statement, or of a portal bound to it. When the answer has the types of
 * its parameters, the name means the statement with these types on every server. is_told: the
 * client gets the answer. NULL: no memory.
 */
struct ledger_change *names_describe(struct client *client, struct client_statement *entry,
                                     bool is_told);

/*
 * The names under which the client's server has the client's statements too, as name\0name\0:
 * exposed.c. NULL: the client has no names and never had one.
 */
struct buf *names_exposed(const struct client *client);

/* The changes that names_are_unsure() looks at. The client has names, or had one. */
struct ledger_open *names_open(const struct client *client);

/* The client has names of SQL's PREPARE: its texts may use them. */
void names_watch_texts(struct client *client);

/* Removes all names. If the request fails, they are added again. NULL: no memory. */
struct ledger_change *names_go_all(struct client *client);

/* Whether changes of an earlier Sync epoch are not settled yet, so that names may change. */
bool names_are_unsure(const struct client *client);

/* Removes all names that the server had accepted. */
void names_forget(struct client *client);

/* Removes all names. No change may be open. */
void names_free(struct client *client);

/* A walk over all names, to hand them over to another process. see(): false ends the walk. */
struct names_walk {
	bool (*see)(struct names_walk *walk, const struct client_statement *entry);
	bool is_over;
};
void names_each(const struct client *client, struct names_walk *walk);
/*
 * Adds a name that was handed over. NULL: there is no memory, or the name exists.
 */
struct client_statement *names_restore(struct client *client, const char *name,
                                       struct statement *statement);

#endif
