/* SPDX-License-Identifier: ISC */
/*
 * Statements for which a database must have no sessions.
 */
#include "pgweir/pgwire/sql_database.h"

#include <string.h>

#include "sql_priv.h"

static bool is_end(const struct token *token)
{
	return token->kind == TOKEN_END || sql_token_is_sign(token, ';');
}

/* Whether the statement of this token is the last one. */
static bool is_last(struct scanner *scanner, struct token token)
{
	while (!is_end(&token))
		token = sql_token(scanner);
	return sql_is_over(scanner, token);
}

/* Reads a name, or a string of the plain kind. */
static bool read_name(const struct token *token, char name[SQL_DATABASE_SIZE])
{
	struct bytes text = token->text;
	size_t count = 0;
	char quote = 0;

	if (token->kind == TOKEN_QUOTED || (token->kind == TOKEN_STRING && text.at[0] == '\'')) {
		quote = text.at[0];
		text = bytes_of(text.at + 1, text.count - 2);
	} else if (token->kind != TOKEN_WORD) {
		return false;
	}
	for (; text.count; text = bytes_skip(text, 1)) {
		char c = text.at[0];

		if (count == SQL_DATABASE_SIZE - 1)
			return false;
		if (quote && c == quote)
			text = bytes_skip(text, 1); /* it is doubled */
		name[count++] = !quote && c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
	}
	name[count] = 0;
	return count > 0;
}

static bool read_dropped(struct scanner *scanner, char name[SQL_DATABASE_SIZE])
{
	struct token token = sql_token(scanner);

	if (sql_token_is(&token, "if")) {
		sql_token(scanner); /* EXISTS */
		token = sql_token(scanner);
	}
	return read_name(&token, name) && is_last(scanner, sql_token(scanner));
}

static bool read_altered(struct scanner *scanner, char name[SQL_DATABASE_SIZE])
{
	struct token token = sql_token(scanner);
	bool is_named = read_name(&token, name);

	token = sql_token(scanner);
	if (sql_token_is(&token, "set"))
		token = sql_token(scanner);
	return is_named && (sql_token_is(&token, "rename") || sql_token_is(&token, "tablespace")) &&
	       is_last(scanner, token);
}

static bool read_template(struct scanner *scanner, char name[SQL_DATABASE_SIZE])
{
	struct token token = sql_token(scanner); /* the new one */

	memcpy(name, "template1", sizeof("template1"));
	for (token = sql_token(scanner); !is_end(&token); token = sql_token(scanner)) {
		if (!sql_token_is(&token, "template"))
			continue;
		token = sql_token(scanner);
		if (sql_token_is_sign(&token, '='))
			token = sql_token(scanner);
		if (!read_name(&token, name))
			return false;
	}
	return is_last(scanner, token);
}

bool sql_database(struct bytes text, char name[SQL_DATABASE_SIZE])
{
	static const struct {
		const char *word;
		bool (*read)(struct scanner *scanner, char name[SQL_DATABASE_SIZE]);
	} statements[] = {
		{ "drop", read_dropped },
		{ "alter", read_altered },
		{ "create", read_template },
	};
	struct scanner scanner = { .rest = text };
	struct token first = sql_token(&scanner), second = sql_token(&scanner);

	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
		if (sql_token_is(&first, statements[i].word) && sql_token_is(&second, "database"))
			return statements[i].read(&scanner, name);
	}
	return false;
}
