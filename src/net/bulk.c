/* SPDX-License-Identifier: ISC */
/*
 * Bulk reading.
 *
 *   much has come --> a slot, lowat = BULK_LEAST --> read, read, read ... --> pause, or we
 *                                                                          send: lowat = 1
 *
 * Hard here: the end of the data cannot be seen, so its last bytes wait until the pause has
 * passed. After a pause the bytes are counted from 0 again. So a peer that sends a little now
 * and then is delayed once per BULK_BEGIN bytes, not each time.
 */
#include "bulk_priv.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "pgweir/base/container_of.h"

#include "pgweir/base/banned.h"

void bulk_slots_free(struct bulk_slots **slots)
{
	free(*slots);
	*slots = NULL;
}

static bool set_least(const struct stream *stream, int least)
{
	return setsockopt(stream->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0;
}

/*
 * After setsockopt() the kernel checks at once whether enough has arrived, so nothing is
 * missed.
 */
void bulk_end(struct stream *stream)
{
	struct bulk *bulk = &stream->pool->bulk_slots->slots[stream->slot - 1];

	timer_clear(&bulk->pause);
	bulk->stream = NULL;
	stream->slot = 0;
	stream->flow = 0;
	set_least(stream, 1);
}

static void on_pause(struct timer *timer)
{
	bulk_end(container_of(timer, struct bulk, pause)->stream);
}

/* Returns NULL if there is no memory. */
static struct bulk_slots *slots_new(struct loop *loop)
{
	struct bulk_slots *slots = calloc(1, sizeof(*slots));

	if (slots)
		slots->queue = loop_timer_queue(loop, BULK_PAUSE, on_pause);
	if (slots && !slots->queue)
		bulk_slots_free(&slots);
	return slots;
}

/* Gives the stream a slot, if one is free. */
static void take_slot(struct bulk_slots *slots, struct stream *stream)
{
	unsigned int i = 0;

	while (i < BULK_SLOTS && slots->slots[i].stream)
		i++;
	if (i == BULK_SLOTS || !set_least(stream, BULK_LEAST))
		return;
	slots->slots[i].stream = stream;
	stream->slot = i + 1;
}

void bulk_go_on(struct stream *stream)
{
	struct loop *loop = stream->watch.loop;
	struct bulk_slots **slots = &stream->pool->bulk_slots;

	stream->flow = 0; /* without a slot it tries again after another BULK_BEGIN bytes */
	if (!*slots)
		*slots = slots_new(loop);
	if (*slots && !stream->slot)
		take_slot(*slots, stream);
	if (!stream->slot)
		return;
	stream->flow = BULK_BEGIN;
	timer_set(&(*slots)->slots[stream->slot - 1].pause, (*slots)->queue, loop_now(loop));
}
