/* SPDX-License-Identifier: ISC */
/*
 * The digest of an SQL text. It may be needed for each statement that a client sends, so this is
 * one pass: 64 bytes of the text are in a window, where bits say of each whether it is in a word.
 * What counts is written in one form, and hashed in blocks of 256 bytes.
 *
 *   select Abalance, -1 -- y   -->   " select abalance,C"
 *
 * Each SQL word has one space before it, so words with one space between them are copied together.
 * No SQL word and no sign has these letters:
 *
 *   C   a constant
 *   L   a list; the hash continues with its sum, of 8 bytes
 *   Q   a name in quotes: its size in 8 bytes, and the token
 *
 * The hash of a block is a sum of products of 8-byte words, and a SipHash of these sums (as in UMAC
 * and VMAC, by T. Krovetz and others). Without the key, two different blocks have the same sum with
 * a probability of 2^-63, whatever they are; and the SipHash shows nothing of the sums.
 *
 * Hard here: lists. Each item of IN (...), ARRAY[...] and VALUES gets a hash of its own. The list
 * counts as the sum of the different ones, so that neither their number nor their order matters. A
 * list within an item is handled in the same way, up to a depth.
 */
#include "pgweir/pgwire/sql_digest.h"

#include <endian.h>

#include "sql_digest_priv.h"
#include "sql_priv.h"
#include "sql_sixteen_priv.h"

#include "pgweir/base/banned.h"

#define DISTINCT_MAX 4 /* different items of one list that count */
#define WINDOW 64
#define LAST (WINDOW - 1) /* in the window: belongs to no word that is handled there */

#define CONSTANT 'C'
#define LIST 'L'
#define QUOTED 'Q'
#define END '\x80' /* of a block that is not full */
#define FULL 1     /* hashed behind one that is */

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
	const char *from, *end; /* the text, from the first byte of the window on */
	size_t at;              /* in the window: what was handled */
	/* The window is moved if `at` is greater. SIZE_MAX: it has the end of the text. */
	size_t near;
	/* Bits of the window's bytes. The last ones are always set. */
	uint64_t ends;  /* not in a word */
	uint64_t stops; /* not in a word, nor the only space between two words */
	const struct sql_digest_key *key;
	struct hash_stream stream; /* of the text or the item, without the following */
	size_t count;              /* in `bytes` */
	uint64_t before;           /* enum before, or a word */
	unsigned int held;         /* enum held */
	char held_sign;
	size_t depth;
	char lower[WINDOW + SIXTEEN]; /* the window in lower case, with zeros behind it */
	char bytes[SQL_BLOCK_SIZE + WINDOW + SIXTEEN]; /* what counts and was not hashed */
	struct nest nests[NESTS_MAX];                  /* only those up to `depth` are set */
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

/* A bit for each byte. */
struct look {
	uint64_t begins; /* a word may begin with it */
	uint64_t digits; /* or a dollar sign: a word may have it, but not at its beginning */
	uint64_t spaces;
};

/* Writes the bytes in lower case, and adds what they are. */
static inline void look_at(struct look *look, const char *from, char *lower, size_t shift)
{
	sixteen bytes = sixteen_at(from), letters;

	letters = sixteen_are_in(bytes | 0x20, 'a', 26);
	/* the bytes themselves: of those beyond ASCII the highest bit is set */
	look->begins |= sixteen_bits(letters | bytes | (sixteen)(bytes == '_')) << shift;
	look->digits |= sixteen_bits(sixteen_are_in(bytes, '0', 10) | (sixteen)(bytes == '$'))
	                << shift;
	look->spaces |= sixteen_bits((sixteen)(bytes == ' ')) << shift;
	bytes |= letters & 0x20;
	memcpy(lower, &bytes, sizeof(bytes));
}

/* The same for less than SIXTEEN bytes. */
static void look_at_few(struct look *look, const char *from, size_t count, char *lower)
{
	char bytes[SIXTEEN] = { 0 };

	if (count)
		memcpy(bytes, from, count);
	look_at(look, bytes, lower, 0);
}

/* Moves the window to what was not handled. */
__attribute__((noinline)) static void move_window(struct digest *digest)
{
	const char *from = digest->from + digest->at;
	size_t rest = (size_t)(digest->end - from), size = rest < WINDOW ? rest : WINDOW;
	char *lower = digest->lower;
	struct look look = { 0 };
	uint64_t words, inner; /* inner: spaces between two words */

	digest->from = from;
	digest->at = 0;
	digest->near = rest < LAST ? SIZE_MAX : WINDOW - SIXTEEN;
	for (size_t i = 0; i + SIXTEEN <= size; i += SIXTEEN)
		look_at(&look, from + i, lower + i, i);
	if (size < SIXTEEN)
		look_at_few(&look, from, size, lower);
	else if (size % SIXTEEN)
		look_at(&look, from + size - SIXTEEN, lower + size - SIXTEEN, size - SIXTEEN);
	memset(lower + size, 0, SIXTEEN);
	words = look.begins | look.digits;
	digest->ends = ~words | UINT64_C(1) << LAST;
	inner = look.spaces & words << 1 & look.begins >> 1;
	digest->stops = ~(words | inner) | UINT64_C(1) << LAST;
}

static inline size_t size_up_to(uint64_t bits, size_t at)
{
	return (size_t)__builtin_ctzll((uint64_t)((int64_t)bits >> at));
}

/* How many bytes of a word are at this place. If they end with LAST, there may be more. */
static inline size_t size_at(const struct digest *digest, size_t at)
{
	return size_up_to(digest->ends, at);
}

/* Up to eight bytes; the first one is the lowest. */
static inline uint64_t bytes_at(const struct digest *digest, size_t at)
{
	uint64_t bytes;

	memcpy(&bytes, digest->lower + at, sizeof(bytes));
	return le64toh(bytes);
}

/* Less than eight bytes. */
static inline uint64_t few_bytes_at(const struct digest *digest, size_t at, size_t count)
{
	static const uint64_t masks[] = { 0,
		                          UINT64_C(0xff),
		                          UINT64_C(0xffff),
		                          UINT64_C(0xffffff),
		                          UINT64_C(0xffffffff),
		                          UINT64_C(0xffffffffff),
		                          UINT64_C(0xffffffffffff),
		                          UINT64_C(0xffffffffffffff) };

	return bytes_at(digest, at) & masks[count];
}

/* Where it is in the text. */
static inline const char *place(const struct digest *digest) { return digest->from + digest->at; }

static inline struct bytes rest_of(const struct digest *digest)
{
	return bytes_of(place(digest), (size_t)(digest->end - place(digest)));
}

static inline void go_to(struct digest *digest, const char *at)
{
	digest->at = (size_t)(at - digest->from);
}

/* Behind a token: most often there is a space. */
static inline size_t skip_space(const struct digest *digest, size_t at)
{
	return at + (digest->lower[at] == ' ');
}

/* ---- the hash ---- */

/* Hashes the first bytes; `count` is a multiple of two words. */
static inline void hash_some(struct digest *digest, size_t count)
{
	struct hash_stream stream = digest->stream;
	unsigned __int128 sum = sql_sum(digest->key->words, digest->bytes, count);

	hash_add(&stream, (uint64_t)sum);
	hash_add(&stream, (uint64_t)(sum >> 64));
	digest->stream = stream;
}

__attribute__((noinline)) static void hash_full(struct digest *digest)
{
	hash_some(digest, SQL_BLOCK_SIZE);
	hash_add(&digest->stream, FULL);
	digest->count -= SQL_BLOCK_SIZE;
	memcpy(digest->bytes, digest->bytes + SQL_BLOCK_SIZE, WINDOW + SIXTEEN);
}

static inline void hash_all(struct digest *digest)
{
	if (!digest->count)
		return;
	digest->bytes[digest->count++] = END;
	memset(digest->bytes + digest->count, 0, SQL_PAIR_SIZE);
	hash_some(digest, (digest->count + SQL_PAIR_SIZE - 1) & ~(SQL_PAIR_SIZE - 1));
	digest->count = 0;
}

static inline void add_count(struct digest *digest, size_t count)
{
	digest->count += count;
	if (digest->count >= SQL_BLOCK_SIZE)
		hash_full(digest);
}

static inline void add_byte(struct digest *digest, char byte)
{
	digest->bytes[digest->count] = byte;
	add_count(digest, 1);
}

static inline void add_number(struct digest *digest, uint64_t number)
{
	number = htole64(number);
	memcpy(digest->bytes + digest->count, &number, sizeof(number));
	add_count(digest, sizeof(number));
}

/* Words of the window, with one space between them. */
static inline void add_words(struct digest *digest, size_t at, size_t size)
{
	char *to = digest->bytes + digest->count;

	*to++ = ' ';
	for (size_t i = 0; i < size; i += SIXTEEN)
		memcpy(to + i, digest->lower + at + i, SIXTEEN);
	add_count(digest, 1 + size);
}

static void add_quoted(struct digest *digest, struct bytes name)
{
	add_byte(digest, QUOTED);
	add_number(digest, name.count);
	for (size_t size; name.count; name = bytes_skip(name, size)) {
		size = name.count < WINDOW ? name.count : WINDOW;
		memcpy(digest->bytes + digest->count, name.at, size);
		add_count(digest, size);
	}
}

static inline void begin(struct digest *digest)
{
	digest->stream = digest->key->begin;
	digest->count = 0;
}

static bool has_hashed(const struct digest *digest)
{
	return memcmp(&digest->stream, &digest->key->begin, sizeof(digest->stream)) != 0;
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
	add_byte(digest, LIST);
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
	if (digest->count <= 1 && !has_hashed(digest)) {
		if (!digest->count)
			return 0;
		if (*digest->bytes == CONSTANT)
			return ITEM_OF_CONSTANT;
	}
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
		add_number(digest, nest->sum);
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
	add_byte(digest, sign);
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
	add_byte(digest, sign);
	digest->before = BEFORE_OTHER;
}

static void comma(struct digest *digest)
{
	struct nest *nest = innermost(digest);

	if (nest && nest->kind == NEST_LIST)
		end_item(digest, nest);
	else
		add_byte(digest, ',');
	digest->before = BEFORE_SIGN;
}

/* ---- what is held ---- */

static inline bool is_constant_word(uint64_t word)
{
	return word == SQL_NULL || word == SQL_TRUE || word == SQL_FALSE || word == SQL_DEFAULT;
}

static enum decider decider_of_word(const struct digest *digest)
{
	size_t size = size_at(digest, digest->at);
	uint64_t word = size < 8 ? few_bytes_at(digest, digest->at, size) : 0;

	if (word == SQL_SELECT || word == SQL_WITH || word == SQL_VALUES || word == SQL_TABLE)
		return DECIDER_QUERY;
	return digest->before == BEFORE_SIGN && is_constant_word(word) ? DECIDER_CONSTANT
	                                                               : DECIDER_OTHER;
}

/* Of a token that may be in quotes. */
static enum decider decider_of_quotes(const struct digest *digest)
{
	struct scanner scanner = { .rest = rest_of(digest) };
	struct token token = sql_token(&scanner);

	if (token.kind == TOKEN_END)
		return DECIDER_NONE;
	return token.kind == TOKEN_QUOTED ? DECIDER_OTHER : DECIDER_CONSTANT;
}

/* Of a letter. */
static bool is_prefix_of_string(const char *at)
{
	return at[1] == '\'' && (*at == 'e' || *at == 'b' || *at == 'x');
}

static bool begins_comment(const struct digest *digest)
{
	const char *at = digest->lower + digest->at;

	return (at[0] == '-' && at[1] == '-') || (at[0] == '/' && at[1] == '*');
}

static enum decider decider(const struct digest *digest, enum kind kind)
{
	switch (kind) {
	case KIND_SPACE:
		return DECIDER_NONE;
	case KIND_END:
		return place(digest) == digest->end ? DECIDER_NONE : DECIDER_OTHER;
	case KIND_COMMENT:
	case KIND_MINUS:
		return begins_comment(digest) ? DECIDER_NONE : DECIDER_OTHER;
	case KIND_DIGIT:
		return DECIDER_CONSTANT;
	case KIND_DOT:
		return kind_of(digest->lower[digest->at + 1]) == KIND_DIGIT ? DECIDER_CONSTANT
		                                                            : DECIDER_OTHER;
	case KIND_COMMA:
		return DECIDER_COMMA;
	case KIND_SEMICOLON:
		return DECIDER_SEMICOLON;
	case KIND_QUOTE:
	case KIND_DOLLAR:
		return decider_of_quotes(digest);
	case KIND_LETTER:
		return is_prefix_of_string(digest->lower + digest->at) ? decider_of_quotes(digest)
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
		add_byte(digest, ';');
	if ((held & HELD_SIGN) && by != DECIDER_CONSTANT)
		add_byte(digest, digest->held_sign);
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
	add_byte(digest, CONSTANT);
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

/* A number that the window may not have as a whole, or with a dot or an exponent. */
__attribute__((noinline)) static void long_number(struct digest *digest)
{
	const char *at = place(digest) + 1;

	while (at < digest->end && kind_of(*at) >= KIND_DOT)
		at++;
	if ((at[-1] | 0x20) == 'e')
		at = skip_exponent(at, digest->end);
	go_to(digest, at);
	constant(digest);
}

static inline void number(struct digest *digest)
{
	size_t at = digest->at + 1 + size_at(digest, digest->at + 1);

	if (at >= LAST || digest->lower[at] == '.' || digest->lower[at - 1] == 'e') {
		long_number(digest);
		return;
	}
	digest->at = at;
	constant(digest);
}

/* Whatever needs a second quote. false: it has none. */
static bool quotes(struct digest *digest)
{
	struct scanner scanner = { .rest = rest_of(digest) };
	struct token token = sql_token(&scanner);

	if (token.kind == TOKEN_END)
		return false;
	if (token.kind == TOKEN_NUMBER) { /* a dollar sign */
		number(digest);
		return true;
	}
	go_to(digest, scanner.rest.at);
	if (token.kind == TOKEN_STRING) {
		constant(digest);
		return true;
	}
	add_quoted(digest, token.text);
	digest->before = BEFORE_OTHER;
	return true;
}

/* A word that the window does not have as a whole, although it begins there. */
__attribute__((noinline)) static void long_word(struct digest *digest)
{
	const char *at = place(digest);

	add_byte(digest, ' ');
	for (; at < digest->end && kind_of(*at) >= KIND_DOLLAR; at++)
		add_byte(digest, *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at);
	go_to(digest, at);
	digest->before = BEFORE_OTHER;
}

/* Where the last of these words begins. */
static inline size_t last_word(const struct digest *digest, size_t at, size_t size)
{
	uint64_t spaces = digest->ends >> at & ((UINT64_C(1) << size) - 1);

	return spaces ? at + WINDOW - (size_t)__builtin_clzll(spaces) : at;
}

/* The last of these words is cut off, with the space before it. */
static inline size_t cut_last(const struct digest *digest, size_t at, size_t size)
{
	size_t last = last_word(digest, at, size);

	return last == at ? 0 : last - 1 - at;
}

/*
 * How many bytes of words can be handled together. 0: it is the prefix of a string, or a word that
 * is longer than the window.
 */
static inline size_t size_of_words(struct digest *digest)
{
	size_t size = size_up_to(digest->stops, digest->at);

	if (digest->at + size == LAST) {
		if (digest->at)
			move_window(digest);
		size = size_up_to(digest->stops, 0);
		if (size == LAST)
			size = cut_last(digest, 0, size);
	}
	if (digest->lower[digest->at + size] == '\'' &&
	    is_prefix_of_string(digest->lower + digest->at + size - 1) &&
	    last_word(digest, digest->at, size) == digest->at + size - 1)
		size = cut_last(digest, digest->at, size);
	return size;
}

/* Words that follow each other. false: a string does not end. */
static inline bool words(struct digest *digest)
{
	size_t size = size_at(digest, digest->at), last;

	if (digest->before == BEFORE_SIGN && size < 8 &&
	    is_constant_word(few_bytes_at(digest, digest->at, size))) {
		digest->at = skip_space(digest, digest->at + size);
		constant(digest);
		return true;
	}
	size = size_of_words(digest);
	if (!size && digest->lower[digest->at + 1] == '\'')
		return quotes(digest);
	if (!size) {
		long_word(digest);
		return true;
	}
	add_words(digest, digest->at, size);
	last = last_word(digest, digest->at, size);
	digest->at += size;
	size = digest->at - last;
	digest->before = size < 8 ? few_bytes_at(digest, last, size) : BEFORE_OTHER;
	digest->at = skip_space(digest, digest->at);
	return true;
}

/* A minus sign or a slash. false: a comment does not end. */
static bool comment(struct digest *digest)
{
	struct bytes rest = rest_of(digest);
	bool is_whole = sql_skip_space(&rest);

	go_to(digest, rest.at);
	return is_whole;
}

static inline void plain_sign(struct digest *digest, enum kind kind)
{
	char sign = digest->lower[digest->at];

	digest->at = skip_space(digest, digest->at + 1);
	if ((kind == KIND_PLUS || kind == KIND_MINUS) && digest->before == BEFORE_SIGN) {
		digest->held |= HELD_SIGN;
		digest->held_sign = sign;
		return;
	}
	add_byte(digest, sign);
	/* a name after a dot is never a constant */
	digest->before = kind == KIND_DOT ? BEFORE_OTHER : BEFORE_SIGN;
}

/* false: it is the end of the text. */
static bool semicolon(struct digest *digest)
{
	if (digest->before != BEFORE_START)
		digest->held |= HELD_SEMICOLON;
	digest->before = BEFORE_START;
	digest->at++;
	return place(digest) != digest->end;
}

/* Handles a token, or a space. false: the text has ended. */
static inline bool next(struct digest *digest)
{
	enum kind kind;

	if (digest->at > digest->near)
		move_window(digest);
	kind = kind_of(digest->lower[digest->at]);
	if (digest->held && settle_at(digest, kind))
		return true;
	switch (kind) {
	case KIND_SPACE:
		digest->at++;
		return true;
	case KIND_LETTER:
		return words(digest);
	case KIND_DIGIT:
		number(digest);
		return true;
	case KIND_QUOTE:
		return quotes(digest);
	case KIND_DOLLAR:
		if (!is_digit(digest->lower[digest->at + 1]))
			return quotes(digest);
		number(digest);
		return true;
	case KIND_OPEN:
		open_sign(digest, digest->lower[digest->at++]);
		return true;
	case KIND_CLOSE:
		close_sign(digest, digest->lower[digest->at++]);
		return true;
	case KIND_COMMA:
		comma(digest);
		digest->at++;
		return true;
	case KIND_SEMICOLON:
		return semicolon(digest);
	case KIND_DOT:
		if (is_digit(digest->lower[digest->at + 1])) {
			number(digest);
			return true;
		}
		break;
	case KIND_COMMENT:
	case KIND_MINUS:
		if (begins_comment(digest))
			return comment(digest);
		break;
	case KIND_END:
		if (place(digest) == digest->end)
			return false;
		break;
	default:
		break;
	}
	plain_sign(digest, kind);
	return true;
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

	digest.from = text.at;
	digest.end = text.at + count;
	digest.at = 0;
	move_window(&digest);
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
