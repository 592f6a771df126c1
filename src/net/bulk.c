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

/* NULL: no memory. */
static struct bulk_room *room_new(struct loop *loop)
{
	struct bulk_room *room = calloc(1, sizeof(*room));

	if (room)
		room->line = loop_timer_queue(loop, BULK_PAUSE, on_pause);
	if (room && !room->line)
		bulk_room_free(&room);
	return room;
}

/* Unless all are taken. */
static void take_seat(struct bulk_room *room, struct stream *stream)
{
	unsigned int i = 0;

	while (i < BULK_SEATS && room->seats[i].stream)
		i++;
	if (i == BULK_SEATS || !set_least(stream, BULK_LEAST))
		return;
	room->seats[i].stream = stream;
	stream->seat = i + 1;
}

void bulk_go_on(struct stream *stream)
{
	struct loop *loop = stream->watch.loop;
	struct bulk_room **room = &stream->pool->bulk_room;

	stream->flow = 0; /* unless it sits it is asked again when as much has come */
	if (!*room)
		*room = room_new(loop);
	if (*room && !stream->seat)
		take_seat(*room, stream);
	if (!stream->seat)
		return;
	stream->flow = BULK_BEGIN;
	timer_set(&(*room)->seats[stream->seat - 1].pause, (*room)->line, loop_now(loop));
}
