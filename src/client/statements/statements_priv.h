/* SPDX-License-Identifier: ISC */
/*
 * Statements: the only interface between the relay and the files for prepared statements.
 *
 *   statements_judge.c   of the protocol                names.c    a client's names for them
 *   sql_statements.c     PREPARE, EXECUTE, DEALLOCATE   inject.c   what else a server is sent
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_STATEMENTS_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_STATEMENTS_PRIV_H

#include "pgweir/pgwire/sql.h"

#include "../session/session_priv.h"

struct channel;
struct pools_arrival;
struct record;

bool statements_follow(const struct client *client);

/* Whether a frame must be complete before it is judged. Needs no server. */
bool statements_need_more(const struct client *client, const struct frame *frame, struct bytes in);

/*
 * Whether a frame for which `seen` bytes were not enough can wait, now that there are
 * `count` of `length` bytes. It is judged again when there are twice as many bytes, or all.
 * So a message that comes byte by byte is parsed a few times only.
 */
static inline bool statements_can_wait(uint32_t seen, size_t count, uint32_t length)
{
	return seen && count < length && count / 2 < seen;
}

/*
 * Judges a frame of such a client, which has a server. in: the received bytes, from the
 * frame's first on. *head: see JUDGE_HEAD.
 */
enum judgement statements_judge(struct client *client, const struct frame *frame, struct bytes in,
                                struct batch *batch, size_t *head);

/* The unnamed statement of a client that has prepared one. */
struct unnamed {
	struct ledger_change change;   /* of each open Parse of the client */
	uint32_t open_count;           /* number of these */
	uint32_t sync_epoch;           /* Sync epoch of the last Parse */
	struct client_statement *kept; /* the text that was kept; NULL: none */
	struct sql_portal *portal;     /* what the unnamed portal executes: sql_statements.c */
	unsigned int touches;          /* of the last Parse: enum sql_touch */
	bool has_text;                 /* `kept` is the client's current one */
	bool is_here; /* the server has what the client's Parse has made, or will report why not */
};

/* Whether its unnamed portal is a PREPARE, EXECUTE or DEALLOCATE that was not executed yet. */
static inline bool sql_has_portal(const struct client *client)
{
	return client->unnamed && client->unnamed->portal;
}

/*
 * Whether statements_judge() could do more with a frame than pass it. false for a frame that names
 * no statement and cannot begin with PREPARE, EXECUTE or DEALLOCATE, if nothing is kept that the
 * frame would end.
 */
static inline bool statements_concern(const struct client *client, const struct frame *frame,
                                      struct bytes in, const struct batch *batch)
{
	if (batch->replay || client->borrower.server->lease.replay.count)
		return true;
	switch (frame->type) {
	case 'P':
	case 'B':
	case 'D':
	case 'C':
		return true;
	case 'E':
		return sql_has_portal(client);
	case 'Q':
		return !sql_is_other(frame_received(in, frame));
	default:
		return false;
	}
}

/* A Query is sent, or was answered here. PostgreSQL drops the unnamed statement. */
void statements_forget_unnamed(struct client *client, struct batch *batch);

/* The client's server is returned, and client->unnamed exists. */
void statements_leave(struct client *client);

/*
 * A Query of ours is about to be sent, with which the server forgets the unnamed statement. false:
 * the client may use that, and it cannot be prepared again.
 */
bool statements_spare_unnamed(struct client *client);

static inline void statements_leave_server(struct client *client)
{
	if (client->unnamed)
		statements_leave(client);
}

extern const struct record_table unnamed_record_table, sql_record_table, name_record_table;

/* Write them at the end of the client's record for another process. false: not sent. */
bool statements_write(const struct client *client, struct buf *record, struct channel *channel);
/* client NULL: only checks them. */
void statements_read(struct client *client, struct record *record,
                     const struct pools_arrival *arrival);

/* The client's statement with this name. NULL: none. */
struct statement *statements_find(const struct client *client, const char *name);

/* The statement that a text EXECUTEs, which does nothing else. NULL: not known, or it does not. */
struct statement *statements_executed(const struct client *client, struct bytes text);

/* ---- names.c: the names by which a client calls its statements ---- */

/* One name of a client. Small, since thousands of clients may have hundreds of names each. */
struct client_statement {
	/* change of each open Bind and Describe; `statement` holds a reference */
	struct ledger_change use;
	uint32_t use_count;        /* open changes that refer to this name */
	uint32_t size;             /* of the name, and of the text when it was added */
	uint32_t is_sql : 1;       /* SQL's PREPARE has made it */
	uint32_t is_gone : 1;      /* removed; freed after the last use */
	uint32_t is_confirmed : 1; /* the server has accepted the name */
	/* it is removed if the server agrees, or gets types: messages that use it wait */
	uint32_t is_changing : 1;
	/* the client's server has the statement under this name, too */
	uint32_t is_exposed : 1;
	/* it was parsed while the scope was open: then no server has it before the mark */
	uint32_t is_loose : 1;
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
	uint32_t count;
	uint32_t exposed_count;
	size_t capacity;
	size_t size;             /* of them and of their texts */
	struct ledger_open open; /* changes that are not settled yet */
	/* DEALLOCATE ALL or DISCARD ALL was sent, or a portal may execute it */
	bool is_forgetting;
};

/* The statement of a name. `use` has a pointer to const, because others only read it. */
static inline struct statement *names_statement(const struct client_statement *entry)
{
	return (struct statement *)entry->use.statement;
}

/* Makes one that is not among the client's names yet. NULL: no memory. */
struct client_statement *names_make(struct bytes name, struct statement *statement);
/* It is not, or no more. */
void names_drop(struct client_statement **entry);

/* NULL: the client has no such name. */
struct client_statement *names_find(const struct client *client, const char *name);

/* Whether the client may have one more. false: refuse it with *err. */
bool names_have_room(const struct client *client, const char *name,
                     const struct statement *statement, struct err *err);

/*
 * Changes. Each is to be noted with its request, and is undone if that fails. NULL: no memory.
 */

/*
 * Adds a name, which the client does not have. server_change: the change of the server's statements
 * that is settled together with it; or NULL.
 */
struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change);

/* Removes a name when the server has agreed. */
struct ledger_change *names_go(struct client *client, struct client_statement *entry);

/*
 * Changes nothing, but errors get the client's name in place of the statement's; statement NULL: of
 * the scratch name.
 */
struct ledger_change *names_mention(struct client *client, const char *name,
                                    struct statement *statement);

/* Such a change is of a text with our name. Returns it; NULL: no memory, as before. */
struct ledger_change *names_rename(struct ledger_change *change,
                                   const struct server_renaming *renaming);

/*
 * For a Describe of the statement, or of a portal bound to it. When the answer has the types of
 * its parameters, the name means the statement with these types on every server. is_told: the
 * client gets the answer. Also for the unnamed statement.
 */
struct ledger_change *names_describe(struct client *client, struct client_statement *entry,
                                     bool is_told);

/*
 * For a Describe of what SQL's PREPARE has made: the name means the statement with the types that
 * PostgreSQL reports, and is lost without them. Messages that use it wait.
 */
struct ledger_change *names_await_types(struct client *client, struct client_statement *entry);

/*
 * Whether it is not certain what this entry is, or that a name has none (NULL): changes of an
 * earlier Sync epoch are not settled yet, or it is changing, or all go. Then the message must
 * wait (JUDGE_WAIT).
 */
bool names_are_unsure(struct client *client, const struct client_statement *entry,
                      struct batch *batch);

/*
 * Before a message of this type uses the statement: makes the name mean the statement prepared in
 * the current scope of the client's server, unless the server still has it with the types that were
 * described. What the server has analyzed before the client's Parse is stale then. JUDGE_SEND: the
 * server has the statement, or can parse it. JUDGE_DROP: it is refused.
 */
enum judgement names_enter(struct client *client, struct client_statement *entry, char type,
                           struct batch *batch);

/* Removes all names that the server had accepted. */
void names_forget(struct client *client);

/* Removes all names. No change may be open. */
void names_free(struct client *client);

/* Adds a name that was handed over. NULL: there is no memory, or the name exists. */
struct client_statement *names_restore(struct client *client, struct bytes name,
                                       struct statement *statement);

/* ---- frames that must be complete ---- */

/*
 * A text of this size is awaited in full, where it is to be known what it touches, and in a Parse,
 * where it may be kept. A longer one may be forwarded in pieces.
 */
#define WHOLE_TEXT_MAX ((uint32_t)64 * 1024)

/* Maximum bytes of the names at the front of a message. PostgreSQL cuts a name after 63 bytes. */
#define WHOLE_NAMES_MAX ((size_t)16 * 1024)

/*
 * WIRE_OK: the received bytes are enough, or the message is complete. WIRE_BAD: it is longer than
 * allowed. Needs no server. most: max_statement_size.
 */
enum wire_result whole_judge(const struct frame *frame, struct bytes in, size_t most);

/* ---- names.c: statements under the client's own names ---- */

/*
 * A frame with a text that may name statements (SQL_TOUCH_BY_NAME), or any text of a client with
 * CLIENT_HAS_SQL_NAMES, is about to be sent: adds to the batch what must be there before it.
 */
enum judgement exposed_before(struct client *client, const struct frame *frame, struct bytes in,
                              struct batch *batch);

/*
 * The server has answered the question at the end of the transaction: names that it does not have
 * any more are the client's no more.
 */
void exposed_settle(struct client *client, const struct facts *facts);

/* The server is at rest. true: on_ready() of the borrower comes, or the client was closed. */
bool exposed_withdraw(struct client *client);

/* Whether there are some. */
bool exposed_any(const struct client *client);

/* ---- inject.c: what is sent besides the client's own messages ---- */

/*
 * Notes a request to the client's server, with its change; NULL: there was no memory. good: the
 * answer if it is noted.
 */
static inline enum judgement statements_note(struct client *client, enum ledger_kind kind,
                                             enum ledger_fate fate, struct ledger_change *change,
                                             enum judgement good)
{
	return change && server_note_change(client->borrower.server, kind, fate, change)
	           ? good
	           : JUDGE_MEMORY;
}

/* Adds a Close or Describe of the name on servers, which a zero follows; nothing to the ledger. */
void inject_named(struct batch *batch, char type, struct bytes name);

/* Adds a Parse of the statement, which must outlive the batch; nothing to the ledger. */
void inject_parse(struct client *client, struct batch *batch, const struct statement *statement);

/*
 * Adds what comes before a Parse of the statement: its Close if the server knows it, else those of
 * others, until there is space. *parse: the change of the Parse. false: no memory.
 */
bool inject_make_way(struct client *client, struct batch *batch, struct statement *statement,
                     struct ledger_change **parse);

/*
 * Adds a Parse if the server does not know the statement or cannot run it any more. *name:
 * the name that the server knows it by. name NULL: it must be the statement's own name, for an
 * EXECUTE. false: no memory.
 */
bool inject_statement(struct client *client, struct batch *batch, struct statement *statement,
                      struct bytes *name);

/* Closes the scratch name. is_there: then prepares an empty statement; that never fails. */
bool inject_scratch(struct client *client, struct batch *batch, bool is_there);

/*
 * A message of this type has a statement of this text, which touches these. is_run: it executes
 * that. JUDGE_SEND: it may be sent. JUDGE_DROP: it is refused.
 */
enum judgement statements_run(struct client *client, char type, unsigned int touches,
                              struct bytes text, bool is_run, struct batch *batch);

/* Sends a message that always fails in place of a frame of this type; the client gets `err`. */
enum judgement statements_refuse(struct client *client, char type, const struct err *err,
                                 struct batch *batch);

/*
 * The same for a name of ours that the client does not have: it must not reach the server, where it
 * would be another client's statement.
 */
enum judgement statements_refuse_name(struct client *client, char type, const char *name,
                                      struct batch *batch);

/* ---- statements_judge.c: the unnamed statement ---- */

/*
 * A text is prepared without a name in place of the client's own statement, which is kept unless it
 * was bound, and prepared again when it is used. false: no memory.
 */
bool unnamed_lend(struct client *client, struct batch *batch);

/*
 * Call when all received frames were judged, if batch->unnamed is not empty: keeps a text that was
 * not bound yet.
 */
void unnamed_keep(struct client *client, struct batch *batch);

/* Its text, if it was kept; else "". */
struct bytes unnamed_known(const struct client *client);

/* Whether that is a PREPARE, EXECUTE or the like. */
bool unnamed_is_sql(const struct client *client);

/* The ledger must have settled the open changes. */
void unnamed_free(struct client *client);

/* ---- sql_statements.c: SQL's own PREPARE, EXECUTE and DEALLOCATE ---- */

enum judgement sql_query(struct client *client, const struct frame *frame, struct bytes in,
                         struct batch *batch);

/*
 * Handles a Parse of the unnamed statement. `body`: what has been received of `length` bytes, at
 * least its name. JUDGE_SEND: a text of another kind. JUDGE_HEAD: one of these; what it means is
 * found when it is used. JUDGE_DROP: it is refused.
 */
enum judgement sql_parse(struct client *client, struct bytes body, size_t length,
                         struct batch *batch);

/*
 * Handles a Bind or Describe of a statement of which sql_is_lone() is true; portal: of a Bind.
 * touches: what the text itself touches, of a Bind. JUDGE_HEAD: its text was prepared without a
 * name, with our name of the statement that it means. JUDGE_SEND: the text is used as it is.
 */
enum judgement sql_use(struct client *client, const char *portal, struct statement *statement,
                       unsigned int touches, struct batch *batch);

/* Handles an Execute, if sql_has_portal(). JUDGE_HEAD, JUDGE_DROP: it has been noted. */
enum judgement sql_execute(struct client *client, const struct frame *frame, struct bytes in,
                           struct batch *batch);

/* Whether a statement is itself a PREPARE, EXECUTE or DEALLOCATE. */
bool sql_is_lone(const struct statement *statement);

/* Nothing of these is bound to the unnamed portal any more. */
void sql_drop_portal(struct client *client);

#endif
