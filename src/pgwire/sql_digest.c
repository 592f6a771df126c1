/* SPDX-License-Identifier: ISC */
/*
 * Texts without their constants, by the tokens of the scanner: printed, or hashed.
 *
 *   select A, 'x' -- y     -->   select A, ?
 *                          -->   the hash of the tokens: select, a, the comma, a constant
 *
 * Each token is hashed with its kind and its size. So what is hashed of two texts is the same only
 * if they have the same tokens.
 */
#include "pgweir/pgwire/sql_digest.h"

#include <endian.h>
#include <string.h>

#include "pgweir/base/hash.h"

#include "sql_priv.h"

#define PARAMETER_MAX 65536 /* PostgreSQL has 65535 */
#define NESTS_MAX 24        /* deeper parentheses are signs like others */

enum nest_kind {
	NEST_PLAIN, /* parentheses or brackets that are not a list */
	NEST_LIST,  /* the items between them */
	NEST_ROWS   /* the rows after VALUES; these have parentheses of their own */
};

/* What is between a parenthesis and the one that closes it. */
struct nest {
	enum nest_kind kind;
	char closing;
	bool has_more; /* a second item was begun; it is not printed */
};

enum before {
	BEFORE_START, /* nothing, or a semicolon */
	BEFORE_WORD,  /* a word, a name, a constant, a closing parenthesis */
	BEFORE_SIGN,
	BEFORE_IN,
	BEFORE_ARRAY,
	BEFORE_VALUES
};

/* The words that matter. */
enum word {
	WORD_OTHER,
	WORD_IN,
	WORD_ARRAY,
	WORD_VALUES,
	WORD_QUERY,   /* SELECT, WITH, TABLE */
	WORD_CONSTANT /* NULL, TRUE, FALSE, DEFAULT: behind a sign */
};

struct printer {
	struct strbuf *out; /* NULL: it is hashed */
	struct hash_stream sum;
	unsigned int number; /* a constant is printed as $ and this number; 0: as ? */
	size_t depth;
	struct nest nests[NESTS_MAX];
	enum before before;
	const char *sign;      /* a + or - that may belong to a constant; or NULL */
	const char *semicolon; /* counts if anything follows; or NULL */
	const char *end;       /* of the last token */
	const char *text_end;  /* of the text */
	bool is_row_over;      /* the row's parenthesis was closed: a comma, or the end of VALUES */
	bool is_list_begun;    /* nothing of the list has come yet */
	bool is_full;          /* the text is not continued */
	unsigned int muted;    /* lists around this token that are past their first item */
};

/* ---- the text ---- */

static bool is_printed(const struct printer *printer)
{
	return !printer->muted && !printer->is_full;
}

/* Capital letters among eight bytes become small ones. */
static inline uint64_t fold_eight(uint64_t bytes)
{
	const uint64_t each = UINT64_C(0x0101010101010101);
	uint64_t low = bytes & each * 0x7f;
	uint64_t is_capital = (low + each * (0x80 - 'A')) & ~(low + each * (0x7f - 'Z')) & ~bytes;

	return bytes | (is_capital & each * 0x80) >> 2;
}

#define PART ((size_t)7) /* bytes that are hashed at once, with one that says what they are */

/* `size` bytes, or seven of more. text_end: up to here it may be read. */
static inline uint64_t load_part(const char *at, size_t size, const char *text_end)
{
	uint64_t eight = 0;

	if (size > PART)
		size = PART;
	if (at + sizeof(eight) > text_end)
		memcpy(&eight, at, size);
	else
		memcpy(&eight, at, sizeof(eight));
	return le64toh(eight) & ((UINT64_C(1) << (8 * size)) - 1);
}

/* A word is hashed as its kind and size behind its last bytes, which are seven at the most. */
static void sum_token(struct printer *printer, struct bytes text, enum token_kind kind)
{
	uint64_t part = load_part(text.at, text.count, printer->text_end);
	uint64_t mark;

	while (text.count > PART) {
		hash_add(&printer->sum, kind == TOKEN_WORD ? fold_eight(part) : part);
		text = bytes_skip(text, PART);
		part = load_part(text.at, text.count, printer->text_end);
	}
	mark = (uint64_t)kind << 3 | text.count;
	hash_add(&printer->sum, (kind == TOKEN_WORD ? fold_eight(part) : part) | mark << 56);
}

/* `token` is where it was in the text; it is printed as `shown`. */
static void print_as(struct printer *printer, struct bytes token, struct bytes shown)
{
	bool has_gap = token.at != printer->end;

	printer->end = token.at + token.count;
	if (!is_printed(printer))
		return;
	if (has_gap && printer->out->count)
		strbuf_add(printer->out, " ");
	for (size_t i = 0; i < shown.count && printer->out->count + 1 < printer->out->size; i++) {
		char c = shown.at[i];

		strbuf_add_bytes(printer->out, c >= ' ' && c <= '~' ? &c : "?", 1);
	}
	printer->is_full = printer->out->count + 1 >= printer->out->size;
}

static void print(struct printer *printer, struct bytes token, enum token_kind kind)
{
	if (printer->out)
		print_as(printer, token, token);
	else if (!printer->muted)
		sum_token(printer, token, kind);
}

static void print_sign(struct printer *printer, struct bytes sign)
{
	print(printer, sign, TOKEN_SIGN);
}

static bool is_parameter(const struct token *token)
{
	return token->kind == TOKEN_NUMBER && *token->text.at == '$';
}

static void print_numbered(struct printer *printer, struct bytes text)
{
	char number[16];
	struct strbuf out = strbuf_begin(number, sizeof(number));

	strbuf_add(&out, "$");
	strbuf_add_number(&out, printer->number);
	printer->number += is_printed(printer);
	print_as(printer, text, bytes_text(number));
}

/* Nothing of a constant is printed: if its end is not certain, nothing that follows either. */
static void print_constant(struct printer *printer, const struct token *token)
{
	struct bytes text = token->text;
	bool is_plain = token->kind == TOKEN_STRING && *text.at == '\'';
	bool is_certain = !is_plain || !memchr(text.at, '\\', text.count);

	if (!printer->out) {
		if (!printer->muted)
			hash_add(&printer->sum, (uint64_t)TOKEN_STRING << 59);
		return;
	}
	if (printer->sign)
		text = bytes_of(printer->sign, (size_t)(text.at + text.count - printer->sign));
	if (printer->number && is_parameter(token))
		print_as(printer, text, text);
	else if (printer->number && is_certain)
		print_numbered(printer, text);
	else
		print_as(printer, text, bytes_text(is_certain ? "?" : "..."));
	printer->is_full |= !is_certain;
}

/* ---- lists ---- */

static struct nest *innermost(struct printer *printer)
{
	return printer->depth && printer->depth <= NESTS_MAX ? &printer->nests[printer->depth - 1]
	                                                     : NULL;
}

static void open_nest(struct printer *printer, enum nest_kind kind, char closing)
{
	struct nest *nest;

	printer->depth++;
	nest = innermost(printer);
	if (!nest)
		return;
	*nest = (struct nest){ .kind = kind, .closing = closing };
	printer->is_list_begun = kind == NEST_LIST;
}

/* A comma between two items. */
static void next_item(struct printer *printer, struct nest *nest)
{
	if (!nest->has_more) {
		if (printer->out && is_printed(printer))
			strbuf_add(printer->out, ", ...");
		printer->muted++;
	}
	nest->has_more = true;
}

static void close_nest(struct printer *printer)
{
	const struct nest *nest = innermost(printer);

	if (nest && nest->kind != NEST_PLAIN)
		printer->muted -= nest->has_more;
	printer->depth--;
}

/* After a row of VALUES. true: the token was the comma before the next row. */
static bool end_row(struct printer *printer, const struct token *token)
{
	struct nest *rows = innermost(printer);

	printer->is_row_over = false;
	if (sql_token_is_sign(token, ',')) {
		next_item(printer, rows);
		printer->before = BEFORE_SIGN;
		return true;
	}
	close_nest(printer);
	return false;
}

static void open_sign(struct printer *printer, const struct token *token)
{
	const struct nest *around = innermost(printer);
	bool is_round = *token->text.at == '(';
	char closing = is_round ? ')' : ']';
	bool is_list = is_round ? printer->before == BEFORE_IN : printer->before == BEFORE_ARRAY;

	/* ARRAY[[1, 2], [3, 4]] */
	if (!is_round && around && around->kind == NEST_LIST && around->closing == ']' &&
	    printer->before == BEFORE_SIGN)
		is_list = true;
	if (is_round && printer->before == BEFORE_VALUES)
		open_nest(printer, NEST_ROWS, 0);
	print_sign(printer, token->text);
	open_nest(printer, is_list ? NEST_LIST : NEST_PLAIN, closing);
	printer->before = BEFORE_SIGN;
}

static void close_sign(struct printer *printer, const struct token *token)
{
	const struct nest *nest = innermost(printer);

	if (printer->depth > NESTS_MAX || (nest && nest->closing == *token->text.at)) {
		close_nest(printer);
		nest = innermost(printer);
		printer->is_row_over = nest && nest->kind == NEST_ROWS;
	}
	print_sign(printer, token->text);
	printer->before = BEFORE_WORD;
}

/* ---- tokens ---- */

static enum word word_of(const struct token *token)
{
	static const struct {
		const char *name;
		size_t size;
		enum word word;
	} words[] = {
		{ "in", 2, WORD_IN },          { "array", 5, WORD_ARRAY },
		{ "values", 6, WORD_VALUES },  { "select", 6, WORD_QUERY },
		{ "with", 4, WORD_QUERY },     { "table", 5, WORD_QUERY },
		{ "null", 4, WORD_CONSTANT },  { "true", 4, WORD_CONSTANT },
		{ "false", 5, WORD_CONSTANT }, { "default", 7, WORD_CONSTANT },
	};
	size_t size = token->text.count;
	char first;

	if (token->kind != TOKEN_WORD || size > 7)
		return WORD_OTHER;
	first = (char)(token->text.at[0] | 0x20);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].size == size && words[i].name[0] == first &&
		    sql_token_is(token, words[i].name))
			return words[i].word;
	}
	return WORD_OTHER;
}

static bool is_constant(const struct printer *printer, const struct token *token, enum word word)
{
	return token->kind == TOKEN_STRING || token->kind == TOKEN_NUMBER ||
	       (word == WORD_CONSTANT && printer->before == BEFORE_SIGN);
}

static enum before before_of(enum word word)
{
	switch (word) {
	case WORD_IN:
		return BEFORE_IN;
	case WORD_ARRAY:
		return BEFORE_ARRAY;
	case WORD_VALUES:
		return BEFORE_VALUES;
	default:
		return BEFORE_WORD;
	}
}

static void handle_sign(struct printer *printer, const struct token *token)
{
	char sign = *token->text.at;
	struct nest *nest = innermost(printer);

	if (sign == '(' || sign == '[') {
		open_sign(printer, token);
	} else if (sign == ')' || sign == ']') {
		close_sign(printer, token);
	} else if (sign == ',' && nest && nest->kind == NEST_LIST) {
		next_item(printer, nest);
		printer->before = BEFORE_SIGN;
	} else {
		print_sign(printer, token->text);
		/* a name after a dot is never a constant */
		printer->before = sign == '.' ? BEFORE_WORD : BEFORE_SIGN;
	}
}

/* What was held back counts before this token. */
static void settle_held(struct printer *printer, const struct token *token, enum word word)
{
	if (printer->semicolon && !sql_token_is_sign(token, ';')) {
		print_sign(printer, bytes_of(printer->semicolon, 1));
		printer->semicolon = NULL;
	}
	if (printer->sign && !is_constant(printer, token, word)) {
		print_sign(printer, bytes_of(printer->sign, 1));
		printer->sign = NULL;
	}
}

/* A word, a name or a constant. */
static void print_word(struct printer *printer, const struct token *token, enum word word)
{
	if (is_constant(printer, token, word))
		print_constant(printer, token);
	else
		print(printer, token->text, token->kind);
	printer->before = before_of(word);
}

static void print_token(struct printer *printer, const struct token *token)
{
	bool is_plus_or_minus = sql_token_is_sign(token, '+') || sql_token_is_sign(token, '-');
	enum word word = word_of(token);

	if (printer->is_row_over && end_row(printer, token))
		return;
	settle_held(printer, token, word);
	/* IN (SELECT ...) is no list */
	if (printer->is_list_begun && (word == WORD_QUERY || word == WORD_VALUES))
		innermost(printer)->kind = NEST_PLAIN;
	printer->is_list_begun = false;
	if (sql_token_is_sign(token, ';')) {
		if (printer->before != BEFORE_START)
			printer->semicolon = token->text.at;
		printer->before = BEFORE_START;
	} else if (is_plus_or_minus && printer->before == BEFORE_SIGN) {
		printer->sign = token->text.at;
		return;
	} else if (token->kind == TOKEN_SIGN) {
		handle_sign(printer, token);
	} else {
		print_word(printer, token, word);
	}
	printer->sign = NULL;
}

/* What is large, and is written before it is read, is left as it is. */
static void printer_begin(struct printer *printer, struct strbuf *out)
{
	printer->out = out;
	printer->number = printer->muted = 0;
	printer->depth = 0;
	printer->before = BEFORE_START;
	printer->sign = printer->semicolon = printer->end = NULL;
	printer->is_row_over = printer->is_list_begun = printer->is_full = false;
}

static void print_all(struct printer *printer, struct bytes text)
{
	size_t count = text.count < SQL_DIGEST_MAX ? text.count : SQL_DIGEST_MAX;
	struct scanner scanner = { .rest = bytes_of(text.at, count) };
	struct token token;

	printer->end = text.at;
	while (!printer->is_full) {
		token = sql_token(&scanner);
		if (token.kind == TOKEN_END)
			break;
		print_token(printer, &token);
	}
}

uint64_t sql_digest(struct bytes text)
{
	static const struct hash_key none = { { 0, 0 } };
	struct printer printer;

	printer_begin(&printer, NULL);
	printer.sum = hash_begin(&none);
	printer.text_end = text.at + text.count;
	print_all(&printer, text);
	hash_add(&printer.sum, UINT64_C(0xff) << 56); /* no token is marked so */
	return hash_end(&printer.sum);
}

void sql_digest_text(struct bytes text, struct strbuf *out)
{
	struct printer printer;

	printer_begin(&printer, out);
	print_all(&printer, text);
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
	struct printer printer;

	printer_begin(&printer, out);
	printer.number = last_parameter(head) + 1;
	print_all(&printer, text);
}
