/* SPDX-License-Identifier: ISC */
/*
 * Frames: the messages of PostgreSQL's protocol 3 as seen from outside: a type byte, a length,
 * a body.
 *
 * Source: PostgreSQL's manual, "Frontend/Backend Protocol", "Message Formats".
 */
#ifndef PGWEIR_PGWIRE_FRAME_H
#define PGWEIR_PGWIRE_FRAME_H

#include "pgweir/base/bytes.h"

#define FRAME_HEADER_SIZE 5

enum wire_result {
	WIRE_OK,   /* the result is filled in */
	WIRE_MORE, /* too few bytes to decide; nothing was consumed, call again with more */
	WIRE_BAD   /* invalid, whatever bytes follow */
};

/* The result of one step through a list of unknown length. */
enum walk_result {
	WALK_ITEM, /* the result is filled in */
	WALK_END,  /* the list ended correctly */
	WALK_BAD   /* the bytes are not such a list */
};

struct frame {
	char type;       /* 'Q', 'P', ... as on the wire */
	uint32_t length; /* bytes on the wire, type byte included */
};

/*
 * Parses the header of the message at the start of `in`. The body may not have arrived yet: a
 * pooler forwards long messages in pieces.
 *
 * Consumes nothing and keeps no pointer into `in`. A message longer than `max` bytes is
 * WIRE_BAD.
 */
static inline enum wire_result frame_peek(struct bytes in, uint32_t max, struct frame *frame)
{
	uint32_t length;

	if (in.count < FRAME_HEADER_SIZE)
		return WIRE_MORE;
	length = load_be32(in.at + 1);
	if (length < 4 || length >= max)
		return WIRE_BAD;
	frame->type = in.at[0];
	frame->length = length + 1;
	return WIRE_OK;
}

/*
 * Whether a client's message of this type is a step of the extended query protocol. After an
 * error the server skips such messages up to the next Sync.
 */
static inline bool frame_is_extended(char type)
{
	switch (type) {
	case 'P': /* Parse */
	case 'B': /* Bind */
	case 'D': /* Describe */
	case 'E': /* Execute */
	case 'C': /* Close */
		return true;
	default:
		return false;
	}
}

/* Returns the body of the frame at the start of `in`, which must be complete. */
static inline struct bytes frame_body(struct bytes in, const struct frame *frame)
{
	return bytes_of(in.at + FRAME_HEADER_SIZE, frame->length - FRAME_HEADER_SIZE);
}

/* The same of a frame of which the header is complete, as far as the body has been received. */
static inline struct bytes frame_received(struct bytes in, const struct frame *frame)
{
	size_t count = in.count < frame->length ? in.count : frame->length;

	return bytes_of(in.at + FRAME_HEADER_SIZE, count - FRAME_HEADER_SIZE);
}

#endif
