/* SPDX-License-Identifier: ISC */
/*
 * The prepared statements that one server knows, the longest unused first. The state here is ahead
 * of the server: a statement is known from the moment of sending, and the changes made for the
 * ledger undo that if the server refuses.
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_STATEMENTS_H
#define PGWEIR_POOL_SERVER_SERVER_STATEMENTS_H

#include <sys/queue.h>

#include "pgweir/base/clock.h"
#include "pgweir/pool/server/ledger.h"
#include "pgweir/pool/server/statements.h"

struct server_statement;
TAILQ_HEAD(server_statements_list, server_statement);

/* Part of a server. */
struct server_statements {
	struct statements *statements;
	const struct ledger *ledger; /* of the same server */
	struct ledger_open open;
	uint32_t loss_count; /* how often the server has deallocated all statements */
	struct server_statement *table;
	struct server_statement *found; /* what was looked for last; NULL: nothing */
	/* entries with the types found by server_statements_typed(), by that statement */
	struct server_statement *typed_table;
	struct server_statements_list list; /* the longest unused first */
	uint32_t parse_count;
};

void server_statements_init(struct server_statements *known, struct statements *statements,
                            const struct ledger *ledger);

/* Forgets all statements. Changes that refer to them must have been settled before. */
void server_statements_done(struct server_statements *known);

/*
 * Whether the server knows the statement, or will know it when it has read what was sent. If so,
 * marks it as used now.
 */
bool server_statements_use(struct server_statements *known, const struct statement *statement);

/*
 * The same, but also finds the statement under another name: if it was prepared there with
 * unspecified types, which the server resolved to the types of this one. *name: its name on the
 * server. false also if server_statements_is_stale().
 */
bool server_statements_use_as(struct server_statements *known, const struct statement *statement,
                              struct bytes *name);

/*
 * The name of the statement on the server, if it is known there by another name than its own; else
 * empty.
 */
struct bytes server_statements_other_name(const struct server_statements *known,
                                          const struct statement *statement);

/*
 * Before a Describe of the statement under its own name is sent: the number of the Parse that its
 * reply is about. With the reply: `typed` is the same statement with the types that it has.
 */
uint32_t server_statements_parse_number(struct server_statements *known,
                                        const struct statement *statement);
void server_statements_typed(struct server_statements *known, const struct statement *statement,
                             struct statement *typed, uint32_t parse_number);

/* A Parse of the statement is being sent at this time. */
void server_statements_parsed(struct server_statements *known, const struct statement *statement,
                              usec_t now);

/* When the server has answered the last Parse of the statement. 0: not known. */
usec_t server_statements_done_at(struct server_statements *known,
                                 const struct statement *statement);

/*
 * A client uses the statement; its own Parse was answered at `since`. Whether this server has
 * analyzed the text for that Parse, or later, or does not know the statement. What was analyzed
 * before may mean something else.
 */
bool server_statements_is_since(struct server_statements *known, const struct statement *statement,
                                usec_t since);

/*
 * The result columns of the statement, as the server has told them: fields_columns(). 0: not known.
 * They are noted for the Parse with this number.
 */
uint32_t server_statements_columns(struct server_statements *known,
                                   const struct statement *statement);
void server_statements_described(struct server_statements *known, const struct statement *statement,
                                 uint32_t columns, uint32_t parse_number);

/*
 * Whether the result of server_statements_use() is certain. If not, wait for the reply to a Sync
 * that was sent before using the statement.
 */
bool server_statements_is_sure(struct server_statements *known, const struct statement *statement);

/*
 * The server knows the statement, but can no longer run it ("cached plan must not change result
 * type"): it must be prepared again by server_statements_repeat().
 */
void server_statements_mark_stale(struct server_statements *known,
                                  const struct statement *statement);
bool server_statements_is_stale(struct server_statements *known, const struct statement *statement);

/*
 * An unseen event may have deallocated or replaced statements: no confirmed statement is relied on
 * any more, and each is parsed again before its next use.
 */
void server_statements_distrust(struct server_statements *known);

/*
 * A request that deallocates statements is being sent: nothing sent before that is relied on after
 * it, confirmed or not.
 */
void server_statements_distrust_sent(struct server_statements *known);

/* PostgreSQL has said how many there are. If some have gone, none is relied on. */
void server_statements_recount(struct server_statements *known, unsigned int count);

unsigned int server_statements_count(const struct server_statements *known);

/* What is known of a statement besides its name, for another process or loop. */
struct server_statement_state {
	bool is_stale;
	uint32_t columns;
	usec_t sent_at, done_at; /* of the last Parse */
};

/* Calls see() for each statement that is known and confirmed, the longest unused first. */
void server_statements_each(const struct server_statements *known,
                            void (*see)(void *arg, struct statement *statement,
                                        const struct server_statement_state *state),
                            void *arg);

/*
 * Adds a statement that another process or loop has prepared on this server. Call it in the order
 * of last use. false: no memory.
 */
bool server_statements_restore(struct server_statements *known, struct statement *statement,
                               const struct server_statement_state *state);

/* The statement to close to make space for another one. NULL: fewer than `limit` are known. */
struct statement *server_statements_oldest(struct server_statements *known, unsigned int limit);

/* The server has deallocated all statements (DISCARD ALL): the confirmed ones are gone. */
void server_statements_forget_confirmed(struct server_statements *known);

/*
 * The changes for a Parse and for a Close on the server; their effect applies at once. NULL: no
 * memory, nothing was changed.
 */
struct ledger_change *server_statements_learn(struct server_statements *known,
                                              struct statement *statement);
struct ledger_change *server_statements_forget(struct server_statements *known,
                                               struct statement *statement);

/*
 * A Close and a Parse of a known statement, one after the other, so that the server itself analyzes
 * the text again. false: no memory.
 */
bool server_statements_repeat(struct server_statements *known, struct statement *statement,
                              struct ledger_change **close, struct ledger_change **parse);

#endif
