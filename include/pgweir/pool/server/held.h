/* SPDX-License-Identifier: ISC */
/*
 * What a server's session may hold of its clients. This is the only place that says it.
 *
 *   what a text or a reply shows          --> server_hold()         adds kinds
 *   what has become of the server         --> server_held_after()   an event takes kinds away
 *   before another client gets the server --> held_need()           what must be done first
 *
 * One table (held.c) has a row for each kind: which events end it, and what another client needs.
 * A new kind is a new row. Values of sequences are not among them, as they have an owner
 * (pool/pool_sequences.c), nor are known parameters and statements, which are in maps and lists.
 */
#ifndef PGWEIR_POOL_SERVER_HELD_H
#define PGWEIR_POOL_SERVER_HELD_H

#include <stdbool.h>

/* The numbers are those of the hand-over's records: new ones come last. */
enum held_kind {
	HELD_STATE = 1 << 0,    /* of its borrower, until it is known that nothing stays */
	HELD_SESSION = 1 << 1,  /* whatever a client in session mode has left */
	HELD_FORMER = 1 << 2,   /* the same, and its client goes on in another mode */
	HELD_UNKNOWN = 1 << 3,  /* what nobody knows of, of the borrower of its pairing */
	HELD_FOREIGN = 1 << 4,  /* the same of others: it is cleaned before anything else is sent */
	HELD_LATE = 1 << 5,     /* the same, found while it is lent */
	HELD_LOADS = 1 << 6,    /* libraries that may have been loaded, and are in no map */
	HELD_LIBRARY = 1 << 7,  /* libraries of its map */
	HELD_LASTING = 1 << 8,  /* what nothing removes: of dblink, the seed of random() */
	HELD_CHANNELS = 1 << 9, /* it listens, or has listened */
	/*
	 * Its replies may be out of step, and must be proven (pool_home()). Older releases of
	 * PostgreSQL report a notification that they cannot convert to client_encoding as an error
	 * of an idle session, with a ReadyForQuery: to a request that the server has not read yet,
	 * it looks like the reply, and all replies behind it are those of the request before.
	 */
	HELD_STEP = 1 << 10,
	HELD_DDL = 1 << 11,     /* in records only: lease.definition has something */
	HELD_REST = 1 << 12,    /* any value of parameters that are not reported: a RESET ran */
	HELD_STARTUP = 1 << 13, /* facts: some that its client gave at the startup were set back */
	/* a value was reported in another encoding than that of the database, which maps have */
	HELD_REPORT = 1 << 14
};

#define HELD_KINDS 15

/* Older releases have three kinds for that, and read any of them. */
#define HELD_DEFINITIONS ((unsigned int)HELD_DDL | 1u << 15 | 1u << 16)

/* What nobody knows of. */
#define HELD_DOUBT ((unsigned int)(HELD_UNKNOWN | HELD_FOREIGN | HELD_LATE))

enum held_event {
	HELD_LENT,      /* to another borrower than before */
	HELD_SETTLED,   /* PostgreSQL, or the texts, say that nothing of the transaction stays */
	HELD_ASKED,     /* of a session PostgreSQL has said what there is */
	HELD_LOADED,    /* all libraries are in the map, or none was loaded */
	HELD_DISCARDED, /* by our DISCARD ALL, which leaves the seed, and what is lasting */
	HELD_CLEANED,
	HELD_PROVEN,    /* its replies are in step */
	HELD_READ,      /* facts: its parameters are known */
	HELD_RESTARTED, /* its client gets all its parameters again, or it gets another client */
	HELD_KEPT, /* after a cancel: it was rolled back, discarded, got a new seed, and is in step
	            */
	HELD_RETURNED, /* by its borrower, which may be the next one, too */
	HELD_EVENTS
};

/* What must be done before another client gets the server: each includes those above it. */
enum held_need {
	NEEDS_NOTHING,
	NEEDS_CLEANING, /* before its first message is sent */
	NEEDS_RESET,    /* server_reset_query when it is returned, if there is one */
	NEEDS_DISCARD,  /* DISCARD ALL then */
	NEEDS_CLOSING
};

/* What is left of these kinds. */
unsigned int held_after(unsigned int kinds, enum held_event event);

/* for_session: the other client is in session mode. can_clean: PostgreSQL accepts the cleaning. */
enum held_need held_need(unsigned int kinds, bool for_session, bool can_clean);

#endif
