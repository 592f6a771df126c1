/* SPDX-License-Identifier: ISC */
/*
 * What keeps a server, with names, for the console and the log: "temporary table cart and 7 more".
 *
 * session->held has a text for each kind that there is: its letter in the facts, the text, and a
 * zero. An answer replaces those of the kinds that were asked for.
 */
#include <string.h>

#include "../handover_priv.h"
#include "session_priv.h"

#define NAMES_SIZE_MAX 200 /* bytes of the names of a kind; there is always the first one */

static const struct kind {
	char letter;
	enum session_pin pin;
	enum question_part part;
	const char *name;
} kinds[] = {
	{ 'u', SESSION_PIN_CURSOR, QUESTION_CURSORS, "held cursor" },
	{ 't', SESSION_PIN_TEMP, QUESTION_TEMP, "temporary" },
	{ 'l', SESSION_PIN_LOCK, QUESTION_LOCKS, "session lock" },
	{ 's', SESSION_PIN_STATEMENT, QUESTION_STATEMENTS, "prepared statement" },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static unsigned int count_of(const struct facts *facts, const struct kind *kind)
{
	switch (kind->letter) {
	case 'u':
		return facts->cursor_count;
	case 't':
		return facts->temp_count;
	case 'l':
		return facts->lock_count;
	default:
		return facts->statement_count;
	}
}

/* Adds the names of a kind. Returns how many there are. */
static unsigned int add_names(struct buf *out, const struct facts *facts, const struct kind *kind)
{
	struct bytes left = buf_bytes(&facts->held);
	size_t begin = out->count;
	unsigned int count = 0;
	const char *item;

	while (bytes_take_text(&left, &item)) {
		if (*item != kind->letter ||
		    (count && out->count - begin + strlen(item) > NAMES_SIZE_MAX))
			continue;
		buf_add_text(out, count++ ? ", " : " ");
		buf_add_text(out, item + 1);
	}
	return count;
}

/* Without any name, the name of the pin says as much. */
static void add_kind(struct buf *out, const struct facts *facts, const struct kind *kind)
{
	unsigned int total = count_of(facts, kind), count;
	size_t begin = out->count;

	buf_add_byte(out, kind->letter);
	buf_add_text(out, kind->name);
	count = add_names(out, facts, kind);
	if (total > count)
		buf_printf(out, " and %u more", total - count);
	buf_add_byte(out, 0);
	if (!count && buf_ok(out))
		out->count = begin;
}

/* The text of a kind in session->held. NULL: there is none. */
static const char *find_kind(const struct session *session, const struct kind *kind)
{
	struct bytes left = buf_bytes(&session->held);
	const char *item;

	while (buf_ok(&session->held) && bytes_take_text(&left, &item)) {
		if (*item == kind->letter)
			return item;
	}
	return NULL;
}

void held_take(struct session *session, const struct facts *facts)
{
	struct buf held = { .limit = SESSION_HELD_MAX };

	for (size_t i = 0; i < KINDS; i++) {
		const char *before = find_kind(session, &kinds[i]);

		if (facts->parts & kinds[i].part)
			add_kind(&held, facts, &kinds[i]);
		else if (before)
			buf_add_cstr(&held, before);
	}
	buf_free(&session->held);
	session->held = held;
}

bool held_list(const struct session *session, enum session_pin pin, struct buf *out)
{
	const char *text = NULL;

	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].pin == pin)
			text = find_kind(session, &kinds[i]);
	}
	if (text)
		buf_add_text(out, text + 1);
	return text;
}
