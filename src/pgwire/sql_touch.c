/* SPDX-License-Identifier: ISC */
/*
 * The scan: which statements of a text may change what PostgreSQL keeps in the session.
 *
 * Hard here: the text is read as tokens, not parsed, so each rule must hold wherever its words
 * can be. A word is judged by itself and by the few before it; only SET, DISCARD and the
 * arguments of some functions are read ahead.
 *
 * Why a text without bits changes nothing in the session, if the database's own functions,
 * operators, casts, views and so on do not (pool/catalog.h looks at those):
 *
 *   - PostgreSQL's own commands that do have a bit by their first words. A statement that begins
 *     with another word than those known here counts as one that does (HIDDEN).
 *   - Its own functions that do are below. A function that PostgreSQL comes with is
 * run by a text only through its name, by f(x) or (x).f: none of these is behind one of
 * PostgreSQL's operators, casts, types or aggregates. The name is in the text as it is, with or
 * without quotes, in upper or lower case, or as U&"...", which is HIDDEN. A name counts in any
 * schema.
 *   - What runs a text as a query (DO, query_to_xml(), ...) is HIDDEN.
 *   - What makes something that would hide one of these functions (CREATE OPERATOR, CREATE CAST)
 *     has a bit, and the catalog is read again.
 *   - Where the scan might lose its place (backslashes, encodings with bytes that look like
 * quotes), the text is read in all ways.
 */
#include "pgweir/pgwire/sql_touch.h"

#include <fnmatch.h>
#include <strings.h>

#include "sql_priv.h"

/*
 * ---- functions ----
 *
 * Those that change what PostgreSQL keeps in a session, by their names alone: a function of the
 * same name in another schema counts too. And what is in their parentheses.
 */

/* Its bits, and .third if that is not SQL_THIRD_ANY. */
#define FUNCTION(name, ...)                         \
	{                                           \
		SQL_WORD(name), .bits = __VA_ARGS__ \
	}

/* In the order of their sizes. */
static const struct sql_function functions[] = {
	FUNCTION("setval", SQL_TOUCH_WRITE),
	FUNCTION("currval", SQL_TOUCH_SEQUENCE),
	FUNCTION("lastval", SQL_TOUCH_SEQUENCE),
	FUNCTION("nextval", SQL_TOUCH_WRITE),
	FUNCTION("setseed", SQL_TOUCH_EXTENSION),
	FUNCTION("ts_stat", SQL_TOUCH_HIDDEN), /* this and others run a text as a query */
	FUNCTION("crosstab", SQL_TOUCH_HIDDEN),
	FUNCTION("isn_weak", SQL_TOUCH_EXTENSION),
	FUNCTION("connectby", SQL_TOUCH_HIDDEN),
	FUNCTION("crosstab2", SQL_TOUCH_HIDDEN),
	FUNCTION("crosstab3", SQL_TOUCH_HIDDEN),
	FUNCTION("crosstab4", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_notify", SQL_TOUCH_NOTIFY),
	FUNCTION("set_limit", SQL_TOUCH_PARAMS), /* pg_trgm.similarity_threshold */
	FUNCTION("set_config", SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT, .third = SQL_THIRD_IS_LOCAL),
	FUNCTION("ts_rewrite", SQL_TOUCH_HIDDEN),
	FUNCTION("xpath_table", SQL_TOUCH_HIDDEN),
	FUNCTION("table_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("query_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("cursor_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("schema_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("dblink_connect", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_backup_stop", SQL_TOUCH_RELEASE),
	FUNCTION("pg_stop_backup", SQL_TOUCH_RELEASE),
	FUNCTION("sepgsql_setcon", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_backup_start", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_start_backup", SQL_TOUCH_EXTENSION),
	FUNCTION("database_to_xml", SQL_TOUCH_HIDDEN),
	FUNCTION("dblink_connect_u", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_advisory_lock", SQL_TOUCH_LOCK),
	FUNCTION("dblink_disconnect", SQL_TOUCH_RELEASE),
	FUNCTION("pg_advisory_unlock", SQL_TOUCH_RELEASE),
	FUNCTION("query_to_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_try_advisory_lock", SQL_TOUCH_LOCK),
	FUNCTION("pg_advisory_xact_lock", SQL_TOUCH_XACT_LOCK),
	FUNCTION("pg_advisory_unlock_all", SQL_TOUCH_RELEASE),
	FUNCTION("pg_advisory_lock_shared", SQL_TOUCH_LOCK),
	FUNCTION("pg_advisory_unlock_shared", SQL_TOUCH_RELEASE),
	FUNCTION("pg_try_advisory_xact_lock", SQL_TOUCH_XACT_LOCK),
	FUNCTION("table_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("query_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_try_advisory_lock_shared", SQL_TOUCH_LOCK),
	FUNCTION("schema_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_advisory_xact_lock_shared", SQL_TOUCH_XACT_LOCK),
	FUNCTION("database_to_xml_and_xmlschema", SQL_TOUCH_HIDDEN),
	FUNCTION("pg_try_advisory_xact_lock_shared", SQL_TOUCH_XACT_LOCK),
	FUNCTION("pg_copy_logical_replication_slot", SQL_TOUCH_EXTENSION,
	         .third = SQL_THIRD_TEMPORARY),
	FUNCTION("pg_copy_physical_replication_slot", SQL_TOUCH_EXTENSION,
	         .third = SQL_THIRD_TEMPORARY),
	FUNCTION("pg_create_logical_replication_slot", SQL_TOUCH_EXTENSION,
	         .third = SQL_THIRD_TEMPORARY),
	FUNCTION("pg_replication_origin_session_reset", SQL_TOUCH_RELEASE),
	FUNCTION("pg_replication_origin_session_setup", SQL_TOUCH_EXTENSION),
	FUNCTION("pg_create_physical_replication_slot", SQL_TOUCH_EXTENSION,
	         .third = SQL_THIRD_TEMPORARY),
};

/* Puts an `i` in place of each run of bytes outside of ASCII. */
static struct bytes to_ascii(struct bytes name, char out[static SQL_FUNCTION_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < name.count; i++) {
		bool is_ascii = !(name.at[i] & 0x80);

		if (!is_ascii && i && (name.at[i - 1] & 0x80))
			continue;
		if (used == SQL_FUNCTION_MAX)
			return bytes_of(out, 0);
		out[used++] = is_ascii ? name.at[i] : 'i';
	}
	return bytes_of(out, used);
}

const struct sql_function *sql_function(struct bytes name)
{
	char ascii[SQL_FUNCTION_MAX];

	if (name.count < SQL_FUNCTION_MIN)
		return NULL;
	if (!bytes_are_ascii(name))
		name = to_ascii(name, ascii);
	if (name.count > SQL_FUNCTION_MAX)
		return NULL;
	return SQL_WORD_FIND(functions, name);
}

const struct sql_function *sql_function_of(const struct token *token)
{
	char name[SQL_NAME_MAX];
	size_t size;

	if (!sql_is_name(token) || token->text.count < SQL_FUNCTION_MIN)
		return NULL;
	if (token->kind == TOKEN_WORD)
		return sql_function(token->text);
	size = sql_unquote(token, false, name, sizeof(name));
	return size == SQL_CANNOT ? NULL : sql_function(bytes_of(name, size));
}

/* To read a call within a call once for each would cost the square of the size. */
static bool may_have_arguments(const struct token *token)
{
	const struct sql_function *function = sql_function_of(token);

	return (function && function->third != SQL_THIRD_ANY) || sql_token_is(token, "execute");
}

static bool take_argument_name(struct scanner *scanner, struct token *name)
{
	struct scanner ahead = *scanner;

	*name = sql_token(&ahead);
	if (!sql_is_name(name) || !(sql_takes_sign(&ahead, '=') ? sql_takes_sign(&ahead, '>')
	                                                        : sql_takes_sign(&ahead, ':') &&
	                                                              sql_takes_sign(&ahead, '=')))
		return false;
	*scanner = ahead;
	return true;
}

/* Reads one argument from after the sign before it. */
static void read_argument(struct scanner *scanner, struct argument *argument)
{
	size_t depth = 0;

	argument->is_named = take_argument_name(scanner, &argument->name);
	argument->value = *scanner;
	argument->first.kind = TOKEN_END;
	argument->end = 0;
	for (argument->count = 0;; argument->count++) {
		struct token token = sql_token(scanner);
		bool is_close = sql_token_is_sign(&token, ')') || sql_token_is_sign(&token, ']');

		if (sql_is_end(&token) || may_have_arguments(&token))
			return;
		if (depth == 0 && (is_close || sql_token_is_sign(&token, ','))) {
			argument->end = token.text.at[0];
			return;
		}
		depth += sql_token_is_sign(&token, '(') || sql_token_is_sign(&token, '[');
		depth -= is_close;
		if (argument->count == 0)
			argument->first = token;
	}
}

/* Whether a token is this name, in upper or lower case, with or without quotes. */
static bool name_is(const struct token *token, const char *name)
{
	struct bytes text = sql_name_text(token);

	return sql_is_name(token) && text.count == strlen(name) &&
	       strncasecmp(text.at, name, text.count) == 0;
}

bool sql_find_argument(struct scanner scanner, unsigned int number, const char *name,
                       struct argument *argument)
{
	for (unsigned int i = 1;; i++) {
		read_argument(&scanner, argument);
		if (argument->is_named ? name_is(&argument->name, name) : i == number)
			return true;
		if (argument->end != ',')
			return false;
	}
}

/* ---- words of SQL ---- */

enum word {
	WORD_NONE, /* no word, or one without a meaning here */
	WORD_STATEMENT,
	WORD_ALTER,
	WORD_AS,
	WORD_COMMIT,
	WORD_CREATE,
	WORD_DATABASE,
	WORD_DECLARE,
	WORD_DISCARD,
	WORD_DROP,
	WORD_EXECUTE,
	WORD_EXPLAIN,
	WORD_EXTENSION,
	WORD_FOR,
	WORD_HOLD,
	WORD_IMPORT,
	WORD_INSERT,
	WORD_INTO,
	WORD_LOCAL,
	WORD_ON,
	WORD_PG_SETTINGS,
	WORD_PG_TEMP,
	WORD_PREPARE,
	WORD_REPLACE,
	WORD_RESET,
	WORD_SET,
	WORD_TEMP,
	WORD_UPDATE,
	WORD_WITH
};

#define ANY_OF_DISCARD                                                                   \
	(SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_UNLISTEN | SQL_TOUCH_RELEASE | \
	 SQL_TOUCH_FORGET | SQL_TOUCH_SCOPE)

#define ANY_OF_SET (SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_SCOPE | SQL_TOUCH_REPORTED)

#define KEYWORD(text, word, bits, inside)                \
	{                                                \
		SQL_WORD(text), word, true, bits, inside \
	}
#define KEYWORD_INSIDE(text, word, inside)             \
	{                                              \
		SQL_WORD(text), word, false, 0, inside \
	}

/* In the order of their sizes. */
static const struct keyword {
	struct sql_word text;
	unsigned char word;  /* enum word */
	bool is_first;       /* a statement may begin with it */
	unsigned int bits;   /* of such a statement, at most */
	unsigned int inside; /* what it means at most where no statement begins */
} keywords[] = {
	KEYWORD_INSIDE("as", WORD_AS, 0),
	KEYWORD("do", WORD_STATEMENT, SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE, 0),
	KEYWORD_INSIDE("on", WORD_ON, 0),
	KEYWORD_INSIDE("for", WORD_FOR, 0),
	KEYWORD("set", WORD_SET, ANY_OF_SET | SQL_TOUCH_LOCAL, 0),
	KEYWORD("call", WORD_STATEMENT, SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE, 0),
	KEYWORD("copy", WORD_STATEMENT, 0, SQL_TOUCH_WRITE),
	KEYWORD("drop", WORD_DROP, SQL_TOUCH_RELEASE | SQL_TOUCH_SCOPE, 0),
	KEYWORD_INSIDE("hold", WORD_HOLD, SQL_TOUCH_CURSOR),
	KEYWORD_INSIDE("into", WORD_INTO, SQL_TOUCH_CREATE),
	KEYWORD("load", WORD_STATEMENT, SQL_TOUCH_LIBRARY, 0),
	KEYWORD_INSIDE("temp", WORD_TEMP, SQL_TOUCH_TEMP),
	KEYWORD("with", WORD_WITH, SQL_TOUCH_WRITE, 0),
	KEYWORD("alter", WORD_ALTER, SQL_TOUCH_WRITE | SQL_TOUCH_SCOPE, 0),
	KEYWORD("close", WORD_STATEMENT, SQL_TOUCH_RELEASE, 0),
	KEYWORD("grant", WORD_STATEMENT, SQL_TOUCH_SCOPE, 0),
	KEYWORD_INSIDE("local", WORD_LOCAL, 0),
	KEYWORD("merge", WORD_INSERT, 0, SQL_TOUCH_WRITE),
	KEYWORD("reset", WORD_RESET, ANY_OF_SET, 0),
	KEYWORD("commit", WORD_COMMIT, 0, 0),
	KEYWORD("create", WORD_CREATE, SQL_TOUCH_WRITE, SQL_TOUCH_CREATE),
	KEYWORD("delete", WORD_STATEMENT, 0, SQL_TOUCH_WRITE),
	KEYWORD_INSIDE("global", WORD_LOCAL, 0),
	KEYWORD("import", WORD_IMPORT, SQL_TOUCH_CREATE, 0),
	KEYWORD("insert", WORD_INSERT, 0, SQL_TOUCH_WRITE),
	KEYWORD("listen", WORD_STATEMENT, SQL_TOUCH_LISTEN, 0),
	KEYWORD("notify", WORD_STATEMENT, SQL_TOUCH_NOTIFY, 0),
	KEYWORD("revoke", WORD_STATEMENT, SQL_TOUCH_SCOPE, 0),
	KEYWORD("update", WORD_UPDATE, 0, SQL_TOUCH_WRITE),
	KEYWORD("declare", WORD_DECLARE, 0, 0),
	KEYWORD("discard", WORD_DISCARD, ANY_OF_DISCARD, 0),
	KEYWORD("execute", WORD_EXECUTE, SQL_TOUCH_EXECUTE, SQL_TOUCH_EXECUTE),
	KEYWORD("explain", WORD_EXPLAIN, 0, 0),
	KEYWORD("prepare", WORD_PREPARE, SQL_TOUCH_PREPARE, 0),
	KEYWORD("refresh", WORD_STATEMENT, SQL_TOUCH_WRITE, 0),
	KEYWORD_INSIDE("replace", WORD_REPLACE, 0),
	KEYWORD_INSIDE("database", WORD_DATABASE, SQL_TOUCH_DATABASE),
	KEYWORD("reassign", WORD_STATEMENT, SQL_TOUCH_SCOPE, 0),
	KEYWORD("unlisten", WORD_STATEMENT, SQL_TOUCH_UNLISTEN, 0),
	KEYWORD_INSIDE("extension", WORD_EXTENSION, SQL_TOUCH_HIDDEN),
	KEYWORD_INSIDE("temporary", WORD_TEMP, SQL_TOUCH_TEMP),
	KEYWORD("deallocate", WORD_STATEMENT, SQL_TOUCH_RELEASE, 0),
	KEYWORD_INSIDE("pg_settings", WORD_PG_SETTINGS, ANY_OF_SET),
};

/* Other statements that have no bits by their first words. */
static const char *const others[] = { "end",      "lock",      "move",       "show",     "abort",
	                              "begin",    "fetch",     "start",      "table",    "select",
	                              "vacuum",   "values",    "analyse",    "analyze",  "cluster",
	                              "comment",  "reindex",   "release",    "rollback", "security",
	                              "truncate", "savepoint", "checkpoint", "repack",   "wait" };

static const struct keyword pg_temp = KEYWORD_INSIDE("pg_temp", WORD_PG_TEMP, SQL_TOUCH_TEMP);

struct pass {
	struct scanner scanner;
	unsigned int bits;      /* of the text so far */
	unsigned int statement; /* of the statement so far, which may withdraw TEMP */
	enum word first;        /* the first word of the statement; WORD_NONE: not yet */
	enum word before[2];    /* the last two words; WORD_NONE for another token */
	bool is_behind_dot;     /* the next token is */
	bool is_body;           /* of DECLARE: what follows FOR */
	bool is_target;         /* what follows UPDATE */
	bool is_new;            /* an object is created here */
	bool is_dropped;        /* ON COMMIT DROP */
};

static const struct keyword *find_keyword(struct bytes text)
{
	const struct keyword *keyword = SQL_WORD_FIND(keywords, text);

	/* pg_temp_3 is the same schema under its own name. */
	if (!keyword && text.count >= pg_temp.text.size && sql_word_begins(text, &pg_temp.text))
		keyword = &pg_temp;
	return keyword;
}

/* ---- which parameter ---- */

unsigned int sql_parameter_touches(const char *name)
{
#define END(text) "*_" text,
#define BEGINNING(text) text "_*",
#define NAME(text) text,
	/* clang-format off */
	static const char *const plain[] = {
		SQL_PLAIN_ENDS(END) SQL_PLAIN_BEGINNINGS(BEGINNING) SQL_PLAIN_NAMES(NAME) "*.*"
	};
	/* Not session_authorization: PostgreSQL reports it, but not that the role is none then. */
	static const char *const reported[] = {
		"client_encoding", "datestyle", "intervalstyle", "standard_conforming_strings",
		"timezone"
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (fnmatch(plain[i], name, FNM_CASEFOLD) == 0)
			return 0;
	}
	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++) {
		if (strcasecmp(name, reported[i]) == 0)
			return SQL_TOUCH_REPORTED;
	}
	return SQL_TOUCH_SCOPE;
}

/* Of the parameter of a SET or RESET. */
static unsigned int touches_of_parameter(struct scanner scanner)
{
	struct chain chain;
	const char *name;

	sql_takes_scope(&scanner, "local");
	name = sql_read_parameter(&scanner, &chain);
	return name ? sql_parameter_touches(name) : SQL_TOUCH_SCOPE;
}

/* Of that of a set_config(), from after its parenthesis: 'a' or 'a'::text, else it may be any. */
static unsigned int touches_of_setting(struct scanner scanner)
{
	struct argument argument;
	char name[SQL_SET_NAME_MAX + 1];

	if (!sql_find_argument(scanner, 1, "setting_name", &argument) ||
	    !sql_is_plain_string(&argument.first) || sql_has_backslash(argument.first.text) ||
	    !sql_unquote_text(&argument.first, name, sizeof(name)))
		return SQL_TOUCH_SCOPE;
	scanner = argument.value;
	sql_token(&scanner);
	if (argument.count == 1 ||
	    (argument.count == strlen("a::b") && sql_takes_sign(&scanner, ':') &&
	     sql_takes_sign(&scanner, ':') && sql_takes(&scanner, "text")))
		return sql_parameter_touches(name);
	return SQL_TOUCH_SCOPE;
}

/* ---- SET, RESET and DISCARD ---- */

/* SET x TO DEFAULT, SET TIME ZONE LOCAL, SET ROLE NONE, SET NAMES: a parameter's default. */
static bool has_default(struct scanner scanner)
{
	struct token token = sql_token(&scanner), last = token;

	for (; !sql_is_end(&token); token = sql_token(&scanner)) {
		if (sql_token_is(&token, "default") || sql_token_is(&token, "local") ||
		    sql_token_is(&token, "none"))
			return true;
		last = token;
	}
	return sql_token_is(&last, "names");
}

/*
 * SET LOCAL, SET TRANSACTION and SET CONSTRAINTS end with the transaction. But local.x is the
 * name of a parameter.
 */
static bool takes_transaction(struct scanner *scanner)
{
	struct scanner ahead = *scanner;
	struct token name;

	if (!sql_takes(&ahead, "local") && !sql_takes(&ahead, "transaction") &&
	    !sql_takes(&ahead, "constraints"))
		return false;
	name = sql_peek(ahead);
	if (!sql_is_name(&name) || sql_token_is(&name, "to"))
		return false;
	*scanner = ahead;
	return true;
}

static unsigned int judge_set(struct scanner after)
{
	struct scanner ahead = after, seed = after;
	struct token first = sql_token(&seed), second = sql_token(&seed);
	bool is_local = sql_takes_scope(&ahead, "local");
	unsigned int bits = 0;

	/* SET seed, SET LOCAL seed: also changed by the latter, and not taken back. */
	if (name_is(&first, "seed") || (!sql_is_end(&first) && name_is(&second, "seed")))
		bits = SQL_TOUCH_EXTENSION;
	if (!takes_transaction(&after))
		bits |= SQL_TOUCH_PARAMS | touches_of_parameter(ahead);
	else if (is_local)
		bits |= SQL_TOUCH_LOCAL | touches_of_parameter(ahead);
	return has_default(after) ? bits | SQL_TOUCH_DEFAULT : bits;
}

static unsigned int judge_discard(struct scanner after)
{
	if (sql_takes(&after, "all"))
		return ANY_OF_DISCARD;
	return SQL_TOUCH_RELEASE |
	       (sql_takes(&after, "sequences") ? SQL_TOUCH_FORGET : SQL_TOUCH_SCOPE);
}

/* ---- calls ---- */

/* Perhaps with a cast, or in numbers. */
static bool may_be_seed(const struct argument *argument)
{
	struct scanner scanner = argument->value;

	for (size_t i = 0; i < argument->count; i++) {
		struct token token = sql_token(&scanner);
		char name[sizeof("seed")] = "";

		if (token.kind == TOKEN_STRING &&
		    (sql_has_backslash(token.text) || sql_is_unicode(&token) ||
		     (sql_unquote_text(&token, name, sizeof(name)) &&
		      strcasecmp(name, "seed") == 0)))
			return true;
	}
	return false;
}

/* Judges a call by its third argument, from after its parenthesis. */
static unsigned int judge_call(struct scanner scanner, const struct sql_function *function)
{
	bool is_local = function->third == SQL_THIRD_IS_LOCAL, is_harmless;
	unsigned int bits = function->bits, always = 0;
	struct argument argument;

	if (function->third == SQL_THIRD_ANY)
		return bits;
	if (is_local)
		always = touches_of_setting(scanner);
	if (is_local && sql_find_argument(scanner, 1, "setting_name", &argument) &&
	    may_be_seed(&argument))
		always |= SQL_TOUCH_EXTENSION;
	if (is_local && sql_find_argument(scanner, 2, "new_value", &argument) && argument.end &&
	    argument.count == 1 && argument.first.kind == TOKEN_STRING)
		bits &= ~(unsigned int)SQL_TOUCH_DEFAULT; /* NULL would be the default */
	if (sql_find_argument(scanner, 3, is_local ? "is_local" : "temporary", &argument))
		is_harmless = argument.count == 1 &&
		              sql_token_is(&argument.first, is_local ? "true" : "false");
	else
		is_harmless = !is_local;
	if (!is_harmless || !argument.end)
		return bits | always;
	return is_local ? always | SQL_TOUCH_LOCAL : always;
}

/* ---- words ---- */

static void end_statement(struct pass *pass)
{
	if (pass->is_dropped)
		pass->statement &= ~(unsigned int)SQL_TOUCH_TEMP;
	pass->bits |= pass->statement;
	pass->statement = 0;
	pass->first = WORD_NONE;
	pass->before[0] = pass->before[1] = WORD_NONE;
	pass->is_body = pass->is_target = pass->is_new = pass->is_dropped = false;
}

static void judge_first(struct pass *pass, const struct token *token, const struct keyword *keyword)
{
	if (!keyword || !keyword->is_first) {
		pass->first = WORD_STATEMENT;
		/* Of another PostgreSQL: it may do anything. */
		if (!SQL_IS_ONE(token, others))
			pass->statement |= SQL_TOUCH_HIDDEN;
		return;
	}
	pass->first = keyword->word;
	pass->is_new = keyword->word == WORD_IMPORT;
	if (keyword->word == WORD_SET)
		pass->statement |= judge_set(pass->scanner);
	else if (keyword->word == WORD_RESET)
		pass->statement |=
		    SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | touches_of_parameter(pass->scanner);
	else if (keyword->word == WORD_DISCARD)
		pass->statement |= judge_discard(pass->scanner);
	else
		pass->statement |= keyword->bits;
}

/* Whether a word means here what it may mean, by those before it. */
static bool does_count(const struct pass *pass, enum word word)
{
	enum word before = pass->before[0];

	switch (word) {
	case WORD_INTO:
		return before != WORD_INSERT;
	case WORD_TEMP:
		return before == WORD_CREATE || before == WORD_REPLACE || before == WORD_LOCAL ||
		       (before == WORD_INTO && pass->is_new);
	case WORD_PG_TEMP:
		return pass->is_new;
	case WORD_HOLD:
		return before == WORD_WITH && pass->first == WORD_DECLARE && !pass->is_body;
	case WORD_EXECUTE:
		return pass->first == WORD_EXPLAIN ||
		       (pass->first == WORD_CREATE && before == WORD_AS);
	case WORD_EXTENSION:
		return before == WORD_CREATE || before == WORD_ALTER;
	case WORD_DATABASE:
		return before == WORD_DROP || before == WORD_ALTER || before == WORD_CREATE;
	case WORD_PG_SETTINGS:
		return pass->is_target;
	default:
		return true;
	}
}

static void judge_word(struct pass *pass, enum word word, unsigned int inside)
{
	if (does_count(pass, word)) {
		pass->statement |= inside;
		/* An object is created, and is temporary if its schema, or search_path, says so. */
		pass->is_new |= word == WORD_CREATE || word == WORD_INTO;
	}
	if (word == WORD_DROP && pass->before[0] == WORD_COMMIT && pass->before[1] == WORD_ON)
		pass->is_dropped = true;
	if (word == WORD_UPDATE || word == WORD_SET)
		pass->is_target = word == WORD_UPDATE;
	pass->is_body |= word == WORD_FOR;
}

/* ---- tokens ---- */

static void judge_name(struct pass *pass, const struct token *token)
{
	const struct keyword *keyword = find_keyword(sql_name_text(token));
	const struct sql_function *function = sql_function(sql_name_text(token));
	enum word word = keyword ? keyword->word : WORD_NONE;
	struct scanner after = pass->scanner;

	if (function && sql_takes_sign(&after, '('))
		pass->statement |= judge_call(after, function);
	else if (function && pass->is_behind_dot && function->third == SQL_THIRD_ANY)
		pass->statement |= function->bits; /* (x).f is f(x) */
	/* A name in quotes is no keyword. */
	if (token->kind == TOKEN_QUOTED && word != WORD_PG_TEMP && word != WORD_PG_SETTINGS)
		word = WORD_NONE;
	if (pass->first == WORD_NONE && token->kind == TOKEN_QUOTED)
		pass->first = WORD_STATEMENT; /* no statement begins so */
	else if (pass->first == WORD_NONE)
		judge_first(pass, token, keyword);
	if (sql_is_unicode(token))
		pass->statement |= SQL_TOUCH_HIDDEN; /* which name it is, is not looked for */
	judge_word(pass, word, word == WORD_NONE ? 0 : keyword->inside);
	pass->before[1] = pass->before[0];
	pass->before[0] = word;
}

static unsigned int touch_once(struct scanner scanner)
{
	struct pass pass = { .scanner = scanner };

	for (;;) {
		struct token token = sql_token(&pass.scanner);

		if (sql_is_name(&token)) {
			judge_name(&pass, &token);
			pass.is_behind_dot = false;
			continue;
		}
		pass.is_behind_dot = sql_token_is_sign(&token, '.');
		if (sql_is_end(&token))
			end_statement(&pass);
		else if (pass.first == WORD_NONE)
			pass.first = WORD_STATEMENT; /* a SELECT in parentheses */
		if (token.kind == TOKEN_END)
			return pass.bits;
		pass.before[1] = pass.before[0];
		pass.before[0] = WORD_NONE;
	}
}

/* ---- other encodings ---- */

/*
 * In Shift JIS, Big5, GBK, UHC, GB 18030 and Johab the last byte of a character may look like a
 * backslash, or like a sign that ends the tag of a dollar-quoted string. In all other encodings
 * this only finds a bit too much.
 */
bool sql_touch_is_unclear(struct bytes text)
{
	for (size_t i = 1; i < text.count; i++) {
		char c = text.at[i];

		if ((text.at[i - 1] & 0x80) && !(c & 0x80) && c > '0' && c <= '~' &&
		    strchr(":;<=>?@[\\]^`{|}~", c))
			return true;
	}
	return false;
}

/*
 * What a word means at most, wherever it is. begins: it may be the first of a statement. after: the
 * text behind it.
 */
static unsigned int judge_anywhere(const struct token *word, bool begins, struct bytes after)
{
	const struct keyword *keyword = find_keyword(word->text);
	const struct sql_function *function = sql_function(word->text);
	unsigned int bits = function ? function->bits : 0;

	if (function && function->third == SQL_THIRD_IS_LOCAL)
		bits |= SQL_TOUCH_LOCAL | SQL_TOUCH_SCOPE | SQL_TOUCH_REPORTED;
	if (keyword)
		bits |= keyword->inside | (begins ? keyword->bits : 0);
	if (after.count > 1 && after.at[0] == '&' && after.at[1] == '"' && sql_token_is(word, "u"))
		bits |= SQL_TOUCH_HIDDEN;
	if (!sql_token_is(word, "load"))
		return bits;
	while (after.count && is_a(after.at[0], SPACE))
		after = bytes_skip(after, 1);
	/* LOAD and the begin of a string, or what format() replaces by one. */
	return after.count && memchr("'$%\\eE", after.at[0], 6) ? bits | SQL_TOUCH_LIBRARY : bits;
}

/* Whether a statement may begin after this byte; `begins`: so it was before it. */
static bool begins_after(const char *at, const char *first, bool begins)
{
	switch (*at) {
	case ' ':
	case '\t':
	case '\f':
	case '\v':
	case '$': /* of a dollar-quoted string, or of a parameter */
		return begins;
	case ';':
	case '\n': /* after a comment */
	case '\r':
		return true;
	default:
		return *at == '/' && at > first && at[-1] == '*';
	}
}

/*
 * The bits of a text in which quotes and comments are not followed. is_code: no statement of the
 * text itself is looked for.
 */
static unsigned int touch_anywhere(struct bytes text, bool is_code)
{
	bool has_seed_word = false, begins = true;
	const char *first = text.at;
	unsigned int bits = 0;

	while (text.count) {
		struct token token = { .kind = TOKEN_WORD, .text = { text.at, 0 } };
		struct scanner scanner = { .rest = text };

		if (is_a(text.at[0], DIGIT)) {
			sql_token(&scanner);
			text = scanner.rest;
			begins = false;
			continue;
		}
		/* Not a dollar sign: a word may follow $$a string$$ at once. */
		while (token.text.count < text.count &&
		       is_a(text.at[token.text.count], LETTER | DIGIT))
			token.text.count++;
		text = bytes_skip(text, token.text.count);
		if (token.text.count) {
			bits |= judge_anywhere(&token, begins && !is_code, text);
			has_seed_word |= name_is(&token, "seed");
			begins = false;
		}
		if (text.count) {
			begins = begins_after(text.at, first, begins);
			text = bytes_skip(text, 1);
		}
	}
	if (has_seed_word && (bits & SQL_TOUCH_PARAMS))
		bits |= SQL_TOUCH_EXTENSION;
	return bits;
}

/* ---- texts ---- */

unsigned int sql_touch_tokens(struct bytes text)
{
	unsigned int bits = touch_once((struct scanner){ .rest = text });

	/* standard_conforming_strings of the session is not known here. */
	if (sql_has_backslash(text))
		bits |= touch_once((struct scanner){ .rest = text, .is_escaped = true });
	/* What a DO block, or an argument of a procedure, may run and the server cannot be asked
	 * for. */
	if (bits & SQL_TOUCH_HIDDEN)
		bits |= touch_anywhere(text, true) & (SQL_TOUCH_EXTENSION | SQL_TOUCH_LIBRARY);
	return sql_touch_is_unclear(text) ? bits | touch_anywhere(text, false) : bits;
}
