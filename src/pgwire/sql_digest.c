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
#include <stdio.h>
#include <string.h>

#include "pgweir/base/hash.h"

#include "sql_priv.h"

#define PARAMETER_MAX 65536 /* PostgreSQL has 65535 */
#define NESTS_MAX 24        /* deeper parentheses are signs like others */

enum nest {
	NEST_PLAIN, /* parentheses or brackets that are not a list */
	NEST_LIST,  /* the items between parentheses */
	NEST_ARRAY, /* the items between brackets */
	NEST_ROW    /* the first row of VALUES */
};

/* What a token means for those behind it. */
enum meaning {
	MEANS_WORD, /* a word, a name, a constant, a closing parenthesis */
	MEANS_IN,
	MEANS_ARRAY,
	MEANS_VALUES,
	MEANS_QUERY,    /* SELECT, WITH, TABLE */
	MEANS_CONSTANT, /* NULL, TRUE, FALSE, DEFAULT: behind a sign */
	MEANS_SIGN,
	MEANS_START /* nothing, or a semicolon */
};

struct printer {
	struct scanner scanner;
	struct strbuf *out; /* NULL: it is hashed */
	struct hash_stream sum;
	unsigned int number; /* a constant is printed as $ and this number; 0: as ? */
	size_t depth;
	enum nest nests[NESTS_MAX];
	enum meaning before;
	const char *sign;      /* a + or - that may belong to a constant; or NULL */
	const char *semicolon; /* counts if anything follows; or NULL */
	const char *end;       /* of the last token */
	const char *text_end;  /* of the text */
	bool is_list_begun;    /* nothing of the list has come yet */
	bool is_full;          /* the text is not continued */
};

/* ---- the text ---- */

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
	if (printer->is_full)
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
	else
		sum_token(printer, token, kind);
}

static bool is_parameter(const struct token *token)
{
	return token->kind == TOKEN_NUMBER && *token->text.at == '$';
}

/* Of one in plain quotes with a backslash, the end is not certain. */
static bool is_certain(const struct token *token)
{
	return token->kind != TOKEN_STRING || *token->text.at != '\'' ||
	       !sql_has_backslash(token->text);
}

/* Nothing of a constant is printed: if its end is not certain, nothing that follows either. */
static void print_constant(struct printer *printer, const struct token *token)
{
	struct bytes text = token->text;
	char number[16];

	if (!printer->out) {
		hash_add(&printer->sum, (uint64_t)TOKEN_STRING << 59);
		return;
	}
	if (printer->sign)
		text = bytes_of(printer->sign, (size_t)(text.at + text.count - printer->sign));
	if (printer->number && is_parameter(token)) {
		print_as(printer, text, text);
	} else if (printer->number && is_certain(token)) {
		snprintf(number, sizeof(number), "$%u", printer->number++);
		print_as(printer, text, bytes_text(number));
	} else {
		print_as(printer, text, bytes_text(is_certain(token) ? "?" : "..."));
	}
	printer->is_full |= !is_certain(token);
}

/* ---- lists ---- */

static enum nest innermost(const struct printer *printer)
{
	return printer->depth && printer->depth <= NESTS_MAX ? printer->nests[printer->depth - 1]
	                                                     : NEST_PLAIN;
}

static bool opens(const struct token *token)
{
	return sql_token_is_sign(token, '(') || sql_token_is_sign(token, '[');
}

static bool closes(const struct token *token)
{
	return sql_token_is_sign(token, ')') || sql_token_is_sign(token, ']');
}

/* Skips further items, up to the sign that closes their list, or further rows of VALUES. */
static void skip_items(struct printer *printer, bool are_rows)
{
	size_t depth = 0;

	if (printer->out)
		strbuf_add(printer->out, ", ...");
	while (!printer->is_full) {
		struct scanner ahead = printer->scanner;
		struct token token = sql_token(&ahead);
		bool is_row = opens(&token) || sql_token_is_sign(&token, ',');

		if (token.kind == TOKEN_END ||
		    (!depth && (closes(&token) || (are_rows && !is_row))))
			break;
		depth += opens(&token);
		depth -= closes(&token);
		printer->scanner = ahead;
		printer->end = token.text.at + token.text.count;
		printer->is_full = printer->out && !is_certain(&token);
	}
}

static void open_sign(struct printer *printer, const struct token *token)
{
	enum nest nest = NEST_PLAIN;

	if (*token->text.at == '[') {
		/* ARRAY[[1, 2], [3, 4]] */
		if (printer->before == MEANS_ARRAY ||
		    (printer->before == MEANS_SIGN && innermost(printer) == NEST_ARRAY))
			nest = NEST_ARRAY;
	} else if (printer->before == MEANS_IN) {
		nest = NEST_LIST;
	} else if (printer->before == MEANS_VALUES) {
		nest = NEST_ROW;
	}
	print(printer, token->text, TOKEN_SIGN);
	if (printer->depth < NESTS_MAX)
		printer->nests[printer->depth] = nest;
	printer->depth++;
	printer->is_list_begun = nest == NEST_LIST || nest == NEST_ARRAY;
	printer->before = MEANS_SIGN;
}

static void close_sign(struct printer *printer, const struct token *token)
{
	enum nest nest = innermost(printer);
	struct scanner ahead = printer->scanner;

	print(printer, token->text, TOKEN_SIGN);
	printer->depth -= printer->depth > 0;
	printer->before = MEANS_WORD;
	if (nest != NEST_ROW || !sql_takes_sign(&ahead, ','))
		return;
	printer->scanner = ahead;
	skip_items(printer, true);
}

/* ---- tokens ---- */

static enum meaning meaning_of(const struct token *token)
{
	static const struct meant {
		struct sql_word text;
		enum meaning meaning;
	} words[] = {
		{ SQL_WORD("in"), MEANS_IN },         { SQL_WORD("null"), MEANS_CONSTANT },
		{ SQL_WORD("true"), MEANS_CONSTANT }, { SQL_WORD("with"), MEANS_QUERY },
		{ SQL_WORD("array"), MEANS_ARRAY },   { SQL_WORD("false"), MEANS_CONSTANT },
		{ SQL_WORD("table"), MEANS_QUERY },   { SQL_WORD("select"), MEANS_QUERY },
		{ SQL_WORD("values"), MEANS_VALUES }, { SQL_WORD("default"), MEANS_CONSTANT },
	};
	const struct meant *word = NULL;

	if (token->kind == TOKEN_WORD && token->text.count <= strlen("default"))
		word = SQL_WORD_FIND(words, token->text);
	return word ? word->meaning : MEANS_WORD;
}

static bool is_constant(const struct printer *printer, const struct token *token,
                        enum meaning meaning)
{
	return token->kind == TOKEN_STRING || token->kind == TOKEN_NUMBER ||
	       (meaning == MEANS_CONSTANT && printer->before == MEANS_SIGN);
}

static void handle_sign(struct printer *printer, const struct token *token)
{
	char sign = *token->text.at;
	enum nest nest = innermost(printer);

	if (opens(token)) {
		open_sign(printer, token);
	} else if (closes(token)) {
		close_sign(printer, token);
	} else if (sign == ',' && (nest == NEST_LIST || nest == NEST_ARRAY)) {
		skip_items(printer, false);
	} else {
		print(printer, token->text, TOKEN_SIGN);
		/* a name after a dot is never a constant */
		printer->before = sign == '.' ? MEANS_WORD : MEANS_SIGN;
	}
}

/* What was held back counts before this token. */
static void settle_held(struct printer *printer, const struct token *token, enum meaning meaning)
{
	if (printer->semicolon && !sql_token_is_sign(token, ';')) {
		print(printer, bytes_of(printer->semicolon, 1), TOKEN_SIGN);
		printer->semicolon = NULL;
	}
	if (printer->sign && !is_constant(printer, token, meaning)) {
		print(printer, bytes_of(printer->sign, 1), TOKEN_SIGN);
		printer->sign = NULL;
	}
}

static void print_token(struct printer *printer, const struct token *token)
{
	enum meaning meaning = meaning_of(token);

	settle_held(printer, token, meaning);
	/* IN (SELECT ...) is no list */
	if (printer->is_list_begun && (meaning == MEANS_QUERY || meaning == MEANS_VALUES) &&
	    innermost(printer) != NEST_PLAIN)
		printer->nests[printer->depth - 1] = NEST_PLAIN;
	printer->is_list_begun = false;
	if (sql_token_is_sign(token, ';')) {
		if (printer->before != MEANS_START)
			printer->semicolon = token->text.at;
		printer->before = MEANS_START;
	} else if (printer->before == MEANS_SIGN &&
	           (sql_token_is_sign(token, '+') || sql_token_is_sign(token, '-'))) {
		printer->sign = token->text.at;
		return;
	} else if (token->kind == TOKEN_SIGN) {
		handle_sign(printer, token);
	} else {
		if (is_constant(printer, token, meaning))
			print_constant(printer, token);
		else
			print(printer, token->text, token->kind);
		printer->before = meaning;
	}
	printer->sign = NULL;
}

/* What is large, and is written before it is read, is left as it is. */
static void printer_begin(struct printer *printer, struct bytes text, struct strbuf *out)
{
	if (text.count > SQL_DIGEST_MAX)
		text.count = SQL_DIGEST_MAX;
	printer->scanner = (struct scanner){ .rest = text };
	printer->out = out;
	printer->number = 0;
	printer->depth = 0;
	printer->before = MEANS_START;
	printer->sign = printer->semicolon = NULL;
	printer->end = text.at;
	printer->is_list_begun = printer->is_full = false;
}

static void print_all(struct printer *printer)
{
	while (!printer->is_full) {
		struct token token = sql_token(&printer->scanner);

		if (token.kind == TOKEN_END)
			break;
		print_token(printer, &token);
	}
}

uint64_t sql_digest(struct bytes text)
{
	static const struct hash_key none = { { 0, 0 } };
	struct printer printer;

	printer_begin(&printer, text, NULL);
	printer.sum = hash_begin(&none);
	printer.text_end = text.at + text.count;
	print_all(&printer);
	hash_add(&printer.sum, UINT64_C(0xff) << 56); /* no token is marked so */
	return hash_end(&printer.sum);
}

void sql_digest_text(struct bytes text, struct strbuf *out)
{
	struct printer printer;

	printer_begin(&printer, text, out);
	print_all(&printer);
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

/* The greatest n of $n in what follows. */
static unsigned int last_parameter(struct scanner scanner)
{
	unsigned int last = 0, number;
	struct token token;

	while ((token = sql_token(&scanner)).kind != TOKEN_END) {
		number = is_parameter(&token) ? parameter_number(token.text) : 0;
		if (number > last && number < PARAMETER_MAX)
			last = number;
	}
	return last;
}

void sql_digest_query(struct bytes text, struct strbuf *out)
{
	struct printer printer;

	printer_begin(&printer, text, out);
	printer.number = last_parameter(printer.scanner) + 1;
	print_all(&printer);
}
