/* SPDX-License-Identifier: ISC */
/*
 * Names of placeholders that a transaction may have set.
 *
 * A placeholder is a parameter like app.user that no extension defines. PostgreSQL lists them
 * nowhere: it must be asked for each by its name. So every name with a dot in a text that touches
 * parameters is noted, wherever it is in the text, and every value of a Bind that is such a name.
 * Most are columns of tables; PostgreSQL answers that there is no such parameter.
 */
#include "placeholders_priv.h"

#include <string.h>

#include "pgweir/pgwire/fields.h"

#include "pgweir/base/banned.h"

#define NAMES_SIZE_MAX ((size_t)4096) /* bytes of the names of one transaction */

static bool has_name(struct bytes names, struct bytes name)
{
	const char *other;

	while (bytes_take_text(&names, &other)) {
		if (bytes_equal(bytes_text(other), name))
			return true;
	}
	return false;
}

static void add_name(struct session *session, struct bytes name)
{
	if (!question_can_name(name) || has_name(buf_bytes(&session->names), name))
		return;
	session->names.limit = NAMES_SIZE_MAX;
	buf_add(&session->names, name.at, name.count);
	buf_add_byte(&session->names, 0);
}

static bool is_in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '.';
}

void placeholders_note(struct session *session, struct bytes text)
{
	while (text.count) {
		size_t size = 0;

		while (size < text.count && is_in_name(text.at[size]))
			size++;
		if (size && memchr(text.at, '.', size))
			add_name(session, bytes_of(text.at, size));
		text = bytes_skip(text, size ? size : 1);
	}
}

void placeholders_note_values(struct session *session, struct bytes body)
{
	struct bind_fields bind;
	struct bytes value;

	if (fields_bind(body, &bind) != WIRE_OK)
		return;
	while (fields_value(&bind.parameters, &value) == WALK_ITEM) {
		if (value.at && value.count <= QUESTION_NAME_MAX)
			add_name(session, value);
	}
}

void placeholders_note_map(struct session *session, const struct params *params)
{
	const char *at = NULL, *name, *value;

	while (params_next(params, &at, &name, &value)) {
		if (strchr(name, '.'))
			add_name(session, bytes_text(name));
	}
}
