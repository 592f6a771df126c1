/* SPDX-License-Identifier: ISC */
/*
 * The ledger: the ordered list of replies that a server owes. Each request that is sent to the
 * server adds an entry, and each reply must match the entry at the head. If a reply does not match,
 * server and ledger are out of step, and the server cannot be lent again.
 *
 * Bookkeeping only: no socket, no clock. A zeroed ledger owns nothing.
 *
 * Source: PostgreSQL's manual, "Frontend/Backend Protocol", "Message Flow".
 */
#ifndef PGWEIR_POOL_SERVER_LEDGER_H
#define PGWEIR_POOL_SERVER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "pgweir/base/clock.h"

/* How many replies a server may owe; a client with more requests has to wait. */
#define LEDGER_MAX ((size_t)64 * 1024)

#define LEDGER_KEPT 256 /* entries for which memory is kept */

enum ledger_kind {
	LEDGER_NONE,     /* gets no reply: Flush, CopyData */
	LEDGER_QUERY,    /* gets replies up to ReadyForQuery */
	LEDGER_FUNCTION, /* FunctionCall: the same */
	LEDGER_PARSE,
	LEDGER_BIND,
	LEDGER_DESCRIBE,
	LEDGER_TYPES, /* Describe of a statement; its change is a struct description (server.h) */
	LEDGER_EXECUTE,
	LEDGER_CLOSE,
	LEDGER_SYNC,
	/* sent so that they fail: the client gets our error instead, of the change */
	LEDGER_REFUSED_PARSE,
	LEDGER_REFUSED_QUERY,
	LEDGER_CLOSE_HERE, /* not sent: we answer it when it is due */
	LEDGER_COPY_DATA,  /* CopyData: adds no entry, but is noted */
	LEDGER_COPY_END,   /* CopyDone, CopyFail */
	LEDGER_KINDS
};

/* Who gets the replies to an entry. */
enum ledger_fate {
	LEDGER_CLIENT, /* the client */
	LEDGER_OURS,   /* an order of ours, errors too; its last entry may have a change */
	/* nobody: we have added it, and the client gets errors of it as its own */
	LEDGER_DROPPED
};

struct server_renaming;
struct statement;

/*
 * What a request changes in our view of a server or a client. The change applies from the moment of
 * sending, and is settled once: is_done if the server has confirmed it, else settle() must undo it.
 * Changes that fail together are settled in reverse order. settle() frees the change.
 */
struct ledger_change {
	void (*settle)(struct ledger_change *change, bool is_done);
	/* of the request, for error texts; NULL: the one with the scratch name */
	const struct statement *statement;
	/* the client's name of the statement; NULL: not needed */
	const char *name;
	/* of a text that was sent with our name; NULL: of none */
	const struct server_renaming *renaming;
};

/*
 * How many changes of one object are not settled. While requests sent before the last Sync may
 * still fail, the state after that Sync is not known; code that needs the state waits for the reply
 * to the Sync. Some changes do not need the state, so changes of several Sync epochs may be open;
 * they are settled epoch by epoch.
 */
struct ledger_open {
	uint32_t count;       /* all open changes */
	uint32_t older_count; /* those before `sync_epoch` */
	uint32_t sync_epoch;  /* of the latest change */
};

/* The COPY from the client, or in both directions, of the request at the head: see ledger.c. */
enum ledger_copy {
	LEDGER_COPY_NOT,
	LEDGER_IN_OPEN,   /* COPY IN: the server reads CopyData, to our knowledge */
	LEDGER_IN_LEFT,   /* more than that and Syncs was sent behind it */
	LEDGER_BOTH_OPEN, /* COPY BOTH: both sides send data */
	LEDGER_BOTH_ENDED /* the server has sent CopyDone */
};

enum ledger_verdict {
	LEDGER_PASS,     /* forward it to the client */
	LEDGER_ANSWERED, /* reply to a request of ours; *is_end of ledger_reply(): the last one */
	LEDGER_DROP,     /* reply to a request that was added: drop it */
	LEDGER_REPLACED, /* an error; the client gets the one of ledger_take_failed() instead */
	LEDGER_FATAL,    /* an error of ours for which the server skips requests of the client */
	LEDGER_MISMATCH, /* out of step */
	LEDGER_DOUBT     /* it is unknown whether the server is in step: see ledger.c */
};

/* What a borrower waits for before it sends more: replies, which ledger_flush() makes come. */
enum ledger_wait {
	LEDGER_WAIT_NOT,   /* no wait */
	LEDGER_WAIT_SPACE, /* until less than LEDGER_MAX is owed */
	LEDGER_WAIT_READY, /* until no ReadyForQuery is owed: then nothing sent so far can fail */
	LEDGER_WAIT_EMPTY, /* until nothing is owed */
	LEDGER_WAIT_PLACE  /* for something else, when nothing is owed: on_place() */
};

/* A request whose execution its borrower measures. */
struct ledger_call {
	uint64_t tag; /* the borrower's */
	usec_t sent_at;
	uint32_t wait;           /* microseconds before that, for a server */
	uint32_t row_limit : 31; /* of an Execute; 0: none */
	uint32_t is_parse : 1;   /* only an error is of interest */
};

struct ledger_entry {
	struct ledger_change *change; /* NULL: changes nothing */
	uint8_t kind;
	uint8_t fate;
	bool is_call;            /* ledger_mark_call(): */
	struct ledger_call call; /* valid then */
};

struct ledger {
	struct ledger_entry *ring;
	struct ledger_change *failed; /* of the last request that failed */
	uint32_t capacity;            /* entries in the ring: a power of two */
	uint32_t head;                /* index of the oldest entry */
	uint32_t count;
	uint32_t ready_count; /* entries that a ReadyForQuery ends */
	uint32_t call_count;  /* entries with is_call */
	/*
	 * the first call that was answered, or skipped with others, since the reader has set it to
	 * NULL; valid until a request is noted
	 */
	const struct ledger_call *ended;
	/* number of Syncs noted; requests between two of them fail together */
	uint32_t sync_epoch;
	bool is_skipping;    /* the server ignores everything up to the next Sync */
	bool has_data;       /* CopyData was sent since the last Query or Execute */
	bool is_skip_unsure; /* is_skipping is wrong if an unsure Sync is answered after all */
	bool is_open;        /* an extended-protocol request has no Sync after it yet */
	bool has_executed;   /* an Execute was sent, and no Sync or Query behind it */
	bool is_held_back;   /* the server may buffer replies until it gets Flush or Sync */
	bool is_doubtful;    /* it is unknown what the server owes */
	bool has_result;     /* the query at the head has got a result or an error */
	uint8_t copy;        /* enum ledger_copy, of the request at the head */
	/* Syncs sent during the COPY IN at the head, which ignores them */
	uint32_t copy_sync_count;
	uint32_t unsure_count; /* Syncs that may or may not be answered */
};

/* Removes all entries, and has their changes undone. */
void ledger_done(struct ledger *ledger);

static inline bool ledger_is_empty(const struct ledger *ledger) { return ledger->count == 0; }

/* Whether it is known what the server owes. If not, only its present borrower can use it. */
static inline bool ledger_is_certain(const struct ledger *ledger)
{
	return ledger->unsure_count == 0;
}

/*
 * Whether PostgreSQL may skip what is sent next, or take it for a part of something else: there is
 * no Sync behind an error or a request, a COPY goes on, or it is not known what is owed.
 */
static inline bool ledger_may_skip(const struct ledger *ledger)
{
	return ledger->is_open || ledger->is_skipping || ledger->copy || ledger->unsure_count ||
	       ledger->is_doubtful;
}

/* Whether nothing is owed, and no request is incomplete. */
static inline bool ledger_is_at_rest(const struct ledger *ledger)
{
	return ledger->count == 0 && !ledger_may_skip(ledger);
}

/* Whether the client must send more before the server can send all that it owes. */
static inline bool ledger_needs_more(const struct ledger *ledger)
{
	return ledger->is_open || ledger->is_skipping ||
	       (ledger->copy && ledger->copy != LEDGER_IN_LEFT);
}

static inline bool ledger_is_full(const struct ledger *ledger)
{
	return ledger->count >= LEDGER_MAX;
}

/* Whether the next reply is one to a request of this fate. */
static inline bool ledger_owes(const struct ledger *ledger, enum ledger_fate fate)
{
	return ledger->count && ledger->ring[ledger->head].fate == fate;
}

/* Whether the next reply is to a Parse or an Execute that was injected for the client. */
static inline bool ledger_owes_injected(const struct ledger *ledger)
{
	const struct ledger_entry *head = ledger->count ? &ledger->ring[ledger->head] : NULL;

	return head && head->fate == LEDGER_DROPPED &&
	       (head->kind == LEDGER_PARSE || head->kind == LEDGER_EXECUTE);
}

/* Whether DataRow and CopyData are forwarded to the client: a short form of ledger_reply(). */
static inline bool ledger_passes_rows(const struct ledger *ledger)
{
	const struct ledger_entry *head;

	if (ledger->count == 0 || ledger->copy >= LEDGER_BOTH_OPEN)
		return false;
	head = &ledger->ring[ledger->head];
	return (head->kind == LEDGER_QUERY || head->kind == LEDGER_EXECUTE) &&
	       head->fate == LEDGER_CLIENT;
}

/* The head gets its last reply, a good one: removes it. false: call ledger_reply(). */
bool ledger_end_plain(struct ledger *ledger);

/* The kind of request that ends with this reply, of those that get one each. */
static inline enum ledger_kind ledger_plain_kind(char type)
{
	switch (type) {
	case '1':
		return LEDGER_PARSE;
	case '2':
		return LEDGER_BIND;
	case 'T':
	case 'n':
		return LEDGER_DESCRIBE;
	case 'C':
		return LEDGER_EXECUTE;
	default:
		return LEDGER_NONE;
	}
}

/* The short form for frequent replies. true: noted, to be forwarded; else call ledger_reply(). */
static inline bool ledger_passes_plain(struct ledger *ledger, char type)
{
	const struct ledger_entry *head;

	if (ledger->count == 0 || ledger->failed || ledger->is_doubtful || ledger->copy)
		return false;
	head = &ledger->ring[ledger->head];
	if (head->fate != LEDGER_CLIENT)
		return false;
	if (head->kind != LEDGER_QUERY)
		return head->kind == ledger_plain_kind(type) && ledger_end_plain(ledger);
	if (type != 'T' && type != 'C')
		return false;
	ledger->has_result |= type == 'C';
	ledger->unsure_count = 0; /* as in ledger_reply() */
	return true;
}

/* The same for a ReadyForQuery with which nothing is owed any more. */
bool ledger_passes_ready(struct ledger *ledger);

static inline void ledger_open_begin(struct ledger_open *open, const struct ledger *ledger)
{
	if (open->sync_epoch != ledger->sync_epoch)
		open->older_count = open->count;
	open->count++;
	open->sync_epoch = ledger->sync_epoch;
}

/* A change was settled. */
static inline void ledger_open_end(struct ledger_open *open)
{
	open->count--;
	if (open->older_count)
		open->older_count--;
}

/* Whether there are open changes that may fail independently of what is sent now. */
static inline bool ledger_open_is_unsure(const struct ledger_open *open,
                                         const struct ledger *ledger)
{
	return open->older_count || (open->count && open->sync_epoch != ledger->sync_epoch);
}

/* Notes a request. To be called in the order in which requests are sent. false: no memory. */
bool ledger_add(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate);

/* Takes ownership of the change, settled at once if the request is skipped or not noted. */
bool ledger_add_change(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate,
                       struct ledger_change *change);

/*
 * Marks the newest entry, which must be of this kind, for the borrower; what we have added behind
 * it does not count. It counts in call_count until it is answered or skipped. Returns where to
 * describe it, before anything else is noted. NULL: there is no such entry, because the server
 * skips the request, or it is not sent as it is.
 */
struct ledger_call *ledger_mark_call(struct ledger *ledger, enum ledger_kind kind);

/* The first call that is owed; NULL: none. */
const struct ledger_call *ledger_first_call(const struct ledger *ledger);

/* The memory of a list that was long is given back when nothing is owed. */
static inline void ledger_shrink(struct ledger *ledger)
{
	if (ledger->capacity <= LEDGER_KEPT || ledger->count)
		return;
	free(ledger->ring);
	ledger->ring = NULL;
	ledger->ended = NULL;
	ledger->capacity = ledger->head = 0;
}

/*
 * Whether the server executes the request with this change, or one that is noted now, as soon as it
 * reads that: nothing is executed before, and no more portals are bound, which may run functions.
 */
bool ledger_is_turn(const struct ledger *ledger, const struct ledger_change *change,
                    unsigned int bind_count);

/* The reply to a Sync is dropped, as the batch is sent again. false: it is not the only debt. */
bool ledger_drop_sync(struct ledger *ledger);

/* Whether the reply to a LEDGER_CLOSE_HERE is due. */
static inline bool ledger_owes_answer(const struct ledger *ledger)
{
	return ledger->count && ledger->ring[ledger->head].kind == LEDGER_CLOSE_HERE;
}

/* The same, and removes it. */
bool ledger_answer(struct ledger *ledger);

/* Whether any reply is owed that the borrower gets. */
bool ledger_owes_borrower(const struct ledger *ledger);

/* Whether the next reply is to a request with a change. */
static inline bool ledger_is_followed(const struct ledger *ledger)
{
	return ledger->count && ledger->ring[ledger->head].change;
}

/* If the next reply is to a LEDGER_TYPES: the change of that. Else NULL. */
static inline struct ledger_change *ledger_awaits_types(const struct ledger *ledger)
{
	const struct ledger_entry *head;

	if (ledger->count == 0)
		return NULL;
	head = &ledger->ring[ledger->head];
	return head->kind == LEDGER_TYPES ? head->change : NULL;
}

/* The failed request's change, or NULL. If the caller does not settle it, the next reply does. */
struct ledger_change *ledger_take_failed(struct ledger *ledger);

/* Whether the transaction status of the last ReadyForQuery still applies. */
static inline bool ledger_knows_status(const struct ledger *ledger)
{
	return ledger->ready_count == 0;
}

/* Or the server itself waits: for the data of a COPY IN, having received all that was sent. */
static inline bool ledger_ends_wait(const struct ledger *ledger, enum ledger_wait wait)
{
	if (wait == LEDGER_WAIT_SPACE)
		return !ledger_is_full(ledger);
	if (wait == LEDGER_WAIT_NOT || ledger->copy == LEDGER_IN_OPEN)
		return true;
	if (wait == LEDGER_WAIT_READY)
		return ledger->ready_count == 0;
	return wait == LEDGER_WAIT_EMPTY && ledger->count == 0;
}

/* Whether the server needs a Flush to send all that it owes. The caller sends one. */
static inline bool ledger_flush(struct ledger *ledger)
{
	bool is_held_back = ledger->is_held_back;

	ledger->is_held_back = false;
	return is_held_back;
}

/*
 * Classifies a reply by its type byte. Not for NoticeResponse, ParameterStatus and
 * NotificationResponse, which may come at any time.
 *
 * *is_end (for LEDGER_ANSWERED): the entry was answered in full. For a Query that is at
 * ReadyForQuery, also after an error. An error ends all other entries at once, without is_end.
 */
enum ledger_verdict ledger_reply(struct ledger *ledger, char type, bool *is_end);

#endif
