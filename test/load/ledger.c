/* SPDX-License-Identifier: ISC */
/* Ledger: one byte for each row written. */
#include "ledger.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024

static void ledger_grow(struct ledger *ledger, size_t wanted)
{
	size_t room = ledger->room ? ledger->room : FIRST_CAPACITY;
	unsigned char *states;

	while (room < wanted)
		room *= 2;
	states = realloc(ledger->states, room);
	if (!states) {
		fputs("load: out of memory\n", stderr);
		exit(2);
	}
	ledger->states = states;
	ledger->room = room;
}

size_t ledger_take(struct ledger *ledger, size_t count, enum write_state state)
{
	size_t first = ledger->count;

	if (ledger->room < first + count)
		ledger_grow(ledger, first + count);
	ledger->count += count;
	ledger_settle(ledger, first, count, state);
	return first;
}

void ledger_settle(struct ledger *ledger, size_t first, size_t count, enum write_state state)
{
	assert(first + count <= ledger->count);
	memset(ledger->states + first, state, count);
}

size_t ledger_count(const struct ledger *ledger, enum write_state state)
{
	size_t found = 0;

	for (size_t number = 0; number < ledger->count; number++)
		found += ledger->states[number] == state;
	return found;
}

void ledger_done(struct ledger *ledger)
{
	free(ledger->states);
	*ledger = (struct ledger){ 0 };
}
