/* SPDX-License-Identifier: ISC */
/*
 * Streams in which much flows one way: rows of a COPY, say. PostgreSQL sends such in pieces
 * of 8 KiB, and to be woken for each costs more than to pass it on. Once BULK_BEGIN bytes
 * have come without an answer of ours, the kernel wakes us for BULK_LEAST of them
 * (SO_RCVLOWAT, socket(7)); after a pause of BULK_PAUSE for whatever there is, as before.
 */
#ifndef PGWEIR_NET_BULK_PRIV_H
#define PGWEIR_NET_BULK_PRIV_H

#include "pgweir/net/stream.h"

#define BULK_BEGIN ((uint32_t)4 * 1024 * 1024)
#define BULK_LEAST (48 * 1024) /* bytes; less than one stream_read() takes */
#define BULK_PAUSE ((usec_t)1000)

/* So many streams at once; others are read as ever. */
#define BULK_SLOTS 15

struct bulk {
	struct timer pause; /* on while it has a stream */
	struct stream *stream;
};

struct bulk_slots {
	struct timer_queue *queue; /* of their pauses */
	struct bulk slots[BULK_SLOTS];
};

void bulk_slots_free(struct bulk_slots **slots);

/* What came has made it BULK_BEGIN, or more, since the last answer. */
void bulk_go_on(struct stream *stream);

/* Whatever comes is told at once again. Only of a stream that has a slot. */
void bulk_end(struct stream *stream);

/* Something has come. */
static inline void bulk_came(struct stream *stream, size_t count)
{
	stream->flow += (uint32_t)count;
	if (stream->flow >= BULK_BEGIN)
		bulk_go_on(stream);
}

/* We answer: what comes next is not more of the same. */
static inline void bulk_answered(struct stream *stream)
{
	stream->flow = 0;
	if (stream->slot)
		bulk_end(stream);
}

#endif
