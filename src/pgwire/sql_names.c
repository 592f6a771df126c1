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

#include "sql_functions_priv.h"
#include "sql_priv.h"
#include "sql_touch_priv.h"

#define VALUE_MAX 255          /* bytes of a constant that is looked at as a name */
#define STRINGS_MAX 6          /* strings within strings */
#define PARENTHESES_MAX 8      /* around a constant */
#define NOT_ASCII ((char)0x80) /* in place of a character */
#define CANNOT SIZE_MAX

/* ---- sets ---- */

static bool begins_part(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_in_name(char c)
{
	return begins_part(c) || (c >= '0' && c <= '9') || c == '$' || c == '.';
}

enum sql_name sql_name_judge(struct bytes name)
{
	bool is_start = true, has_dot = false;

	for (size_t i = 0; i < name.count; i++) {
		if (is_start ? !begins_part(name.at[i]) : !is_in_name(name.at[i]))
			return SQL_NAME_OTHER;
		is_start = name.at[i] == '.';
		has_dot |= is_start;
	}
	if (!has_dot || is_start)
		return SQL_NAME_OTHER;
	return name.count <= SQL_PLACEHOLDER_MAX && bytes_are_ascii(name) ? SQL_NAME_PLACEHOLDER
	                                                                  : SQL_NAME_UNKNOWN;
}

/* Compares a name with one of the set, which is shorter than name_max. */
static int compare(struct bytes name, const char *other)
{
	int order = strncmp(name.at, other, name.count);

	return order || !other[name.count] ? order : -1;
}

/* Makes room for one more at this place of the order. false: no memory. */
static bool make_room(struct sql_names *names, size_t place)
{
	if ((names->count & (names->count - 1)) == 0) { /* a power of two is full */
		size_t room = names->count ? (size_t)names->count * 2 : 1;
		uint16_t *order = realloc(names->order, room * sizeof(*order));

		if (!order)
			return false;
		names->order = order;
	}
	memmove(names->order + place + 1, names->order + place,
	        (names->count - place) * sizeof(*names->order));
	return true;
}

static void insert(struct sql_names *names, struct bytes name)
{
	size_t low = 0, high = names->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = compare(name, names->list.at + names->order[middle]);

		names->compare_count++;
		if (order == 0)
			return;
		if (order > 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (names->count == SQL_NAMES_MAX ||
	    names->list.count + name.count + 1 > SQL_NAMES_SIZE_MAX || !make_room(names, low)) {
		names->is_unknown = true;
		return;
	}
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
	const char *name;

	names->is_unknown |= others->is_unknown;
	while (bytes_take_text(&list, &name))
		insert(names, bytes_text(name));
}

void sql_names_free(struct sql_names *names)
{
	buf_free(&names->list);
	free(names->order);
	*names = (struct sql_names){ 0 };
}

/* ---- tokens ---- */

/* A token; U&'...' with UESCAPE, and N'...', are one. */
struct item {
	struct token token; /* without the letters before its quote, but for E'...' */
	char escape;        /* of U&'...'; 0: another kind */
};

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

static char read_uescape(struct scanner *scanner)
{
	struct scanner ahead = *scanner;
	struct token word = sql_token(&ahead), string;

	if (!sql_token_is(&word, "uescape"))
		return '\\';
	string = sql_token(&ahead);
	*scanner = ahead;
	return string.text.count == 3 ? string.text.at[1] : '\\';
}

static struct item next_item(struct scanner *scanner)
{
	struct item item = { .token = sql_token(scanner) };
	struct bytes rest = scanner->rest;

	if (sql_token_is(&item.token, "n") && rest.count && rest.at[0] == '\'')
		item.token = sql_token(scanner);
	if (!sql_token_is(&item.token, "u") || rest.count < 2 || rest.at[0] != '&' ||
	    (rest.at[1] != '"' && rest.at[1] != '\''))
		return item;
	sql_token(scanner);
	item.token = sql_token(scanner);
	item.escape = read_uescape(scanner);
	return item;
}

static bool is_sign(const struct item *item, char sign)
{
	return sql_token_is_sign(&item->token, sign);
}

static bool is_name(const struct item *item)
{
	return item->token.kind == TOKEN_WORD || item->token.kind == TOKEN_QUOTED;
}

static bool is_end(const struct item *item)
{
	return item->token.kind == TOKEN_END || is_sign(item, ';');
}

/* ---- what is between quotes ---- */

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* Reads a number of at most `most` digits. A character that is not ASCII is one that is none. */
static char read_number(struct bytes *rest, int base, size_t most)
{
	unsigned int value = 0;

	for (size_t i = 0; i < most && rest->count && digit_of(rest->at[0]) < base; i++) {
		value = value > 0x7f
		            ? value
		            : value * (unsigned int)base + (unsigned int)digit_of(rest->at[0]);
		*rest = bytes_skip(*rest, 1);
	}
	return value && value < 0x80 ? (char)value : NOT_ASCII;
}

/* Reads what follows a backslash in E'...'. */
static char read_escape(struct bytes *rest)
{
	static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
	char c = rest->at[0];
	const char *letter = c ? strchr(letters, c) : NULL;

	if (c >= '0' && c < '8')
		return read_number(rest, 8, 3);
	*rest = bytes_skip(*rest, 1);
	if (c == 'x' && rest->count && digit_of(rest->at[0]) < 16)
		return read_number(rest, 16, 2);
	if (c == 'u' || c == 'U')
		return read_number(rest, 16, c == 'u' ? 4 : 8);
	return letter ? values[letter - letters] : c;
}

/* Reads what follows the escape character in U&'...'. */
static char read_unicode(struct bytes *rest, char escape)
{
	char c = rest->at[0];

	if (c == escape || c == '+')
		*rest = bytes_skip(*rest, 1);
	return c == escape ? c : read_number(rest, 16, c == '+' ? 6 : 4);
}

/* Copies what is between dollar quotes. */
static size_t copy_dollar(struct bytes text, char *out, size_t size)
{
	const char *tag = memchr(text.at + 1, '$', text.count - 1);
	size_t tag_size = (size_t)(tag - text.at) + 1;
	size_t count = text.count - 2 * tag_size;

	if (count > size)
		return CANNOT;
	memcpy(out, text.at + tag_size, count);
	return count;
}

/* Goes to the next part of E'one' 'constant'. false: a comment is between them, which is not read.
 */
static bool next_part(struct bytes *rest, char quote)
{
	const char *begin = rest->at, *part = memchr(begin, quote, rest->count);
	size_t size = part ? (size_t)(part - begin) + 1 : rest->count;

	*rest = bytes_skip(*rest, size);
	return !memchr(begin, '-', size);
}

/* Copies the value of a string or of a quoted name. CANNOT: more than size bytes, or not read. */
static size_t copy_quoted(const struct item *item, bool is_escaped, char *out, size_t size)
{
	struct bytes rest = item->token.text;
	size_t used = 0;
	char quote;

	if (rest.at[0] == '$')
		return copy_dollar(rest, out, size);
	if (lower(rest.at[0]) == 'b' || lower(rest.at[0]) == 'x')
		return 0; /* bits */
	if (lower(rest.at[0]) == 'e')
		rest = bytes_skip(rest, 1);
	is_escaped = rest.at != item->token.text.at || (is_escaped && rest.at[0] == '\'');
	quote = rest.at[0];
	rest = bytes_skip(rest, 1);
	while (rest.count) {
		char c = rest.at[0];

		rest = bytes_skip(rest, 1);
		if (c == quote && (rest.count == 0 || rest.at[0] != quote)) {
			if (rest.count && !next_part(&rest, quote))
				return CANNOT;
			continue;
		} else if (c == quote) {
			rest = bytes_skip(rest, 1);
		}
		if (item->escape && c == item->escape && rest.count)
			c = read_unicode(&rest, c);
		else if (is_escaped && !item->escape && c == '\\' && rest.count)
			c = read_escape(&rest);
		if (used == size)
			return CANNOT;
		out[used++] = c;
	}
	return used;
}

/* Copies a name as PostgreSQL reads it, which cuts long ones. */
static size_t copy_name(const struct item *item, char out[static VALUE_MAX])
{
	struct bytes text = item->token.text;
	size_t used = 0;

	if (item->token.kind == TOKEN_QUOTED) {
		used = copy_quoted(item, false, out, VALUE_MAX);
	} else {
		for (; used < text.count && used < VALUE_MAX; used++)
			out[used] = lower(text.at[used]);
	}
	return used < SQL_NAME_MAX ? used : SQL_NAME_MAX;
}

static bool is_set_config(const struct item *item)
{
	char name[VALUE_MAX];
	const struct sql_function *function;

	if (!is_name(item))
		return false;
	function = sql_function(bytes_of(name, copy_name(item, name)));
	return function && function->third == SQL_THIRD_IS_LOCAL;
}

/* ---- values ---- */

enum value_kind {
	VALUE_EXPRESSION, /* it cannot be known */
	VALUE_TEXT,
	VALUE_PARAMETER, /* $n */
	VALUE_OTHER      /* no name: a number, or longer than any name that can be asked for */
};

struct value {
	enum value_kind kind;
	struct item next; /* the token after it */
	uint64_t bit;     /* of VALUE_PARAMETER */
	size_t count;     /* of VALUE_TEXT */
	char text[VALUE_MAX];
};

static void read_value(struct scanner *scanner, struct value *value, unsigned int depth);

/* Whether this, and what follows, is a type of texts whose values are not cut. */
static bool read_type(struct scanner *scanner, struct item item)
{
	static const char *const types[] = { "text", "varchar", "bpchar" };
	struct scanner ahead = *scanner;
	struct item dot = next_item(&ahead);
	char name[VALUE_MAX];
	struct bytes type;

	if (is_name(&item) && is_sign(&dot, '.')) {
		type = bytes_of(name, copy_name(&item, name));
		if (!bytes_are(type, "pg_catalog"))
			return false;
		item = next_item(&ahead);
		*scanner = ahead;
	}
	if (!is_name(&item))
		return false;
	type = bytes_of(name, copy_name(&item, name));
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (bytes_are(type, types[i]))
			return true;
	}
	if (!bytes_are(type, "character") && !bytes_are(type, "char"))
		return false;
	item = next_item(scanner);
	return sql_token_is(&item.token, "varying");
}

/* The value of a string, and of those that continue it. */
static void take_string(struct scanner *scanner, const struct item *item, struct value *value)
{
	struct scanner ahead = *scanner;
	struct item next = *item;

	value->kind = VALUE_TEXT;
	do {
		size_t size = copy_quoted(&next, scanner->is_escaped, value->text + value->count,
		                          VALUE_MAX - value->count);

		*scanner = ahead;
		if (size == CANNOT)
			value->kind =
			    next.token.text.count > VALUE_MAX ? VALUE_OTHER : VALUE_EXPRESSION;
		else
			value->count += size;
		next = next_item(&ahead);
	} while (next.token.kind == TOKEN_STRING);
}

static void take_number(const struct item *item, struct value *value)
{
	struct bytes text = item->token.text;
	unsigned int number = 0;

	value->kind = VALUE_OTHER;
	if (text.at[0] != '$')
		return;
	value->kind = VALUE_PARAMETER;
	for (size_t i = 1; i < text.count; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			value->kind = VALUE_EXPRESSION;
		else if (number <= SQL_PARAMETER_LAST)
			number = number * 10 + (unsigned int)(text.at[i] - '0');
	}
	value->bit = number <= SQL_PARAMETER_LAST ? UINT64_C(1) << number : SQL_PARAMETERS_ALL;
}

/* CAST(value AS type), from after CAST; or (value), from after its parenthesis. */
static void take_enclosed(struct scanner *scanner, struct value *value, unsigned int depth,
                          bool is_cast)
{
	struct item open = { 0 };

	if (is_cast)
		open = next_item(scanner);
	if (depth == PARENTHESES_MAX || (is_cast && !is_sign(&open, '(')))
		return;
	read_value(scanner, value, depth + 1);
	if (is_cast &&
	    (!sql_token_is(&value->next.token, "as") || !read_type(scanner, next_item(scanner))))
		value->kind = VALUE_EXPRESSION;
	if (is_cast)
		value->next = next_item(scanner);
	if (!is_sign(&value->next, ')'))
		value->kind = VALUE_EXPRESSION;
}

/* Reads a constant or a parameter without the casts behind it. */
static void read_primary(struct scanner *scanner, struct value *value, unsigned int depth)
{
	struct item item = next_item(scanner), string;

	if (item.token.kind == TOKEN_STRING) {
		take_string(scanner, &item, value);
	} else if (item.token.kind == TOKEN_NUMBER) {
		take_number(&item, value);
	} else if (is_sign(&item, '(') || sql_token_is(&item.token, "cast")) {
		take_enclosed(scanner, value, depth, !is_sign(&item, '('));
	} else if (is_sign(&item, '-') || sql_token_is(&item.token, "null") ||
	           sql_token_is(&item.token, "true") || sql_token_is(&item.token, "false")) {
		if (is_sign(&item, '-'))
			item = next_item(scanner);
		value->kind = item.token.kind == TOKEN_NUMBER || is_name(&item) ? VALUE_OTHER
		                                                                : VALUE_EXPRESSION;
	} else if (read_type(scanner, item)) {
		string = next_item(scanner);
		if (string.token.kind == TOKEN_STRING)
			take_string(scanner, &string, value);
	}
}

/* Reads a constant or a parameter with its casts, and the token after it. */
static void read_value(struct scanner *scanner, struct value *value, unsigned int depth)
{
	struct item colon;

	value->kind = VALUE_EXPRESSION;
	value->count = 0;
	read_primary(scanner, value, depth);
	if (value->kind == VALUE_EXPRESSION)
		return;
	for (;;) {
		value->next = next_item(scanner);
		if (!is_sign(&value->next, ':'))
			return;
		colon = next_item(scanner);
		if (!is_sign(&colon, ':') || !read_type(scanner, next_item(scanner))) {
			value->kind = VALUE_EXPRESSION;
			return;
		}
	}
}

/* Reads one argument of a call. It ends with a comma or a parenthesis. */
static void read_argument(struct scanner *scanner, struct value *value)
{
	read_value(scanner, value, 0);
	if (value->kind != VALUE_EXPRESSION && !is_sign(&value->next, ',') &&
	    !is_sign(&value->next, ')'))
		value->kind = VALUE_EXPRESSION;
}

/* ---- statements ---- */

struct reader {
	struct scanner scanner;
	struct sql_names *names;
	uint64_t arguments; /* the only thing looked for: these arguments of an EXECUTE; or 0 */
	unsigned int depth; /* strings around */
	bool is_inside;     /* strings are read */
	bool is_data;       /* any name with a dot may be a placeholder */
	bool is_first;      /* a statement begins here */
	bool is_do;         /* of a statement: its string is code */
};

static void read_tokens(struct reader *reader);

/*
 * Reads a name with all its parts, from its first token. *next: what follows. CANNOT: it is no name
 * or does not end.
 */
static size_t read_chain(struct scanner *scanner, struct item item, char out[static VALUE_MAX],
                         struct item *next)
{
	size_t used = 0;

	for (;;) {
		char part[VALUE_MAX];
		size_t size;

		*next = item;
		if (!is_name(&item))
			return CANNOT;
		size = copy_name(&item, part);
		/* What is too long to be asked for remains so without its end. */
		if (size > VALUE_MAX - used)
			size = VALUE_MAX - used;
		memcpy(out + used, part, size);
		used += size;
		*next = next_item(scanner);
		if (!is_sign(next, '.'))
			return used;
		if (used < VALUE_MAX - 1)
			out[used++] = '.';
		item = next_item(scanner);
	}
}

/* Whether the name of a SET in a string goes on in another one, or is put in by format(). */
static bool goes_on(const struct reader *reader, const struct item *next, bool is_reset)
{
	struct bytes rest = reader->scanner.rest;

	if (next->token.kind == TOKEN_END)
		return !is_reset && rest.at[rest.count - 1] > ' ';
	return next->token.kind == TOKEN_SIGN && !is_sign(next, '=') && !is_sign(next, ';');
}

/* After SET or RESET. */
static void see_set(struct reader *reader, bool is_reset)
{
	struct scanner ahead = reader->scanner, after;
	struct item item = next_item(&ahead), next;
	char name[VALUE_MAX];
	bool is_local = sql_token_is(&item.token, "local");
	size_t size;

	after = ahead;
	next = next_item(&after);
	if ((is_local || sql_token_is(&item.token, "session")) && is_name(&next)) {
		item = next;
		ahead = after;
	}
	size = read_chain(&ahead, item, name, &next);
	if (size != CANNOT)
		sql_names_add(reader->names, bytes_of(name, size));
	/* The code of functions has whole names. */
	if (reader->is_data && reader->is_first && !is_local &&
	    (size == CANNOT || goes_on(reader, &next, is_reset)))
		reader->names->is_unknown = true;
}

static bool is_named(struct scanner *scanner, struct item *name)
{
	struct item first, second;

	*name = next_item(scanner);
	first = next_item(scanner);
	second = next_item(scanner);
	return is_name(name) && ((is_sign(&first, '=') && is_sign(&second, '>')) ||
	                         (is_sign(&first, ':') && is_sign(&second, '=')));
}

/*
 * Skips the rest of an argument. Returns the sign after it; 0: there is a call within that is read
 * by itself, and to read it once for each call around it would cost the square of the size.
 */
static char skip_argument(struct scanner *scanner)
{
	for (size_t depth = 0;;) {
		struct item item = next_item(scanner);

		if (is_end(&item) || is_set_config(&item) || sql_token_is(&item.token, "execute"))
			return 0;
		if (depth == 0 && (is_sign(&item, ',') || is_sign(&item, ')')))
			return item.token.text.at[0];
		depth += is_sign(&item, '(') || is_sign(&item, '[');
		depth -= is_sign(&item, ')') || (depth && is_sign(&item, ']'));
	}
}

/* The arguments of set_config(), from after its parenthesis. */
static void see_call(struct reader *reader, struct scanner scanner)
{
	struct value value = { .kind = VALUE_EXPRESSION };

	for (int number = 0;; number++) {
		struct scanner ahead = scanner;
		char name[VALUE_MAX];
		struct item item;
		bool has_name = is_named(&ahead, &item);

		if (!has_name && number == 0) {
			read_argument(&scanner, &value);
			break;
		}
		if (has_name && bytes_are(bytes_of(name, copy_name(&item, name)), "setting_name")) {
			read_argument(&ahead, &value);
			break;
		}
		if (!has_name || skip_argument(&ahead) != ',')
			break;
		scanner = ahead;
	}
	if (value.kind == VALUE_TEXT)
		sql_names_add(reader->names, bytes_of(value.text, value.count));
	else if (value.kind == VALUE_PARAMETER)
		reader->names->parameters |= value.bit;
	else
		reader->names->is_unknown = true;
}

/*
 * EXECUTE name(...): a constant is a name, if its parameter is one. asked: these parameters, as 1
 * << n.
 */
static void see_execute(struct reader *reader, uint64_t asked)
{
	struct scanner scanner = reader->scanner;
	struct item name = next_item(&scanner), open = next_item(&scanner);
	struct value value;

	if (!is_name(&name) || !is_sign(&open, '('))
		return;
	for (unsigned int number = 1;; number++) {
		uint64_t bit = number <= SQL_PARAMETER_LAST ? UINT64_C(1) << number : 0;
		bool is_asked = asked & (bit | SQL_PARAMETERS_ALL);
		struct scanner ahead = scanner;
		char end;

		read_argument(&ahead, &value);
		if (is_asked && value.kind == VALUE_TEXT)
			sql_names_add(reader->names, bytes_of(value.text, value.count));
		else if (is_asked && value.kind != VALUE_OTHER)
			reader->names->is_unknown = true;
		end = skip_argument(&scanner);
		if (end != ',') {
			reader->names->is_unknown |= !end;
			return;
		}
	}
}

/* In data: a name with a dot, from its first part. */
static void see_chain(struct reader *reader, const struct item *item)
{
	struct scanner ahead = reader->scanner;
	char name[VALUE_MAX];
	struct item next;
	size_t size = read_chain(&ahead, *item, name, &next);

	if (size != CANNOT && !is_sign(&next, '('))
		sql_names_add(reader->names, bytes_of(name, size));
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

static void see_word(struct reader *reader, const struct item *item, bool is_part)
{
	struct scanner ahead = reader->scanner;
	bool is_reset = sql_token_is(&item->token, "reset");
	struct item next;

	/* Where functions run, constants are read as strings. A PREPARE may come before in the
	 * text. */
	if (sql_token_is(&item->token, "execute") && !reader->depth)
		see_execute(reader,
		            reader->arguments ? reader->arguments : reader->names->parameters);
	if (reader->arguments)
		return;
	if (is_reset || sql_token_is(&item->token, "set"))
		see_set(reader, is_reset);
	else if (sql_token_is(&item->token, "do") && reader->is_first && !reader->depth)
		reader->is_do = true;
	else if (reader->is_data && !is_part)
		see_chain(reader, item);
	if (reader->depth && item->token.kind == TOKEN_QUOTED) /* a string in other languages */
		read_loosely(reader->names, item->token.text);
	if (!is_set_config(item))
		return;
	next = next_item(&ahead);
	if (is_sign(&next, '('))
		see_call(reader, ahead);
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
static void see_string(struct reader *reader, const struct item *item)
{
	size_t size = item->token.text.count;
	char *content;

	if (!reader->is_inside)
		return;
	content = reader->depth < STRINGS_MAX ? malloc(size) : NULL;
	size = content ? copy_quoted(item, reader->scanner.is_escaped, content, size) : CANNOT;
	if (size == CANNOT)
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
		struct item item = next_item(&reader->scanner);

		if (item.token.kind == TOKEN_END) {
			if (reader->scanner.is_broken && reader->is_data)
				read_loosely(reader->names, rest);
			return;
		}
		if (item.token.kind == TOKEN_STRING)
			see_string(reader, &item);
		else if (is_name(&item))
			see_word(reader, &item, is_part);
		is_part = is_sign(&item, '.');
		reader->is_first = is_sign(&item, ';');
		reader->is_do = reader->is_do && !reader->is_first;
	}
}

/* Reads with and without standard_conforming_strings, which is not known here. */
static void read_twice(struct reader reader, struct bytes text)
{
	reader.scanner.rest = text;
	read_tokens(&reader);
	if (text.count && memchr(text.at, '\\', text.count)) {
		reader.scanner = (struct scanner){ .rest = text, .is_escaped = true };
		read_tokens(&reader);
	}
}

void sql_names_read(struct sql_names *names, struct bytes text, bool is_inside)
{
	names->is_inside |= is_inside;
	names->is_unclear |= sql_touch_is_unclear(text);
	read_twice((struct reader){ .names = names, .is_inside = is_inside }, text);
}

void sql_names_execute(struct sql_names *names, struct bytes text, uint64_t parameters)
{
	if (!parameters)
		return;
	names->is_unclear |= sql_touch_is_unclear(text);
	read_twice((struct reader){ .names = names, .arguments = parameters }, text);
}

const struct sql_names *sql_names_of(struct sql_names **kept, struct bytes text, bool is_inside)
{
	if (!*kept)
		*kept = calloc(1, sizeof(**kept));
	else if ((*kept)->is_inside || !is_inside)
		return *kept;
	if (*kept)
		sql_names_read(*kept, text, is_inside);
	return *kept;
}

void sql_names_drop(struct sql_names **kept)
{
	if (*kept)
		sql_names_free(*kept);
	free(*kept);
	*kept = NULL;
}
