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

/* ---- parts of a statement ---- */

static void unsure(struct sql_statement *statement, const char *reason)
{
	statement->kind = SQL_UNSURE;
	statement->reason = reason;
}

/*
 * Parses a name. false: it is not a name, or one that cannot be determined (SQL_UNSURE is set).
 */
static bool take_name(struct sql_statement *statement, const struct token *token)
{
	statement->token = token->text;
	if (!sql_is_name(token))
		return false;
	if (token->kind == TOKEN_QUOTED && token->text.count == 2)
		return false; /* PostgreSQL reports an error for an empty name */
	if (sql_is_unicode(token)) {
		unsure(statement, "by a name in U&\"...\"");
		return false;
	}
	if (sql_unquote_text(token, statement->name, sizeof(statement->name)))
		return true;
	unsure(statement, "by a name of more than 63 bytes");
	return false;
}

/* Skips from after a '(' to after the ')' that closes it. false: there is no such ')'. */
static bool skip_parentheses(struct scanner *scanner)
{
	size_t depth = 1;

	while (depth) {
		struct token token = sql_token(scanner);

		if (sql_is_end(&token))
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
	if (!sql_is_end(&end))
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

	if (!take_name(statement, &token))
		return;
	token = sql_token(scanner);
	if (sql_token_is_sign(&token, '(')) { /* types */
		if (!skip_parentheses(scanner))
			return;
		token = sql_token(scanner);
	}
	if (!sql_token_is(&token, "as"))
		return;
	last = token = sql_token(scanner);
	if (sql_is_end(&token))
		return;
	statement->body.at = token.text.at;
	for (; !sql_is_end(&token); token = sql_token(scanner))
		last = token;
	statement->body.count = (size_t)(last.text.at + last.text.count - statement->body.at);
	finish(scanner, statement, SQL_PREPARE, token);
}

static void read_execute(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (!take_name(statement, &token))
		return;
	token = sql_token(scanner);
	if (sql_token_is_sign(&token, '(')) {
		if (!skip_parentheses(scanner))
			return;
		token = sql_token(scanner);
	}
	/* CREATE TABLE ... AS EXECUTE name WITH [NO] DATA; elsewhere it is an error. */
	if (sql_token_is(&token, "with")) {
		sql_takes(scanner, "no");
		if (!sql_takes(scanner, "data"))
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

	if (sql_is_end(&token) && sql_is_last(scanner, token))
		statement->kind = SQL_FORGET;
}

static void read_discard(struct scanner *scanner, struct sql_statement *statement)
{
	if (sql_takes(scanner, "all"))
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
		if (!sql_is_end(&next)) {
			token = next;
			*scanner = ahead;
		}
	}
	if (sql_token_is(&token, "all"))
		read_forget(scanner, statement);
	else if (take_name(statement, &token))
		finish(scanner, statement, SQL_DEALLOCATE, sql_token(scanner));
}

/* Parses CREATE ... TABLE ... AS EXECUTE. Elsewhere EXECUTE may be the name of a column. */
static void read_create(struct scanner *scanner, struct sql_statement *statement)
{
	static const char *const kinds[] = { "global", "local", "temp", "temporary", "unlogged" };
	struct token token = sql_token(scanner);

	while (SQL_IS_ONE(&token, kinds))
		token = sql_token(scanner);
	if (!sql_token_is(&token, "table"))
		return;
	for (; !sql_token_is(&token, "as"); token = sql_token(scanner)) {
		if (sql_is_end(&token) ||
		    (sql_token_is_sign(&token, '(') && !skip_parentheses(scanner)))
			return;
	}
	if (sql_takes(scanner, "execute"))
		read_execute(scanner, statement);
}

static void read_explain(struct scanner *scanner, struct sql_statement *statement)
{
	static const char *const options[] = { "analyze", "analyse", "verbose" };

	if (sql_takes_sign(scanner, '(') && !skip_parentheses(scanner))
		return;
	for (;;) {
		struct token token = sql_token(scanner);

		if (sql_token_is(&token, "execute"))
			read_execute(scanner, statement);
		if (sql_token_is(&token, "create"))
			read_create(scanner, statement);
		if (!SQL_IS_ONE(&token, options))
			return;
	}
}

/* ---- texts ---- */

static const struct reader {
	const char *word;
	void (*read)(struct scanner *scanner, struct sql_statement *statement);
} readers[] = {
	{ "prepare", read_prepare }, { "execute", read_execute }, { "deallocate", read_deallocate },
	{ "discard", read_discard }, { "explain", read_explain }, { "create", read_create },
};

/* By the first word of a statement. NULL: it is SQL_OTHER. */
static const struct reader *find_reader(const struct token *word)
{
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		if (sql_token_is(word, readers[i].word))
			return &readers[i];
	}
	return NULL;
}

enum wire_result sql_glance(struct bytes have)
{
	bool is_space_whole = sql_skip_space(&have);
	struct token word = { .kind = TOKEN_WORD };
	size_t size;

	while (is_space_whole && have.count && have.at[0] == ';') {
		have = bytes_skip(have, 1);
		is_space_whole = sql_skip_space(&have);
	}
	if (!is_space_whole || have.count == 0)
		return WIRE_MORE;
	/* may be the first half of a comment's opening characters */
	if (have.at[0] == '-' || have.at[0] == '/')
		return have.count > 1 ? WIRE_BAD : WIRE_MORE;
	if (!strchr("cdep", have.at[0] | 0x20))
		return WIRE_BAD;
	size = sql_word_size(have);
	/* The word may continue, unless it is longer than the longest first word already. */
	if (size == have.count && size <= strlen("deallocate"))
		return WIRE_MORE;
	word.text = bytes_of(have.at, size);
	return find_reader(&word) ? WIRE_OK : WIRE_BAD;
}

static void read_one(struct scanner scanner, struct sql_statement *statement)
{
	struct token token = sql_token(&scanner);
	const struct reader *reader;

	statement->kind = SQL_OTHER;
	statement->reason = NULL;
	statement->token = statement->body = bytes_of(NULL, 0);
	statement->name[0] = 0;
	/* PostgreSQL ignores empty statements in front. */
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(&scanner);
	reader = find_reader(&token);
	if (reader)
		reader->read(&scanner, statement);
}

void sql_read(struct bytes text, struct sql_statement *statement)
{
	struct sql_statement other;

	/*
	 * Whether a backslash escapes a quote depends on standard_conforming_strings of the
	 * session, which is not known here. The text is parsed both ways.
	 */
	read_one((struct scanner){ .rest = text }, statement);
	if (!sql_has_backslash(text))
		return;
	read_one((struct scanner){ .rest = text, .is_escaped = true }, &other);
	if (statement->kind != other.kind || statement->token.at != other.token.at ||
	    statement->body.count != other.body.count)
		unsure(statement, "with a backslash that makes its end uncertain");
}

enum sql_kind sql_kind_of(struct bytes text)
{
	struct sql_statement statement;

	sql_read(text, &statement);
	return statement.kind;
}
