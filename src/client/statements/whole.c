/* SPDX-License-Identifier: ISC */
/*
 * Which messages must be complete before they are judged.
 *
 *   Parse with a name                        all of it
 *   Parse without, Query                     all, if short (only a Parse) or if its text may
 *                                            begin with PREPARE, EXECUTE or DEALLOCATE
 *   Bind, Describe, Close, Execute           the names at the front
 *
 * Hard here: a text may begin with comments, and only what follows them shows what it is.
 * The text is kept up to max_statement_size. A text with longer comments is forwarded like
 * any other.
 */
#include "whole_priv.h"

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql.h"

#include "unnamed_priv.h"

/* Judges a text of which the bytes in `have` have been received. */
static enum whole judge_text(const struct frame *frame, struct bytes have, size_t most)
{
	switch (sql_glance(have, false)) {
	case WIRE_OK:
		return frame->length > most ? WHOLE_TOO_LONG : WHOLE_MORE;
	case WIRE_MORE:
		return have.count >= most ? WHOLE_ENOUGH : WHOLE_MORE;
	case WIRE_BAD:
		break;
	}
	return WHOLE_ENOUGH;
}

static enum whole judge_parse(const struct frame *frame, struct bytes have, size_t most)
{
	if (have.count == 0)
		return WHOLE_MORE;
	if (have.at[0])
		return frame->length > most ? WHOLE_TOO_LONG : WHOLE_MORE;
	if (frame->length <= UNNAMED_KEPT_MAX)
		return WHOLE_MORE;
	return judge_text(frame, bytes_skip(have, 1), most);
}

enum whole whole_judge(const struct frame *frame, struct bytes in, size_t most)
{
	struct bytes have = bytes_skip(in, FRAME_HEADER_SIZE);
	struct object_names names;

	if (in.count >= frame->length)
		return WHOLE_ENOUGH;
	if (frame->type == 'Q')
		return judge_text(frame, have, most);
	if (frame->type == 'P')
		return judge_parse(frame, have, most);
	if (fields_names(frame->type, have, frame->length - FRAME_HEADER_SIZE, &names) != WIRE_MORE)
		return WHOLE_ENOUGH;
	return have.count > WHOLE_NAMES_MAX ? WHOLE_TOO_LONG : WHOLE_MORE;
}
