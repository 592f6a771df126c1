/* SPDX-License-Identifier: ISC */
/*
 * Recognises PREPARE, EXECUTE and DEALLOCATE.
 *
 * Hard here: each answer must be certain. If PostgreSQL will report an error in a text, the
 * text is SQL_OTHER and PostgreSQL reports the error itself. If PostgreSQL may do something
 * that cannot be seen in the text, the answer is SQL_UNSURE.
 */
#include "pgweir/pgwire/sql.h"

#include <string.h>

#include "sql_priv.h"

static const char *const first_words[] = { "prepare", "execute", "deallocate",
	                                   "discard", "explain", "create" };

enum wire_result sql_glance(struct bytes have, bool is_whole)
{
	bool is_space_whole = sql_skip_space(&have);
	struct token word = { .kind = TOKEN_WORD };
	size_t size;

	while (is_space_whole && have.count && have.at[0] == ';') {
		have = bytes_skip(have, 1);
		is_space_whole = sql_skip_space(&have);
	}
	if (!is_space_whole || have.count == 0)
		return is_whole ? WIRE_BAD : WIRE_MORE;
	switch (have.at[0] | 0x20) {
	case 'p':
	case 'e':
	case 'd':
	case 'c':
		break;
	case '-':
	case '/': /* may be the first half of a comment's opening characters */
		return is_whole || have.count > 1 ? WIRE_BAD : WIRE_MORE;
	default:
		return WIRE_BAD;
	}
	size = sql_word_size(have);
	/* The word may continue, unless it is longer than the longest first word already. */
	if (size == have.count && !is_whole && size <= strlen("deallocate"))
		return WIRE_MORE;
	word.text = bytes_of(have.at, size);
	return sql_token_is_one(&word, first_words, sizeof(first_words) / sizeof(first_words[0]))
	           ? WIRE_OK
	           : WIRE_BAD;
}

struct bytes sql_first_word(struct bytes text)
{
	if (!sql_skip_space(&text))
		return bytes_of(NULL, 0);
	return bytes_of(text.at, sql_word_size(text));
}

/* ---- parts of a statement ---- */

static void unsure(struct sql_statement *statement, const char *reason)
{
	statement->kind = SQL_UNSURE;
	statement->reason = reason;
}

/*
 * Parses a name. false: it is not a name, or one that cannot be determined (SQL_UNSURE is set).
 */
static bool take_name(struct sql_statement *statement, const struct token *token)
{
	size_t size;

	statement->token = token->text;
	if (!sql_is_name(token))
		return false;
	if (token->kind == TOKEN_QUOTED && token->text.count == 2)
		return false; /* PostgreSQL reports an error for an empty name */
	if (token->escape) {
		unsure(statement, "by a name in U&\"...\"");
		return false;
	}
	size = sql_unquote(token, false, statement->name, SQL_NAME_MAX);
	if (size == SQL_CANNOT) {
		unsure(statement, "by a name of more than 63 bytes");
		return false;
	}
	statement->name[size] = 0;
	return true;
}

/* Skips from after a '(' to after the ')' that closes it. false: there is no such ')'. */
static bool skip_parentheses(struct scanner *scanner)
{
	size_t depth = 1;

	while (depth) {
		struct token token = sql_token(scanner);

		if (sql_is_end(&token))
			return false;
		depth += sql_token_is_sign(&token, '(');
		depth -= sql_token_is_sign(&token, ')');
	}
	return true;
}

/* The statement ends at `end`. Accepts `kind` only if no other statement follows in the text. */
static void finish(struct scanner *scanner, struct sql_statement *statement, enum sql_kind kind,
                   struct token end)
{
	if (!sql_is_end(&end))
		return;
	while (sql_token_is_sign(&end, ';'))
		end = sql_token(scanner);
	if (scanner->is_broken)
		return;
	if (end.kind == TOKEN_END)
		statement->kind = kind;
	else
		unsure(statement, "together with other statements in one text");
}

/*
 * ---- types ----
 *
 * Only these names can be translated: the meaning of any other name depends on the database and
 * its search_path. The OIDs in this table are the same in every version of PostgreSQL.
 */

#define TYPE_NAME_SIZE 64

static const struct {
	const char *name;
	uint16_t type;
	uint16_t array;
} known[] = {
	{ "bigint", 20, 1016 },
	{ "bit", 1560, 1561 },
	{ "bit varying", 1562, 1563 },
	{ "bool", 16, 1000 },
	{ "boolean", 16, 1000 },
	{ "bpchar", 1042, 1014 },
	{ "bytea", 17, 1001 },
	{ "char", 1042, 1014 },
	{ "char varying", 1043, 1015 },
	{ "character", 1042, 1014 },
	{ "character varying", 1043, 1015 },
	{ "cidr", 650, 651 },
	{ "date", 1082, 1182 },
	{ "dec", 1700, 1231 },
	{ "decimal", 1700, 1231 },
	{ "double precision", 701, 1022 },
	{ "float4", 700, 1021 },
	{ "float8", 701, 1022 },
	{ "inet", 869, 1041 },
	{ "int", 23, 1007 },
	{ "int2", 21, 1005 },
	{ "int4", 23, 1007 },
	{ "int8", 20, 1016 },
	{ "integer", 23, 1007 },
	{ "interval", 1186, 1187 },
	{ "json", 114, 199 },
	{ "jsonb", 3802, 3807 },
	{ "macaddr", 829, 1040 },
	{ "name", 19, 1003 },
	{ "numeric", 1700, 1231 },
	{ "oid", 26, 1028 },
	{ "real", 700, 1021 },
	{ "regclass", 2205, 2210 },
	{ "smallint", 21, 1005 },
	{ "text", 25, 1009 },
	{ "time", 1083, 1183 },
	{ "time with time zone", 1266, 1270 },
	{ "time without time zone", 1083, 1183 },
	{ "timestamp", 1114, 1115 },
	{ "timestamp with time zone", 1184, 1185 },
	{ "timestamp without time zone", 1114, 1115 },
	{ "timestamptz", 1184, 1185 },
	{ "timetz", 1266, 1270 },
	{ "uuid", 2950, 2951 },
	{ "varbit", 1562, 1563 },
	{ "varchar", 1043, 1015 },
	{ "xml", 142, 143 },
};

static const char *const unknown = "of a parameter type that is not one of PostgreSQL's own";

/* One parsed type: its words, and what followed them. */
struct type_words {
	char name[TYPE_NAME_SIZE];
	bool is_array;
	bool is_odd; /* it has a part that is not understood here */
};

static void add_word(struct type_words *words, struct bytes word)
{
	size_t used = strlen(words->name);

	if (used + word.count + 2 > sizeof(words->name)) {
		words->is_odd = true;
		return;
	}
	if (used)
		words->name[used++] = ' ';
	for (size_t i = 0; i < word.count; i++)
		words->name[used++] = sql_lower(word.at[i]);
	words->name[used] = 0;
}

/* Skips the numbers after a '(' or '[' and the closing sign, as in varchar(10) and int[3]. */
static void skip_size(struct scanner *scanner, struct type_words *words, char end)
{
	struct token token = sql_token(scanner);

	while (token.kind == TOKEN_NUMBER || sql_token_is_sign(&token, ','))
		token = sql_token(scanner);
	if (!sql_token_is_sign(&token, end))
		words->is_odd = true;
}

/*
 * Parses one type. Returns the token that ended it: ',' or ')'. Any other token is an error
 * that PostgreSQL will report.
 */
static struct token read_type(struct scanner *scanner, struct type_words *words)
{
	struct token token = sql_token(scanner);

	*words = (struct type_words){ .is_odd = false };
	for (; !sql_token_is_sign(&token, ',') && !sql_token_is_sign(&token, ')');
	     token = sql_token(scanner)) {
		if (token.kind == TOKEN_END)
			break;
		if (sql_token_is_sign(&token, '('))
			skip_size(scanner, words, ')');
		else if (sql_token_is_sign(&token, '['))
			skip_size(scanner, words, ']'), words->is_array = true;
		else if (sql_token_is(&token, "array"))
			words->is_array = true;
		else if (token.kind == TOKEN_WORD && !words->is_array)
			add_word(words, token.text);
		else
			words->is_odd = true;
	}
	return token;
}

static uint32_t find_type(const struct type_words *words)
{
	if (words->is_odd)
		return 0;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].name, words->name) == 0)
			return words->is_array ? known[i].array : known[i].type;
	}
	return 0;
}

/*
 * Parses a list of types, from after its opening parenthesis to after the closing one. NULL:
 * done. "": PostgreSQL will report an error. Any other text is the reason why the types cannot
 * be determined.
 */
static const char *read_types(struct scanner *scanner, struct sql_statement *statement)
{
	const char *reason = NULL;
	struct type_words words;
	struct token end;

	do {
		uint32_t type;

		end = read_type(scanner, &words);
		if (end.kind == TOKEN_END || (!words.name[0] && !words.is_odd))
			return "";
		type = find_type(&words);
		if (!type || statement->type_count == SQL_TYPES_MAX)
			reason = unknown;
		else
			statement->types[statement->type_count++] = type;
	} while (!sql_token_is_sign(&end, ')'));
	return reason;
}

/* ---- statements ---- */

static void read_prepare(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner), last;
	const char *wrong = NULL;

	if (!take_name(statement, &token))
		return;
	token = sql_token(scanner);
	if (sql_token_is_sign(&token, '(')) {
		wrong = read_types(scanner, statement);
		token = sql_token(scanner);
	}
	if (!sql_token_is(&token, "as") || (wrong && !*wrong))
		return;
	last = token = sql_token(scanner);
	if (sql_is_end(&token))
		return;
	statement->body.at = token.text.at;
	for (; !sql_is_end(&token); token = sql_token(scanner))
		last = token;
	statement->body.count = (size_t)(last.text.at + last.text.count - statement->body.at);
	finish(scanner, statement, SQL_PREPARE, token);
	if (wrong && statement->kind == SQL_PREPARE)
		unsure(statement, wrong);
}

static void read_execute(struct scanner *scanner, struct sql_statement *statement, bool in_create)
{
	struct token token = sql_token(scanner);

	if (!take_name(statement, &token))
		return;
	token = sql_token(scanner);
	if (sql_token_is_sign(&token, '(')) {
		if (!skip_parentheses(scanner))
			return;
		token = sql_token(scanner);
	}
	/* CREATE TABLE ... AS EXECUTE name WITH [NO] DATA. */
	if (in_create && sql_token_is(&token, "with")) {
		sql_takes(scanner, "no");
		if (!sql_takes(scanner, "data"))
			return;
		token = sql_token(scanner);
	}
	finish(scanner, statement, SQL_EXECUTE, token);
}

/*
 * After ALL. If other statements follow, the text is SQL_OTHER: the server's reply will show
 * that all statements were dropped.
 */
static void read_forget(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (sql_is_end(&token) && sql_is_last(scanner, token))
		statement->kind = SQL_FORGET;
}

static void read_discard(struct scanner *scanner, struct sql_statement *statement)
{
	if (sql_takes(scanner, "all"))
		read_forget(scanner, statement);
}

static void read_deallocate(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (sql_token_is(&token, "prepare")) {
		struct scanner ahead = *scanner;
		struct token next = sql_token(&ahead);

		/*
		 * DEALLOCATE PREPARE name; but in DEALLOCATE PREPARE alone, PREPARE is the
		 * name.
		 */
		if (!sql_is_end(&next)) {
			token = next;
			*scanner = ahead;
		}
	}
	if (sql_token_is(&token, "all"))
		read_forget(scanner, statement);
	else if (take_name(statement, &token))
		finish(scanner, statement, SQL_DEALLOCATE, sql_token(scanner));
}

/* Parses CREATE ... TABLE ... AS EXECUTE. */
static void read_create(struct scanner *scanner, struct sql_statement *statement)
{
	static const char *const kinds[] = { "global", "local", "temp", "temporary", "unlogged" };
	struct token token = sql_token(scanner);

	while (sql_token_is_one(&token, kinds, sizeof(kinds) / sizeof(kinds[0])))
		token = sql_token(scanner);
	if (!sql_token_is(&token, "table"))
		return;
	for (; !sql_is_end(&token) && !sql_token_is(&token, "as"); token = sql_token(scanner)) {
		if (sql_token_is_sign(&token, '(') && !skip_parentheses(scanner))
			return;
	}
	if (!sql_token_is(&token, "as"))
		return;
	token = sql_token(scanner);
	if (sql_token_is(&token, "execute"))
		read_execute(scanner, statement, true);
}

static void read_explain(struct scanner *scanner, struct sql_statement *statement)
{
	struct token token = sql_token(scanner);

	if (sql_token_is_sign(&token, '(')) {
		if (!skip_parentheses(scanner))
			return;
		token = sql_token(scanner);
	}
	while (sql_token_is(&token, "analyze") || sql_token_is(&token, "analyse") ||
	       sql_token_is(&token, "verbose"))
		token = sql_token(scanner);
	if (sql_token_is(&token, "execute"))
		read_execute(scanner, statement, false);
	if (sql_token_is(&token, "create"))
		read_create(scanner, statement);
}

static void read_one(struct scanner scanner, struct sql_statement *statement)
{
	struct token token = sql_token(&scanner);

	statement->kind = SQL_OTHER;
	statement->reason = NULL;
	statement->token = statement->body = bytes_of(NULL, 0);
	statement->name[0] = 0;
	statement->type_count = 0;
	/* PostgreSQL ignores empty statements in front. */
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(&scanner);
	if (sql_token_is(&token, "prepare"))
		read_prepare(&scanner, statement);
	else if (sql_token_is(&token, "execute"))
		read_execute(&scanner, statement, false);
	else if (sql_token_is(&token, "deallocate"))
		read_deallocate(&scanner, statement);
	else if (sql_token_is(&token, "discard"))
		read_discard(&scanner, statement);
	else if (sql_token_is(&token, "explain"))
		read_explain(&scanner, statement);
	else if (sql_token_is(&token, "create"))
		read_create(&scanner, statement);
}

/* A backslash can only change where a string ends, and so where the statement ends. */
static bool are_alike(const struct sql_statement *a, const struct sql_statement *b)
{
	return a->kind == b->kind && a->token.at == b->token.at && a->body.count == b->body.count;
}

void sql_read(struct bytes text, struct sql_statement *statement)
{
	struct sql_statement other;

	/*
	 * Whether a backslash escapes a quote depends on standard_conforming_strings of the
	 * session, which is not known here. The text is parsed both ways.
	 */
	read_one((struct scanner){ .rest = text }, statement);
	if (!sql_has_backslash(text))
		return;
	read_one((struct scanner){ .rest = text, .is_escaped = true }, &other);
	if (!are_alike(statement, &other))
		unsure(statement, "with a backslash that makes its end uncertain");
}
