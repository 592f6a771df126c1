/* SPDX-License-Identifier: ISC */
/*
 * Bulk.
 *
 *   much has come --> a seat, lowat = BULK_LEAST --> read, read, read ... --> pause, or we
 *                                                                         answer: lowat = 1
 *
 * Hard here: nothing tells that what came last was the last. So the pause ends it, and then the
 * flow counts from nothing: a far end that sends a little now and then is held up once
 * for every BULK_BEGIN, not each time.
 */
#include "bulk_priv.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "pgweir/base/banned.h"

#define BULK_OF(timer) ((struct bulk *)(timer)) /* its first member */

void bulk_room_free(struct bulk_room **room)
{
	free(*room);
	*room = NULL;
}

static bool set_least(const struct stream *stream, int least)
{
	return setsockopt(stream->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0;
}

/* The kernel looks at once whether that much is there now. */
void bulk_end(struct stream *stream)
{
	struct bulk *bulk = &stream->pool->bulk_room->seats[stream->seat - 1];

	timer_clear(&bulk->pause);
	bulk->stream = NULL;
	stream->seat = 0;
	stream->flow = 0;
	set_least(stream, 1);
}

static void on_pause(struct timer *timer) { bulk_end(BULK_OF(timer)->stream); }

/* NULL: all are taken, or there is no memory. */
static struct bulk *take_seat(struct stream *stream)
{
	struct stream_pool *pool = stream->pool;

	if (!pool->bulk_room)
		pool->bulk_room = calloc(1, sizeof(*pool->bulk_room));
	for (unsigned int i = 0; pool->bulk_room && i < BULK_SEATS; i++) {
		struct bulk *bulk = &pool->bulk_room->seats[i];

		if (bulk->stream)
			continue;
		if (!set_least(stream, BULK_LEAST))
			break;
		bulk->stream = stream;
		stream->seat = i + 1;
		return bulk;
	}
	return NULL;
}

void bulk_go_on(struct stream *stream)
{
	struct loop *loop = stream->watch.loop;
	struct timer_line *line = loop_line(loop, BULK_PAUSE, on_pause);
	struct bulk *bulk = NULL;

	stream->flow = BULK_BEGIN;
	if (stream->seat)
		bulk = &stream->pool->bulk_room->seats[stream->seat - 1];
	else if (line)
		bulk = take_seat(stream);
	if (bulk)
		timer_set(&bulk->pause, line, loop_now(loop));
	else
		stream->flow = 0; /* asked again when as much has come */
}
