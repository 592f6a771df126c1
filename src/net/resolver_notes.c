/* SPDX-License-Identifier: ISC */
/*
 * Notes between the resolvers of several loops: letters about one name.
 *
 * Hard here: at the end, one resolver may be freed before another one that still has a note for
 * it. So a note is sent to a loop, which lives longer, and a late one is only freed.
 */
#include <stdlib.h>

#include "resolver_priv.h"

#include "pgweir/base/container_of.h"

#include "pgweir/base/banned.h"

struct resolver_note *resolver_note_new(struct resolver *follower, enum note_kind kind,
                                        const char *host, unsigned int room)
{
	size_t size = strlen(host) + 1;
	struct resolver_note *note = calloc(1, sizeof(*note) + size);

	if (!note)
		return NULL;
	memcpy(note->host, host, size);
	note->kind = kind;
	note->follower = follower;
	note->addresses = room ? malloc(room * sizeof(*note->addresses)) : NULL;
	if (!room || note->addresses)
		return note;
	free(note);
	return NULL;
}

void resolver_note_free(struct resolver_note **note)
{
	free((*note)->addresses);
	free(*note);
	*note = NULL;
}

static void on_letter(struct letter *letter)
{
	struct resolver_note *note = container_of(letter, struct resolver_note, letter);

	if (letter->is_late)
		resolver_note_free(&note);
	else
		note->to->on_note(note->to, note);
}

void resolver_note_post(struct resolver_note *note)
{
	struct resolver *follower = note->follower;
	bool is_result = note->kind == NOTE_FOUND;

	note->to = is_result ? follower : follower->leader;
	note->letter.open = on_letter;
	loop_post(is_result ? follower->loop : follower->leader_loop, &note->letter);
}
