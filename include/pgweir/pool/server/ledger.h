/* SPDX-License-Identifier: ISC */
/*
 * The ledger: what a server owes. Each request that is sent to it makes an
 * entry, and each of its replies must match the entry at the head; what does
 * not match is a server out of step, which nobody may be lent again.
 *
 * Pure bookkeeping: no socket, no clock. At rest ({0}) it owns nothing.
 *
 * Source: PostgreSQL's manual, "Frontend/Backend Protocol", "Message Flow".
 */
#ifndef PGWEIR_POOL_SERVER_LEDGER_H
#define PGWEIR_POOL_SERVER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests that may be owed at once; a client with more has to wait. */
#define LEDGER_MAX ((size_t)64 * 1024)

enum ledger_kind {
	LEDGER_NONE,     /* asks for no reply: Flush, CopyData */
	LEDGER_QUERY,    /* replies up to ReadyForQuery */
	LEDGER_FUNCTION, /* FunctionCall: the same */
	LEDGER_PARSE,
	LEDGER_BIND,
	LEDGER_DESCRIBE,
	LEDGER_TYPES, /* Describe of a statement; its change is a struct description (server.h) */
	LEDGER_EXECUTE,
	LEDGER_CLOSE,
	LEDGER_SYNC,
	LEDGER_COPY_DATA, /* CopyData: not an entry, but it is seen */
	LEDGER_COPY_END,  /* CopyDone, CopyFail */
	LEDGER_KINDS
};

/* For whom the replies to an entry are. */
enum ledger_fate {
	LEDGER_FORWARD,  /* the client's */
	LEDGER_INTERNAL, /* we asked, and wait for the answer */
	LEDGER_INJECT, /* we asked on the client's behalf: success is ours, an error is the client's
	                */
	LEDGER_ANSWER, /* was not sent: we answer in its place, when its turn comes */
	LEDGER_REPLACE, /* sent so that it fails: the client gets an error of ours instead */
	LEDGER_BEGIN,   /* of a BEGIN in front of all: success is ours, after an error nothing else
	                 * counts */
	LEDGER_IGNORE,  /* we asked, and nobody waits for the answer, be it an error */
	LEDGER_SYNC_GUARD /* a Sync behind a Query, in case what was injected before it fails: its
	                   * answer is the client's if the Query was skipped, else nobody's */
};

struct statement;

/*
 * What a request changes in what we believe of a server or a client. It counts
 * from the moment of sending, and is settled once: is_done when the server has
 * confirmed it, else it is to be taken back. Changes that fail together are
 * settled the last one first. settle() frees the change.
 */
struct ledger_change {
	void (*settle)(struct ledger_change *change, bool is_done);
	const struct statement *statement; /* what the request is about, for the words of an error;
	                                      NULL: what has the scratch name (statements.h) */
	const char *name;                  /* and how the client calls it; NULL: no matter */
};

/*
 * How many changes of one thing are not settled. While what was sent before the
 * last Sync may still fail, nobody can tell what holds after it: a caller that needs
 * to know waits for that Sync's answer. Some changes need not know, so there may be
 * open ones of several epochs; they are settled sync_epoch by sync_epoch.
 */
struct ledger_open {
	uint32_t count;       /* all */
	uint32_t older_count; /* those before `sync_epoch` */
	uint32_t sync_epoch;  /* of the last one */
};

/* Where a query that has brought the server into COPY BOTH stands: see ledger.c. */
enum ledger_both {
	LEDGER_BOTH_NOT,
	LEDGER_BOTH_OPEN, /* both sides send data */
	LEDGER_BOTH_ENDED /* the server has said CopyDone */
};

enum ledger_verdict {
	LEDGER_PASS,     /* it goes to the client */
	LEDGER_ANSWERED, /* it answers what we asked; ledger_reply.is_end: the last of it */
	LEDGER_DROP,     /* it answers what was injected: nobody waits for it */
	LEDGER_REPLACED, /* an error in whose place the client gets what ledger_take_failed() says
	                  */
	LEDGER_FATAL,    /* an error behind which the server can do nothing for anyone */
	LEDGER_MISMATCH, /* out of step */
	LEDGER_DOUBT     /* in step or not, nobody can tell any more: see ledger.c */
};

/*
 * What a borrower may have to wait for before it sends more. Each comes with the server's
 * answers, so a borrower that begins to wait makes it answer what it was asked: ledger_flush().
 */
enum ledger_wait {
	LEDGER_WAIT_NOT,   /* for nothing */
	LEDGER_WAIT_SPACE, /* less than LEDGER_MAX is owed */
	LEDGER_WAIT_READY, /* no ReadyForQuery is owed: what may fail has failed */
	LEDGER_WAIT_EMPTY  /* nothing is owed */
};

struct ledger_entry {
	struct ledger_change *change; /* NULL: it changes nothing */
	uint8_t kind;
	uint8_t fate;
};

struct ledger {
	struct ledger_entry *ring;
	struct ledger_change *failed; /* of the last request that failed */
	uint32_t capacity;            /* entries in the ring: a power of two */
	uint32_t head;                /* where the oldest lies */
	uint32_t count;
	uint32_t ready_count; /* entries that a ReadyForQuery ends */
	uint32_t sync_epoch;  /* Syncs that were noted: what lies between two fails together */
	bool is_copying;      /* the entry at the head has brought the server into COPY IN */
	bool is_copy_open;    /* and, as far as we know, still reads CopyData */
	bool is_skipping;     /* the server ignores everything up to the next Sync */
	bool has_data;        /* CopyData was sent since the last Query or Execute */
	bool is_skip_unsure;  /* ... or not, if a Sync before is answered after all */
	bool is_open;         /* of the extended protocol, and no Sync behind it yet */
	bool is_held_back;    /* the server may keep answers until it hears Flush or Sync */
	bool is_doubtful;     /* nobody can tell any more what is owed */
	bool has_result;      /* the query at the head has had a result, or an error */
	uint8_t both;         /* enum ledger_both, of the query at the head */
	uint32_t
	    copy_sync_count;   /* Syncs within the copy at the head, which ignores what it reads */
	uint32_t unsure_count; /* Syncs that may be answered yet, or never */
};

void ledger_done(struct ledger *ledger);

/* Forgets all entries, but keeps the memory. */
void ledger_clear(struct ledger *ledger);

static inline bool ledger_is_empty(const struct ledger *ledger) { return ledger->count == 0; }

/* Whether it is known what else will come. If not, nobody else may be lent the server. */
static inline bool ledger_is_certain(const struct ledger *ledger)
{
	return ledger->unsure_count == 0;
}

/* Whether nothing is owed, and nothing that was said has a part of it still to come. */
static inline bool ledger_is_at_rest(const struct ledger *ledger)
{
	return ledger->count == 0 && ledger->unsure_count == 0 && !ledger->is_copying &&
	       !ledger->is_skipping && !ledger->is_open && !ledger->is_doubtful && !ledger->both;
}

/* Whether more must come from the client before all that is owed can come. */
static inline bool ledger_needs_more(const struct ledger *ledger)
{
	return ledger->is_open || ledger->is_skipping || ledger->both ||
	       (ledger->is_copying && ledger->is_copy_open);
}

static inline bool ledger_is_full(const struct ledger *ledger)
{
	return ledger->count >= LEDGER_MAX;
}

/* Whether the next answer is to a query of ours that nobody waits for. */
static inline bool ledger_owes_ignored(const struct ledger *ledger)
{
	return ledger->count && ledger->ring[ledger->head].fate == LEDGER_IGNORE;
}

/* Whether rows (DataRow, CopyData) are due to the client: what ledger_reply() would say, in short.
 */
static inline bool ledger_passes_rows(const struct ledger *ledger)
{
	const struct ledger_entry *head;

	if (ledger->count == 0 || ledger->both != LEDGER_BOTH_NOT)
		return false;
	head = &ledger->ring[ledger->head];
	return (head->kind == LEDGER_QUERY || head->kind == LEDGER_EXECUTE) &&
	       head->fate == LEDGER_FORWARD;
}

/*
 * What ledger_reply() would say, in short, of the answers that a plain query has most:
 * true: this one goes to the client, and is noted. false: ask ledger_reply().
 */
static inline bool ledger_passes_plain(struct ledger *ledger, char type)
{
	const struct ledger_entry *head;

	if (ledger->count == 0 || ledger->failed || ledger->is_doubtful || ledger->is_copying ||
	    ledger->both)
		return false;
	head = &ledger->ring[ledger->head];
	if (head->kind != LEDGER_QUERY || head->fate != LEDGER_FORWARD)
		return false;
	if (type == 'C')
		ledger->has_result = true;
	return type == 'T' || type == 'C';
}

static inline void ledger_open_begin(struct ledger_open *open, const struct ledger *ledger)
{
	if (open->sync_epoch != ledger->sync_epoch)
		open->older_count = open->count;
	open->count++;
	open->sync_epoch = ledger->sync_epoch;
}

/* One is settled. */
static inline void ledger_open_end(struct ledger_open *open)
{
	open->count--;
	if (open->older_count)
		open->older_count--;
}

/* Whether changes are open that may fail without what is sent now. */
static inline bool ledger_open_is_unsure(const struct ledger_open *open,
                                         const struct ledger *ledger)
{
	return open->older_count || (open->count && open->sync_epoch != ledger->sync_epoch);
}

enum ledger_send {
	LEDGER_SENT, /* noted: send it */
	LEDGER_NO_MEMORY
};

/* Notes a request, in the order in which requests are sent. */
enum ledger_send ledger_add(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate);

/*
 * The same with a change, which is taken over in any case: where the server will
 * not look at the request, or memory has run out, it is settled at once.
 */
enum ledger_send ledger_add_change(struct ledger *ledger, enum ledger_kind kind,
                                   enum ledger_fate fate, struct ledger_change *change);

/*
 * A batch that failed will be sent again: the answer to its Sync is nobody's. false: that
 * Sync is not all that is owed, or nobody can tell.
 */
bool ledger_drop_sync(struct ledger *ledger);

/* Whether the turn of a LEDGER_ANSWER has come: takes it off. *type: the reply's type byte. */
bool ledger_answer(struct ledger *ledger, char *type);

/* Whether the next answer is to a request that makes a change. */
static inline bool ledger_is_followed(const struct ledger *ledger)
{
	return ledger->count && ledger->ring[ledger->head].change;
}

/* The change of a LEDGER_TYPES whose answer comes next; NULL: the next is another's. */
static inline struct ledger_change *ledger_awaits_types(const struct ledger *ledger)
{
	const struct ledger_entry *head;

	if (ledger->count == 0)
		return NULL;
	head = &ledger->ring[ledger->head];
	return head->kind == LEDGER_TYPES ? head->change : NULL;
}

/*
 * After an error: the change of the request that failed, or NULL. The caller settles
 * it; left where it is, that is done before the next reply is judged.
 */
struct ledger_change *ledger_take_failed(struct ledger *ledger);

/* Whether the state of the transaction that the last ReadyForQuery gave still holds. */
static inline bool ledger_knows_status(const struct ledger *ledger)
{
	return ledger->ready_count == 0;
}

/*
 * Whether this wait is over. Also where the server itself waits: it asked for the data of a
 * COPY, and has received all that was sent.
 */
static inline bool ledger_ends_wait(const struct ledger *ledger, enum ledger_wait wait)
{
	if (wait == LEDGER_WAIT_SPACE)
		return !ledger_is_full(ledger);
	if (wait == LEDGER_WAIT_NOT || (ledger->is_copying && ledger->is_copy_open))
		return true;
	return wait == LEDGER_WAIT_READY ? ledger->ready_count == 0 : ledger->count == 0;
}

/* Whether the server needs a Flush to answer all that it was asked. It is sent now. */
static inline bool ledger_flush(struct ledger *ledger)
{
	bool is_held_back = ledger->is_held_back;

	ledger->is_held_back = false;
	return is_held_back;
}

/*
 * Judges a reply by its type byte. Not for what comes at any time:
 * NoticeResponse, ParameterStatus, NotificationResponse.
 *
 * *is_end (for LEDGER_ANSWERED): the entry has been answered in full. An error ends
 * a Query only with its ReadyForQuery, and all others at once, without is_end.
 */
enum ledger_verdict ledger_reply(struct ledger *ledger, char type, bool *is_end);

#endif
