/* SPDX-License-Identifier: ISC */
/*
 * Names of libraries, channels and parameters in a text.
 *
 * Hard here: a name may be known wrongly in ways that cannot be seen. What PostgreSQL makes of
 * capital letters outside of ASCII, of names of more than 63 bytes and of U&"..." depends on the
 * database or on more reading, so these are SQL_ITEM_UNSURE, and the server must be asked.
 */
#include "pgweir/pgwire/sql_items.h"

#include <string.h>

#include "sql_priv.h"

#define LIBRARY_MAX 1023 /* PostgreSQL's limit for a path */

struct walk {
	struct scanner scanner;
	void (*found)(void *context, const struct sql_item *item);
	void *context;
	const char *last;   /* the last item that is not a parameter: see are_alike() */
	unsigned int count; /* of these */
	bool is_for_names;  /* only parameters are reported */
};

static void report(struct walk *walk, enum sql_item_kind kind, struct bytes name, const char *at)
{
	const struct sql_item item = { kind, name };

	if (kind != SQL_ITEM_PARAMETER) {
		walk->last = at;
		walk->count++;
		if (walk->is_for_names)
			return;
	}
	if (walk->found)
		walk->found(walk->context, &item);
}

static bool is_end(const struct token *token)
{
	return token->kind == TOKEN_END || sql_token_is_sign(token, ';');
}

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/*
 * Copies what is between quotes, of which each is doubled inside. Returns the size; `size` + 1: it
 * does not fit.
 */
static size_t copy_quoted(struct bytes quoted, char *out, size_t size)
{
	char quote = quoted.at[0];
	size_t used = 0;

	for (size_t i = 1; i + 1 < quoted.count; i++) {
		if (used == size)
			return size + 1;
		out[used++] = quoted.at[i];
		i += quoted.at[i] == quote;
	}
	return used;
}

/* ---- names ---- */

/* Copies a name. 0: it cannot be determined. */
static size_t copy_name(const struct token *token, struct bytes rest, char out[static SQL_NAME_MAX])
{
	size_t used;

	if (token->kind == TOKEN_QUOTED) {
		used = copy_quoted(token->text, out, SQL_NAME_MAX);
		return used <= SQL_NAME_MAX ? used : 0;
	}
	if (token->kind != TOKEN_WORD || token->text.count > SQL_NAME_MAX ||
	    !bytes_are_ascii(token->text))
		return 0;
	if (sql_token_is(token, "u") && rest.count > 1 && rest.at[0] == '&' && rest.at[1] == '"')
		return 0;
	for (used = 0; used < token->text.count; used++)
		out[used] = lower(token->text.at[used]);
	return used;
}

static void read_channel(struct walk *walk, enum sql_item_kind kind)
{
	struct token token = sql_token(&walk->scanner);
	char name[SQL_NAME_MAX];
	size_t size;

	if (kind == SQL_ITEM_UNLISTEN && sql_token_is_sign(&token, '*')) {
		report(walk, SQL_ITEM_UNLISTEN_ALL, bytes_of("", 0), token.text.at);
		return;
	}
	size = copy_name(&token, walk->scanner.rest, name);
	report(walk, size ? kind : SQL_ITEM_UNSURE, bytes_of(name, size), token.text.at);
}

/* Copies a string constant. -1: its value cannot be determined. */
static int copy_string(struct bytes text, char *out, size_t size)
{
	size_t used;

	if (text.at[0] == '\'') {
		if (memchr(text.at, '\\', text.count))
			return -1;
		used = copy_quoted(text, out, size);
		return used <= size ? (int)used : -1;
	}
	if (text.at[0] == '$') {
		const char *tag = memchr(text.at + 1, '$', text.count - 1);
		size_t tag_size = (size_t)(tag - text.at) + 1;

		used = text.count - 2 * tag_size;
		if (used > size)
			return -1;
		memcpy(out, text.at + tag_size, used);
		return (int)used;
	}
	return -1; /* E'...' and others */
}

static void read_library(struct walk *walk)
{
	struct token token = sql_token(&walk->scanner), after;
	struct scanner ahead = walk->scanner;
	char name[LIBRARY_MAX];
	int size = -1;

	after = sql_token(&ahead);
	if (token.kind == TOKEN_STRING && is_end(&after))
		size = copy_string(token.text, name, sizeof(name));
	if (size > 0)
		report(walk, SQL_ITEM_LIBRARY, bytes_of(name, (size_t)size), token.text.at);
	else
		report(walk, SQL_ITEM_UNSURE, bytes_of("", 0), token.text.at);
}

/* ---- parameters ---- */

/* Whether a text is a name of two parts or more, each a word. */
static bool is_placeholder(struct bytes name)
{
	size_t parts = 0;

	if (name.count > SQL_SET_NAME_MAX || !bytes_are_ascii(name))
		return false;
	for (;;) {
		size_t size = sql_word_size(name);

		if (size == 0)
			return false;
		parts++;
		name = bytes_skip(name, size);
		if (name.count == 0)
			return parts > 1;
		if (name.at[0] != '.')
			return false;
		name = bytes_skip(name, 1);
	}
}

static void see_string(struct walk *walk, const struct token *token)
{
	char text[SQL_SET_NAME_MAX];
	int size = copy_string(token->text, text, sizeof(text));

	if (size > 0 && is_placeholder(bytes_of(text, (size_t)size)))
		report(walk, SQL_ITEM_PARAMETER, bytes_of(text, (size_t)size), token->text.at);
}

/*
 * Reads the name of a parameter from its first token, with all its parts. *next: the token after
 * it. 0: it cannot be determined.
 */
static size_t read_parameter(struct scanner *scanner, struct token token,
                             char out[static SQL_SET_NAME_MAX], struct token *next)
{
	char part[SQL_NAME_MAX];
	size_t used = 0;

	for (;;) {
		size_t size = copy_name(&token, scanner->rest, part);

		if (size == 0 || used + size > SQL_SET_NAME_MAX)
			return 0;
		memcpy(out + used, part, size);
		used += size;
		*next = sql_token(scanner);
		if (!sql_token_is_sign(next, '.'))
			return used;
		if (used == SQL_SET_NAME_MAX)
			return 0;
		out[used++] = '.';
		token = sql_token(scanner);
	}
}

/* After SET, RESET or SHOW. A name of one part is one that PostgreSQL lists. */
static void see_parameter(struct walk *walk)
{
	struct scanner ahead = walk->scanner, after;
	struct token token = sql_token(&ahead), next;
	char name[SQL_SET_NAME_MAX];
	size_t size;

	after = ahead;
	next = sql_token(&after);
	if ((sql_token_is(&token, "session") || sql_token_is(&token, "local")) &&
	    (next.kind == TOKEN_WORD || next.kind == TOKEN_QUOTED)) {
		token = next;
		ahead = after;
	}
	size = read_parameter(&ahead, token, name, &next);
	if (size && is_placeholder(bytes_of(name, size)))
		report(walk, SQL_ITEM_PARAMETER, bytes_of(name, size), token.text.at);
}

/* ---- statements ---- */

/* PREPARE TRANSACTION has a string; PREPARE may have "transaction" as the name. */
static bool is_prepared(const struct walk *walk)
{
	struct scanner ahead = walk->scanner;
	struct token token = sql_token(&ahead), next = sql_token(&ahead);

	return sql_token_is(&token, "transaction") && next.kind == TOKEN_STRING;
}

static bool is_all(const struct walk *walk)
{
	struct scanner ahead = walk->scanner;
	struct token token = sql_token(&ahead);

	return sql_token_is(&token, "all");
}

static void read_statement(struct walk *walk, const struct token *first)
{
	if (sql_token_is(first, "listen"))
		read_channel(walk, SQL_ITEM_LISTEN);
	else if (sql_token_is(first, "unlisten"))
		read_channel(walk, SQL_ITEM_UNLISTEN);
	else if (sql_token_is(first, "load"))
		read_library(walk);
	else if (sql_token_is(first, "set") || sql_token_is(first, "reset") ||
	         sql_token_is(first, "show"))
		see_parameter(walk);
	else if (sql_token_is(first, "rollback") || sql_token_is(first, "abort") ||
	         (sql_token_is(first, "prepare") && is_prepared(walk)))
		report(walk, SQL_ITEM_ROLLBACK, bytes_of("", 0), first->text.at);
	else if (sql_token_is(first, "commit") || sql_token_is(first, "end"))
		report(walk, SQL_ITEM_COMMIT, bytes_of("", 0), first->text.at);
	else if (sql_token_is(first, "discard") && is_all(walk))
		report(walk, SQL_ITEM_UNLISTEN_ALL, bytes_of("", 0), first->text.at);
}

static void walk_text(struct walk *walk)
{
	bool is_first = true;

	for (;;) {
		struct token token = sql_token(&walk->scanner);

		if (token.kind == TOKEN_END)
			return;
		if (token.kind == TOKEN_STRING)
			see_string(walk, &token);
		if (is_first && token.kind == TOKEN_WORD)
			read_statement(walk, &token);
		is_first = is_end(&token);
	}
}

/*
 * Whether a text has the same libraries and channels with and without
 * standard_conforming_strings, which is not known here.
 */
static bool are_alike(struct bytes text)
{
	struct walk plain = { .scanner = { .rest = text } };
	struct walk escaped = { .scanner = { .rest = text, .is_escaped = true } };

	walk_text(&plain);
	walk_text(&escaped);
	return plain.count == escaped.count && plain.last == escaped.last;
}

void sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context)
{
	struct walk walk = { .scanner = { .rest = text }, .found = found, .context = context };

	if (text.count && memchr(text.at, '\\', text.count)) {
		const struct sql_item unsure = { SQL_ITEM_UNSURE, { "", 0 } };
		struct walk escaped = { .scanner = { .rest = text, .is_escaped = true },
			                .found = found,
			                .context = context,
			                .is_for_names = true };

		if (!are_alike(text)) {
			found(context, &unsure);
			walk.is_for_names = true;
		}
		walk_text(&escaped);
	}
	walk_text(&walk);
}

/* ---- one SET ---- */

/*
 * Parameters whose value is not what SET says: it is a list, it is completed from the value before,
 * it ends with the transaction, it is another parameter's old name, or it says who the user is.
 */
static bool is_certain(const char *name)
{
	static const char *const others[] = {
		"createrole_self_grant",
		"datestyle",
		"local_preload_libraries",
		"log_timezone",
		"restrict_nonsystem_relation_kind",
		"role",
		"search_path",
		"seed",
		"session_authorization",
		"session_preload_libraries",
		"sort_mem",
		"temp_tablespaces",
		"timezone",
		"transaction_deferrable",
		"transaction_isolation",
		"transaction_read_only",
		"vacuum_mem",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(others[i], name) == 0)
			return false;
	}
	return true;
}

/*
 * Whether a value could be written in another way if its parameter is a list of quoted names, which
 * a newer PostgreSQL may have without our knowing: SET quotes a list given as one text. Extensions
 * cannot define such lists, and theirs are the names with dots.
 */
static bool might_be_quoted(const struct sql_set *set)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
	const char *value = set->value;
	bool is_number = *value == '-' || (*value >= '0' && *value <= '9');

	if (strchr(set->name, '.') || strcmp(set->name, "application_name") == 0 ||
	    strcmp(set->name, "client_encoding") == 0 ||
	    strcmp(set->name, "default_transaction_isolation") == 0)
		return false;
	return is_number ? strpbrk(value, ", \"") != NULL
	                 : !*value || value[strspn(value, letters)];
}

/* Whether PostgreSQL keeps a number as it is written. */
static bool is_plain_number(struct bytes text)
{
	size_t digits = 0, points = 0;

	for (size_t i = 0; i < text.count; i++) {
		digits += text.at[i] >= '0' && text.at[i] <= '9';
		points += text.at[i] == '.';
	}
	if (digits + points != text.count || points > 1 || digits == 0 || text.at[0] == '.' ||
	    text.at[text.count - 1] == '.')
		return false;
	return points == 1 || text.count == 1 || (text.at[0] != '0' && text.count < 10);
}

/* Reads the value. false: it is not one of those that are certain. */
static bool read_value(struct scanner *scanner, char out[static SQL_SET_VALUE_MAX + 1])
{
	struct token token = sql_token(scanner);
	size_t used = 0;
	int size;

	if (token.kind == TOKEN_STRING) {
		size = copy_string(token.text, out, SQL_SET_VALUE_MAX);
		if (size < 0)
			return false;
		out[size] = 0;
		return true;
	}
	if (sql_token_is_sign(&token, '-')) {
		out[used++] = '-';
		token = sql_token(scanner);
		if (token.kind != TOKEN_NUMBER)
			return false;
	}
	if (token.text.count + used > SQL_SET_VALUE_MAX || sql_token_is(&token, "default") ||
	    (token.kind != TOKEN_WORD && token.kind != TOKEN_NUMBER) ||
	    (token.kind == TOKEN_NUMBER && !is_plain_number(token.text)))
		return false;
	for (size_t i = 0; i < token.text.count; i++)
		out[used++] = lower(token.text.at[i]);
	out[used] = 0;
	return true;
}

static bool is_unambiguous(struct bytes text)
{
	for (size_t i = 0; i < text.count; i++) {
		char c = text.at[i];

		if ((c < ' ' && c != '\t' && c != '\n' && c != '\r') || c > '~' || c == '\\')
			return false;
	}
	return true;
}

/* Skips SET and SESSION. *token: what follows. false: the text does not begin so. */
static bool begin_set(struct scanner *scanner, struct token *token)
{
	struct scanner ahead;
	struct token next;

	*token = sql_token(scanner);
	if (!sql_token_is(token, "set"))
		return false;
	*token = sql_token(scanner);
	ahead = *scanner;
	next = sql_token(&ahead);
	if (sql_token_is(token, "session") &&
	    (next.kind == TOKEN_WORD || next.kind == TOKEN_QUOTED)) {
		*token = next;
		*scanner = ahead;
	}
	return true;
}

/* Reads the parameter's name in lower case. 0: it cannot be determined. */
static size_t read_set_name(struct scanner *scanner, struct token token,
                            char name[static SQL_SET_NAME_MAX + 1], struct token *next)
{
	size_t size = read_parameter(scanner, token, name, next);

	name[size] = 0;
	for (size_t i = 0; i < size; i++)
		name[i] = lower(name[i]);
	return size;
}

static bool is_last(struct scanner *scanner, struct token token)
{
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(scanner);
	return token.kind == TOKEN_END && !scanner->is_broken;
}

bool sql_set_name(struct bytes text, char name[static SQL_SET_NAME_MAX + 1])
{
	static const struct {
		const char *words[2]; /* the second may be NULL */
		const char *name;
	} forms[] = {
		{ { "time", "zone" }, "timezone" },
		{ { "names", NULL }, "client_encoding" },
		{ { "authorization", NULL }, "session_authorization" },
	};
	struct scanner scanner = { .rest = text };
	struct token token, next;

	if (!is_unambiguous(text) || !begin_set(&scanner, &token) ||
	    !read_set_name(&scanner, token, name, &next))
		return false;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (sql_token_is(&token, forms[i].words[0]) &&
		    (!forms[i].words[1] || sql_token_is(&next, forms[i].words[1])))
			memcpy(name, forms[i].name, strlen(forms[i].name) + 1);
	}
	while (!is_end(&next))
		next = sql_token(&scanner);
	return is_last(&scanner, next);
}

bool sql_set_read(struct bytes text, struct sql_set *set)
{
	struct scanner scanner = { .rest = text };
	struct token token, next;

	if (!is_unambiguous(text) || !begin_set(&scanner, &token) ||
	    !read_set_name(&scanner, token, set->name, &next) || !is_certain(set->name) ||
	    (!sql_token_is_sign(&next, '=') && !sql_token_is(&next, "to")) ||
	    !read_value(&scanner, set->value) || might_be_quoted(set))
		return false;
	return is_last(&scanner, sql_token(&scanner));
}
