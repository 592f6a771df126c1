/* SPDX-License-Identifier: ISC */
/*
 * The digest of an SQL text. Tokens are written to a small buffer in their normal form, and the
 * buffer is hashed whenever it is full, together with the hash before:
 *
 *   select A, 'x' -- y     -->   select a , ?
 *
 * Hard here: lists. Each item of IN (...), ARRAY[...] and VALUES gets a hash of its own. The list
 * counts as the sum of the different ones, so that neither their number nor their order matters. A
 * list within an item is handled in the same way, up to a depth.
 */
#include "pgweir/pgwire/sql_digest.h"

#include "sql_priv.h"

#include "pgweir/base/banned.h"

#define NESTS_MAX 24   /* deeper parentheses are signs like others */
#define DISTINCT_MAX 4 /* different items of one list that count */
#define CHUNK_SIZE 256
#define PARAMETER_MAX 65536 /* PostgreSQL has 65535 */

/* In the normal form. No word begins with these. */
#define CONSTANT '\001'
#define WORD_END '\002'
#define LIST '\003'

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
	bool has_more;  /* a second item was begun; it is not printed */
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
	const struct hash_key *key; /* NULL: no digest is wanted */
	struct strbuf *out;         /* NULL: no text is wanted */
	unsigned int number;        /* a constant is printed as $ and this number; 0: as ? */
	uint64_t hash;              /* of what was in `chunk` before */
	size_t count;               /* bytes in `chunk` */
	char chunk[CHUNK_SIZE];
	size_t depth;
	struct nest nests[NESTS_MAX];
	enum before before;
	const char *sign;      /* a + or - that may belong to a constant; or NULL */
	const char *semicolon; /* counts if anything follows; or NULL */
	const char *end;       /* of the last token */
	bool is_row_over;      /* the row's parenthesis was closed: a comma, or the end of VALUES */
	bool is_list_begun;    /* nothing of the list has come yet */
	bool is_full;          /* the text is not continued */
	unsigned int muted;    /* lists around this token that are past their first item */
};

/* ---- the normal form ---- */

static void hash_chunk(struct digest *digest)
{
	char bytes[sizeof(digest->hash) + CHUNK_SIZE];

	if (digest->count == 0 || !digest->key)
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
	if (digest->key)
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
}

/* ---- the text ---- */

static bool is_printed(const struct digest *digest)
{
	return digest->out && !digest->muted && !digest->is_full;
}

/* `token` is where it was in the text; it is printed as `shown`. */
static void print_as(struct digest *digest, struct bytes token, struct bytes shown)
{
	bool has_gap = token.at != digest->end;

	digest->end = token.at + token.count;
	if (!is_printed(digest))
		return;
	if (has_gap && digest->out->count)
		strbuf_add(digest->out, " ");
	for (size_t i = 0; i < shown.count && digest->out->count + 1 < digest->out->size; i++) {
		char c = shown.at[i];

		strbuf_add_bytes(digest->out, c >= ' ' && c <= '~' ? &c : "?", 1);
	}
	digest->is_full = digest->out->count + 1 >= digest->out->size;
}

static void print(struct digest *digest, struct bytes token) { print_as(digest, token, token); }

static bool is_parameter(const struct token *token)
{
	return token->kind == TOKEN_NUMBER && *token->text.at == '$';
}

static void print_numbered(struct digest *digest, struct bytes text)
{
	char number[16];
	struct strbuf out = strbuf_begin(number, sizeof(number));

	strbuf_add(&out, "$");
	strbuf_add_number(&out, digest->number);
	digest->number += is_printed(digest);
	print_as(digest, text, bytes_text(number));
}

/* Nothing of a constant is printed: if its end is not certain, nothing that follows either. */
static void print_constant(struct digest *digest, const struct token *token)
{
	struct bytes text = token->text;
	bool is_plain = token->kind == TOKEN_STRING && *text.at == '\'';
	bool is_certain = !is_plain || !memchr(text.at, '\\', text.count);

	if (digest->sign)
		text = bytes_of(digest->sign, (size_t)(text.at + text.count - digest->sign));
	if (digest->number && is_parameter(token))
		print_as(digest, text, text);
	else if (digest->number && is_certain)
		print_numbered(digest, text);
	else
		print_as(digest, text, bytes_text(is_certain ? "?" : "..."));
	digest->is_full |= !is_certain;
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

/* A comma between two items. */
static void next_item(struct digest *digest, struct nest *nest)
{
	end_item(digest, nest);
	if (!nest->has_more) {
		if (is_printed(digest))
			strbuf_add(digest->out, ", ...");
		digest->muted++;
	}
	nest->has_more = true;
}

static void close_nest(struct digest *digest)
{
	struct nest *nest = innermost(digest);

	if (nest && nest->kind != NEST_PLAIN) {
		end_item(digest, nest);
		digest->hash = nest->outer;
		for (size_t i = 0; i < sizeof(nest->sum); i++)
			add_byte(digest, (char)(nest->sum >> (8 * i)));
		digest->muted -= nest->has_more;
	}
	digest->depth--;
}

/* After a row of VALUES. true: the token was the comma before the next row. */
static bool end_row(struct digest *digest, const struct token *token)
{
	struct nest *rows = innermost(digest);

	digest->is_row_over = false;
	if (sql_token_is_sign(token, ',')) {
		next_item(digest, rows);
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
	print(digest, token->text);
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
	print(digest, token->text);
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
		next_item(digest, nest);
		digest->before = BEFORE_SIGN;
	} else {
		add_byte(digest, sign);
		print(digest, token->text);
		/* a name after a dot is never a constant */
		digest->before = sign == '.' ? BEFORE_WORD : BEFORE_SIGN;
	}
}

/* What was held back counts before this token. */
static void settle_held(struct digest *digest, const struct token *token)
{
	if (digest->semicolon && !sql_token_is_sign(token, ';')) {
		add_byte(digest, ';');
		print(digest, bytes_of(digest->semicolon, 1));
		digest->semicolon = NULL;
	}
	if (digest->sign && !is_constant(digest, token)) {
		add_byte(digest, *digest->sign);
		print(digest, bytes_of(digest->sign, 1));
		digest->sign = NULL;
	}
}

/* A word, a name or a constant. */
static void digest_word(struct digest *digest, const struct token *token)
{
	if (is_constant(digest, token)) {
		add_byte(digest, CONSTANT);
		print_constant(digest, token);
	} else {
		if (token->kind == TOKEN_QUOTED)
			add_quoted(digest, token->text);
		else
			add_word(digest, token->text);
		print(digest, token->text);
	}
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

	digest->end = text.at;
	while (digest->key || !digest->is_full) {
		token = next_token(&scanner);
		if (token.kind == TOKEN_END)
			break;
		digest_token(digest, &token);
	}
	close_all(digest, is_cut);
	hash_chunk(digest);
}

uint64_t sql_digest(const struct hash_key *key, struct bytes text)
{
	struct digest digest = { .key = key };

	digest_all(&digest, text);
	return digest.hash;
}

void sql_digest_text(struct bytes text, struct strbuf *out)
{
	struct digest digest = { .out = out };

	digest_all(&digest, text);
}

/* The number in $n; PARAMETER_MAX or more: too great. */
static unsigned int parameter_number(struct bytes parameter)
{
	unsigned int number = 0;

	for (size_t i = 1; i < parameter.count && number < PARAMETER_MAX; i++) {
		if (parameter.at[i] < '0' || parameter.at[i] > '9')
			break;
		number = number * 10 + (unsigned int)(parameter.at[i] - '0');
	}
	return number;
}

/* The greatest n of $n in a text. */
static unsigned int last_parameter(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	unsigned int last = 0, number;
	struct token token;

	if (!text.count || !memchr(text.at, '$', text.count))
		return 0;
	while ((token = sql_token(&scanner)).kind != TOKEN_END) {
		number = is_parameter(&token) ? parameter_number(token.text) : 0;
		if (number > last && number < PARAMETER_MAX)
			last = number;
	}
	return last;
}

void sql_digest_query(struct bytes text, struct strbuf *out)
{
	struct bytes head =
	    bytes_of(text.at, text.count < SQL_DIGEST_MAX ? text.count : SQL_DIGEST_MAX);
	struct digest digest = { .out = out, .number = last_parameter(head) + 1 };

	digest_all(&digest, text);
}
