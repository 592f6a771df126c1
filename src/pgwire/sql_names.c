/* SPDX-License-Identifier: ISC */
/*
 * Names of placeholders that a text may set.
 *
 *   SET app . "tenant" = 'a'                      a name of several tokens
 *   SELECT set_config('app.tenant'::text, ...)    a constant, or $1: a value of a Bind
 *   DO $$BEGIN SET app.tenant = 'a'; END$$        code in a string
 *   CALL f('{"app.tenant": "a"}')                 data: any name with a dot may be one
 *
 * Hard here: to miss a name is to lose a value of the client's, without a word. So a name that a
 * SET or set_config() makes from anything else than constants makes the set unknown. Which strings
 * are code, data or nothing is not known, so where functions run, all of them are read.
 */
#include "pgweir/pgwire/sql_names.h"

#include <stdlib.h>

#include "pgweir/pgwire/sql_touch.h"

#include "sql_priv.h"

#define VALUE_MAX 255 /* bytes of a constant that is looked at as a name */
#define STRINGS_MAX 6 /* strings within strings */

/* ---- sets ---- */

static bool is_in_name(char c) { return c == '.' || is_a(c, IN_WORD); }

enum sql_name sql_name_judge(struct bytes name)
{
	bool is_start = true, has_dot = false;

	for (size_t i = 0; i < name.count; i++) {
		if (is_start ? !is_a(name.at[i], LETTER) : !is_in_name(name.at[i]))
			return SQL_NAME_OTHER;
		is_start = name.at[i] == '.';
		has_dot |= is_start;
	}
	if (!has_dot || is_start)
		return SQL_NAME_OTHER;
	return name.count <= SQL_PLACEHOLDER_MAX && bytes_are_ascii(name) ? SQL_NAME_PLACEHOLDER
	                                                                  : SQL_NAME_UNKNOWN;
}

static void insert(struct sql_names *names, struct bytes name)
{
	size_t low = 0, high = names->count;
	uint16_t *order;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const char *other = names->list.at + names->order[middle];
		int difference = strncmp(name.at, other, name.count);

		if (difference == 0 && other[name.count])
			difference = -1;
		names->compare_count++;
		if (difference == 0)
			return;
		if (difference > 0)
			low = middle + 1;
		else
			high = middle;
	}
	order = array_room(names->order, names->count, &names->capacity, sizeof(*order));
	names->order = order ? order : names->order;
	if (names->count == SQL_NAMES_MAX || !order ||
	    names->list.count + name.count + 1 > SQL_NAMES_SIZE_MAX) {
		names->is_unknown = true;
		return;
	}
	memmove(order + low + 1, order + low, (names->count - low) * sizeof(*order));
	names->order[low] = (uint16_t)names->list.count;
	names->count++;
	buf_add(&names->list, name.at, name.count);
	buf_add_byte(&names->list, 0);
	if (!buf_ok(&names->list)) {
		sql_names_free(names);
		names->is_unknown = true;
	}
}

void sql_names_add(struct sql_names *names, struct bytes name)
{
	enum sql_name kind;

	while (name.count && name.at[name.count - 1] == ' ')
		name.count--;
	kind = sql_name_judge(name);
	if (kind == SQL_NAME_PLACEHOLDER)
		insert(names, name);
	else if (kind == SQL_NAME_UNKNOWN)
		names->is_unknown = true;
}

void sql_names_merge(struct sql_names *names, const struct sql_names *others)
{
	struct bytes list = buf_bytes(&others->list);

	names->is_unknown |= others->is_unknown;
	names->parameters |= others->parameters;
	for (const char *name; bytes_take_text(&list, &name);)
		insert(names, bytes_text(name));
}

void sql_names_free(struct sql_names *names)
{
	buf_free(&names->list);
	free(names->order);
	*names = (struct sql_names){ 0 };
}

/* ---- values ---- */

/* The parameter of a token; SQL_PARAMETERS_ALL: one of a high number. */
static uint64_t parameter_of(const struct token *token)
{
	unsigned int number = 0;

	for (size_t i = 1; i < token->text.count && number <= SQL_PARAMETER_LAST; i++)
		number = number * 10 + (unsigned int)(token->text.at[i] - '0');
	return number <= SQL_PARAMETER_LAST ? UINT64_C(1) << number : SQL_PARAMETERS_ALL;
}

/* Whether a word belongs to a cast to a type of texts whose values are not cut. */
static bool is_of_cast(const struct token *token, struct scanner after)
{
	static const char *const words[] = { "as",   "bpchar",  "cast",   "pg_catalog",
		                             "text", "varchar", "varying" };
	struct token word = { .kind = TOKEN_WORD, .text = sql_name_text(token) };

	if (sql_token_is(&word, "char") || sql_token_is(&word, "character"))
		return sql_takes(&after, "varying");
	return sql_is_name(token) && SQL_IS_ONE(&word, words) &&
	       (sql_token_is(&word, "cast") || !sql_takes_sign(&after, '('));
}

/*
 * Adds the name that an argument is. false: it is not known. Its tokens are looked at, and not how
 * they belong together: PostgreSQL refuses what is no cast of one constant or parameter.
 */
static bool add_argument(struct sql_names *names, const struct argument *argument)
{
	struct scanner scanner = argument->value;
	enum token_kind before = TOKEN_END;
	bool has_value = false;
	char name[VALUE_MAX];
	size_t used = 0;

	for (size_t i = 0; i < argument->count; i++) {
		struct token token = sql_token(&scanner);
		size_t size = 0;

		if (sql_has_backslash(token.text))
			return false; /* letters may be written as numbers */
		if (token.kind == TOKEN_STRING && (!has_value || before == TOKEN_STRING))
			size = sql_unquote(&token, scanner.is_escaped, name + used,
			                   sizeof(name) - used);
		else if (token.text.at[0] == '$' && !has_value)
			names->parameters |= parameter_of(&token);
		else if (!is_of_cast(&token, scanner) &&
		         !(token.kind == TOKEN_SIGN && strchr("(.:)", token.text.at[0])))
			return false;
		if (size == SQL_CANNOT)
			return false;
		used += size;
		has_value |= token.kind == TOKEN_STRING || token.kind == TOKEN_NUMBER;
		before = token.kind;
	}
	if (used)
		sql_names_add(names, bytes_of(name, used));
	return has_value && argument->end;
}

/* ---- statements ---- */

struct reader {
	struct scanner scanner;
	struct sql_names *names;
	unsigned int depth; /* strings around */
	bool is_inside;     /* strings are read */
	bool is_data;       /* any name with a dot may be a placeholder */
	bool is_first;      /* a statement begins here */
	bool is_do;         /* of a statement: its string is code */
};

static void read_tokens(struct reader *reader);

/* Whether the name of a SET in a string goes on in another one, or is put in by format(). */
static bool goes_on(const struct reader *reader, const struct token *next, bool is_reset)
{
	struct bytes rest = reader->scanner.rest;

	if (next->kind == TOKEN_END)
		return !is_reset && rest.at[rest.count - 1] > ' ';
	return next->kind == TOKEN_SIGN && !sql_token_is_sign(next, '=') &&
	       !sql_token_is_sign(next, ';');
}

static void add_chain(struct sql_names *names, const struct chain *chain)
{
	sql_names_add(names, bytes_of(chain->name, chain->count));
}

/* After SET or RESET. */
static void see_set(struct reader *reader, bool is_reset)
{
	struct scanner ahead = reader->scanner;
	struct token first = sql_peek(ahead);
	bool is_local = sql_token_is(&first, "local"), is_name;
	struct chain chain;

	if (!sql_takes_scope(&ahead, "local"))
		sql_takes_scope(&ahead, "session");
	is_name = sql_read_chain(&ahead, sql_token(&ahead), &chain);
	if (is_name)
		add_chain(reader->names, &chain);
	/* The code of functions has whole names. */
	if (reader->is_data && reader->is_first && !is_local &&
	    (!is_name || goes_on(reader, &chain.next, is_reset)))
		reader->names->is_unknown = true;
}

/* What cannot be read as tokens. */
static void read_loosely(struct sql_names *names, struct bytes text)
{
	while (text.count) {
		size_t size = 0;

		while (size < text.count && is_in_name(text.at[size]))
			size++;
		if (size)
			sql_names_add(names, bytes_of(text.at, size));
		text = bytes_skip(text, size ? size : 1);
	}
}

static void see_word(struct reader *reader, const struct token *token, bool is_part)
{
	static const char *const notices[] = { "listen", "unlisten", "notify" };
	struct scanner ahead = reader->scanner, part = ahead;
	bool is_reset = sql_token_is(token, "reset");
	const struct sql_function *function;
	struct argument argument;
	struct chain chain;

	/* Arguments are not read; a PREPARE that has such parameters came before in the text. */
	if (sql_token_is(token, "execute") && reader->names->parameters)
		reader->names->is_unknown = true;
	if (is_reset || sql_token_is(token, "set"))
		see_set(reader, is_reset);
	else if (sql_token_is(token, "do") && reader->is_first && !reader->depth)
		reader->is_do = true;
	else if (reader->is_data && !is_part && sql_read_chain(&part, *token, &chain) &&
	         !sql_token_is_sign(&chain.next, '('))
		add_chain(reader->names, &chain); /* with a dot, from its first part */
	else if (reader->is_first && !reader->depth && SQL_IS_ONE(token, notices))
		sql_token(&reader->scanner); /* a channel: no parameter, and no function */
	/* Which name it is, is not looked for. */
	reader->names->is_unknown |= sql_is_unicode(token);
	if (reader->depth && token->kind == TOKEN_QUOTED) /* a string in other languages */
		read_loosely(reader->names, token->text);
	function = sql_function_of(token);
	if (function && function->third == SQL_THIRD_IS_LOCAL && sql_takes_sign(&ahead, '('))
		reader->names->is_unknown |=
		    !sql_find_argument(ahead, 1, "setting_name", &argument) ||
		    !add_argument(reader->names, &argument);
}

/* ---- strings ---- */

static void read_content(const struct reader *around, struct bytes content)
{
	struct reader reader = { .scanner = { .rest = content,
		                              .is_escaped = around->scanner.is_escaped },
		                 .names = around->names,
		                 .depth = around->depth + 1,
		                 .is_inside = true,
		                 .is_data = !around->is_do };

	read_tokens(&reader);
}

/* A string of which a function may read any part. */
static void see_string(struct reader *reader, const struct token *token)
{
	size_t size = token->text.count;
	char *content;

	if (!reader->is_inside)
		return;
	content = reader->depth < STRINGS_MAX ? malloc(size) : NULL;
	size = content ? sql_unquote(token, reader->scanner.is_escaped, content, size) : SQL_CANNOT;
	if (size == SQL_CANNOT)
		reader->names->is_unknown = true;
	else
		read_content(reader, bytes_of(content, size));
	free(content);
}

static void read_tokens(struct reader *reader)
{
	bool is_part = false; /* of a name that has begun before */

	reader->is_first = true;
	for (;;) {
		struct bytes rest = reader->scanner.rest;
		struct token token = sql_token(&reader->scanner);

		if (token.kind == TOKEN_END) {
			if (reader->scanner.is_broken && reader->is_data)
				read_loosely(reader->names, rest);
			return;
		}
		if (token.kind == TOKEN_STRING)
			see_string(reader, &token);
		else if (sql_is_name(&token))
			see_word(reader, &token, is_part);
		is_part = sql_token_is_sign(&token, '.');
		reader->is_first = sql_token_is_sign(&token, ';');
		reader->is_do = reader->is_do && !reader->is_first;
	}
}

void sql_names_read(struct sql_names *names, struct bytes text, bool is_inside)
{
	struct reader reader = { .scanner.rest = text, .names = names, .is_inside = is_inside };

	names->is_unclear |= sql_touch_is_unclear(text);
	read_tokens(&reader);
	/* standard_conforming_strings of the session is not known here. */
	if (!sql_has_backslash(text))
		return;
	reader.scanner = (struct scanner){ .rest = text, .is_escaped = true };
	read_tokens(&reader);
}
