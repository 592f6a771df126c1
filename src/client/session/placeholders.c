/* SPDX-License-Identifier: ISC */
/*
 * Names of placeholders that a transaction may have set.
 *
 * A placeholder is a parameter like app.user that no extension defines. PostgreSQL lists them
 * nowhere: it must be asked for each by its name. So the names in a text that touches parameters
 * are noted (sql_names.h), and those values of a Bind that are names. Where functions may set what
 * they get, names are noted that are none; PostgreSQL answers that there is no such parameter.
 *
 * What runs inside of a function is in no text. For that the catalog has the names in the bodies of
 * the database's functions.
 */
#include "session_priv.h"

#include <string.h>

#include "pgweir/pgwire/sql_names.h"

static void add_name(struct session *session, struct bytes name)
{
	if (sql_name_judge(name) == SQL_NAME_PLACEHOLDER)
		sql_names_add(&session->names, name);
}

/* A value that a function gets need not be a name: it is one if it can be asked for. */
void placeholders_note_values(struct session *session, struct row_walk values)
{
	uint64_t bound = session->names.parameters;
	struct bytes value;

	for (unsigned int number = 1; fields_value(&values, &value) == WALK_ITEM; number++) {
		bool is_name = number <= SQL_PARAMETER_LAST && bound >> number & 1;

		if (value.at && is_name)
			sql_names_add(&session->names, value);
		else if (value.at && (bound & SQL_PARAMETERS_ALL))
			add_name(session, value);
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

/*
 * ---- libraries ----
 *
 * Libraries that a client loads by LOAD. They become part of the client's parameters, and are
 * loaded on each server before it is used.
 *
 * Hard here: the text has the name, and the server says only how many LOADs have succeeded. If that
 * is another number, it is not known which: the server stays with the client.
 */

#define NAMES_SIZE_MAX ((size_t)4096) /* bytes of the names of one transaction */

static void add_item(void *context, const struct sql_item *item)
{
	struct session *session = context;

	session->libraries.limit = NAMES_SIZE_MAX;
	if (item->kind == SQL_ITEM_UNSURE)
		session->libraries.is_broken = true;
	if (item->kind != SQL_ITEM_LIBRARY)
		return;
	buf_add(&session->libraries, item->name.at, item->name.count);
	buf_add_byte(&session->libraries, 0);
}

void libraries_note(struct session *session, struct bytes text)
{
	sql_items(text, add_item, session);
}

static unsigned int count_names(struct bytes names)
{
	unsigned int count = 0;
	const char *name;

	while (bytes_take_text(&names, &name))
		count++;
	return count;
}

bool libraries_take(struct session *session, struct server *server)
{
	struct bytes names = buf_bytes(&session->libraries);
	bool is_known =
	    buf_ok(&session->libraries) && count_names(names) == server->session.load_count;
	const char *name;

	while (is_known && bytes_take_text(&names, &name))
		is_known = server_add_library(server, name);
	is_known |= server->session.load_count == 0; /* all have failed */
	if (is_known)
		server_settle_loads(server);
	buf_free(&session->libraries);
	return is_known;
}
