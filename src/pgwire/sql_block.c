/* SPDX-License-Identifier: ISC */
/*
 * Recognises BEGIN, START TRANSACTION, COMMIT, ROLLBACK and SET TRANSACTION.
 *
 * Hard here: the caller answers these statements in PostgreSQL's place. So a text in which
 * PostgreSQL could find any error is SQL_BLOCK_OTHER: an option given twice, a byte that may be
 * invalid in the session's encoding, a character that only newer versions treat as white space.
 */
#include "pgweir/pgwire/sql_block.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "sql_priv.h"

#define WORDS_MAX 4

#define ISOLATION 1u

struct mode {
	const char *words[WORDS_MAX];
	unsigned int what; /* a bit for each kind of option; each kind may be given once */
	bool is_for_primary;
	enum sql_access access;
};

static const struct mode modes[] = {
	{ { "isolation", "level", "read", "committed" }, ISOLATION, false, SQL_ACCESS_UNSAID },
	{ { "isolation", "level", "read", "uncommitted" }, ISOLATION, false, SQL_ACCESS_UNSAID },
	{ { "isolation", "level", "repeatable", "read" }, ISOLATION, false, SQL_ACCESS_UNSAID },
	{ { "isolation", "level", "serializable" }, ISOLATION, true, SQL_ACCESS_UNSAID },
	{ { "read", "only" }, 2, false, SQL_ACCESS_READ_ONLY },
	{ { "read", "write" }, 2, true, SQL_ACCESS_READ_WRITE },
	{ { "deferrable" }, 4, false, SQL_ACCESS_UNSAID },
	{ { "not", "deferrable" }, 4, false, SQL_ACCESS_UNSAID },
};

static const struct {
	const char *word;
	enum sql_block_kind kind;
} beginnings[] = {
	{ "begin", SQL_BLOCK_BEGIN },       { "start", SQL_BLOCK_START },
	{ "commit", SQL_BLOCK_COMMIT },     { "end", SQL_BLOCK_COMMIT },
	{ "rollback", SQL_BLOCK_ROLLBACK }, { "abort", SQL_BLOCK_ROLLBACK },
	{ "set", SQL_BLOCK_SET },
};

static bool is_printable(struct bytes text)
{
	for (size_t i = 0; i < text.count; i++) {
		char c = text.at[i];

		/* Not \v: only newer versions of PostgreSQL treat it as white space. */
		if ((c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f') || c > '~')
			return false;
	}
	return true;
}

static enum sql_block_kind kind_of(const struct token *token)
{
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		if (sql_token_is(token, beginnings[i].word))
			return beginnings[i].kind;
	}
	return SQL_BLOCK_OTHER;
}

/* Whether the words of a mode are next. If so, the scanner and *token move past them. */
static bool take_words(struct scanner *scanner, struct token *token, const char *const *words)
{
	struct scanner ahead = *scanner;
	struct token next = *token;

	for (int i = 0; i < WORDS_MAX && words[i]; i++) {
		if (!sql_token_is(&next, words[i]))
			return false;
		next = sql_token(&ahead);
	}
	*scanner = ahead;
	*token = next;
	return true;
}

static const struct mode *take_mode(struct scanner *scanner, struct token *token)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (take_words(scanner, token, modes[i].words))
			return &modes[i];
	}
	return NULL;
}

/* Parses a list of modes, with or without commas. false: PostgreSQL would report an error. */
static bool take_modes(struct scanner *scanner, struct token *token, struct sql_block *block)
{
	unsigned int said = 0;

	while (token->kind == TOKEN_WORD || sql_token_is_sign(token, ',')) {
		const struct mode *mode;

		if (sql_token_is_sign(token, ',')) {
			/* A comma is allowed only between two modes. */
			if (!said)
				return false;
			*token = sql_token(scanner);
		}
		mode = take_mode(scanner, token);
		if (!mode || (said & mode->what))
			return false;
		said |= mode->what;
		block->has_isolation |= mode->what == ISOLATION;
		block->is_for_primary |= mode->is_for_primary;
		if (mode->access != SQL_ACCESS_UNSAID)
			block->access = mode->access;
	}
	/* SET TRANSACTION without a mode is an error. */
	return said || block->kind != SQL_BLOCK_SET;
}

/* Accepts AND NO CHAIN, or nothing. AND CHAIN would begin another transaction block. */
static bool take_chain(struct scanner *scanner, struct token *token)
{
	static const char *const no_chain[WORDS_MAX] = { "and", "no", "chain" };

	return !sql_token_is(token, "and") || take_words(scanner, token, no_chain);
}

/* Whether the second word must be TRANSACTION. */
static bool needs_transaction(enum sql_block_kind kind)
{
	return kind == SQL_BLOCK_START || kind == SQL_BLOCK_SET;
}

struct sql_block sql_block_read(struct bytes text)
{
	static const struct sql_block other = { .kind = SQL_BLOCK_OTHER };
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);
	struct sql_block block = { .kind = kind_of(&token) };
	bool is_good;

	if (block.kind == SQL_BLOCK_OTHER || !is_printable(text))
		return other;
	token = sql_token(&scanner);
	if (sql_token_is(&token, "transaction") ||
	    (sql_token_is(&token, "work") && !needs_transaction(block.kind)))
		token = sql_token(&scanner);
	else if (needs_transaction(block.kind))
		return other;
	if (block.kind != SQL_BLOCK_COMMIT && block.kind != SQL_BLOCK_ROLLBACK)
		is_good = take_modes(&scanner, &token, &block);
	else
		is_good = take_chain(&scanner, &token);
	return is_good && sql_is_over(&scanner, token) ? block : other;
}

bool sql_is_set_local(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);

	if (!sql_token_is(&token, "set") || !is_printable(text) ||
	    memchr(text.at, '\\', text.count))
		return false;
	token = sql_token(&scanner);
	if (!sql_token_is(&token, "local"))
		return false;
	token = sql_token(&scanner);
	if (sql_token_is(&token, "transaction"))
		return false; /* with a snapshot, which another server does not have */
	while (token.kind != TOKEN_END && !sql_token_is_sign(&token, ';'))
		token = sql_token(&scanner);
	return sql_is_over(&scanner, token);
}

/* Whether the scanner, behind SET, is at a mode of the transaction, in whatever form. */
static bool sets_mode(struct scanner *scanner)
{
	static const char word[] = "transaction"; /* transaction_read_only, too */
	struct token token = sql_token(scanner);

	if (sql_token_is(&token, "local") || sql_token_is(&token, "session"))
		token = sql_token(scanner);
	if (token.kind == TOKEN_QUOTED)
		return true;
	return token.kind == TOKEN_WORD && token.text.count >= sizeof(word) - 1 &&
	       strncasecmp(token.text.at, word, sizeof(word) - 1) == 0;
}

bool sql_is_no_block(struct bytes text)
{
	bool is_one = !text.count || !memchr(text.at, ';', text.count);
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);

	/* Where a string ends may depend on the session. */
	if (!is_one && (!is_printable(text) || memchr(text.at, '\\', text.count)))
		return false;
	while (token.kind != TOKEN_END) {
		enum sql_block_kind kind = kind_of(&token);

		if (kind != SQL_BLOCK_OTHER && (kind != SQL_BLOCK_SET || sets_mode(&scanner)))
			return false;
		if (is_one)
			return true;
		while (token.kind != TOKEN_END && !sql_token_is_sign(&token, ';'))
			token = sql_token(&scanner);
		token = sql_token(&scanner);
	}
	return true;
}
