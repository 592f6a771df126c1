/* SPDX-License-Identifier: ISC */
/*
 * The channel between a process that goes and the one that takes its place: a Unix
 * socket, over which records and descriptors pass.
 *
 *   new                                  old
 *    |  TAKEOVER <version> (console)      |
 *    |<------------------- HELLO, LISTENER...   nothing has changed yet
 *    |  ... starts, opens its files ...   |
 *    |  GO ------------------------------>|
 *    |<---- GLOBAL, ..., CLIENT..., END   |  what is at rest; it stays where it is, too
 *    |  ACCEPTED ------------------------>|  "I could go on with all of this"
 *    |<------------------------- YOURS    |  from here on it is the new one's
 *    |  serves                            |  ... and the same for what comes to rest later
 *    |<------------------------- DONE     |  ends
 *
 * Until YOURS the new process has not touched what it got, and the old one has not let
 * it go: whichever of them ends, the other has lost nothing.
 *
 * These calls wait, up to the channel's deadline. Both sides are one user's, but each
 * checks what the other says as if it were not.
 */
#ifndef PGWEIR_NET_CHANNEL_H
#define PGWEIR_NET_CHANNEL_H

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"

/* Bytes of one message at most. */
#define CHANNEL_MESSAGE_MAX ((uint32_t)640 * 1024 * 1024)

/* The letters of messages. ERROR is PostgreSQL's: the console has refused. */
enum handover_kind {
	HANDOVER_ERROR = 'E',
	HANDOVER_HELLO = 'H',
	HANDOVER_LISTENER = 'L', /* with its descriptor */
	HANDOVER_GO = 'G',
	HANDOVER_GLOBAL = 'g',
	HANDOVER_DATABASE = 'd',
	HANDOVER_ROLE = 'a',
	HANDOVER_POOL = 'p',
	HANDOVER_STATEMENT = 't', /* before the first that knows it */
	HANDOVER_SERVER = 's', /* with its descriptor; one that is lent stands before its client */
	HANDOVER_CLIENT = 'c', /* the same */
	HANDOVER_END = 'z',    /* of a round */
	HANDOVER_ACCEPTED = 'A',
	HANDOVER_YOURS = 'Y',
	HANDOVER_CANCEL = 'K', /* new to old: a key that the new one does not know */
	HANDOVER_STOP = 'S',   /* new to old: it is to end, as the new one does */
	HANDOVER_DONE = 'D'
};

/*
 * The descriptor is borrowed. The first failure stays: what comes later does nothing; but
 * where sending has failed, what the other side had said before it went can be received.
 */
struct channel {
	int fd;
	usec_t deadline; /* by clock_now() */
	bool is_broken;  /* something has failed: nothing is sent any more */
	bool is_deaf;    /* receiving has failed: nothing is received either */
	struct err err;  /* good when it is broken */
};

/* Sends one message, and with it a descriptor unless that is -1. false: it is broken. */
bool channel_send(struct channel *channel, enum handover_kind kind, struct bytes body, int fd);

/* The same with a record: one that is not whole breaks it too. */
bool channel_send_record(struct channel *channel, enum handover_kind kind, const struct buf *body,
                         int fd);

struct channel_message {
	char kind;
	struct buf body;
	int fd; /* -1: none */
};

/* The next message; the caller owns it: channel_message_done(). false: it is deaf. */
bool channel_receive(struct channel *channel, struct channel_message *message);

/* Frees the body, and closes the descriptor unless it was taken away (-1). */
void channel_message_done(struct channel_message *message);

#endif
