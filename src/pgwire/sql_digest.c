/* SPDX-License-Identifier: ISC */
/*
 * The digest of an SQL text. It may be needed for each statement that a client sends, so this is
 * one pass: 16 bytes are looked at together, and what counts of a token becomes words of eight
 * bytes, which are hashed some dozens at a time.
 *
 *   select Abalance, -1 -- y   -->   "select" "abalance" "" , ?
 *
 * The highest byte of a word says what it is, so that two series of tokens never have the same
 * words:
 *
 *   0            the end of an SQL word, less than eight bytes
 *   '$' or more  eight bytes of an SQL word that continues
 *   WORD_...     see below
 *
 * The hash of some dozens of words is a sum of products, and a SipHash of these sums (as in UMAC
 * and VMAC, by T. Krovetz and others). Without the key, two different series have the same sum
 * with a probability of 2^-63, whatever they are; and the SipHash shows nothing of the sums.
 *
 * Hard here: lists. Each item of IN (...), ARRAY[...] and VALUES gets a hash of its own. The list
 * counts as the sum of the different ones, so that neither their number nor their order matters. A
 * list within an item is handled in the same way, up to a depth.
 */
#include "pgweir/pgwire/sql_digest.h"

#include <endian.h>

#include "sql_digest_priv.h"
#include "sql_priv.h"

#include "pgweir/base/banned.h"

#define DISTINCT_MAX 4 /* different items of one list that count */
#define BLOCK 16       /* bytes that are looked at together */

/* In the highest byte of a word of the hash. */
#define WORD_SIGNS (UINT64_C(1) << 56)  /* some signs */
#define WORD_QUOTED (UINT64_C(2) << 56) /* the size of a name in quotes, which follows */
#define WORD_LIST (UINT64_C(3) << 56)   /* a list; its sum follows */
#define WORD_NONE (UINT64_C(4) << 56)   /* makes their number even */

/* Signs that have not been hashed yet are bytes of one number, behind this one. */
#define NO_SIGNS UINT64_C(1)
#define SIGNS_FULL (UINT64_C(1) << 48)
#define CONSTANT '0' /* as a sign; no sign is a digit */

#define ITEM_OF_CONSTANT UINT64_C(0x63) /* the hash of an item that is one constant */

/* SQL words of less than eight bytes, as numbers: the first byte is the lowest. */
#define SQL_2(a, b) ((uint64_t)(a) | (uint64_t)(b) << 8)
#define SQL_4(a, b, c, d) (SQL_2(a, b) | SQL_2(c, d) << 16)
#define SQL_IN SQL_2('i', 'n')
#define SQL_ARRAY (SQL_4('a', 'r', 'r', 'a') | SQL_2('y', 0) << 32)
#define SQL_VALUES (SQL_4('v', 'a', 'l', 'u') | SQL_2('e', 's') << 32)
#define SQL_SELECT (SQL_4('s', 'e', 'l', 'e') | SQL_2('c', 't') << 32)
#define SQL_WITH SQL_4('w', 'i', 't', 'h')
#define SQL_TABLE (SQL_4('t', 'a', 'b', 'l') | SQL_2('e', 0) << 32)
#define SQL_NULL SQL_4('n', 'u', 'l', 'l')
#define SQL_TRUE SQL_4('t', 'r', 'u', 'e')
#define SQL_FALSE (SQL_4('f', 'a', 'l', 's') | SQL_2('e', 0) << 32)
#define SQL_DEFAULT (SQL_4('d', 'e', 'f', 'a') | SQL_4('u', 'l', 't', 0) << 32)

/* What was before: such a word; or one of these, which no word is. */
enum before {
	BEFORE_START, /* nothing, or a semicolon */
	BEFORE_SIGN,
	BEFORE_OTHER /* a longer word, a name, a constant, a closing parenthesis, a dot */
};

/* What is decided by the next token. */
enum held {
	HELD_ROW = 1 << 0,       /* a row of VALUES has ended: a comma, or the end of VALUES */
	HELD_SEMICOLON = 1 << 1, /* counts if anything follows */
	HELD_SIGN = 1 << 2,      /* a + or - that may belong to a constant */
	HELD_LIST = 1 << 3       /* a list has begun, or a query in parentheses */
};

/* The next token, as far as it decides that. */
enum decider {
	DECIDER_NONE, /* white space, or the end of the text: nothing is decided */
	DECIDER_CONSTANT,
	DECIDER_QUERY,
	DECIDER_COMMA,
	DECIDER_SEMICOLON,
	DECIDER_OTHER
};

/* What is between a parenthesis and the one that closes it. */
struct nest {
	enum nest_kind kind;
	char closing;
	unsigned int count;
	uint64_t sum; /* of the different items */
	uint64_t items[DISTINCT_MAX];
	struct hash_stream outer; /* what precedes it; not of NEST_PLAIN */
};

struct digest {
	const char *at, *end; /* what is left of the text */
	const char *last;     /* up to here BLOCK bytes can be read */
	const struct sql_digest_key *key;
	struct hash_stream stream; /* of the text or the item, without the following */
	size_t count;              /* in `words` */
	uint64_t words[SQL_DIGEST_WORDS];
	uint64_t signs;    /* behind these words */
	uint64_t before;   /* enum before, or a word */
	unsigned int held; /* enum held */
	char held_sign;
	size_t depth;
	char tail[2 * BLOCK];         /* the last bytes of the text, with zeros behind them */
	struct nest nests[NESTS_MAX]; /* only those up to `depth` are set */
};

/* ---- bytes ---- */

enum kind {
	KIND_SIGN,
	KIND_SPACE,
	KIND_END,     /* a zero; it may be a sign */
	KIND_COMMENT, /* the beginning of a comment, or a sign */
	KIND_MINUS,   /* the same, or a part of a number */
	KIND_PLUS,
	KIND_COMMA,
	KIND_SEMICOLON,
	KIND_OPEN,
	KIND_CLOSE,
	KIND_QUOTE,
	/* In a number, all that follow. */
	KIND_DOT,
	KIND_DOLLAR,
	KIND_DIGIT,
	KIND_LETTER
};

/* clang-format off */
static const unsigned char kinds[256] = {
	[0] = KIND_END,
	['\t' ... '\r'] = KIND_SPACE, [' '] = KIND_SPACE,
	['/'] = KIND_COMMENT, ['-'] = KIND_MINUS, ['+'] = KIND_PLUS,
	[','] = KIND_COMMA, [';'] = KIND_SEMICOLON,
	['('] = KIND_OPEN, ['['] = KIND_OPEN, [')'] = KIND_CLOSE, [']'] = KIND_CLOSE,
	['\''] = KIND_QUOTE, ['"'] = KIND_QUOTE,
	['.'] = KIND_DOT, ['$'] = KIND_DOLLAR, ['0' ... '9'] = KIND_DIGIT,
	['a' ... 'z'] = KIND_LETTER, ['A' ... 'Z'] = KIND_LETTER, ['_'] = KIND_LETTER,
	[0x80 ... 0xff] = KIND_LETTER,
};
/* clang-format on */

static inline enum kind kind_of(char c) { return (enum kind)kinds[(unsigned char)c]; }

/* Continues in a copy of the last BLOCK bytes, with zeros behind them. */
static void enter_tail(struct digest *digest)
{
	size_t count = (size_t)(digest->end - digest->at);

	memcpy(digest->tail, digest->last, BLOCK);
	memset(digest->tail + BLOCK, 0, BLOCK);
	digest->end = digest->last = digest->tail + BLOCK;
	digest->at = digest->end - count;
}

/* The same for a text of less than BLOCK bytes. */
static void begin_in_tail(struct digest *digest, struct bytes text)
{
	memset(digest->tail, 0, sizeof(digest->tail));
	if (text.count)
		memcpy(digest->tail, text.at, text.count);
	digest->at = digest->tail;
	digest->end = digest->last = digest->tail + text.count;
}

typedef unsigned char block __attribute__((vector_size(BLOCK)));
typedef signed char signed_block __attribute__((vector_size(BLOCK)));
typedef uint64_t halves __attribute__((vector_size(BLOCK)));

/* Two times eight bytes; the first byte is the lowest. */
struct look {
	uint64_t lower[2]; /* in lower case */
	uint64_t ends[2];  /* all bits of each byte that is not in a word */
};

/* Whether each byte is one of `count` from `first` on. Processors compare signed bytes best. */
static inline block are_in(block bytes, unsigned char first, int count)
{
	signed_block moved = (signed_block)(bytes + (unsigned char)(0x80 - first));

	return (block)(moved < (signed char)(INT8_MIN + count));
}

static inline struct look look_at(const char *at)
{
	block bytes, letters, others;
	halves lower, ends;

	memcpy(&bytes, at, sizeof(bytes));
	letters = are_in(bytes | 0x20, 'a', 26);
	others = are_in(bytes, '0', 10) | (block)(bytes == '_') | (block)(bytes == '$') |
	         (block)((signed_block)bytes < 0);
	lower = (halves)(bytes | (letters & 0x20));
	ends = (halves) ~(letters | others);
	return (struct look){ { le64toh(lower[0]), le64toh(lower[1]) },
		              { le64toh(ends[0]), le64toh(ends[1]) } };
}

/* How many bytes are before the first end. There is one. */
static inline size_t size_before(uint64_t ends) { return (size_t)__builtin_ctzll(ends) / 8; }

static inline uint64_t bytes_before(uint64_t bytes, uint64_t ends)
{
	return bytes & (ends - 1) & ~ends;
}

/* Behind a token. The byte there can be read, and most often it is a space. */
static inline const char *skip_space(const char *at) { return at + (*at == ' '); }

/* ---- the hash ---- */

/* Hashes the words that have been collected. There is one at least. */
static void hash_words(struct digest *digest)
{
	const uint64_t *words = digest->words, *keys = digest->key->words;
	struct hash_stream stream = digest->stream;
	unsigned __int128 sum = 0;

	if (digest->count % 2)
		digest->words[digest->count++] = WORD_NONE;
	for (size_t i = 0; i < digest->count; i += 2)
		sum += (unsigned __int128)(words[i] + keys[i]) * (words[i + 1] + keys[i + 1]);
	hash_add(&stream, (uint64_t)sum);
	hash_add(&stream, (uint64_t)(sum >> 64));
	digest->stream = stream;
	digest->count = 0;
}

static inline void add_word(struct digest *digest, uint64_t word)
{
	if (digest->count == SQL_DIGEST_WORDS)
		hash_words(digest);
	digest->words[digest->count++] = word;
}

static void add_signs(struct digest *digest)
{
	add_word(digest, digest->signs | WORD_SIGNS);
	digest->signs = NO_SIGNS;
}

static inline void add_sign(struct digest *digest, char sign)
{
	digest->signs = digest->signs << 8 | (unsigned char)sign;
	if (digest->signs >= SIGNS_FULL)
		add_signs(digest);
}

/* The first word of a token. */
static inline void add(struct digest *digest, uint64_t word)
{
	if (digest->signs != NO_SIGNS)
		add_signs(digest);
	add_word(digest, word);
}

static void add_quoted(struct digest *digest, struct bytes name)
{
	uint64_t word;

	add(digest, WORD_QUOTED | name.count);
	for (size_t size; name.count; name = bytes_skip(name, size)) {
		size = name.count < sizeof(word) ? name.count : sizeof(word);
		word = 0;
		memcpy(&word, name.at, size);
		add_word(digest, le64toh(word));
	}
}

static void begin(struct digest *digest)
{
	digest->stream = digest->key->begin;
	digest->count = 0;
	digest->signs = NO_SIGNS;
}

static bool is_begun(const struct digest *digest)
{
	return digest->count ||
	       memcmp(&digest->stream, &digest->key->begin, sizeof(digest->stream)) != 0;
}

static void hash_all(struct digest *digest)
{
	if (digest->signs != NO_SIGNS)
		add_signs(digest);
	if (digest->count)
		hash_words(digest);
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
	nest->kind = kind;
	nest->closing = closing;
	if (kind == NEST_PLAIN)
		return;
	add(digest, WORD_LIST);
	hash_all(digest);
	nest->outer = digest->stream;
	nest->sum = 0;
	nest->count = 0;
	begin(digest);
	if (kind == NEST_LIST)
		digest->held |= HELD_LIST;
}

/* IN (SELECT ...) is no list. */
static void make_plain(struct digest *digest)
{
	struct nest *nest = innermost(digest);

	nest->kind = NEST_PLAIN;
	digest->stream = nest->outer;
}

/* The hash of the item; 0: it is empty. */
static uint64_t item_of(struct digest *digest)
{
	if (digest->signs == NO_SIGNS && !is_begun(digest))
		return 0;
	if (digest->signs == (NO_SIGNS << 8 | CONSTANT) && !is_begun(digest))
		return ITEM_OF_CONSTANT;
	hash_all(digest);
	return hash_end(&digest->stream);
}

static void end_item(struct digest *digest, struct nest *nest)
{
	uint64_t item = item_of(digest);

	begin(digest);
	for (unsigned int i = 0; i < nest->count; i++) {
		if (nest->items[i] == item)
			return;
	}
	if (!item || nest->count == DISTINCT_MAX)
		return;
	nest->items[nest->count++] = item;
	nest->sum += item;
}

static void close_nest(struct digest *digest)
{
	struct nest *nest = innermost(digest);

	if (nest && nest->kind != NEST_PLAIN) {
		end_item(digest, nest);
		digest->stream = nest->outer;
		add_word(digest, nest->sum);
	}
	digest->depth--;
}

/* What is not closed ends with the text. An item that was cut off says nothing about the others. */
static void close_all(struct digest *digest, bool is_cut)
{
	for (; digest->depth; close_nest(digest)) {
		const struct nest *nest = innermost(digest);

		if (is_cut && nest && nest->kind != NEST_PLAIN && nest->count)
			begin(digest);
	}
}

static void open_sign(struct digest *digest, char sign)
{
	const struct nest *around = innermost(digest);
	bool is_round = sign == '(';
	bool is_list = digest->before == (is_round ? SQL_IN : SQL_ARRAY);

	/* ARRAY[[1, 2], [3, 4]] */
	if (!is_round && around && around->kind == NEST_LIST && around->closing == ']' &&
	    digest->before == BEFORE_SIGN)
		is_list = true;
	if (is_round && digest->before == SQL_VALUES)
		open_nest(digest, NEST_ROWS, 0);
	add_sign(digest, sign);
	open_nest(digest, is_list ? NEST_LIST : NEST_PLAIN, is_round ? ')' : ']');
	digest->before = BEFORE_SIGN;
}

static void close_sign(struct digest *digest, char sign)
{
	const struct nest *nest = innermost(digest);

	if (digest->depth > NESTS_MAX || (nest && nest->closing == sign)) {
		close_nest(digest);
		nest = innermost(digest);
		if (nest && nest->kind == NEST_ROWS)
			digest->held |= HELD_ROW;
	}
	add_sign(digest, sign);
	digest->before = BEFORE_OTHER;
}

static void comma(struct digest *digest)
{
	struct nest *nest = innermost(digest);

	if (nest && nest->kind == NEST_LIST)
		end_item(digest, nest);
	else
		add_sign(digest, ',');
	digest->before = BEFORE_SIGN;
}

/* ---- what is held ---- */

static inline bool is_constant_word(uint64_t word)
{
	return word == SQL_NULL || word == SQL_TRUE || word == SQL_FALSE || word == SQL_DEFAULT;
}

static enum decider decider_of_word(const struct digest *digest)
{
	struct look look = look_at(digest->at);
	uint64_t word = look.ends[0] ? bytes_before(look.lower[0], look.ends[0]) : 0;

	if (word == SQL_SELECT || word == SQL_WITH || word == SQL_VALUES || word == SQL_TABLE)
		return DECIDER_QUERY;
	return digest->before == BEFORE_SIGN && is_constant_word(word) ? DECIDER_CONSTANT
	                                                               : DECIDER_OTHER;
}

/* Of a token that may be in quotes. */
static enum decider decider_of_quotes(const struct digest *digest)
{
	struct scanner scanner = { .rest =
		                       bytes_of(digest->at, (size_t)(digest->end - digest->at)) };
	struct token token = sql_token(&scanner);

	if (token.kind == TOKEN_END)
		return DECIDER_NONE;
	return token.kind == TOKEN_QUOTED ? DECIDER_OTHER : DECIDER_CONSTANT;
}

static bool is_prefix_of_string(const char *at)
{
	char c = (char)(*at | 0x20);

	return at[1] == '\'' && (c == 'e' || c == 'b' || c == 'x');
}

static bool begins_comment(const struct digest *digest)
{
	char c = *digest->at, next = digest->at[1];

	return (c == '-' && next == '-') || (c == '/' && next == '*');
}

static enum decider decider(const struct digest *digest, enum kind kind)
{
	switch (kind) {
	case KIND_SPACE:
		return DECIDER_NONE;
	case KIND_END:
		return digest->at == digest->end ? DECIDER_NONE : DECIDER_OTHER;
	case KIND_COMMENT:
	case KIND_MINUS:
		return begins_comment(digest) ? DECIDER_NONE : DECIDER_OTHER;
	case KIND_DIGIT:
		return DECIDER_CONSTANT;
	case KIND_DOT:
		return kind_of(digest->at[1]) == KIND_DIGIT ? DECIDER_CONSTANT : DECIDER_OTHER;
	case KIND_COMMA:
		return DECIDER_COMMA;
	case KIND_SEMICOLON:
		return DECIDER_SEMICOLON;
	case KIND_QUOTE:
	case KIND_DOLLAR:
		return decider_of_quotes(digest);
	case KIND_LETTER:
		return is_prefix_of_string(digest->at) ? decider_of_quotes(digest)
		                                       : decider_of_word(digest);
	default:
		return DECIDER_OTHER;
	}
}

/* Decides what is held. true: the token was the comma before the next row. */
static bool settle(struct digest *digest, enum decider by)
{
	unsigned int held = digest->held;

	digest->held = by == DECIDER_SEMICOLON ? held & HELD_SEMICOLON : 0;
	if (held & HELD_ROW) {
		if (by == DECIDER_COMMA) {
			end_item(digest, innermost(digest));
			digest->before = BEFORE_SIGN;
			return true;
		}
		close_nest(digest);
	}
	if (held & ~digest->held & HELD_SEMICOLON)
		add_sign(digest, ';');
	if ((held & HELD_SIGN) && by != DECIDER_CONSTANT)
		add_sign(digest, digest->held_sign);
	if ((held & HELD_LIST) && by == DECIDER_QUERY)
		make_plain(digest);
	return false;
}

/* true: the next byte was used up. */
__attribute__((noinline)) static bool settle_at(struct digest *digest, enum kind kind)
{
	enum decider by = decider(digest, kind);

	if (by == DECIDER_NONE || !settle(digest, by))
		return false;
	digest->at++;
	return true;
}

/* ---- tokens ---- */

static void constant(struct digest *digest)
{
	add_sign(digest, CONSTANT);
	digest->before = BEFORE_OTHER;
}

static inline bool is_digit(char c) { return kind_of(c) == KIND_DIGIT; }

/* The exponent of a number that ends with e. */
static const char *skip_exponent(const char *at, const char *end)
{
	const char *digits = at + 1;

	if (at == end || (*at != '+' && *at != '-'))
		return at;
	while (digits < end && is_digit(*digits))
		digits++;
	return digits == at + 1 ? at : digits;
}

static void number(struct digest *digest)
{
	const char *at = digest->at + 1;

	while (at < digest->end && kind_of(*at) >= KIND_DOT)
		at++;
	if ((at[-1] | 0x20) == 'e')
		at = skip_exponent(at, digest->end);
	digest->at = at;
	constant(digest);
}

/* Whatever needs a second quote. false: it has none. */
static bool quotes(struct digest *digest)
{
	struct scanner scanner = { .rest =
		                       bytes_of(digest->at, (size_t)(digest->end - digest->at)) };
	struct token token = sql_token(&scanner);

	if (token.kind == TOKEN_END)
		return false;
	if (token.kind == TOKEN_NUMBER) { /* a dollar sign */
		number(digest);
		return true;
	}
	digest->at = scanner.rest.at;
	if (token.kind == TOKEN_STRING) {
		constant(digest);
		return true;
	}
	add_quoted(digest, token.text);
	digest->before = BEFORE_OTHER;
	return true;
}

/* A word of eight bytes or more. */
static void long_word(struct digest *digest, struct look look)
{
	const char *at = digest->at;

	digest->before = BEFORE_OTHER;
	add(digest, look.lower[0]);
	while (!look.ends[1]) {
		add_word(digest, look.lower[1]);
		digest->at = at + BLOCK;
		if (digest->at > digest->last)
			enter_tail(digest);
		at = digest->at;
		look = look_at(at);
		if (look.ends[0]) {
			add_word(digest, bytes_before(look.lower[0], look.ends[0]));
			digest->at = skip_space(at + size_before(look.ends[0]));
			return;
		}
		add_word(digest, look.lower[0]);
	}
	add_word(digest, bytes_before(look.lower[1], look.ends[1]));
	digest->at = skip_space(at + BLOCK / 2 + size_before(look.ends[1]));
}

static bool word(struct digest *digest)
{
	const char *at = digest->at;
	struct look look = look_at(at);
	uint64_t bytes;

	if (at[1] == '\'' && is_prefix_of_string(at))
		return quotes(digest);
	if (!look.ends[0]) {
		long_word(digest, look);
		return true;
	}
	bytes = bytes_before(look.lower[0], look.ends[0]);
	digest->at = skip_space(at + size_before(look.ends[0]));
	if (digest->before == BEFORE_SIGN && is_constant_word(bytes)) {
		constant(digest);
		return true;
	}
	add(digest, bytes);
	digest->before = bytes;
	return true;
}

/* A minus sign or a slash. false: a comment does not end. */
static bool comment(struct digest *digest)
{
	struct bytes rest = bytes_of(digest->at, (size_t)(digest->end - digest->at));
	bool is_whole = sql_skip_space(&rest);

	digest->at = rest.at;
	return is_whole;
}

static void plain_sign(struct digest *digest, enum kind kind)
{
	char sign = *digest->at;

	digest->at = skip_space(digest->at + 1);
	if ((kind == KIND_PLUS || kind == KIND_MINUS) && digest->before == BEFORE_SIGN) {
		digest->held |= HELD_SIGN;
		digest->held_sign = sign;
		return;
	}
	add_sign(digest, sign);
	/* a name after a dot is never a constant */
	digest->before = kind == KIND_DOT ? BEFORE_OTHER : BEFORE_SIGN;
}

/* false: it is the end of the text. */
static bool semicolon(struct digest *digest)
{
	if (digest->before != BEFORE_START)
		digest->held |= HELD_SEMICOLON;
	digest->before = BEFORE_START;
	return ++digest->at != digest->end;
}

/* Handles a token, or a space. false: the text has ended. */
static inline bool next(struct digest *digest)
{
	enum kind kind;

	if (digest->at > digest->last)
		enter_tail(digest);
	kind = kind_of(*digest->at);
	if (digest->held && settle_at(digest, kind))
		return true;
	switch (kind) {
	case KIND_SPACE:
		digest->at++;
		return true;
	case KIND_LETTER:
		return word(digest);
	case KIND_DIGIT:
		number(digest);
		return true;
	case KIND_QUOTE:
		return quotes(digest);
	case KIND_DOLLAR:
		if (!is_digit(digest->at[1]))
			return quotes(digest);
		number(digest);
		return true;
	case KIND_OPEN:
		open_sign(digest, *digest->at++);
		return true;
	case KIND_CLOSE:
		close_sign(digest, *digest->at++);
		return true;
	case KIND_COMMA:
		comma(digest);
		digest->at++;
		return true;
	case KIND_SEMICOLON:
		return semicolon(digest);
	case KIND_DOT:
		if (is_digit(digest->at[1]))
			number(digest);
		else
			plain_sign(digest, kind);
		return true;
	case KIND_COMMENT:
	case KIND_MINUS:
		if (begins_comment(digest))
			return comment(digest);
		plain_sign(digest, kind);
		return true;
	case KIND_END:
		if (digest->at == digest->end)
			return false;
		plain_sign(digest, kind);
		return true;
	default:
		plain_sign(digest, kind);
		return true;
	}
}

struct sql_digest_key sql_digest_key(const struct hash_key *secret)
{
	struct sql_digest_key key = { .secret = *secret, .begin = hash_begin(secret) };

	for (uint64_t i = 0; i < SQL_DIGEST_WORDS; i++)
		key.words[i] = hash_bytes(secret, &i, sizeof(i));
	return key;
}

uint64_t sql_digest(const struct sql_digest_key *key, struct bytes text)
{
	bool is_cut = text.count > SQL_DIGEST_MAX;
	size_t count = is_cut ? SQL_DIGEST_MAX : text.count;
	struct digest digest;

	if (count < BLOCK) {
		begin_in_tail(&digest, text);
	} else {
		digest.at = text.at;
		digest.end = text.at + count;
		digest.last = digest.end - BLOCK;
	}
	digest.key = key;
	begin(&digest);
	digest.before = BEFORE_START;
	digest.held = 0;
	digest.depth = 0;
	while (next(&digest))
		;
	if (digest.depth)
		close_all(&digest, is_cut);
	hash_all(&digest);
	return hash_end(&digest.stream);
}
