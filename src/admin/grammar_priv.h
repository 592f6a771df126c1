/* SPDX-License-Identifier: ISC */
/*
 * Splits what is typed at the console into tokens and words. It only handles text.
 */
#ifndef PGWEIR_ADMIN_GRAMMAR_PRIV_H
#define PGWEIR_ADMIN_GRAMMAR_PRIV_H

#include "pgweir/base/bytes.h"

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,   /* 0-9 A-Z a-z _ */
	TOKEN_QUOTED, /* "..." */
	TOKEN_STRING, /* '...' */
	TOKEN_SIGN,   /* any other byte */
	TOKEN_OPEN    /* quotes or a comment without an end */
};

struct token {
	enum token_kind kind;
	struct bytes text; /* without the surrounding quotes; quotes inside are still doubled */
};

/* Removes the next token from the front of *rest. Skips blanks and comments. */
void grammar_next_token(struct bytes *rest, struct token *token);

/*
 * Copies the token's text with a terminating zero, and doubled quotes as one. false: it
 * needs more than `size` bytes.
 */
bool grammar_copy_token(const struct token *token, char *out, size_t size);

/* Whether the token is this word; upper and lower case are equal. */
bool grammar_token_is(const struct token *token, const char *word);

/*
 * Removes the next statement from *rest, up to its `;` or the end of the text. false: none
 * is left.
 */
bool grammar_next_statement(struct bytes *rest, struct bytes *statement);

enum words_result {
	WORDS_OK,
	WORDS_INVALID, /* not in the console's grammar */
	WORDS_TOO_LONG /* a word is longer than its field */
};

/* COMMAND [argument], SHOW argument [value ...], or SET argument = value. */
struct words {
	/* 1, 2, or 3 (with value); of a SHOW also more: then `value` has spaces between words */
	unsigned int count;
	char command[16];
	char argument[64];
	char value[256];
};

enum words_result grammar_read_words(struct bytes text, struct words *words);

#endif
