/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the ledger: a byte is a request or a reply, and replies may be wrong.
 * The counts must stay consistent, and ledger_done() must reset everything.
 */
#include "pgweir/pool/server/ledger.h"

#include <assert.h>

/* The short form of ledger_reply(). */
static bool passes(struct ledger *ledger, char type)
{
	return type == 'Z' ? ledger_passes_ready(ledger) : ledger_passes_plain(ledger, type);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Invariants. */
static void check(const struct ledger *ledger)
{
	assert(ledger->count <= ledger->capacity);
	assert((ledger->capacity & (ledger->capacity - 1)) == 0);
	assert(!ledger->copy || ledger->count > 0);
	assert(!ledger->is_skipping || ledger->count == 0);
	assert(ledger->copy_sync_count == 0 || ledger->copy);
	if (ledger->count) {
		const struct ledger_entry *head = &ledger->ring[ledger->head];

		assert(head->kind != LEDGER_NONE && head->kind != LEDGER_COPY_END &&
		       head->kind != LEDGER_COPY_DATA && head->kind < LEDGER_KINDS);
		assert(ledger->copy < LEDGER_BOTH_OPEN || head->kind == LEDGER_QUERY);
	}
}

/* A plausible reply, or any byte. */
static char reply_of(uint8_t byte)
{
	static const char types[] = "ZE12C3DTntIsGHdcVW";

	return byte < 4 * sizeof(types) ? types[byte % (sizeof(types) - 1)] : (char)byte;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ledger ledger = { 0 };

	for (size_t i = 0; i < size; i++) {
		uint32_t before = ledger.count;
		enum ledger_verdict verdict;
		bool is_end;

		if (data[i] & 0x80) {
			bool send = ledger_add(&ledger, (enum ledger_kind)(data[i] % LEDGER_KINDS),
			                       data[i] & 0x40 ? LEDGER_OURS : LEDGER_CLIENT);

			assert(send);
			assert(ledger.count <= before + 1);
			check(&ledger);
			continue;
		}
		if (data[i] & 0x40 && passes(&ledger, reply_of(data[i])))
			verdict = LEDGER_PASS;
		else
			verdict = ledger_reply(&ledger, reply_of(data[i]), &is_end);
		assert(ledger.count <= before);
		check(&ledger);
		if (verdict != LEDGER_MISMATCH && verdict != LEDGER_DOUBT)
			continue;
		ledger_done(&ledger); /* a server out of step is closed */
		assert(ledger_is_empty(&ledger) && ledger_is_certain(&ledger));
	}
	ledger_done(&ledger);
	return 0;
}
