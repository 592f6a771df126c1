/* SPDX-License-Identifier: ISC */
/*
 * The channel between an old process and the new one that replaces it: a Unix socket, over
 * which records and descriptors are sent.
 *
 *   new                                  old
 *    |  TAKEOVER <version> (console)      |
 *    |<------------------- HELLO, LISTENER...   nothing has changed yet
 *    |  ... starts, opens its files ...   |
 *    |  GO ------------------------------>|
 *    |<---- GLOBAL, ..., CLIENT..., END   |  what is between two messages; the old one keeps it
 *    |  ACCEPTED ------------------------>|  "I can continue with all of this"
 *    |<------------------------- YOURS    |  from here on it belongs to the new one
 *    |  serves                            |  ... and the same again for those that were busy
 *    |<------------------------- DONE     |  ends
 *
 * Until YOURS the new process has not used what it received, and the old one still has it. So
 * if one of them ends, the other has lost nothing.
 *
 * Only one of them may accept clients: after the first round the old one does so only if the new
 * process has ended. That one is slow, refuses a record, or cannot be understood does not mean that
 * it has. So neither closes its descriptor before it ends or all is done, and a round can fail
 * alone:
 *
 *    |  REFUSED instead of ACCEPTED ----->|  serves the rest by itself, no more rounds
 *    |  ACCEPTED, too late -------------->|
 *    |<-------------------------- KEPT    |  has served its clients on; another round follows
 *
 * These functions block, at most until the channel's deadline. Both processes belong to the
 * same user, but each checks what it receives as if they did not.
 */
#ifndef PGWEIR_NET_CHANNEL_H
#define PGWEIR_NET_CHANNEL_H

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/base/record.h"

#define CHANNEL_MESSAGE_MAX ((uint32_t)640 * 1024 * 1024)

/* The kinds of messages. ERROR is PostgreSQL's ErrorResponse: the console refused the command. */
enum handover_kind {
	HANDOVER_NONE = 0, /* none has come: the channel has failed */
	HANDOVER_ERROR = 'E',
	HANDOVER_HELLO = 'H',
	HANDOVER_LISTENER = 'L', /* with its descriptor */
	HANDOVER_GO = 'G',
	HANDOVER_GLOBAL = 'g',
	HANDOVER_CLOSED_HOST = 'h',
	HANDOVER_CLUSTER = 'r',
	HANDOVER_DATABASE = 'd',
	HANDOVER_ROLE = 'a',
	HANDOVER_POOL = 'p',
	HANDOVER_STATEMENT = 't', /* sent before the first object that knows it */
	HANDOVER_SERVER = 's',    /* with its descriptor; a lent server precedes its client */
	HANDOVER_CLIENT = 'c',    /* with its descriptor */
	HANDOVER_END = 'z',       /* end of a round */
	HANDOVER_ACCEPTED = 'A',
	HANDOVER_YOURS = 'Y',
	HANDOVER_REFUSED = 'R', /* new to old: this round cannot be used, nor a later one */
	HANDOVER_KEPT = 'N',    /* old to new: instead of YOURS */
	HANDOVER_CANCEL = 'K',  /* new to old: a cancel key that the new one does not know */
	HANDOVER_STOP = 'S',    /* new to old: end, as the new one is ending */
	HANDOVER_RESUME = 'U',  /* new to old: RESUME of the database with this name; "": of all */
	HANDOVER_DONE = 'D'
};

/*
 * The descriptor is borrowed. If only sending has failed, messages that the other process sent
 * before it ended can still be received, and vice versa.
 */
struct channel {
	int fd;
	usec_t deadline; /* compared with clock_now() */
	bool is_broken;  /* sending has failed: nothing more is sent */
	bool is_deaf;    /* receiving has failed: nothing more is received */
	struct err err;  /* of the first of both, else of the last receive */
};

/* Sends one message, with a descriptor unless fd is -1. false: the channel is broken. */
bool channel_send(struct channel *channel, enum handover_kind kind, struct bytes body, int fd);

/* The same with a record. An incomplete record breaks the channel too. */
bool channel_send_record(struct channel *channel, enum handover_kind kind, const struct buf *body,
                         int fd);

/* The same with the record of one table. */
bool channel_send_table(struct channel *channel, enum handover_kind kind,
                        const struct record_table *table, const void *values, int fd);

struct channel_message {
	char kind;
	struct buf body;
	int fd; /* -1: none */
};

/* Whether the other process has closed its descriptor, or ended. */
bool channel_is_gone(const struct channel *channel);

/* Whether a small message can be sent without waiting for the other process. */
bool channel_has_room(const struct channel *channel);

/* The next message, freed by channel_message_done(). false: is_deaf, or none has begun in time. */
bool channel_receive(struct channel *channel, struct channel_message *message);

/* Frees the body, and closes the descriptor unless the caller has set it to -1. */
void channel_message_done(struct channel_message *message);

/* Messages in the order in which they came. All zero: none. */
struct channel_messages {
	struct channel_message *at;
	size_t count, capacity;
};

/* Takes a message. false: no memory; the caller still has it. */
bool channel_messages_add(struct channel_messages *messages, const struct channel_message *message);

void channel_messages_done(struct channel_messages *messages);

#endif
