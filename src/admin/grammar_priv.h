/* SPDX-License-Identifier: ISC */
/*
 * What is typed at the console, cut into words. Text in, words out.
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
	TOKEN_OPEN    /* quotes or a comment that do not end */
};

struct token {
	enum token_kind kind;
	struct bytes text; /* without the quotes; doubled ones are still doubled */
};

/* Takes the next token off the front; blanks and comments are skipped. */
void grammar_next_token(struct bytes *rest, struct token *token);

/* The token's text with its zero, quotes undone. false: it needs more than `size` bytes. */
bool grammar_copy_token(const struct token *token, char *out, size_t size);

/* Whether it is this word, in any case. */
bool grammar_token_is(const struct token *token, const char *word);

/* Takes the next statement, up to its `;` or the end. false: there was none left. */
bool grammar_next_statement(struct bytes *rest, struct bytes *statement);

enum words_result {
	WORDS_OK,
	WORDS_INVALID, /* not of the console's form */
	WORDS_TOO_LONG /* one of them is longer than may be */
};

/* COMMAND [argument], SHOW argument [value], or SET argument = value. */
struct words {
	unsigned int count; /* 1, 2, or 3 with a value */
	char command[16];
	char argument[64];
	char value[256];
};

enum words_result grammar_read_words(struct bytes text, struct words *words);

#endif
