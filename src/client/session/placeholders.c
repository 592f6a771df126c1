/* SPDX-License-Identifier: ISC */
/*
 * Names of placeholders that a transaction may have set.
 *
 * A placeholder is a parameter like app.user that no extension defines. PostgreSQL lists them
 * nowhere: it must be asked for each by its name. So every name with a dot in a text that touches
 * parameters is noted, wherever it is in the text, and every value of a Bind that is such a name.
 * Most are columns of tables; PostgreSQL answers that there is no such parameter.
 *
 * What runs inside of a function is in no text. For that the catalog has the names in the bodies of
 * the database's functions.
 */
#include "placeholders_priv.h"

#include <string.h>
#include <strings.h>

#include "pgweir/pgwire/fields.h"

#include "pgweir/base/banned.h"

#define NAMES_SIZE_MAX ((size_t)16384) /* bytes of the names of one transaction */

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

static bool is_first_in_part(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (unsigned char)c >= 0x80;
}

static bool is_in_name(char c)
{
	return is_first_in_part(c) || (c >= '0' && c <= '9') || c == '$' || c == '.';
}

/* Whether PostgreSQL may accept this as the name of a placeholder. */
static bool may_be_name(struct bytes name)
{
	bool is_start = true, has_dot = false;

	for (size_t i = 0; i < name.count; i++) {
		if (is_start ? !is_first_in_part(name.at[i]) : !is_in_name(name.at[i]))
			return false;
		is_start = name.at[i] == '.';
		has_dot |= is_start;
	}
	return has_dot && !is_start;
}

/* Some names cannot be asked for: then it is not known what is set. */
static void note_name(struct session *session, struct bytes name)
{
	if (question_can_name(name))
		add_name(session, name);
	else if (may_be_name(name))
		session->pinning |= SESSION_PIN_PARAMS;
}

/* ---- names that are no constants ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static struct bytes skip_space(struct bytes text)
{
	while (text.count && is_space(text.at[0]))
		text = bytes_skip(text, 1);
	return text;
}

/* Finds a word in lower case; what follows it. at NULL: it is not there. */
static struct bytes behind_word(struct bytes text, const char *word)
{
	size_t size = strlen(word);

	for (; text.count >= size; text = bytes_skip(text, 1)) {
		if (strncasecmp(text.at, word, size) == 0)
			return bytes_skip(text, size);
	}
	return bytes_of(NULL, 0);
}

/* Whether the first argument of a call is a plain constant or a parameter of a Bind. */
static bool is_constant(struct bytes call)
{
	const char *end;

	if (call.count && call.at[0] == '"')
		call = bytes_skip(call, 1);
	call = skip_space(call);
	if (!call.count || call.at[0] != '(')
		return false;
	call = skip_space(bytes_skip(call, 1));
	if (!call.count)
		return false;
	if (call.at[0] == '$') {
		call = bytes_skip(call, 1);
		while (call.count && call.at[0] >= '0' && call.at[0] <= '9')
			call = bytes_skip(call, 1);
	} else if (call.at[0] == '\'') {
		end = memchr(call.at + 1, '\'', call.count - 1);
		if (!end || memchr(call.at, '\\', (size_t)(end - call.at)))
			return false;
		call = bytes_skip(call, (size_t)(end - call.at) + 1);
	} else {
		return false;
	}
	call = skip_space(call);
	return call.count && call.at[0] == ',';
}

bool placeholders_are_known(struct bytes text)
{
	struct bytes rest = text;

	while ((rest = behind_word(rest, "set_config")).at) {
		if (!is_constant(rest))
			return false;
	}
	return true;
}

/* ---- names ---- */

/* Notes a name that is written with quotes. */
static void note_quoted(struct session *session, struct bytes name)
{
	struct buf plain = { 0 };

	for (size_t i = 0; i < name.count; i++) {
		if (name.at[i] != '"')
			buf_add_byte(&plain, name.at[i]);
	}
	if (buf_ok(&plain))
		note_name(session, buf_bytes(&plain));
	else
		session->pinning |= SESSION_PIN_PARAMS;
	buf_free(&plain);
}

void placeholders_note(struct session *session, struct bytes text)
{
	while (text.count) {
		size_t size = 0;

		while (size < text.count && (is_in_name(text.at[size]) || text.at[size] == '"'))
			size++;
		if (size && memchr(text.at, '.', size) && memchr(text.at, '"', size))
			note_quoted(session, bytes_of(text.at, size));
		else if (size && memchr(text.at, '.', size))
			note_name(session, bytes_of(text.at, size));
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
		if (value.at)
			note_name(session, value);
	}
}

/* ---- other names ---- */

void placeholders_note_catalog(struct session *session)
{
	bool is_current;
	const struct catalog_reading *reading =
	    pool_catalog(session->client->borrower.pool, &is_current);
	struct bytes names = reading ? buf_bytes(&reading->parameters) : bytes_of("", 0);
	const char *name;

	while (bytes_take_text(&names, &name))
		add_name(session, bytes_text(name));
}

void placeholders_note_map(struct session *session, const struct params *params)
{
	const char *at = NULL, *name, *value;

	while (params_next(params, &at, &name, &value)) {
		if (strchr(name, '.'))
			add_name(session, bytes_text(name));
	}
}
