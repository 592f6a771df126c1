/* SPDX-License-Identifier: ISC */
/*
 * What a message of a client says.
 */
#include "relay_priv.h"

#include "../statements/statements_priv.h"

void said_is_of(struct said *said, struct statement *prepared)
{
	said->prepared = prepared;
	if (prepared)
		said->text = statement_query(prepared);
}

struct said said_read(const struct client *client, const struct frame *frame, struct bytes in)
{
	struct said said = { .type = frame->type, .is_whole = in.count >= frame->length };
	struct object_names names;

	if (fields_sql(frame, in, &said.name, &said.text))
		return said;
	said.text = bytes_of(NULL, 0);
	fields_names(frame->type, frame_received(in, frame), frame->length - FRAME_HEADER_SIZE,
	             &names);
	said.name = names.statement;
	said.portal = names.portal;
	if (frame->type == 'B' && said.name && *said.name)
		said_is_of(&said, statements_find(client, said.name));
	return said;
}
