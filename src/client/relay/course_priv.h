/* SPDX-License-Identifier: ISC */
/*
 * The course of a transaction: what a client's messages do to it, before the server has answered.
 */
#ifndef PGWEIR_CLIENT_RELAY_COURSE_PRIV_H
#define PGWEIR_CLIENT_RELAY_COURSE_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

enum course_block {
	COURSE_UNSURE, /* not known before the server has answered */
	COURSE_CLOSED, /* then no transaction block is open, or one that has failed */
	COURSE_OPEN
};

/* What a statement does, if it succeeds. */
enum course_effect {
	COURSE_ANYTHING, /* also COPY, which takes the next message as data */
	COURSE_NOTHING,  /* to transaction blocks */
	COURSE_OPENS,
	COURSE_CLOSES
};

/* What the messages that were sent do, if they succeed. */
struct course {
	uint8_t block;     /* enum course_block: of the transaction */
	uint8_t statement; /* enum course_effect: of the unnamed statement */
	uint8_t portal;    /* of the unnamed portal */
};

/* All messages were answered, and the server has said whether a transaction block is open. */
void course_begin(struct course *course, bool is_open);

/*
 * A message is about to be sent. text: of a Query, of a Parse, and of the named statement of a
 * Bind; `at` is NULL if it is not known.
 */
void course_note(struct course *course, const struct frame *frame, struct bytes in,
                 struct bytes text);

#endif
