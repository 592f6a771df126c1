/* SPDX-License-Identifier: ISC */
/*
 * Several batches that are kept: see replay.h.
 *
 *   [Query BEGIN] [Parse Bind Execute Sync]     sent in one write
 *   BEGIN, ReadyForQuery                        the client gets it
 *   BEGIN       [Parse Bind Execute Sync]       the text of the opening, and what is kept
 */
#include "pgweir/pool/server/replay.h"

#include <string.h>

#include "pgweir/pgwire/frame.h"

/* The bytes of the first batch, and how many statements it executes. */
static size_t measure(struct bytes in, unsigned int *executed)
{
	struct bytes rest = in;
	struct frame frame;

	*executed = 0;
	while (frame_peek(rest, UINT32_MAX, &frame) == WIRE_OK && rest.count >= frame.length) {
		bool is_nothing = frame.length <= FRAME_HEADER_SIZE + 1; /* an empty Query */

		*executed += frame.type == 'E' || (frame.type == 'Q' && !is_nothing);
		rest = bytes_skip(rest, frame.length);
		if (frame.type == 'Q' || frame.type == 'S')
			break;
	}
	return in.count - rest.count;
}

uint16_t replay_next(struct bytes batches)
{
	unsigned int executed;
	size_t size = measure(batches, &executed);

	return size < batches.count ? (uint16_t)size : 0;
}

/* The text of the next statement of the opening was executed. */
static void take_text(struct replay *replay)
{
	const char *text = replay->at + REPLAY_MAX + replay->opening_count;
	size_t size = replay->opening_more ? strnlen(text, replay->opening_more - 1) + 1 : 0;

	replay->opening_count += (uint16_t)size;
	replay->opening_more -= (uint16_t)size;
}

/* The first batch was answered in full. */
static void advance(struct replay *replay)
{
	unsigned int executed;
	size_t size = measure(bytes_of(replay->at, replay->count), &executed);

	while (executed-- > 0)
		take_text(replay);
	replay->count -= size;
	memmove(replay->at, replay->at + size, replay->count);
	replay->next = replay_next(bytes_of(replay->at, replay->count));
	replay->is_answered = false;
}

void replay_ready(struct replay *replay, char status)
{
	if (!replay->next) {
		replay_drop(replay);
		return;
	}
	advance(replay);
	if (status != (replay->opening_count ? 'T' : 'I'))
		replay_end_resend(replay); /* it has not opened what it should have opened */
}

unsigned int replay_count_opening(const struct replay *replay)
{
	struct bytes texts =
	    bytes_of(replay->at + REPLAY_MAX + replay->opening_count, replay->opening_more);
	unsigned int count = 0;

	for (size_t i = 0; i < texts.count; i++)
		count += texts.at[i] == 0;
	return count;
}
