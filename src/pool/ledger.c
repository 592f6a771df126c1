/* SPDX-License-Identifier: ISC */
/*
 * The ledger: which reply may come next, and for whom it is.
 *
 * Hard here:
 *
 * After an error in the extended protocol the server ignores everything up to
 * the next Sync, Query messages too. So the entries up to that Sync go, and what
 * is added before a Sync came makes no entry.
 *
 * In COPY IN the server ignores Flush and Sync, ends with CopyDone or CopyFail,
 * and takes any other message for an error. Clients pipeline, so the Sync behind
 * an Execute may have been sent before anyone knew that it is a COPY: it gets no
 * answer. But when the copy fails, the server leaves COPY IN at a message that we
 * cannot know, and a Sync among the CopyData is answered or not, depending on
 * which came first. No driver sends that; where it happens nobody can tell what
 * is owed, and the verdict is LEDGER_DOUBT.
 */
#include "pgweir/pool/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

#define FIRST_ROOM 8

/* The types that may answer each kind. `last`: those that end the entry. */
static const struct {
	const char *types;
	const char *last;
} replies[LEDGER_KINDS] = {
	[LEDGER_QUERY] = { "TDCIEGHWdcZ", "Z" }, [LEDGER_FUNCTION] = { "VEZ", "Z" },
	[LEDGER_PARSE] = { "1E", "1" },          [LEDGER_BIND] = { "2E", "2" },
	[LEDGER_DESCRIBE] = { "tTnE", "Tn" },    [LEDGER_EXECUTE] = { "DCIsEGHWdc", "CIs" },
	[LEDGER_CLOSE] = { "3E", "3" },          [LEDGER_SYNC] = { "ZE", "Z" },
};

void ledger_done(struct ledger *ledger)
{
	free(ledger->ring);
	*ledger = (struct ledger){ 0 };
}

void ledger_clear(struct ledger *ledger)
{
	ledger->head = ledger->count = 0;
	ledger->is_copying = ledger->is_skipping = ledger->has_data = false;
}

static struct ledger_entry *entry_at(const struct ledger *ledger, uint32_t index)
{
	return &ledger->ring[(ledger->head + index) & (ledger->room - 1)];
}

static void pop(struct ledger *ledger)
{
	ledger->head = (ledger->head + 1) & (ledger->room - 1);
	ledger->count--;
	ledger->is_copying = false;
}

static bool grow(struct ledger *ledger)
{
	uint32_t room = ledger->room ? 2 * ledger->room : FIRST_ROOM;
	struct ledger_entry *ring = malloc(room * sizeof(*ring));

	if (!ring)
		return false;
	for (uint32_t i = 0; i < ledger->count; i++)
		ring[i] = *entry_at(ledger, i);
	free(ledger->ring);
	ledger->ring = ring;
	ledger->room = room;
	ledger->head = 0;
	return true;
}

static bool push(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate)
{
	if (ledger->count == ledger->room && !grow(ledger))
		return false;
	*entry_at(ledger, ledger->count) = (struct ledger_entry){
		.kind = (uint8_t)kind,
		.fate = (uint8_t)fate,
		.is_after_data = ledger->has_data,
	};
	ledger->count++;
	return true;
}

/* Whether the server, as far as we know, still reads CopyData. */
static bool copy_is_open(const struct ledger *ledger)
{
	if (!ledger->is_copying)
		return false;
	for (uint32_t i = 1; i < ledger->count; i++) {
		if (entry_at(ledger, i)->kind != LEDGER_SYNC)
			return false;
	}
	return true;
}

enum ledger_send ledger_add(struct ledger *ledger, enum ledger_kind kind, enum ledger_fate fate)
{
	if (kind == LEDGER_NONE)
		return LEDGER_SENT;
	if (kind == LEDGER_COPY_DATA) {
		ledger->has_data = true;
		return LEDGER_SENT;
	}
	if (ledger->is_skipping) {
		if (kind != LEDGER_SYNC)
			return LEDGER_SENT; /* the server will not even look at it */
		ledger->is_skipping = false;
	}
	if (kind == LEDGER_SYNC && copy_is_open(ledger))
		return LEDGER_DROP;
	if (kind == LEDGER_COPY_END && ledger->count == 0)
		return LEDGER_SENT; /* outside of COPY the server ignores it */
	if (kind == LEDGER_QUERY || kind == LEDGER_EXECUTE || kind == LEDGER_COPY_END)
		ledger->has_data = false;
	return push(ledger, kind, fate) ? LEDGER_SENT : LEDGER_NO_MEMORY;
}

/* Removes the entry at an index, which is not the head. */
static void remove_at(struct ledger *ledger, uint32_t index)
{
	for (uint32_t i = index; i + 1 < ledger->count; i++)
		*entry_at(ledger, i) = *entry_at(ledger, i + 1);
	ledger->count--;
}

/* The server has asked for data. The Syncs right behind the request are ignored by it. */
static void begin_copy(struct ledger *ledger)
{
	ledger->is_copying = true;
	while (ledger->count > 1 && entry_at(ledger, 1)->kind == LEDGER_SYNC &&
	       !entry_at(ledger, 1)->is_after_data)
		remove_at(ledger, 1);
}

/* A COPY IN came to its good end: what the server ignored meanwhile goes, up to the CopyDone. */
static void end_copy(struct ledger *ledger)
{
	ledger->is_copying = false;
	while (ledger->count > 1) {
		enum ledger_kind kind = entry_at(ledger, 1)->kind;

		if (kind != LEDGER_SYNC && kind != LEDGER_COPY_END)
			return;
		remove_at(ledger, 1);
		if (kind == LEDGER_COPY_END)
			return;
	}
}

/*
 * A COPY IN failed. The server has left it at some message of ours: CopyData, the
 * CopyDone or CopyFail, or one that does not belong there, which it took for the
 * reason to fail. false: a Sync lies where we cannot say whether it is answered.
 */
static bool fail_copy(struct ledger *ledger)
{
	bool is_query = entry_at(ledger, 0)->kind == LEDGER_QUERY;

	ledger->is_copying = false;
	for (uint32_t i = 1; i < ledger->count; i++) {
		enum ledger_kind kind = entry_at(ledger, i)->kind;

		if (kind == LEDGER_COPY_END) {
			remove_at(ledger, i);
			return true;
		}
		if (kind == LEDGER_SYNC)
			return false;
		if (is_query) /* it may be the reason, or run behind the failure */
			return false;
		return true;
	}
	return true;
}

/* After an error in the extended protocol nothing is answered up to the next Sync. */
static void skip_to_sync(struct ledger *ledger)
{
	while (ledger->count) {
		if (entry_at(ledger, 0)->kind == LEDGER_SYNC)
			return;
		pop(ledger);
	}
	ledger->is_skipping = true;
}

static enum ledger_verdict on_error(struct ledger *ledger, enum ledger_fate fate)
{
	enum ledger_kind kind = entry_at(ledger, 0)->kind;

	if (ledger->is_copying && !fail_copy(ledger))
		return LEDGER_DOUBT;
	if (kind != LEDGER_QUERY && kind != LEDGER_FUNCTION && kind != LEDGER_SYNC)
		skip_to_sync(ledger);
	return fate == LEDGER_SWALLOW ? LEDGER_OURS : LEDGER_PASS;
}

/* CopyDone and CopyFail outside of COPY are ignored by the server: they owe nothing. */
static void pop_ignored(struct ledger *ledger)
{
	while (ledger->count && entry_at(ledger, 0)->kind == LEDGER_COPY_END)
		pop(ledger);
}

enum ledger_verdict ledger_reply(struct ledger *ledger, char type, bool *is_end)
{
	struct ledger_entry *head;
	enum ledger_fate fate;

	*is_end = false;
	if (ledger->count == 0)
		return LEDGER_MISMATCH;
	head = entry_at(ledger, 0);
	fate = head->fate;
	if (!strchr(replies[head->kind].types, type))
		return LEDGER_MISMATCH;
	if (type == 'E')
		return on_error(ledger, fate);
	if (type == 'G' || type == 'W')
		begin_copy(ledger);
	else if (type == 'C' && ledger->is_copying)
		end_copy(ledger);
	if (strchr(replies[head->kind].last, type)) {
		*is_end = true;
		pop(ledger);
		pop_ignored(ledger);
	}
	return fate == LEDGER_SWALLOW ? LEDGER_OURS : LEDGER_PASS;
}
