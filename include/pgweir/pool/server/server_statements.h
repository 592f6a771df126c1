/* SPDX-License-Identifier: ISC */
/*
 * Which statements a server knows, the longest unused first. What is believed
 * here runs ahead of the server: it counts from the moment of sending, and the
 * changes made for the ledger take it back where the server refuses.
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_STATEMENTS_H
#define PGWEIR_POOL_SERVER_SERVER_STATEMENTS_H

#include <sys/queue.h>

#include "pgweir/pool/server/ledger.h"
#include "pgweir/pool/server/statements.h"

struct server_statements_statement;
TAILQ_HEAD(server_statements_list, server_statements_statement);

/* Lives inside a server. */
struct server_statements {
	struct statements *statements;
	const struct ledger *ledger; /* of the same server */
	struct ledger_open open;
	uint32_t loss_count; /* how often the server has thrown all away */
	struct server_statements_statement *table;
	struct server_statements_statement
	    *typed_table; /* those of which server_statements_typed() has told, by that */
	struct server_statements_list list; /* the longest unused first */
	uint32_t parse_count;
};

void server_statements_init(struct server_statements *known, struct statements *statements,
                            const struct ledger *ledger);

/* Forgets all. Changes that refer to it must have been settled before. */
void server_statements_done(struct server_statements *known);

/* Whether the server knows it, or will when it has read what was sent. If so, it is used now. */
bool server_statements_use(struct server_statements *known, const struct statement *statement);

/*
 * The same, also if the server knows it by another name, of a statement whose types were left
 * open and which it has found to be these: *name is how to call it there. false also
 * where server_statements_is_stale() holds.
 */
bool server_statements_use_as(struct server_statements *known, const struct statement *statement,
                              struct bytes *name);

/* How it is called there if it is known by another name than its own; empty: it is not. */
struct bytes server_statements_other_name(const struct server_statements *known,
                                          const struct statement *statement);

/*
 * When a Describe of the statement, under its own name, is sent: of which Parse its answer
 * will speak. And when the answer is there: `typed` is the same with the types that it has.
 */
uint32_t server_statements_parse_number(const struct server_statements *known,
                                        const struct statement *statement);
void server_statements_typed(struct server_statements *known, const struct statement *statement,
                             struct statement *typed, uint32_t parse_number);

/*
 * Whether server_statements_use() can be believed. If not, the answer to a Sync that was
 * sent must be waited for before anything is done about this statement.
 */
bool server_statements_is_sure(const struct server_statements *known,
                               const struct statement *statement);

/*
 * The server knows it, but cannot run it any more ("cached plan must not change
 * result type"): it has to be told again, by server_statements_repeat().
 */
void server_statements_mark_stale(struct server_statements *known,
                                  const struct statement *statement);
bool server_statements_is_stale(const struct server_statements *known,
                                const struct statement *statement);

/*
 * Something that was not seen has taken statements away, or put others in their place: none
 * that was confirmed is believed any more, and each is parsed again before its next use.
 */
void server_statements_distrust(struct server_statements *known);

/*
 * Something that takes statements away is sent: what was sent before it is not believed
 * behind it, confirmed or not.
 */
void server_statements_distrust_sent(struct server_statements *known);

unsigned int server_statements_count(const struct server_statements *known);

/* Each statement that is known and confirmed, the longest unused first. */
void server_statements_each(const struct server_statements *known,
                            void (*see)(void *arg, struct statement *statement, bool is_stale),
                            void *arg);

/* It was known so to another process. The last one is the one that was used last. */
void server_statements_restore(struct server_statements *known, struct statement *statement,
                               bool is_stale);

/* The one to let go for another; NULL: fewer than `limit` are known. */
struct statement *server_statements_oldest(struct server_statements *known, unsigned int limit);

/* The server has thrown all away (DISCARD ALL): those that it had confirmed are gone. */
void server_statements_forget_confirmed(struct server_statements *known);

/*
 * The changes that a Parse and a Close on the server make; what they say is
 * believed at once. NULL: no memory, nothing is changed.
 */
struct ledger_change *server_statements_learn(struct server_statements *known,
                                              struct statement *statement);
struct ledger_change *server_statements_forget(struct server_statements *known,
                                               struct statement *statement);

/*
 * A Close and a Parse of a statement that is known, one behind the other, so that
 * the server itself says what it thinks of that text now. false: no memory.
 */
bool server_statements_repeat(struct server_statements *known, struct statement *statement,
                              struct ledger_change **close, struct ledger_change **parse);

#endif
