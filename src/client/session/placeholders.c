/* SPDX-License-Identifier: ISC */
/*
 * Names of placeholders that a transaction may have set.
 *
 * A placeholder is a parameter like app.user that no extension defines. PostgreSQL lists them
 * nowhere: it must be asked for each by its name. So the names in a text that touches parameters
 * are noted (sql_names.h), and those values of a Bind that are names. Where functions may set what
 * they get, names are noted that are none; PostgreSQL answers that there is no such parameter.
 *
 * What runs inside of a function is in no text. For that the pool knows the names in the sources of
 * the database's functions.
 */
#include "placeholders_priv.h"

#include <string.h>
#include <strings.h>

#include "pgweir/base/banned.h"

#define SOURCES_SIZE_MAX ((size_t)8192) /* and of those in the sources of functions */
#define SOURCES_AGE_MAX (60 * USEC_PER_SEC)

static void add_name(struct session *session, struct bytes name)
{
	if (sql_name_judge(name) == SQL_NAME_PLACEHOLDER)
		sql_names_add(&session->names, name);
}

void placeholders_note(struct session *session, const struct sql_names *names)
{
	sql_names_merge(&session->names, names);
	session->bound |= names->is_inside ? SQL_PARAMETERS_ALL : names->parameters;
}

void placeholders_note_sample(struct session *session, struct bytes text)
{
	struct sql_names names = { 0 };

	sql_names_read(&names, text, true);
	names.is_unknown = false;
	sql_names_merge(&session->names, &names);
	sql_names_free(&names);
}

/* A value that a function gets need not be a name: it is one if it can be asked for. */
void placeholders_note_values(struct session *session, struct row_walk values)
{
	struct bytes value;

	for (unsigned int number = 1; fields_value(&values, &value) == WALK_ITEM; number++) {
		bool is_name = number <= SQL_PARAMETER_LAST && session->bound >> number & 1;

		if (value.at && is_name)
			sql_names_add(&session->names, value);
		else if (value.at && (session->bound & SQL_PARAMETERS_ALL))
			add_name(session, value);
	}
}

/* ---- names in the sources of functions ---- */

bool placeholders_note_sources(struct session *session)
{
	struct pool *pool = session->client->borrower.pool;
	struct bytes names = buf_bytes(&pool->source_names);
	usec_t now = loop_now(session->client->clients->with.loop);
	const char *name;

	if (!pool->sources_at)
		return false;
	if (now - pool->sources_at > SOURCES_AGE_MAX) {
		pool->sources_at = now; /* others use what is known until they are there */
		return false;
	}
	while (bytes_take_text(&names, &name))
		add_name(session, bytes_text(name));
	return true;
}

void placeholders_take_sources(struct client *client, const struct facts *facts)
{
	struct pool *pool = client->borrower.pool;
	struct bytes names = buf_bytes(&facts->names);
	const char *name;

	if (!pool->sources_at)
		pool->sources_at = loop_now(client->clients->with.loop);
	if (!(facts->parts & QUESTION_SOURCES))
		return;
	buf_free(&pool->source_names);
	while (bytes_take_text(&names, &name)) {
		if (pool->source_names.count + strlen(name) < SOURCES_SIZE_MAX)
			buf_add_cstr(&pool->source_names, name);
	}
}

static bool has_word(struct bytes text, const char *word)
{
	size_t size = strlen(word);

	for (; text.count >= size; text = bytes_skip(text, 1)) {
		if (strncasecmp(text.at, word, size) == 0)
			return true;
	}
	return false;
}

bool placeholders_are_added(struct bytes text)
{
	return has_word(text, "function") || has_word(text, "procedure") ||
	       has_word(text, "extension");
}

void placeholders_note_map(struct session *session, const struct params *params)
{
	const char *at = NULL, *name, *value;

	while (params_next(params, &at, &name, &value)) {
		if (strchr(name, '.'))
			add_name(session, bytes_text(name));
	}
}
