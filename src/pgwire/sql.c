/* SPDX-License-Identifier: ISC */
/*
 * Recognises PREPARE, EXECUTE and DEALLOCATE.
 *
 * Hard here: each answer must be certain. If PostgreSQL will report an error in a text, the
 * text is SQL_OTHER and PostgreSQL reports the error itself. If PostgreSQL may do something
 * that cannot be seen in the text, the answer is SQL_UNSURE.
 */
#include "pgweir/pgwire/sql.h"

#include <string.h>

#include "sql_priv.h"

static const char *const first_words[] = { "prepare", "execute", "deallocate",
	                                   "discard", "explain", "create" };

static bool is_first_word(struct bytes word)
{
	const struct token token = { TOKEN_WORD, word };

	for (size_t i = 0; i < sizeof(first_words) / sizeof(first_words[0]); i++) {
		if (sql_token_is(&token, first_words[i]))
			return true;
	}
	return false;
}

enum wire_result sql_glance(struct bytes have, bool is_whole)
{
	bool is_space_whole = sql_skip_space(&have);
	size_t size;

	while (is_space_whole && have.count && have.at[0] == ';') {
		have = bytes_skip(have, 1);
		is_space_whole = sql_skip_space(&have);
	}
	if (!is_space_whole || have.count == 0)
		return is_whole ? WIRE_BAD : WIRE_MORE;
	switch (have.at[0] | 0x20) {
	case 'p':
	case 'e':
	case 'd':
	case 'c':
		break;
	case '-':
	case '/': /* may be the first half of a comment's opening characters */
		return is_whole || have.count > 1 ? WIRE_BAD : WIRE_MORE;
	default:
		return WIRE_BAD;
	}
	size = sql_word_size(have);
	/* The word may continue, unless it is longer than the longest first word already. */
	if (size == have.count && !is_whole && size <= strlen("deallocate"))
		return WIRE_MORE;
	return is_first_word(bytes_of(have.at, size)) ? WIRE_OK : WIRE_BAD;
}

struct bytes sql_first_word(struct bytes text)
{
	if (!sql_skip_space(&text))
		return bytes_of(NULL, 0);
	return bytes_of(text.at, sql_word_size(text));
}

/* ---- parts of a statement ---- */

static void unsure(struct sql_statement *statement, const char *reason)
{
	statement->kind = SQL_UNSURE;
	statement->reason = reason;
}

static bool is_end(const struct token *token)
{
	return token->kind == TOKEN_END || sql_token_is_sign(token, ';');
}

/* Copies a name without its quotes, or in lower case if it is not quoted, as PostgreSQL does. */
static bool copy_name(struct sql_statement *statement, const struct token *token)
{
	struct bytes text = token->text;
	size_t used = 0;

	if (token->kind == TOKEN_QUOTED)
		text = bytes_of(text.at + 1, text.count - 2);
	for (size_t i = 0; i < text.count; i++) {
		char c = text.at[i];

		if (used == SQL_NAME_MAX)
			return false;
		if (token->kind == TOKEN_QUOTED && c == '"')
			i++; /* a quote inside a quoted name is doubled */
		if (token->kind == TOKEN_WORD && c >= 'A' && c <= 'Z')
			c = (char)(c + 32);
		statement->name[used++] = c;
	}
	statement->name[used] = 0;
	return true;
}

/*
 * Parses a name. false: it is not a name, or one that cannot be determined (SQL_UNSURE is set).
 */
static bool take_name(struct scanner *scanner, struct sql_statement *statement,
                      const struct token *token)
{
	statement->token = token->text;
	if (token->kind != TOKEN_WORD && token->kind != TOKEN_QUOTED)
		return false;
	if (token->kind == TOKEN_QUOTED && token->text.count == 2)
		return false; /* PostgreSQL reports an error for an empty name */
	if (sql_token_is(token, "u") && scanner->rest.count > 1 && scanner->rest.at[0] == '&' &&
	    scanner->rest.at[1] == '"') {
		unsure(statement, "by a name in U&\"...\"");
		return false;
	}
	if (!copy_name(statement, token)) {
		unsure(statement, "by a name of more than 63 bytes");
		return false;
	}
	return true;
}

/* Skips from after a '(' to after the ')' that closes it. false: there is no such ')'. */
static bool skip_parentheses(struct scanner *scanner)
{
	size_t depth = 1;

	while (depth) {
		struct token token = sql_token(scanner);

		if (is_end(&token))
			return false;
		depth += sql_token_is_sign(&token, '(');
		depth -= sql_token_is_sign(&token, ')');
	}
	return true;
}

/* The statement ends at `end`. Accepts `kind` only if no other statement follows in the text. */
static void finish(struct scanner *scanner, struct sql_statement *statement, enum sql_kind kind,
                   struct token end)
{
	if (!is_end(&end))
		return;
	while (sql_token_is_sign(&end, ';'))
		end = sql_token(scanner);
	if (scanner->is_broken)
		return;
	if (end.kind == TOKEN_END)
		statement->kind = kind;
	else
		unsure(statement, "together with other statements in one text");
}

/* ---- statements ---- */

static void read_prepare(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner), last;
	const char *wrong = NULL;

	if (!take_name(scanner, statement, &token))
		return;
	token = sql_token(scanner);
	if (sql_token_is_sign(&token, '(')) {
		wrong = sql_types(scanner, statement);
		token = sql_token(scanner);
	}
	if (!sql_token_is(&token, "as") || (wrong && !*wrong))
		return;
	last = token = sql_token(scanner);
	if (is_end(&token))
		return;
	statement->body.at = token.text.at;
	for (; !is_end(&token); token = sql_token(scanner))
		last = token;
	statement->body.count = (size_t)(last.text.at + last.text.count - statement->body.at);
	finish(scanner, statement, SQL_PREPARE, token);
	if (wrong && statement->kind == SQL_PREPARE)
		unsure(statement, wrong);
}

static void read_execute(struct scanner *scanner, struct sql_statement *statement, bool in_create)
{
	struct token token = sql_token(scanner);

	if (!take_name(scanner, statement, &token))
		return;
	token = sql_token(scanner);
	if (sql_token_is_sign(&token, '(')) {
		if (!skip_parentheses(scanner))
			return;
		token = sql_token(scanner);
	}
	/* CREATE TABLE ... AS EXECUTE name WITH [NO] DATA. */
	if (in_create && sql_token_is(&token, "with")) {
		token = sql_token(scanner);
		if (sql_token_is(&token, "no"))
			token = sql_token(scanner);
		if (!sql_token_is(&token, "data"))
			return;
		token = sql_token(scanner);
	}
	finish(scanner, statement, SQL_EXECUTE, token);
}

/*
 * After ALL. If other statements follow, the text is SQL_OTHER: the server's reply will show
 * that all statements were dropped.
 */
static void read_forget(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	while (sql_token_is_sign(&token, ';'))
		token = sql_token(scanner);
	if (token.kind == TOKEN_END && !scanner->is_broken)
		statement->kind = SQL_FORGET;
}

static void read_discard(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (sql_token_is(&token, "all"))
		read_forget(scanner, statement);
}

static void read_deallocate(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (sql_token_is(&token, "prepare")) {
		struct scanner ahead = *scanner;
		struct token next = sql_token(&ahead);

		/*
		 * DEALLOCATE PREPARE name; but in DEALLOCATE PREPARE alone, PREPARE is the
		 * name.
		 */
		if (!is_end(&next)) {
			token = next;
			*scanner = ahead;
		}
	}
	if (sql_token_is(&token, "all"))
		read_forget(scanner, statement);
	else if (take_name(scanner, statement, &token))
		finish(scanner, statement, SQL_DEALLOCATE, sql_token(scanner));
}

/* Parses CREATE ... TABLE ... AS EXECUTE. */
static void read_create(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	while (sql_token_is(&token, "global") || sql_token_is(&token, "local") ||
	       sql_token_is(&token, "temp") || sql_token_is(&token, "temporary") ||
	       sql_token_is(&token, "unlogged"))
		token = sql_token(scanner);
	if (!sql_token_is(&token, "table"))
		return;
	for (; !is_end(&token) && !sql_token_is(&token, "as"); token = sql_token(scanner)) {
		if (sql_token_is_sign(&token, '(') && !skip_parentheses(scanner))
			return;
	}
	if (!sql_token_is(&token, "as"))
		return;
	token = sql_token(scanner);
	if (sql_token_is(&token, "execute"))
		read_execute(scanner, statement, true);
}

static void read_explain(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (sql_token_is_sign(&token, '(')) {
		if (!skip_parentheses(scanner))
			return;
		token = sql_token(scanner);
	}
	while (sql_token_is(&token, "analyze") || sql_token_is(&token, "analyse") ||
	       sql_token_is(&token, "verbose"))
		token = sql_token(scanner);
	if (sql_token_is(&token, "execute"))
		read_execute(scanner, statement, false);
	if (sql_token_is(&token, "create"))
		read_create(scanner, statement);
}

static void read_one(struct scanner scanner, struct sql_statement *statement)
{
	struct token token = sql_token(&scanner);

	statement->kind = SQL_OTHER;
	statement->reason = NULL;
	statement->token = statement->body = bytes_of(NULL, 0);
	statement->name[0] = 0;
	statement->type_count = 0;
	/* PostgreSQL ignores empty statements in front. */
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(&scanner);
	if (sql_token_is(&token, "prepare"))
		read_prepare(&scanner, statement);
	else if (sql_token_is(&token, "execute"))
		read_execute(&scanner, statement, false);
	else if (sql_token_is(&token, "deallocate"))
		read_deallocate(&scanner, statement);
	else if (sql_token_is(&token, "discard"))
		read_discard(&scanner, statement);
	else if (sql_token_is(&token, "explain"))
		read_explain(&scanner, statement);
	else if (sql_token_is(&token, "create"))
		read_create(&scanner, statement);
}

/* A backslash can only change where a string ends, and so where the statement ends. */
static bool are_alike(const struct sql_statement *a, const struct sql_statement *b)
{
	return a->kind == b->kind && a->token.at == b->token.at && a->body.count == b->body.count;
}

void sql_read(struct bytes text, struct sql_statement *statement)
{
	struct sql_statement other;

	/*
	 * Whether a backslash escapes a quote depends on standard_conforming_strings of the
	 * session, which is not known here. The text is parsed both ways.
	 */
	read_one((struct scanner){ .rest = text }, statement);
	if (!text.count || !memchr(text.at, '\\', text.count))
		return;
	read_one((struct scanner){ .rest = text, .is_escaped = true }, &other);
	if (!are_alike(statement, &other))
		unsure(statement, "with a backslash that makes its end uncertain");
}
