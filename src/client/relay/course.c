/* SPDX-License-Identifier: ISC */
/*
 * The course of a transaction.
 *
 *   Query                     its text
 *   Parse, Bind, Execute      the text, by the unnamed portal; named ones are not followed
 *
 * Hard here: any message may fail. After an error the server skips all up to the Sync, and a
 * transaction block has failed, if one is open. So a block that the messages end is either closed
 * or has failed when the Sync is answered; it is never open and usable. That is true because an END
 * or a ROLLBACK is skipped only behind an error of its own Sync epoch, and an error leaves no block
 * usable but by ROLLBACK TO, which is not followed.
 */
#include "course_priv.h"

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_single.h"

#define TEXT_MAX ((size_t)16 * 1024) /* a longer text is not read */

static enum course_effect effect_of(struct bytes text)
{
	if (!text.at || text.count > TEXT_MAX)
		return COURSE_ANYTHING;
	switch (sql_block_read(text).kind) {
	case SQL_BLOCK_BEGIN:
	case SQL_BLOCK_START:
		return COURSE_OPENS;
	case SQL_BLOCK_COMMIT:
	case SQL_BLOCK_ROLLBACK:
		return COURSE_CLOSES;
	case SQL_BLOCK_SET:
		return COURSE_NOTHING;
	case SQL_BLOCK_OTHER:
		break;
	}
	return sql_single(text, bytes_of("", 0)) == SQL_SINGLE_NOT ? COURSE_ANYTHING
	                                                           : COURSE_NOTHING;
}

static void run(struct course *course, enum course_effect effect)
{
	if (effect == COURSE_ANYTHING)
		course->block = COURSE_UNSURE;
	else if (effect != COURSE_NOTHING && course->block != COURSE_UNSURE)
		course->block = effect == COURSE_OPENS ? COURSE_OPEN : COURSE_CLOSED;
}

void course_begin(struct course *course, bool is_open)
{
	course->block = is_open ? COURSE_OPEN : COURSE_CLOSED;
}

static void note_named(struct course *course, const struct frame *frame, struct bytes in,
                       struct bytes text)
{
	struct bytes body = frame_body(in, frame);
	struct object_names names;

	if (fields_names(frame->type, body, body.count, &names) != WIRE_OK)
		course->block = COURSE_UNSURE;
	else if (frame->type == 'E')
		run(course, *names.portal ? COURSE_ANYTHING : course->portal);
	else if (!*names.portal)
		course->portal = *names.statement ? effect_of(text) : course->statement;
}

void course_note(struct course *course, const struct frame *frame, struct bytes in,
                 struct bytes text)
{
	bool is_whole = in.count >= frame->length;

	switch (frame->type) {
	case 'Q':
		run(course, effect_of(text));
		return;
	case 'P':
		if (!is_whole || frame->length == FRAME_HEADER_SIZE || !in.at[FRAME_HEADER_SIZE])
			course->statement = effect_of(text);
		return;
	case 'B':
	case 'E':
		if (is_whole)
			note_named(course, frame, in, text);
		else
			course->block = COURSE_UNSURE;
		return;
	case 'C':
	case 'D':
	case 'H':
	case 'S':
		return;
	default:
		course->block = COURSE_UNSURE;
	}
}
