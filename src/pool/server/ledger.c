/* SPDX-License-Identifier: ISC */
/*
 * The ledger: which reply may come next, and who gets it.
 *
 * Hard here:
 *
 * After an error in the extended protocol the server ignores everything up to the next Sync,
 * including Query messages. So the entries up to that Sync are removed, and requests that are noted
 * before a Sync add no entry.
 *
 * In COPY IN the server ignores Flush and Sync. CopyDone or CopyFail ends it, and any other message
 * makes it fail. Clients pipeline, so the Sync after an Execute may have been sent before the
 * client knew about the COPY: the server does not answer that Sync. But if the copy fails, it is
 * not known at which message the server has left COPY IN: at the CopyDone, at data, or before it
 * has read anything (a copy into a view, or an error in a trigger). It answers a Sync after that
 * message, and does not answer one before it. So each Sync sent during a failed COPY is counted as
 * unsure, and a ReadyForQuery that no entry explains is taken as the reply to an unsure Sync. The
 * first reply of another type to a later request shows that the server has read them all. Until
 * then the server can only be used by its current client.
 *
 * A request after such a copy, without a certain Sync before it, is either executed or skipped. No
 * driver sends that. If it happens, it is unknown what the server owes, and the verdict is
 * LEDGER_DOUBT.
 *
 * COPY BOTH (replication) is simpler. The server sends only data until its CopyDone. Results follow
 * after that, but only when the client has sent its own CopyDone. (A walsender that decodes may
 * send keepalives after its CopyDone, and may complete a second stream without any CopyDone.) An
 * error that does not close the server ends both directions at once. The server handles client
 * messages that it had not read before as it does at any other time, so nothing is in doubt. Any
 * other message during COPY BOTH is FATAL to the server.
 */
#include "pgweir/pool/server/ledger.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 8

#define K(kind) (1u << LEDGER_##kind)
#define DESCRIBES (K(DESCRIBE) | K(TYPES))
#define PARSES (K(PARSE) | K(REFUSED_PARSE))
#define QUERIES (K(QUERY) | K(REFUSED_QUERY) | K(FUNCTION))
/* The requests for which frame_is_extended() is true. */
#define EXTENDED (PARSES | K(BIND) | DESCRIBES | K(EXECUTE) | K(CLOSE) | K(CLOSE_HERE))

/* By the type of a reply: the kinds of requests it may answer, and those it completes. */
static const struct {
	uint16_t answers;
	uint16_t ends;
	bool is_result; /* the query has got its result, good or bad */
} replies[128] = {
	['1'] = { .answers = K(PARSE), .ends = K(PARSE) },
	['2'] = { .answers = K(BIND), .ends = K(BIND) },
	['3'] = { .answers = K(CLOSE), .ends = K(CLOSE) },
	['C'] = { .answers = K(QUERY) | K(EXECUTE), .ends = K(EXECUTE), .is_result = true },
	['D'] = { .answers = K(QUERY) | K(EXECUTE) },
	['E'] = { .answers =
	              QUERIES | PARSES | K(BIND) | DESCRIBES | K(EXECUTE) | K(CLOSE) | K(SYNC),
	          .is_result = true },
	['G'] = { .answers = K(QUERY) | K(EXECUTE) },
	['H'] = { .answers = K(QUERY) | K(EXECUTE) },
	['I'] = { .answers = K(QUERY) | K(EXECUTE), .ends = K(EXECUTE), .is_result = true },
	['T'] = { .answers = K(QUERY) | DESCRIBES, .ends = DESCRIBES },
	['V'] = { .answers = K(FUNCTION), .is_result = true },
	['W'] = { .answers = K(QUERY) },
	['Z'] = { .answers = QUERIES | K(SYNC), .ends = QUERIES | K(SYNC) },
	['c'] = { .answers = K(QUERY) | K(EXECUTE) },
	['d'] = { .answers = K(QUERY) | K(EXECUTE) },
	['n'] = { .answers = DESCRIBES, .ends = DESCRIBES },
	['s'] = { .answers = K(EXECUTE), .ends = K(EXECUTE) },
	['t'] = { .answers = DESCRIBES },
};

/* Whether a ReadyForQuery completes the request. */
static bool ends_ready(enum ledger_kind kind) { return (QUERIES | K(SYNC)) & (1u << kind); }

static struct ledger_entry *entry_at(const struct ledger *ledger, uint32_t index)
{
	return &ledger->ring[(ledger->head + index) & (ledger->capacity - 1)];
}

static struct ledger_entry *first_of(const struct ledger *ledger)
{
	return &ledger->ring[ledger->head];
}

static void settle(struct ledger_entry *entry, bool is_done)
{
	struct ledger_change *change = entry->change;

	entry->change = NULL;
	if (change)
		change->settle(change, is_done);
}

/* The first `count` entries will not be answered: undoes their changes in reverse order. */
static void take_back(struct ledger *ledger, uint32_t count)
{
	while (count-- > 0)
		settle(entry_at(ledger, count), false);
}

static void settle_failed(struct ledger *ledger)
{
	struct ledger_change *failed = ledger_take_failed(ledger);

	if (failed)
		failed->settle(failed, false);
}

void ledger_done(struct ledger *ledger)
{
	take_back(ledger, ledger->count);
	settle_failed(ledger);
	free(ledger->ring);
	*ledger = (struct ledger){ 0 };
}

static void pop(struct ledger *ledger)
{
	const struct ledger_entry *head = first_of(ledger);

	ledger->ready_count -= ends_ready(head->kind);
	ledger->call_count -= head->is_call;
	if (head->is_call && !ledger->ended)
		ledger->ended = &head->call;
	ledger->head = (ledger->head + 1) & (ledger->capacity - 1);
	ledger->count--;
	ledger->copy = LEDGER_COPY_NOT;
	ledger->has_result = false;
	ledger->copy_sync_count = 0;
}

static bool grow(struct ledger *ledger)
{
	uint32_t capacity = ledger->capacity ? 2 * ledger->capacity : FIRST_CAPACITY;
	struct ledger_entry *ring = malloc(capacity * sizeof(*ring));

	if (!ring)
		return false;
	for (uint32_t i = 0; i < ledger->count; i++)
		ring[i] = *entry_at(ledger, i);
	free(ledger->ring);
	ledger->ring = ring;
	ledger->capacity = capacity;
	ledger->head = 0;
	return true;
}

static bool push(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate,
                 struct ledger_change *change)
{
	struct ledger_entry *entry;

	if (ledger->count == ledger->capacity && !grow(ledger))
		return false;
	ledger->ended = NULL;
	if (ledger->count == 0)
		ledger->head = 0; /* the same memory as before */
	entry = entry_at(ledger, ledger->count);
	entry->change = change;
	entry->kind = (uint8_t)kind;
	entry->fate = (uint8_t)fate;
	entry->is_call = false;
	ledger->count++;
	ledger->ready_count += ends_ready(kind);
	if (kind != LEDGER_CLOSE_HERE)
		ledger->is_held_back = !ends_ready(kind);
	return true;
}

static void count_up(uint32_t *count, uint32_t more)
{
	*count = *count < UINT32_MAX - more ? *count + more : UINT32_MAX;
}

/* false: no memory. *is_noted: an entry was added. */
static bool add(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate,
                struct ledger_change *change, bool *is_noted)
{
	if (kind == LEDGER_NONE)
		return true;
	if (kind == LEDGER_COPY_DATA) {
		ledger->has_data = true;
		return true;
	}
	if (ledger->is_skipping) {
		if (kind != LEDGER_SYNC) {
			/* A server that skips does not read the request. */
			if (kind != LEDGER_COPY_END && ledger->is_skip_unsure)
				ledger->is_doubtful = true;
			return true;
		}
		ledger->is_skipping = false;
	}
	if (kind == LEDGER_SYNC && ledger->copy == LEDGER_IN_OPEN) {
		count_up(&ledger->copy_sync_count, 1);
		return true;
	}
	if ((1u << kind) & (EXTENDED | K(SYNC)))
		ledger->is_open = kind != LEDGER_SYNC && fate != LEDGER_OURS;
	if (kind == LEDGER_EXECUTE || ends_ready(kind))
		ledger->has_executed = kind == LEDGER_EXECUTE;
	if (kind != LEDGER_SYNC && ledger->copy == LEDGER_IN_OPEN)
		ledger->copy = LEDGER_IN_LEFT;
	if (kind == LEDGER_COPY_END && ledger->count == 0)
		return true; /* outside of COPY the server ignores it */
	if (kind == LEDGER_QUERY || kind == LEDGER_EXECUTE || kind == LEDGER_COPY_END)
		ledger->has_data = false;
	*is_noted = push(ledger, kind, fate, change);
	ledger->sync_epoch += kind == LEDGER_SYNC && *is_noted;
	return *is_noted;
}

bool ledger_add_change(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate,
                       struct ledger_change *change)
{
	bool is_noted = false;
	bool is_good = add(ledger, kind, fate, change, &is_noted);

	if (!is_noted && change)
		change->settle(change, false);
	return is_good;
}

bool ledger_add(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate)
{
	return ledger_add_change(ledger, kind, fate, NULL);
}

struct ledger_call *ledger_mark_call(struct ledger *ledger, enum ledger_kind kind)
{
	uint32_t last = ledger->count;
	struct ledger_entry *entry;

	do {
		if (!last)
			return NULL;
		entry = entry_at(ledger, --last);
	} while (entry->fate != LEDGER_CLIENT &&
	         (entry->kind == LEDGER_SYNC || entry->kind == LEDGER_TYPES));
	if (entry->kind != kind || entry->fate != LEDGER_CLIENT || entry->is_call)
		return NULL;
	entry->is_call = true;
	ledger->call_count++;
	return &entry->call;
}

const struct ledger_call *ledger_first_call(const struct ledger *ledger)
{
	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *entry = entry_at(ledger, i);

		if (entry->is_call)
			return &entry->call;
	}
	return NULL;
}

bool ledger_is_turn(const struct ledger *ledger, const struct ledger_change *change,
                    unsigned int bind_count)
{
	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *entry = entry_at(ledger, i);
		bool is_bind = entry->kind == LEDGER_BIND;

		if (entry->change == change)
			break;
		if ((is_bind && !bind_count) || !((1u << entry->kind) & EXTENDED & ~K(EXECUTE)))
			return false;
		bind_count -= is_bind;
	}
	return true;
}

static void remove_behind_head(struct ledger *ledger, uint32_t count)
{
	/* These are Syncs and ends of a COPY, which are no calls. */
	for (uint32_t i = 1; i <= count; i++)
		ledger->ready_count -= ends_ready(entry_at(ledger, i)->kind);
	*entry_at(ledger, count) = *first_of(ledger);
	ledger->head = (ledger->head + count) & (ledger->capacity - 1);
	ledger->count -= count;
}

/* The server has asked for data. It ignores the Syncs directly after the request. */
static void begin_copy(struct ledger *ledger)
{
	uint32_t count = 0;

	while (1 + count < ledger->count && entry_at(ledger, 1 + count)->kind == LEDGER_SYNC)
		count++;
	count_up(&ledger->copy_sync_count, count);
	remove_behind_head(ledger, count);
	ledger->copy = ledger->count == 1 ? LEDGER_IN_OPEN : LEDGER_IN_LEFT;
	if (ledger->count == 1 && first_of(ledger)->kind == LEDGER_EXECUTE)
		ledger->is_open = ledger->has_executed = true;
}

/* Whether the client's next message after the head is CopyDone or CopyFail. */
static bool has_end_behind(const struct ledger *ledger)
{
	return ledger->count > 1 && entry_at(ledger, 1)->kind == LEDGER_COPY_END;
}

/*
 * It has succeeded, or a COPY BOTH has ended in both directions: removes the client's CopyDone, if
 * it was sent. The server has ignored each Sync before that.
 */
static void end_copy(struct ledger *ledger)
{
	ledger->copy = LEDGER_COPY_NOT;
	ledger->copy_sync_count = 0;
	if (has_end_behind(ledger))
		remove_behind_head(ledger, 1);
}

static bool fits_both(const struct ledger *ledger, char type)
{
	if (ledger->copy == LEDGER_BOTH_OPEN)
		return strchr("dcEC", type);
	return strchr("dE", type) || (strchr("TDC", type) && has_end_behind(ledger));
}

/*
 * A COPY IN has failed. The server left it at one of our messages: at CopyData, at CopyDone or
 * CopyFail, or at one that is not allowed in COPY IN and made it fail. false: it is unknown whether
 * the next request is answered.
 */
static bool fail_copy(struct ledger *ledger)
{
	enum ledger_kind next = ledger->count > 1 ? entry_at(ledger, 1)->kind : LEDGER_NONE;
	bool is_query = first_of(ledger)->kind == LEDGER_QUERY;

	ledger->copy = LEDGER_COPY_NOT;
	count_up(&ledger->unsure_count, ledger->copy_sync_count);
	ledger->copy_sync_count = 0;
	if (next == LEDGER_COPY_END) {
		remove_behind_head(ledger, 1);
		next = ledger->count > 1 ? entry_at(ledger, 1)->kind : LEDGER_NONE;
		if (is_query || next == LEDGER_SYNC)
			return true;
	}
	if (next == LEDGER_NONE)
		return true;
	/* After a Query, the next may have made the copy fail, or is executed after that. */
	return next != LEDGER_SYNC && !is_query && !ledger->is_skip_unsure;
}

/* Up to the next Sync, whose ReadyForQuery the client of a skipped Query gets, of ours too. */
static void skip_to_sync(struct ledger *ledger)
{
	bool owes_ready = false;
	uint32_t count = 0;

	for (; count < ledger->count && entry_at(ledger, count)->kind != LEDGER_SYNC; count++)
		owes_ready |= ends_ready(entry_at(ledger, count)->kind) &&
		              entry_at(ledger, count)->fate == LEDGER_CLIENT;
	take_back(ledger, count);
	while (count-- > 0)
		pop(ledger);
	if (ledger->count == 0)
		ledger->is_skipping = true;
	else if (owes_ready)
		first_of(ledger)->fate = LEDGER_CLIENT;
}

static enum ledger_verdict on_error(struct ledger *ledger, enum ledger_fate fate)
{
	enum ledger_kind kind = first_of(ledger)->kind;

	ledger->failed = first_of(ledger)->change;
	first_of(ledger)->change = NULL;
	ledger->is_skip_unsure = ledger->copy_sync_count > 0;
	if (ledger->copy >= LEDGER_BOTH_OPEN)
		end_copy(ledger);
	else if (ledger->copy && !fail_copy(ledger))
		return LEDGER_DOUBT;
	if (!ends_ready(kind))
		skip_to_sync(ledger);
	if (kind == LEDGER_REFUSED_PARSE || kind == LEDGER_REFUSED_QUERY)
		return LEDGER_REPLACED;
	if (fate != LEDGER_OURS)
		return LEDGER_PASS;
	/* What is next was not skipped: it is the Query that has failed, or a Sync. */
	return ledger->count && first_of(ledger)->fate == LEDGER_OURS ? LEDGER_ANSWERED
	                                                              : LEDGER_FATAL;
}

/* The server ignores CopyDone and CopyFail outside of COPY: it owes no reply to them. */
static void pop_ignored(struct ledger *ledger)
{
	while (ledger->count && first_of(ledger)->kind == LEDGER_COPY_END)
		pop(ledger);
}

static bool fits(const struct ledger *ledger, char type)
{
	const struct ledger_entry *head;

	if (ledger->count == 0 || (unsigned char)type >= sizeof(replies) / sizeof(replies[0]))
		return false;
	head = first_of(ledger);
	if (!(replies[(unsigned char)type].answers & (1u << head->kind)))
		return false;
	/* No query ends without some kind of result, which may be an error. */
	if (type == 'Z' && head->kind != LEDGER_SYNC && !ledger->has_result)
		return false;
	if (ledger->copy >= LEDGER_BOTH_OPEN)
		return fits_both(ledger, type);
	return type != 'W' || !ledger->copy;
}

/* The verdict on a matching reply that is not an error. */
static const enum ledger_verdict verdicts[] = {
	[LEDGER_CLIENT] = LEDGER_PASS,
	[LEDGER_OURS] = LEDGER_ANSWERED,
	[LEDGER_DROPPED] = LEDGER_DROP,
};

/* Follows a reply that starts or ends a COPY. */
static void follow_copy(struct ledger *ledger, char type)
{
	if (type == 'W')
		ledger->copy = LEDGER_BOTH_OPEN;
	else if (type == 'c' && ledger->copy >= LEDGER_BOTH_OPEN)
		ledger->copy = LEDGER_BOTH_ENDED;
	else if (type == 'G')
		begin_copy(ledger);
	else if (type == 'C' && ledger->copy)
		end_copy(ledger);
}

/*
 * A Query has succeeded behind which a Describe of ours was sent. A request to cancel the Query may
 * hit that, and then the client's transaction fails: so the client gets its error, and the
 * ReadyForQuery behind it in place of this one. (If the Query has failed, so does the Describe.)
 */
static bool passes_ready_on(struct ledger *ledger, char type)
{
	struct ledger_entry *describe, *sync;

	if (type != 'Z' || ledger->count < 3 || !first_of(ledger)->change)
		return false;
	describe = entry_at(ledger, 1);
	sync = entry_at(ledger, 2);
	if (describe->kind != LEDGER_TYPES || describe->fate != LEDGER_OURS)
		return false;
	describe->fate = LEDGER_DROPPED;
	sync->fate = LEDGER_CLIENT;
	return true;
}

enum ledger_verdict ledger_reply(struct ledger *ledger, char type, bool *is_end)
{
	enum ledger_kind kind;
	enum ledger_fate fate;

	*is_end = false;
	settle_failed(ledger);
	if (ledger->is_doubtful)
		return LEDGER_DOUBT;
	if (!fits(ledger, type)) {
		if (type != 'Z' || ledger->unsure_count == 0)
			return LEDGER_MISMATCH;
		ledger->unsure_count--;
		ledger->is_skipping = false;
		return LEDGER_PASS;
	}
	kind = first_of(ledger)->kind;
	fate = first_of(ledger)->fate;
	if (type != 'Z')
		ledger->unsure_count = 0; /* the request answered here comes after all of them */
	if (replies[(unsigned char)type].is_result)
		ledger->has_result = true;
	if (type == 'E')
		return on_error(ledger, fate);
	follow_copy(ledger, type);
	if (replies[(unsigned char)type].ends & (1u << kind)) {
		*is_end = true;
		if (passes_ready_on(ledger, type))
			fate = LEDGER_DROPPED;
		settle(first_of(ledger), true);
		pop(ledger);
		pop_ignored(ledger);
	}
	if (type == 'Z' && ledger->count == 0)
		ledger->is_open = false;
	return verdicts[fate];
}

bool ledger_passes_ready(struct ledger *ledger)
{
	const struct ledger_entry *head = ledger->count == 1 ? first_of(ledger) : NULL;

	if (!head || ledger->failed || ledger->is_doubtful || ledger->copy ||
	    head->fate != LEDGER_CLIENT || head->change ||
	    (head->kind == LEDGER_QUERY ? !ledger->has_result : head->kind != LEDGER_SYNC))
		return false;
	ledger->is_open = false;
	pop(ledger);
	return true;
}

bool ledger_end_plain(struct ledger *ledger)
{
	const struct ledger_entry *head = first_of(ledger);
	const struct ledger_entry *next = ledger->count > 1 ? entry_at(ledger, 1) : NULL;

	if (head->change ||
	    (next && (next->kind == LEDGER_COPY_END || next->kind == LEDGER_CLOSE_HERE)))
		return false;
	ledger->unsure_count = 0; /* as in ledger_reply() */
	pop(ledger);
	return true;
}

bool ledger_owes_borrower(const struct ledger *ledger)
{
	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *entry = entry_at(ledger, i);

		/* The error of a request that we have added is the borrower's; a Sync has none. */
		if (entry->fate == LEDGER_CLIENT ||
		    (entry->fate == LEDGER_DROPPED && entry->kind != LEDGER_SYNC))
			return true;
	}
	return false;
}

bool ledger_drop_sync(struct ledger *ledger)
{
	struct ledger_entry *head = ledger->count ? first_of(ledger) : NULL;
	const struct ledger_entry *next = ledger->count > 1 ? entry_at(ledger, 1) : NULL;

	if (!head || head->kind != LEDGER_SYNC || head->fate != LEDGER_CLIENT ||
	    !ledger_is_certain(ledger) || ledger->is_doubtful)
		return false;
	/* But for an internal query behind what the borrower has sent. */
	if (next && (ledger->count > 2 || next->kind != LEDGER_QUERY || next->fate != LEDGER_OURS))
		return false;
	head->fate = LEDGER_DROPPED;
	return true;
}

bool ledger_answer(struct ledger *ledger)
{
	if (!ledger_owes_answer(ledger))
		return false;
	settle(first_of(ledger), true);
	pop(ledger);
	pop_ignored(ledger);
	return true;
}

struct ledger_change *ledger_take_failed(struct ledger *ledger)
{
	struct ledger_change *change = ledger->failed;

	ledger->failed = NULL;
	return change;
}
