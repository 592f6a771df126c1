/* SPDX-License-Identifier: ISC */
/*
 * The names by which a client calls its prepared statements.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_NAMES_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_NAMES_PRIV_H

#include "pgweir/client/client.h"
#include "pgweir/pool/server/ledger.h"

#include "../batch_priv.h"

/* One name of a client. Small, since thousands of clients may have hundreds of names each. */
struct client_statement {
	/* change of each open Bind and Describe; `statement` holds a reference */
	struct ledger_change use;
	uint32_t use_count;        /* open changes that refer to this name */
	uint32_t size;             /* of the text when the name was added */
	uint32_t is_sql : 1;       /* SQL's PREPARE has made it */
	uint32_t is_gone : 1;      /* removed; freed after the last use */
	uint32_t is_confirmed : 1; /* the server has accepted the name */
	uint32_t is_going : 1;     /* it is removed if the server agrees */
	/* the client's server has the statement under this name, too: exposed.c */
	uint32_t is_exposed : 1;
	/* the result columns that the client was told: fields_columns(). 0: it was not */
	uint32_t columns;
	usec_t parsed_at; /* when the client's Parse was answered; 0: not yet */
	char name[];
};

/*
 * The names of one client, in their order: an array needs a fifth of the memory of a hash table.
 * Most clients never prepare a statement, so this is allocated with the first name. It exists until
 * the client is freed, because the open changes count in it.
 */
struct names {
	struct client_statement **at;
	uint32_t count, capacity;
	uint32_t exposed_count;
	size_t size;             /* of their texts */
	struct ledger_open open; /* changes that are not settled yet */
	/* DEALLOCATE ALL or DISCARD ALL was sent, or a portal may execute it */
	bool is_forgetting;
};

/* The statement of a name. `use` has a pointer to const, because others only read it. */
static inline struct statement *names_statement(const struct client_statement *entry)
{
	return (struct statement *)entry->use.statement;
}

/* Where the texts of all clients' statements are kept. */
struct statements *names_store(const struct client *client);

/* Makes one that is not among the client's names yet. NULL: no memory. */
struct client_statement *names_make(const char *name, struct statement *statement);
/* It is not, or no more. */
void names_drop(struct client_statement **entry);

/* NULL: the client has no such name. */
struct client_statement *names_find(const struct client *client, const char *name);

/* Whether the client may have one more. false: refuse it with *err. */
bool names_have_room(const struct client *client, const struct statement *statement,
                     struct err *err);

/*
 * ---- changes ----
 *
 * Each is in force at once, and is to be noted with its request. If that fails, it is undone. NULL:
 * no memory.
 */

/*
 * Adds a name, which the client does not have. server_change: the change of the server's statements
 * that is settled together with it; or NULL.
 */
struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change);

/* Removes a name, if it exists, when the server has agreed. */
struct ledger_change *names_go(struct client *client, const char *name);

/* The server gets the statement under the client's name. */
struct ledger_change *names_expose(struct client *client, struct client_statement *entry);

/*
 * Changes nothing, but errors get the client's name in place of the statement's; statement NULL: of
 * the scratch name.
 */
struct ledger_change *names_mention(struct client *client, const char *name,
                                    struct statement *statement);

/*
 * For a Describe of the statement, or of a portal bound to it. When the answer has the types of
 * its parameters, the name means the statement with these types on every server. is_told: the
 * client gets the answer. Also for the unnamed statement.
 */
struct ledger_change *names_describe(struct client *client, struct client_statement *entry,
                                     bool is_told);

/*
 * Whether it is not certain what this entry is, or that a name has none (NULL): changes of an
 * earlier Sync epoch are not settled yet, or it is being removed, or all are. Then the message must
 * wait (JUDGE_WAIT).
 */
bool names_are_unsure(struct client *client, const struct client_statement *entry,
                      struct batch *batch);

/* ---- at once ---- */

/*
 * Before a message of this type uses the statement: makes the name mean the statement prepared in
 * the current scope of the client's server, unless the server still has it with the types that were
 * described. What the server has analyzed before the client's Parse is stale then. JUDGE_SEND: the
 * server has the statement, or can parse it. JUDGE_DROP: it is refused.
 */
enum judgement names_enter(struct client *client, struct client_statement *entry, char type,
                           struct batch *batch);

/*
 * Whether the client's server would read the statement's text as the server did that parsed it
 * first: text_scope_merge().
 */
bool names_can_parse(struct client *client, const struct client_statement *entry);

/* The statement is or is no more on the client's server under its name. */
void names_set_exposed(struct names *names, struct client_statement *entry, bool is_exposed);

/* The client has names of SQL's PREPARE: its texts may use them. */
void names_watch_texts(struct client *client);

/* Removes a name. */
void names_lose(struct client *client, struct client_statement *entry);

/* Removes all names that the server had accepted. */
void names_forget(struct client *client);

/* Removes all names. No change may be open. */
void names_free(struct client *client);

/* Adds a name that was handed over. NULL: there is no memory, or the name exists. */
struct client_statement *names_restore(struct client *client, const char *name,
                                       struct statement *statement);

#endif
