/* SPDX-License-Identifier: ISC */
/*
 * The scanner's tokens, and the names of types.
 */
#ifndef PGWEIR_PGWIRE_SQL_PRIV_H
#define PGWEIR_PGWIRE_SQL_PRIV_H

#include "pgweir/pgwire/sql.h"

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,   /* a keyword or a name without quotes */
	TOKEN_QUOTED, /* "a name" */
	TOKEN_STRING, /* of any kind */
	TOKEN_NUMBER, /* $1 too */
	TOKEN_SIGN    /* one character */
};

struct token {
	enum token_kind kind;
	struct bytes text;
};

struct scanner {
	struct bytes rest;
	bool is_escaped; /* a backslash in a plain string takes the next character along */
	bool is_broken;  /* the end came within a comment or quotes */
};

/* The next token; behind the last one, and where it is broken, TOKEN_END. */
struct token sql_token(struct scanner *scanner);

/* Skips white space and comments. false: the end came within a comment. */
bool sql_skip_space(struct bytes *rest);

/* How many bytes at the front make a word; 0: none. */
size_t sql_word_size(struct bytes rest);

/* Whether it is this keyword, which is given in small letters. */
bool sql_token_is(const struct token *token, const char *word);
bool sql_token_is_sign(const struct token *token, char sign);

/*
 * Reads a list of types behind its opening parenthesis up to the closing one. NULL:
 * read; "": PostgreSQL will find it wrong; else the reason why they cannot be told.
 */
const char *sql_types(struct scanner *scanner, struct sql_statement *statement);

#endif
