/* SPDX-License-Identifier: ISC */
/*
 * Tokens of SQL, and what is between quotes. All that reads texts reads these, the console too.
 *
 * Source: PostgreSQL's manual, "Lexical Structure".
 */
#ifndef PGWEIR_PGWIRE_SQL_TOKEN_H
#define PGWEIR_PGWIRE_SQL_TOKEN_H

#include "pgweir/base/bytes.h"

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,   /* a keyword or a name without quotes */
	TOKEN_QUOTED, /* "a name", or U&"..." */
	TOKEN_STRING, /* any kind of string constant */
	TOKEN_NUMBER, /* a parameter such as $1 too */
	TOKEN_SIGN,   /* one character */
	TOKEN_OPEN    /* in place of an end of a broken text: console only */
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

/* Skips white space and comments. false: the text ended within a comment. */
bool sql_skip_space(struct bytes *rest);

/* Returns the size in bytes of the word at the front; 0: there is none. */
size_t sql_word_size(struct bytes rest);

/* Whether the token is this keyword, which is given in lower case. */
bool sql_token_is(const struct token *token, const char *word);

/* Whether it is one of them. */
bool sql_token_is_one(const struct token *token, const char *const *words, size_t count);

/* If the next token is this keyword, takes it. */
bool sql_takes(struct scanner *scanner, const char *word);

/* The same with several, behind which is a NULL: takes all or none. */
bool sql_takes_all(struct scanner *scanner, const char *const *words);

/* The same with a sign. */
bool sql_takes_sign(struct scanner *scanner, char sign);

/* Skips the statement of this token. Returns the first one behind it, up to semicolons. */
struct token sql_next_statement(struct scanner *scanner, struct token token);

/* The same. Whether it was the last one. */
bool sql_is_last(struct scanner *scanner, struct token token);

static inline struct token sql_peek(struct scanner scanner) { return sql_token(&scanner); }

static inline bool sql_token_is_sign(const struct token *token, char sign)
{
	return token->kind == TOKEN_SIGN && token->text.at[0] == sign;
}

/* U&"..." or U&'...': letters may be written as numbers, and which these are is not read here. */
static inline bool sql_is_unicode(const struct token *token)
{
	return (token->kind == TOKEN_QUOTED || token->kind == TOKEN_STRING) &&
	       (token->text.at[0] | 0x20) == 'u';
}

static inline bool sql_is_name(const struct token *token)
{
	return token->kind == TOKEN_WORD || token->kind == TOKEN_QUOTED;
}

/* The text of a name, without its quotes. */
static inline struct bytes sql_name_text(const struct token *token)
{
	size_t before = sql_is_unicode(token) ? strlen("U&\"") : 1;

	if (token->kind == TOKEN_QUOTED)
		return bytes_of(token->text.at + before, token->text.count - before - 1);
	return token->text;
}

/* Of a statement. */
static inline bool sql_is_end(const struct token *token)
{
	return token->kind == TOKEN_END || sql_token_is_sign(token, ';');
}

/* Without a letter in front of its quotes, which may be dollars. */
static inline bool sql_is_plain_string(const struct token *token)
{
	return token->kind == TOKEN_STRING &&
	       (token->text.at[0] == '\'' || token->text.at[0] == '$');
}

static inline char sql_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

#define SQL_CANNOT SIZE_MAX

/*
 * Copies a word in lower case, or what is between quotes. A character that is written as a number
 * becomes one that is not ASCII. SQL_CANNOT: it is longer than `size`, of which all bytes are
 * copied, or it is U&, or E'...' with such a number, or with another part on the next line.
 */
size_t sql_unquote(const struct token *token, bool is_escaped, char *out, size_t size);

/* The same with a terminating zero within `size`. false: it is too long, or empty. */
bool sql_unquote_text(const struct token *token, char *out, size_t size);

/*
 * Whether the end of a string may depend on standard_conforming_strings of the session, which is
 * not known here: such a text is read in both ways, or is not certain.
 */
static inline bool sql_has_backslash(struct bytes text)
{
	return text.count && memchr(text.at, '\\', text.count);
}

/* Whether each byte means the same in all encodings and versions of PostgreSQL. */
bool sql_is_printable(struct bytes text);

/*
 * ---- comments ----
 *
 * The trace that a text belongs to, if its client has said so in a comment at the beginning or at
 * the end:
 *
 *   traceparent='00-<32 hex digits>-<16 hex digits>-<2 hex digits>'
 *
 * Source: sqlcommenter's specification; W3C, "Trace Context", the header traceparent.
 */

#define SQL_TRACEPARENT_SIZE 55 /* bytes of a value */

/* Only a comment that ends within so many bytes of the text's beginning or end counts. */
#define SQL_TRACEPARENT_REACH 2048

/* *value points into the text. false: it has none, or one that is not valid. */
bool sql_traceparent(struct bytes text, struct bytes *value);

/*
 * The value of any key in such a comment. key: with the equals sign and the quote. The value may be
 * any text without a quote.
 */
bool sql_traceparent_key(struct bytes text, const char *key, struct bytes *value);

#endif
