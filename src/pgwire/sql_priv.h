/* SPDX-License-Identifier: ISC */
/*
 * What the readers of SQL share, beside its tokens.
 */
#ifndef PGWEIR_PGWIRE_SQL_PRIV_H
#define PGWEIR_PGWIRE_SQL_PRIV_H

#include "pgweir/pgwire/sql.h"
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_token.h"

#define SQL_CHAIN_MAX 255

/* A name with all its parts, as PostgreSQL reads it: without quotes, else in lower case. */
struct chain {
	char name[SQL_CHAIN_MAX + 1]; /* with a zero at its end */
	size_t count;
	bool is_cut; /* a part has more than SQL_NAME_MAX bytes or is U&, or all have too many */
	struct token next; /* what follows */
};

/* Reads a name from its first token, which was taken. false: it is no name, or does not end. */
bool sql_read_chain(struct scanner *scanner, struct token token, struct chain *chain);

/* Takes SESSION or LOCAL in front of a parameter's name; it may be the first part of a name. */
bool sql_takes_scope(struct scanner *scanner, const char *word);

/*
 * Reads the parameter of a SET or RESET, which may be words that mean one, such as TIME ZONE.
 * Returns its name in lower case, with at most SQL_SET_NAME_MAX bytes; NULL: it is not known.
 */
const char *sql_read_parameter(struct scanner *scanner, struct chain *chain);

/* ---- characters ---- */

/* All bytes that are not ASCII are letters. */
enum { SPACE = 1, LETTER = 2, IN_WORD = 4, DIGIT = 8, IN_NUMBER = 16 };

extern const unsigned char sql_classes[256];

static inline bool is_a(char c, int class) { return sql_classes[(unsigned char)c] & class; }

/* ---- tables of words ---- */

/* Whether a token is a word of this array. */
#define SQL_IS_ONE(token, words) sql_token_is_one(token, words, sizeof(words) / sizeof((words)[0]))

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
#define SQL_WORD_FIND(table, text) \
	sql_word_find(table, sizeof(table) / sizeof((table)[0]), sizeof((table)[0]), text)

/* ---- calls of functions that change what PostgreSQL keeps in a session: sql_touch.c ---- */

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

/*
 * Finds an argument by its number, from 1, or by its name, from after the parenthesis of a call. If
 * it is not there, *argument is the last that was read.
 */
bool sql_find_argument(struct scanner scanner, unsigned int number, const char *name,
                       struct argument *argument);

/* ---- the first step of sql_touch(): sql_touch_quick.c ---- */

/* Beside enum sql_touch: the tokens of the text must be read. */
#define SQL_TOUCH_UNREAD (1u << 31)

/*
 * Looks at few bytes of a text, and does not know what is a quote. The text has no bits but those
 * returned, unless SQL_TOUCH_UNREAD is among them.
 */
unsigned int sql_touch_quick(struct bytes text);

/* The second step, for the others: reads the tokens. sql_touch.c */
unsigned int sql_touch_tokens(struct bytes text);

#endif
