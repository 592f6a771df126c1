/* SPDX-License-Identifier: ISC */
/*
 * Tokens of SQL, what is between quotes, and tables of words. All that reads texts reads these.
 */
#ifndef PGWEIR_PGWIRE_SQL_PRIV_H
#define PGWEIR_PGWIRE_SQL_PRIV_H

#include "pgweir/pgwire/sql.h"

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,   /* a keyword or a name without quotes */
	TOKEN_QUOTED, /* "a name", or U&"..." */
	TOKEN_STRING, /* any kind of string constant */
	TOKEN_NUMBER, /* a parameter such as $1 too */
	TOKEN_SIGN    /* one character */
};

struct token {
	enum token_kind kind;
	char escape; /* of U&"..." and U&'...'; 0: another kind */
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

/* The same with a sign. */
bool sql_takes_sign(struct scanner *scanner, char sign);

/* Skips the statement of this token. Whether it was the last one, up to semicolons. */
bool sql_is_last(struct scanner *scanner, struct token token);

static inline struct token sql_peek(struct scanner scanner) { return sql_token(&scanner); }

static inline bool sql_token_is_sign(const struct token *token, char sign)
{
	return token->kind == TOKEN_SIGN && token->text.at[0] == sign;
}

static inline bool sql_is_name(const struct token *token)
{
	return token->kind == TOKEN_WORD || token->kind == TOKEN_QUOTED;
}

/* The text of a name, without its quotes. */
static inline struct bytes sql_name_text(const struct token *token)
{
	size_t before = token->escape ? strlen("U&\"") : 1;

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
 * Copies a word in lower case, or what is between quotes. A character that is not ASCII, but is
 * written as a number, becomes one that is none. SQL_CANNOT: it is longer than `size`, of which all
 * bytes are copied, or in parts with comments between them.
 */
size_t sql_unquote(const struct token *token, bool is_escaped, char *out, size_t size);

#define SQL_CHAIN_MAX 255

/* A name with all its parts, as PostgreSQL reads it: without quotes, in lower case if it had none.
 */
struct chain {
	char name[SQL_CHAIN_MAX + 1]; /* with a zero at its end */
	size_t count;
	bool is_cut;       /* a part has more than SQL_NAME_MAX bytes, or all have too many */
	struct token next; /* what follows */
};

/* Reads a name from its first token, which was taken. false: it is no name, or does not end. */
bool sql_read_chain(struct scanner *scanner, struct token token, struct chain *chain);

/* Takes SESSION or LOCAL in front of a parameter's name; it may be the first part of a name. */
bool sql_takes_scope(struct scanner *scanner, const char *word);

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

/* ---- tables of words ---- */

/* The first member of an entry of a table, which is in the order of the sizes. */
struct sql_word {
	const char *text; /* in lower case */
	unsigned char size;
};

#define SQL_WORD(text)                 \
	{                              \
		text, sizeof(text) - 1 \
	}

/* Whether a text, which has at least as many bytes, begins with this word in any case. */
bool sql_word_begins(struct bytes text, const struct sql_word *word);

/* Returns the entry of a table with `count` entries of `width` bytes; NULL: none is this word. */
const void *sql_word_find(const void *table, size_t count, size_t width, struct bytes text);

/* ---- calls of functions that change what PostgreSQL keeps in a session: sql_calls.c ---- */

enum sql_third {
	SQL_THIRD_ANY,      /* the arguments change nothing */
	SQL_THIRD_IS_LOCAL, /* not touched if the third argument is `true`: set_config() */
	SQL_THIRD_TEMPORARY /* not touched without a third argument, or if it is `false` */
};

struct sql_function {
	struct sql_word name;
	unsigned char third; /* enum sql_third */
	unsigned int bits;   /* SQL_TOUCH_ */
};

#define SQL_FUNCTION_MIN 6  /* bytes of the shortest name */
#define SQL_FUNCTION_MAX 35 /* of the longest */

/*
 * Returns the function with this name, in upper or lower case; NULL: none of these. Bytes
 * outside of ASCII may mean an `i`: some locales have a capital letter of their own for it.
 */
const struct sql_function *sql_function(struct bytes name);

/* The same of a token; NULL also if it is no name. */
const struct sql_function *sql_function_of(const struct token *token);

struct argument {
	bool is_named; /* name => value, name := value */
	struct token name;
	struct scanner value; /* before the value */
	struct token first;   /* the first token of the value */
	size_t count;         /* of its tokens */
	char end;             /* the sign after it; 0: the argument cannot be read */
};

/* Reads one argument from after the sign before it. */
void sql_read_argument(struct scanner *scanner, struct argument *argument);

/* ---- the first step of sql_touch(): sql_touch_quick.c ---- */

/* Beside enum sql_touch: the tokens of the text must be read. */
#define SQL_TOUCH_UNREAD (1u << 31)

/*
 * Looks at few bytes of a text, and does not know what is a quote. The text has no bits but those
 * returned, unless SQL_TOUCH_UNREAD is among them.
 */
unsigned int sql_touch_quick(struct bytes text);

#endif
