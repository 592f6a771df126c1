/* SPDX-License-Identifier: ISC */
/*
 * Which statements a server knows, the longest unused first. What is believed
 * here runs ahead of the server: it counts from the moment of sending, and the
 * changes made for the ledger take it back where the server refuses.
 */
#ifndef PGWEIR_POOL_KNOWN_H
#define PGWEIR_POOL_KNOWN_H

#include <sys/queue.h>

#include "pgweir/pool/ledger.h"
#include "pgweir/pool/statements.h"

struct known_statement;
TAILQ_HEAD(known_list, known_statement);

/* Lives inside a server. */
struct known {
	struct statements *statements;
	const struct ledger *ledger; /* of the same server */
	struct ledger_open open;
	uint32_t loss_count; /* how often the server has thrown all away */
	struct known_statement *table;
	struct known_statement *typed_table; /* those of which known_typed() has told, by that */
	struct known_list list;              /* the longest unused first */
	uint32_t parse_count;
};

void known_init(struct known *known, struct statements *statements, const struct ledger *ledger);

/* Forgets all. Changes that refer to it must have been settled before. */
void known_done(struct known *known);

/* Whether the server knows it, or will when it has read what was sent. If so, it is used now. */
bool known_use(struct known *known, const struct statement *statement);

/*
 * The same, also if the server knows it by another name, of a statement whose types were left
 * open and which it has found to be these: *name is how to call it there. false also
 * where known_is_spoilt() holds.
 */
bool known_use_as(struct known *known, const struct statement *statement, struct bytes *name);

/* How it is called there if it is known by another name than its own; empty: it is not. */
struct bytes known_other_name(const struct known *known, const struct statement *statement);

/*
 * When a Describe of the statement, under its own name, is sent: of which Parse its answer
 * will speak. And when the answer is there: `typed` is the same with the types that it has.
 */
uint32_t known_parse_number(const struct known *known, const struct statement *statement);
void known_typed(struct known *known, const struct statement *statement, struct statement *typed,
                 uint32_t parse_number);

/*
 * Whether known_use() can be believed. If not, the answer to a Sync that was
 * sent must be waited for before anything is done about this statement.
 */
bool known_is_sure(const struct known *known, const struct statement *statement);

/*
 * The server knows it, but cannot run it any more ("cached plan must not change
 * result type"): it has to be told again, by known_repeat().
 */
void known_spoil(struct known *known, const struct statement *statement);
bool known_is_spoilt(const struct known *known, const struct statement *statement);

/*
 * Something that was not seen has taken statements away, or put others in their place: none
 * that was confirmed is believed any more, and each is parsed again before its next use.
 */
void known_distrust(struct known *known);

/*
 * Something that takes statements away is sent: what was sent before it is not believed
 * behind it, confirmed or not.
 */
void known_distrust_sent(struct known *known);

unsigned int known_count(const struct known *known);

/* Each statement that is known and confirmed, the longest unused first. */
void known_each(const struct known *known,
                void (*see)(void *arg, struct statement *statement, bool is_spoilt), void *arg);

/* It was known so to another process. The last one is the one that was used last. */
void known_restore(struct known *known, struct statement *statement, bool is_spoilt);

/* The one to let go for another; NULL: fewer than `limit` are known. */
struct statement *known_oldest(struct known *known, unsigned int limit);

/* The server has thrown all away (DISCARD ALL): those that it had confirmed are gone. */
void known_forget_confirmed(struct known *known);

/*
 * The changes that a Parse and a Close on the server make; what they say is
 * believed at once. NULL: no memory, nothing is changed.
 */
struct ledger_change *known_learn(struct known *known, struct statement *statement);
struct ledger_change *known_forget(struct known *known, struct statement *statement);

/*
 * A Close and a Parse of a statement that is known, one behind the other, so that
 * the server itself says what it thinks of that text now. false: no memory.
 */
bool known_repeat(struct known *known, struct statement *statement, struct ledger_change **close,
                  struct ledger_change **parse);

#endif
