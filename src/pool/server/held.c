/* SPDX-License-Identifier: ISC */
/* What a server's session may hold: the table, and what follows from it. */
#include "pgweir/pool/server/held.h"

#define AT(event) (1u << HELD_##event)

/* In the order of the bits. */
static const struct held_row {
	unsigned int ended; /* AT() of the events that end it */
	enum held_need for_session, for_others;
} rows[HELD_KINDS] = {
	/* STATE */ { AT(SETTLED) | AT(DISCARDED) | AT(KEPT), NEEDS_DISCARD, NEEDS_DISCARD },
	/* SESSION */ { AT(ASKED) | AT(DISCARDED) | AT(KEPT), NEEDS_RESET, NEEDS_DISCARD },
	/* FORMER */ { AT(DISCARDED) | AT(KEPT), NEEDS_DISCARD, NEEDS_DISCARD },
	/* UNKNOWN */ { AT(LENT) | AT(KEPT), NEEDS_CLEANING, NEEDS_CLEANING },
	/* FOREIGN */ { AT(CLEANED) | AT(KEPT), NEEDS_CLEANING, NEEDS_CLEANING },
	/* LATE */ { AT(RETURNED) | AT(KEPT), NEEDS_CLEANING, NEEDS_CLEANING },
	/* LOADS */ { AT(LOADED), NEEDS_CLOSING, NEEDS_CLOSING },
	/* LIBRARY: a client with the same in its map may get the server: fitting_server() */
	{ 0, NEEDS_NOTHING, NEEDS_NOTHING },
	/* LASTING */ { 0, NEEDS_CLOSING, NEEDS_CLOSING },
	/* CHANNELS */ { AT(PROVEN) | AT(KEPT), NEEDS_NOTHING, NEEDS_NOTHING },
	/* STEP */ { AT(PROVEN) | AT(KEPT), NEEDS_NOTHING, NEEDS_NOTHING },
	/* DDL */ { 0, NEEDS_NOTHING, NEEDS_NOTHING },
	/* REST */ { AT(READ) | AT(RESTARTED) | AT(KEPT), NEEDS_NOTHING, NEEDS_NOTHING },
	/* STARTUP */ { AT(READ) | AT(RESTARTED) | AT(KEPT), NEEDS_NOTHING, NEEDS_NOTHING },
	/* REPORT */ { AT(READ) | AT(KEPT), NEEDS_NOTHING, NEEDS_NOTHING },
};

/* What a kind becomes that such an event ends; 0: nothing. */
static const unsigned int becomes[HELD_EVENTS] = {
	[HELD_LENT] = HELD_FOREIGN,
	[HELD_RETURNED] = HELD_FOREIGN,
	[HELD_ASKED] = HELD_FORMER,
};

unsigned int held_after(unsigned int kinds, enum held_event event)
{
	unsigned int ended = 0;

	for (unsigned int i = 0; i < HELD_KINDS; i++) {
		if (rows[i].ended >> event & 1)
			ended |= kinds & 1u << i;
	}
	return (kinds & ~ended) | (ended ? becomes[event] : 0);
}

enum held_need held_need(unsigned int kinds, bool for_session, bool can_clean)
{
	enum held_need most = NEEDS_NOTHING;

	for (unsigned int i = 0; i < HELD_KINDS; i++) {
		enum held_need need = for_session ? rows[i].for_session : rows[i].for_others;

		if (need == NEEDS_CLEANING && !can_clean)
			need = NEEDS_DISCARD;
		if ((kinds >> i & 1) && need > most)
			most = need;
	}
	return most;
}
