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
#include "placeholders_priv.h"

#include <string.h>
#include <strings.h>

static void add_name(struct session *session, struct bytes name)
{
	if (sql_name_judge(name) == SQL_NAME_PLACEHOLDER)
		sql_names_add(&session->names, name);
}

void placeholders_note(struct session *session, const struct sql_names *names)
{
	sql_names_merge(&session->names, names);
	session->bound |= names->parameters | (names->is_inside ? SQL_PARAMETERS_ALL : 0);
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
