/* SPDX-License-Identifier: ISC */
/*
 * Tokens of the scanner, and names of types.
 */
#ifndef PGWEIR_PGWIRE_SQL_PRIV_H
#define PGWEIR_PGWIRE_SQL_PRIV_H

#include "pgweir/pgwire/sql.h"

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,   /* a keyword or a name without quotes */
	TOKEN_QUOTED, /* "a name" */
	TOKEN_STRING, /* any kind of string constant */
	TOKEN_NUMBER, /* a parameter such as $1 too */
	TOKEN_SIGN    /* one character */
};

struct token {
	enum token_kind kind;
	struct bytes text;
};

struct scanner {
	struct bytes rest;
	bool is_escaped; /* in a plain string, a backslash escapes the next character */
	bool is_broken;  /* the text ended within a comment or quotes */
};

/* Returns the next token. TOKEN_END: the text has ended, or it is broken (is_broken). */
struct token sql_token(struct scanner *scanner);

/* Whether this token and all that follow are semicolons, up to the end of the text. */
bool sql_is_over(struct scanner *scanner, struct token token);

/* Skips white space and comments. false: the text ended within a comment. */
bool sql_skip_space(struct bytes *rest);

/* Returns the size in bytes of the word at the front; 0: there is none. */
size_t sql_word_size(struct bytes rest);

/* Whether the token is this keyword, which is given in lower case. */
bool sql_token_is(const struct token *token, const char *word);
static inline bool sql_token_is_sign(const struct token *token, char sign)
{
	return token->kind == TOKEN_SIGN && token->text.at[0] == sign;
}

/*
 * Parses a list of types, from after its opening parenthesis to after the closing one. NULL:
 * done. "": PostgreSQL will report an error. Any other text is the reason why the types cannot
 * be determined.
 */
const char *sql_types(struct scanner *scanner, struct sql_statement *statement);

#endif
