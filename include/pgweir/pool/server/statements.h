/* SPDX-License-Identifier: ISC */
/*
 * Statements: the texts that clients prepare by name. Each is stored once for all clients and
 * servers of a loop. A statement has the same name on every server of the process,
 * PGBOUNCER_<stem>_<number>: the number is a keyed hash of what it consists of, so all loops give
 * it the same name without asking each other, and a server may move from loop to loop with its
 * statements. Stem and key are random, so that clients cannot guess the names of other clients'
 * statements, nor choose texts with the same number.
 *
 * The same text is a different statement with other parameter types, or in another scope: with
 * other session parameters that change how PostgreSQL reads the text (params.h).
 *
 * Two statements with the same number are told apart everywhere here, because the content counts
 * and not the name. If one of them is prepared on a server, PostgreSQL refuses the other one there
 * (42P05). One pair in 2^64 is such a pair.
 */
#ifndef PGWEIR_POOL_SERVER_STATEMENTS_H
#define PGWEIR_POOL_SERVER_STATEMENTS_H

#include <sys/queue.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/table.h"
#include "pgweir/pool/server/ledger.h"

/* The prefix of all our names on servers; clients must not use it. */
#define STATEMENT_NAMES "PGBOUNCER_"

/* A name on servers for temporary use: each user of the name closes it first. */
#define SCRATCH_NAME STATEMENT_NAMES "0"

static inline bool statement_name_is_reserved(const char *name)
{
	return strncmp(name, STATEMENT_NAMES, sizeof(STATEMENT_NAMES) - 1) == 0;
}

#define STATEMENT_STEM_MAX 16 /* size of a stem, including its zero */

/* From what names are made: the same for all loops of a process. */
struct statement_names {
	struct hash_key key;
	char stem[STATEMENT_STEM_MAX]; /* "": names have no stem */
};

/* Makes random ones. false: the system has no random numbers. */
bool statement_names_draw(struct statement_names *names);

/* What a statement consists of. Immutable, shared by all loops that have it, counted atomically. */
struct statement_image {
	_Atomic unsigned int owner_count;
	uint32_t touches;    /* session state that it may touch: enum sql_touch */
	uint64_t hash;       /* of text and scope */
	size_t name_size;    /* size of its name on servers, including the zero */
	size_t message_size; /* size of the Parse message that prepares it on a server */
	size_t scope_size;   /* size of the scope, which follows the message */
	char message[];
};

struct statement_image *statement_image_hold(struct statement_image *image);
void statement_image_release(struct statement_image **image);

/* The name on servers, without the zero, and what it is made of. */
struct bytes statement_image_name(const struct statement_image *image);
struct bytes statement_image_stem(const struct statement_image *image);
unsigned long long statement_image_number(const struct statement_image *image);

/* A text with its parameter types. Reference counted. */
struct statement {
	struct statements *statements; /* where it is stored */
	struct statement_image *image; /* one reference */
	UT_hash_handle hh;             /* by its text and its scope */
	size_t owner_count;
	uint32_t touches; /* image->touches */
	uint64_t digest;  /* of its text, for those who track it; 0: not known yet */
	bool is_written;  /* the process that takes over has got its record */
	bool is_typed;    /* a server has found that all parameter types are specified */
};

/* All existing statements of a loop. A zeroed one owns nothing; all must have been released. */
struct statements {
	struct statement *table;
	struct statement_names names;
	/* mixed into the hash: names show it, and nobody should know who shares a bucket */
	uint64_t salt;
	/* of processes before this one, which may have numbered statements: for the hand-over */
	unsigned long long last_number;
	struct buf key; /* the key being searched; empty between two calls */
};

/* names: of the process; NULL: draws its own. false: the system has no random numbers. */
bool statements_init(struct statements *statements, struct statement_names *names);

/*
 * The statement with this text, which is what follows the name in a Parse message (query and
 * parameter types), and this scope (params.h). Made if necessary. The caller gets a reference.
 * NULL: no memory, or too long.
 */
struct statement *statement_of(struct statements *statements, struct bytes text,
                               struct bytes scope);

/* As statement_of(), for what another loop or process has; a new statement shares the image. */
struct statement *statement_of_image(struct statements *statements, struct statement_image *image);

/* The name of a statement on servers, if another process has given it. */
struct statement_name {
	const char *stem; /* of letters and digits; "": none */
	unsigned long long number;
};

/* Of what another process has. One reference. names: of this one. NULL: no memory, or too long. */
struct statement_image *statement_image_named(const struct statement_names *names,
                                              const struct statement_name *name, struct bytes text,
                                              struct bytes scope);

/*
 * The same query in the same scope with these types: a count and that many, as in Parse and
 * ParameterDescription. A server has resolved all of them. The caller gets a reference. NULL: no
 * memory.
 */
struct statement *statement_typed(struct statement *statement, struct bytes types);

/* The same text in another scope. */
struct statement *statement_scoped(const struct statement *statement, struct bytes scope);

struct statement *statement_hold(struct statement *statement);
void statement_release(struct statement **statement);

static inline struct bytes statement_message(const struct statement *statement)
{
	return bytes_of(statement->image->message, statement->image->message_size);
}

/* What follows the name in its Parse message. */
static inline struct bytes statement_text(const struct statement *statement)
{
	return bytes_skip(statement_message(statement), 5 + statement->image->name_size);
}

/* The query in it, without its zero. */
static inline struct bytes statement_query(const struct statement *statement)
{
	return bytes_text(statement_text(statement).at);
}

static inline struct bytes statement_scope(const struct statement *statement)
{
	const struct statement_image *image = statement->image;

	return bytes_of(image->message + image->message_size, image->scope_size);
}

/* Its name on servers, without the zero. */
static inline struct bytes statement_name(const struct statement *statement)
{
	return bytes_of(statement->image->message + 5, statement->image->name_size - 1);
}

static inline unsigned long long statement_number(const struct statement *statement)
{
	return statement_image_number(statement->image);
}

/*
 * ---- what a server knows ----
 *
 * The prepared statements that one server knows, the longest unused first. The state here is ahead
 * of the server: a statement is known from the moment of sending, and the changes made for the
 * ledger undo that if the server refuses.
 *
 * One that another process or loop has prepared there has the name that it gave it.
 */

/* What is known of a statement besides its image, for another process or loop. */
struct server_statement_state {
	bool is_stale; /* it must be parsed again before it runs there */
	/* result columns: fields_columns(); 0: not known */
	uint32_t columns;
	usec_t sent_at, done_at; /* of the last Parse; 0: not known */
};

/* A statement that the server knows, or that a Close takes away which is not answered yet. */
struct server_statement {
	UT_hash_handle hh;       /* by the statement's address */
	UT_hash_handle typed_hh; /* by that of `typed` */
	TAILQ_ENTRY(server_statement) node;
	struct server_statements *known;
	struct ledger_change parse, close; /* of what was sent for it */
	struct statement *statement;       /* one reference */
	struct statement_image *image;     /* with its name there; one reference */
	/* with the types that the server has resolved; one reference, or NULL */
	struct statement *typed;
	uint64_t parse_number; /* of the Parse of this entry, among those of the server */
	uint32_t loss_count;   /* known->loss_count when the Close was sent */
	bool is_confirmed;
	struct server_statement_state state;
};

TAILQ_HEAD(server_statements_list, server_statement);

/* Part of a server. */
struct server_statements {
	const struct ledger *ledger; /* of the same server */
	struct ledger_open open;
	uint32_t loss_count; /* how often the server has deallocated all statements */
	struct server_statement *table;
	struct server_statement *found; /* what was looked for last; NULL: nothing */
	/* entries with the types found by server_statements_typed(), by that statement */
	struct server_statement *typed_table;
	struct server_statements_list list; /* the longest unused first */
	uint64_t parse_count;
	uint64_t mark; /* parse_count at server_statements_mark() */
};

void server_statements_init(struct server_statements *known, const struct ledger *ledger);

/* Forgets all statements. Changes that refer to them must have been settled before. */
void server_statements_done(struct server_statements *known);

/*
 * The entry that the server can run for it, or will when it has read what was sent: it is used now.
 * It may also have been prepared there with unspecified types, which the server resolved to the
 * types of this one; is_own: that does not count, nor another name. NULL: it must be parsed.
 */
struct server_statement *server_statements_use(struct server_statements *known,
                                               const struct statement *statement, bool is_own);

/*
 * The entry of a statement, valid until something is sent or read. is_own: without those with its
 * types. NULL: the server does not know it.
 */
struct server_statement *server_statements_find(struct server_statements *known,
                                                const struct statement *statement, bool is_own);

/* `typed` is the same statement with the types that it has, says a reply about that Parse. */
void server_statements_typed(struct server_statements *known, const struct statement *statement,
                             struct statement *typed, uint64_t parse_number);

/*
 * A client uses the statement; its own Parse was answered at `since`. Whether this server has
 * analyzed the text for that Parse, or later. What was analyzed before may mean something else.
 */
static inline bool server_statement_is_since(const struct server_statement *entry, usec_t since)
{
	return entry->state.sent_at >= since || entry->state.done_at == since;
}

/* Its result columns. 0: not known. */
uint32_t server_statements_columns(struct server_statements *known,
                                   const struct statement *statement);

/* Whether server_statements_use() is certain. If not, wait for the reply to a Sync sent before. */
bool server_statements_is_sure(struct server_statements *known, const struct statement *statement);

/* Something unseen may have replaced statements: each is parsed again before its next use. */
void server_statements_distrust(struct server_statements *known);

/*
 * What is parsed from now on, confirmed or not, may mean something that it means to nobody else:
 * whether it was; and what was is parsed again.
 */
static inline void server_statements_mark(struct server_statements *known)
{
	known->mark = known->parse_count;
}

static inline bool server_statement_is_marked(const struct server_statement *entry)
{
	return entry->parse_number > entry->known->mark;
}

void server_statements_distrust_marked(struct server_statements *known);

unsigned int server_statements_count(const struct server_statements *known);

/*
 * What another process or loop has prepared there, in the order of last use. false: no memory, or
 * it is there under two names.
 */
bool server_statements_restore(struct server_statements *known, struct statement *statement,
                               struct statement_image *image,
                               const struct server_statement_state *state);

/* The statement to close to make space for another one. NULL: fewer than `limit` are known. */
struct server_statement *server_statements_oldest(struct server_statements *known,
                                                  unsigned int limit);

/* The server has deallocated all statements (DISCARD ALL): the confirmed ones are gone. */
void server_statements_forget_confirmed(struct server_statements *known);

/*
 * The changes for a Parse, and for a Close of a statement that is known, that are sent now: in
 * force at once. NULL: no memory.
 */
struct ledger_change *server_statements_learn(struct server_statements *known,
                                              struct statement *statement);
struct ledger_change *server_statements_forget(struct server_statement *entry);

#endif
