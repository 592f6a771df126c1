/* SPDX-License-Identifier: ISC */
/*
 * The digest by another way than sql_digest.c: by the tokens of the scanner, which are written to a
 * buffer in their normal form.
 */
#include "sql_digest_reference.h"

#include "pgweir/pgwire/sql_digest.h"

#include "../../../src/pgwire/sql_priv.h"

#include "pgweir/base/banned.h"

#define NESTS_MAX 24   /* deeper parentheses are signs like others */
#define DISTINCT_MAX 4 /* different items of one list that count */
#define CHUNK_SIZE 256

/* In the normal form. No word begins with these. */
#define CONSTANT '\001'
#define WORD_END '\002'
#define LIST '\003'
#define CONTROL '\004' /* before a sign that could be one of these */

#define ITEM_BEGIN UINT64_C(0)          /* the hash before an item */
#define ITEM_OF_CONSTANT UINT64_C(0x63) /* of an item that is one constant */

enum nest_kind {
	NEST_PLAIN, /* parentheses or brackets that are not a list */
	NEST_LIST,  /* the items between them */
	NEST_ROWS   /* the rows after VALUES; these have parentheses of their own */
};

/* What is between a parenthesis and the one that closes it. */
struct nest {
	enum nest_kind kind;
	char closing;
	uint64_t outer; /* the hash of what precedes it */
	uint64_t sum;   /* of the different items */
	unsigned int count;
	uint64_t items[DISTINCT_MAX];
};

enum before {
	BEFORE_START, /* nothing, or a semicolon */
	BEFORE_WORD,  /* a word, a name, a constant, a closing parenthesis */
	BEFORE_SIGN,
	BEFORE_IN,
	BEFORE_ARRAY,
	BEFORE_VALUES
};

struct digest {
	const struct hash_key *key;
	uint64_t hash; /* of what was in `chunk` before */
	size_t count;  /* bytes in `chunk` */
	char chunk[CHUNK_SIZE];
	size_t depth;
	struct nest nests[NESTS_MAX];
	enum before before;
	const char *sign;      /* a + or - that may belong to a constant; or NULL */
	const char *semicolon; /* counts if anything follows; or NULL */
	bool is_row_over;      /* the row's parenthesis was closed: a comma, or the end of VALUES */
	bool is_list_begun;    /* nothing of the list has come yet */
};

/* ---- the normal form ---- */

static void hash_chunk(struct digest *digest)
{
	char bytes[sizeof(digest->hash) + CHUNK_SIZE];

	if (digest->count == 0)
		return;
	memcpy(bytes, &digest->hash, sizeof(digest->hash));
	memcpy(bytes + sizeof(digest->hash), digest->chunk, digest->count);
	digest->hash = hash_bytes(digest->key, bytes, sizeof(digest->hash) + digest->count);
	digest->count = 0;
}

static void add_byte(struct digest *digest, char byte)
{
	if (digest->count == CHUNK_SIZE)
		hash_chunk(digest);
	digest->chunk[digest->count++] = byte;
}

static void add_word(struct digest *digest, struct bytes word)
{
	for (size_t i = 0; i < word.count; i++) {
		char c = word.at[i];

		add_byte(digest, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
	}
	add_byte(digest, WORD_END);
}

static void add_quoted(struct digest *digest, struct bytes name)
{
	for (size_t i = 0; i < name.count; i++)
		add_byte(digest, name.at[i]);
	add_byte(digest, WORD_END);
}

/* ---- lists ---- */

static struct nest *innermost(struct digest *digest)
{
	return digest->depth && digest->depth <= NESTS_MAX ? &digest->nests[digest->depth - 1]
	                                                   : NULL;
}

static void open_nest(struct digest *digest, enum nest_kind kind, char closing)
{
	struct nest *nest;

	digest->depth++;
	nest = innermost(digest);
	if (!nest)
		return;
	*nest = (struct nest){ .kind = kind, .closing = closing };
	if (kind == NEST_PLAIN)
		return;
	add_byte(digest, LIST);
	hash_chunk(digest);
	nest->outer = digest->hash;
	digest->hash = ITEM_BEGIN;
	digest->is_list_begun = kind == NEST_LIST;
}

/* IN (SELECT ...) is no list. */
static void make_plain(struct digest *digest, struct nest *nest)
{
	nest->kind = NEST_PLAIN;
	digest->hash = nest->outer;
}

static void end_item(struct digest *digest, struct nest *nest)
{
	uint64_t item = ITEM_OF_CONSTANT;

	if (digest->count == 0 && digest->hash == ITEM_BEGIN)
		return;
	if (digest->count != 1 || digest->hash != ITEM_BEGIN || *digest->chunk != CONSTANT) {
		hash_chunk(digest);
		item = digest->hash;
	}
	digest->count = 0;
	digest->hash = ITEM_BEGIN;
	for (unsigned int i = 0; i < nest->count; i++) {
		if (nest->items[i] == item)
			return;
	}
	if (nest->count == DISTINCT_MAX)
		return;
	nest->items[nest->count++] = item;
	nest->sum += item;
}

static void close_nest(struct digest *digest)
{
	struct nest *nest = innermost(digest);

	if (nest && nest->kind != NEST_PLAIN) {
		end_item(digest, nest);
		digest->hash = nest->outer;
		for (size_t i = 0; i < sizeof(nest->sum); i++)
			add_byte(digest, (char)(nest->sum >> (8 * i)));
	}
	digest->depth--;
}

/* After a row of VALUES. true: the token was the comma before the next row. */
static bool end_row(struct digest *digest, const struct token *token)
{
	struct nest *rows = innermost(digest);

	digest->is_row_over = false;
	if (sql_token_is_sign(token, ',')) {
		end_item(digest, rows);
		digest->before = BEFORE_SIGN;
		return true;
	}
	close_nest(digest);
	return false;
}

static void open_sign(struct digest *digest, const struct token *token)
{
	const struct nest *around = innermost(digest);
	bool is_round = *token->text.at == '(';
	char closing = is_round ? ')' : ']';
	bool is_list = is_round ? digest->before == BEFORE_IN : digest->before == BEFORE_ARRAY;

	/* ARRAY[[1, 2], [3, 4]] */
	if (!is_round && around && around->kind == NEST_LIST && around->closing == ']' &&
	    digest->before == BEFORE_SIGN)
		is_list = true;
	if (is_round && digest->before == BEFORE_VALUES)
		open_nest(digest, NEST_ROWS, 0);
	add_byte(digest, *token->text.at);
	open_nest(digest, is_list ? NEST_LIST : NEST_PLAIN, closing);
	digest->before = BEFORE_SIGN;
}

static void close_sign(struct digest *digest, const struct token *token)
{
	const struct nest *nest = innermost(digest);

	if (digest->depth > NESTS_MAX || (nest && nest->closing == *token->text.at)) {
		close_nest(digest);
		nest = innermost(digest);
		digest->is_row_over = nest && nest->kind == NEST_ROWS;
	}
	add_byte(digest, *token->text.at);
	digest->before = BEFORE_WORD;
}

/* ---- tokens ---- */

/* The exponent after "1e" is not a part of the scanner's number. */
static void extend_number(struct scanner *scanner, struct token *token)
{
	char last = token->text.at[token->text.count - 1];
	struct bytes rest = scanner->rest;
	size_t size = 1;

	if (last != 'e' && last != 'E')
		return;
	if (rest.count < 2 || (*rest.at != '+' && *rest.at != '-'))
		return;
	while (size < rest.count && rest.at[size] >= '0' && rest.at[size] <= '9')
		size++;
	if (size == 1)
		return;
	scanner->rest = bytes_skip(rest, size);
	token->text.count += size;
}

/* ".5" */
static bool begins_fraction(const struct scanner *scanner, const struct token *token)
{
	return sql_token_is_sign(token, '.') && scanner->rest.count && *scanner->rest.at >= '0' &&
	       *scanner->rest.at <= '9';
}

static bool is_constant(const struct digest *digest, const struct token *token)
{
	static const char *const words[] = { "null", "true", "false", "default" };

	if (token->kind == TOKEN_STRING || token->kind == TOKEN_NUMBER)
		return true;
	if (token->kind != TOKEN_WORD || digest->before != BEFORE_SIGN)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (sql_token_is(token, words[i]))
			return true;
	}
	return false;
}

static enum before before_of(const struct token *word)
{
	if (sql_token_is(word, "in"))
		return BEFORE_IN;
	if (sql_token_is(word, "array"))
		return BEFORE_ARRAY;
	if (sql_token_is(word, "values"))
		return BEFORE_VALUES;
	return BEFORE_WORD;
}

/* Whether a list that begins with this word is a query. */
static bool is_query(const struct token *token)
{
	return sql_token_is(token, "select") || sql_token_is(token, "with") ||
	       sql_token_is(token, "values") || sql_token_is(token, "table");
}

static void digest_sign(struct digest *digest, const struct token *token)
{
	char sign = *token->text.at;
	struct nest *nest = innermost(digest);

	if (sign == '(' || sign == '[') {
		open_sign(digest, token);
	} else if (sign == ')' || sign == ']') {
		close_sign(digest, token);
	} else if (sign == ',' && nest && nest->kind == NEST_LIST) {
		end_item(digest, nest);
		digest->before = BEFORE_SIGN;
	} else {
		if (sign <= CONTROL && sign >= 0)
			add_byte(digest, CONTROL);
		add_byte(digest, sign);
		/* a name after a dot is never a constant */
		digest->before = sign == '.' ? BEFORE_WORD : BEFORE_SIGN;
	}
}

/* What was held back counts before this token. */
static void settle_held(struct digest *digest, const struct token *token)
{
	if (digest->semicolon && !sql_token_is_sign(token, ';')) {
		add_byte(digest, ';');
		digest->semicolon = NULL;
	}
	if (digest->sign && !is_constant(digest, token)) {
		add_byte(digest, *digest->sign);
		digest->sign = NULL;
	}
}

/* A word, a name or a constant. */
static void digest_word(struct digest *digest, const struct token *token)
{
	if (is_constant(digest, token))
		add_byte(digest, CONSTANT);
	else if (token->kind == TOKEN_QUOTED)
		add_quoted(digest, token->text);
	else
		add_word(digest, token->text);
	digest->before = before_of(token);
}

static void digest_token(struct digest *digest, const struct token *token)
{
	bool is_plus_or_minus = sql_token_is_sign(token, '+') || sql_token_is_sign(token, '-');

	if (digest->is_row_over && end_row(digest, token))
		return;
	settle_held(digest, token);
	if (digest->is_list_begun && is_query(token))
		make_plain(digest, innermost(digest));
	digest->is_list_begun = false;
	if (sql_token_is_sign(token, ';')) {
		if (digest->before != BEFORE_START)
			digest->semicolon = token->text.at;
		digest->before = BEFORE_START;
	} else if (is_plus_or_minus && digest->before == BEFORE_SIGN) {
		digest->sign = token->text.at;
		return;
	} else if (token->kind == TOKEN_SIGN) {
		digest_sign(digest, token);
	} else {
		digest_word(digest, token);
	}
	digest->sign = NULL;
}

/* The next token; a number as a whole. */
static struct token next_token(struct scanner *scanner)
{
	struct token token = sql_token(scanner);

	if (begins_fraction(scanner, &token)) {
		token = sql_token(scanner);
		token.text = bytes_of(token.text.at - 1, token.text.count + 1);
	}
	if (token.kind == TOKEN_NUMBER)
		extend_number(scanner, &token);
	return token;
}

/* What is not closed ends with the text. An item that was cut off says nothing about the others. */
static void close_all(struct digest *digest, bool is_cut)
{
	const struct nest *nest;

	for (; digest->depth; close_nest(digest)) {
		nest = innermost(digest);
		if (!nest || nest->kind == NEST_PLAIN || !nest->count || !is_cut)
			continue;
		digest->count = 0;
		digest->hash = ITEM_BEGIN;
	}
}

static void digest_all(struct digest *digest, struct bytes text)
{
	bool is_cut = text.count > SQL_DIGEST_MAX;
	struct scanner scanner = { .rest =
		                       bytes_of(text.at, is_cut ? SQL_DIGEST_MAX : text.count) };
	struct token token;

	for (token = next_token(&scanner); token.kind != TOKEN_END; token = next_token(&scanner))
		digest_token(digest, &token);
	close_all(digest, is_cut);
	hash_chunk(digest);
}

uint64_t sql_digest_reference(const struct hash_key *key, struct bytes text)
{
	struct digest digest = { .key = key };

	digest_all(&digest, text);
	return digest.hash;
}
