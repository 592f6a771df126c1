/* SPDX-License-Identifier: ISC */
/*
 * Functions that change what PostgreSQL keeps in a session, by their names alone: a function of
 * the same name in another schema counts too. And what is in their parentheses.
 */
#include <strings.h>

#include "pgweir/pgwire/sql_touch.h"

#include "sql_priv.h"

#define FUNCTION(name, bits)                        \
	{                                           \
		SQL_WORD(name), SQL_THIRD_ANY, bits \
	}
#define FUNCTION_OF_THIRD(name, third, bits) \
	{                                    \
		SQL_WORD(name), third, bits  \
	}

/* In the order of their sizes. */
static const struct sql_function functions[] = {
	FUNCTION("setval", SQL_TOUCH_WRITE),
	FUNCTION("currval", SQL_TOUCH_SEQUENCE),
	FUNCTION("lastval", SQL_TOUCH_SEQUENCE),
	FUNCTION("nextval", SQL_TOUCH_WRITE),
	FUNCTION("setseed", SQL_TOUCH_EXTENSION),
	FUNCTION("ts_stat", SQL_TOUCH_HIDDEN), /* this and others run a text as a query */
	FUNCTION("crosstab", SQL_TOUCH_HIDDEN),
	FUNCTION("isn_weak", SQL_TOUCH_EXTENSION),
	FUNCTION("connectby", SQL_TOUCH_HIDDEN),
	FUNCTION("crosstab2", SQL_TOUCH_HIDDEN),
	FUNCTION("crosstab3", SQL_TOUCH_HIDDEN),
	FUNCTION("crosstab4", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_notify", SQL_TOUCH_NOTIFY),
	FUNCTION("set_limit", SQL_TOUCH_PARAMS), /* pg_trgm.similarity_threshold */
	FUNCTION_OF_THIRD("set_config", SQL_THIRD_IS_LOCAL, SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT),
	FUNCTION("ts_rewrite", SQL_TOUCH_HIDDEN),
	FUNCTION("xpath_table", SQL_TOUCH_HIDDEN),
	FUNCTION("table_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("query_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("cursor_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("schema_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("dblink_connect", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_backup_stop", SQL_TOUCH_RELEASE),
	FUNCTION("pg_stop_backup", SQL_TOUCH_RELEASE),
	FUNCTION("sepgsql_setcon", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_backup_start", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_start_backup", SQL_TOUCH_EXTENSION),
	FUNCTION("database_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("dblink_connect_u", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_advisory_lock", SQL_TOUCH_LOCK),
	FUNCTION("dblink_disconnect", SQL_TOUCH_RELEASE),
	FUNCTION("pg_advisory_unlock", SQL_TOUCH_RELEASE),
	FUNCTION("query_to_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_try_advisory_lock", SQL_TOUCH_LOCK),
	FUNCTION("pg_advisory_xact_lock", SQL_TOUCH_XACT_LOCK),
	FUNCTION("pg_advisory_unlock_all", SQL_TOUCH_RELEASE),
	FUNCTION("pg_advisory_lock_shared", SQL_TOUCH_LOCK),
	FUNCTION("pg_advisory_unlock_shared", SQL_TOUCH_RELEASE),
	FUNCTION("pg_try_advisory_xact_lock", SQL_TOUCH_XACT_LOCK),
	FUNCTION("table_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("query_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_try_advisory_lock_shared", SQL_TOUCH_LOCK),
	FUNCTION("schema_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_advisory_xact_lock_shared", SQL_TOUCH_XACT_LOCK),
	FUNCTION("database_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_try_advisory_xact_lock_shared", SQL_TOUCH_XACT_LOCK),
	FUNCTION_OF_THIRD("pg_copy_logical_replication_slot", SQL_THIRD_TEMPORARY,
	                  SQL_TOUCH_EXTENSION),
	FUNCTION_OF_THIRD("pg_copy_physical_replication_slot", SQL_THIRD_TEMPORARY,
	                  SQL_TOUCH_EXTENSION),
	FUNCTION_OF_THIRD("pg_create_logical_replication_slot", SQL_THIRD_TEMPORARY,
	                  SQL_TOUCH_EXTENSION),
	FUNCTION("pg_replication_origin_session_reset", SQL_TOUCH_RELEASE),
	FUNCTION("pg_replication_origin_session_setup", SQL_TOUCH_EXTENSION),
	FUNCTION_OF_THIRD("pg_create_physical_replication_slot", SQL_THIRD_TEMPORARY,
	                  SQL_TOUCH_EXTENSION),
};

#define FUNCTION_COUNT (sizeof(functions) / sizeof(functions[0]))

/* Puts an `i` in place of each run of bytes outside of ASCII. */
static struct bytes to_ascii(struct bytes name, char out[static SQL_FUNCTION_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < name.count; i++) {
		bool is_ascii = !(name.at[i] & 0x80);

		if (!is_ascii && i && (name.at[i - 1] & 0x80))
			continue;
		if (used == SQL_FUNCTION_MAX)
			return bytes_of(out, 0);
		out[used++] = is_ascii ? name.at[i] : 'i';
	}
	return bytes_of(out, used);
}

const struct sql_function *sql_function(struct bytes name)
{
	char ascii[SQL_FUNCTION_MAX];

	if (name.count < SQL_FUNCTION_MIN)
		return NULL;
	if (!bytes_are_ascii(name))
		name = to_ascii(name, ascii);
	if (name.count > SQL_FUNCTION_MAX)
		return NULL;
	return sql_word_find(functions, FUNCTION_COUNT, sizeof(functions[0]), name);
}

const struct sql_function *sql_function_of(const struct token *token)
{
	char name[SQL_NAME_MAX];
	size_t size;

	if (!sql_is_name(token) || token->text.count < SQL_FUNCTION_MIN)
		return NULL;
	if (token->kind == TOKEN_WORD)
		return sql_function(token->text);
	size = sql_unquote(token, false, name, sizeof(name));
	return size == SQL_CANNOT ? NULL : sql_function(bytes_of(name, size));
}

/* To read a call within a call once for each would cost the square of the size. */
static bool may_have_arguments(const struct token *token)
{
	const struct sql_function *function = sql_function_of(token);

	return (function && function->third != SQL_THIRD_ANY) || sql_token_is(token, "execute");
}

static bool take_argument_name(struct scanner *scanner, struct token *name)
{
	struct scanner ahead = *scanner;

	*name = sql_token(&ahead);
	if (!sql_is_name(name) || !(sql_takes_sign(&ahead, '=') ? sql_takes_sign(&ahead, '>')
	                                                        : sql_takes_sign(&ahead, ':') &&
	                                                              sql_takes_sign(&ahead, '=')))
		return false;
	*scanner = ahead;
	return true;
}

/* Reads one argument from after the sign before it. */
static void read_argument(struct scanner *scanner, struct argument *argument)
{
	size_t depth = 0;

	argument->is_named = take_argument_name(scanner, &argument->name);
	argument->value = *scanner;
	argument->first.kind = TOKEN_END;
	argument->end = 0;
	for (argument->count = 0;; argument->count++) {
		struct token token = sql_token(scanner);
		bool is_close = sql_token_is_sign(&token, ')') || sql_token_is_sign(&token, ']');

		if (sql_is_end(&token) || may_have_arguments(&token))
			return;
		if (depth == 0 && (is_close || sql_token_is_sign(&token, ','))) {
			argument->end = token.text.at[0];
			return;
		}
		depth += sql_token_is_sign(&token, '(') || sql_token_is_sign(&token, '[');
		depth -= is_close;
		if (argument->count == 0)
			argument->first = token;
	}
}

bool sql_name_is(const struct token *token, const char *name)
{
	struct bytes text = sql_name_text(token);

	return sql_is_name(token) && text.count == strlen(name) &&
	       strncasecmp(text.at, name, text.count) == 0;
}

bool sql_find_argument(struct scanner scanner, unsigned int number, const char *name,
                       struct argument *argument)
{
	for (unsigned int i = 1;; i++) {
		read_argument(&scanner, argument);
		if (argument->is_named ? sql_name_is(&argument->name, name) : i == number)
			return true;
		if (argument->end != ',')
			return false;
	}
}
