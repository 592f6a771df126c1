/* SPDX-License-Identifier: ISC */
/*
 * Recognises statements of which all must be known: those of transaction blocks, SET, and those on
 * databases.
 *
 * Hard here: the caller answers the first of them in PostgreSQL's place. So a text in which
 * PostgreSQL could find any error is SQL_BLOCK_OTHER: an option given twice, a byte that may be
 * invalid in the session's encoding, a character that only newer versions treat as white space.
 */
#include "pgweir/pgwire/sql_block.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "pgweir/pgwire/sql_touch.h"

#include "sql_priv.h"

#define ISOLATION 1u

struct mode {
	const char *words[5]; /* with NULL at its end */
	unsigned int what;    /* a bit for each kind of option; each kind may be given once */
	bool is_for_primary;
	enum sql_access access;
};

static const struct mode modes[] = {
	{ { "isolation", "level", "read", "committed" }, ISOLATION, false, SQL_ACCESS_UNSAID },
	{ { "isolation", "level", "read", "uncommitted" }, ISOLATION, false, SQL_ACCESS_UNSAID },
	{ { "isolation", "level", "repeatable", "read" }, ISOLATION, false, SQL_ACCESS_UNSAID },
	{ { "isolation", "level", "serializable" }, ISOLATION, true, SQL_ACCESS_UNSAID },
	{ { "read", "only" }, 2, false, SQL_ACCESS_READ_ONLY },
	{ { "read", "write" }, 2, true, SQL_ACCESS_READ_WRITE },
	{ { "deferrable" }, 4, false, SQL_ACCESS_UNSAID },
	{ { "not", "deferrable" }, 4, false, SQL_ACCESS_UNSAID },
};

static const struct {
	const char *word;
	enum sql_block_kind kind;
} beginnings[] = {
	{ "begin", SQL_BLOCK_BEGIN },       { "start", SQL_BLOCK_START },
	{ "commit", SQL_BLOCK_COMMIT },     { "end", SQL_BLOCK_COMMIT },
	{ "rollback", SQL_BLOCK_ROLLBACK }, { "abort", SQL_BLOCK_ROLLBACK },
	{ "set", SQL_BLOCK_SET },
};

/* Whether all that a text means can be seen in it. */
static bool is_certain(struct bytes text)
{
	return sql_is_printable(text) && !sql_has_backslash(text);
}

static enum sql_block_kind kind_of(const struct token *token)
{
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		if (sql_token_is(token, beginnings[i].word))
			return beginnings[i].kind;
	}
	return SQL_BLOCK_OTHER;
}

/* Parses a list of modes, with or without commas. false: PostgreSQL would report an error. */
static bool take_modes(struct scanner *scanner, struct sql_block *block)
{
	unsigned int said = 0;
	struct token next;

	while (next = sql_peek(*scanner), !sql_is_end(&next)) {
		const struct mode *mode = modes, *last = modes + sizeof(modes) / sizeof(modes[0]);

		if (said)
			sql_takes_sign(scanner, ',');
		while (mode < last && !sql_takes_all(scanner, mode->words))
			mode++;
		if (mode == last || (said & mode->what))
			return false;
		said |= mode->what;
		block->has_isolation |= mode->what == ISOLATION;
		block->is_for_primary |= mode->is_for_primary;
		if (mode->access != SQL_ACCESS_UNSAID)
			block->access = mode->access;
	}
	/* SET TRANSACTION without a mode is an error. */
	return said || block->kind != SQL_BLOCK_SET;
}

struct sql_block sql_block_read(struct bytes text)
{
	static const struct sql_block other = { .kind = SQL_BLOCK_OTHER };
	static const char *const no_chain[] = { "no", "chain", NULL };
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);
	struct sql_block block = { .kind = kind_of(&token) };
	bool is_good;

	if (block.kind == SQL_BLOCK_OTHER || !sql_is_printable(text))
		return other;
	if (!sql_takes(&scanner, "transaction")) {
		/* START and SET need it */
		if (block.kind == SQL_BLOCK_START || block.kind == SQL_BLOCK_SET)
			return other;
		sql_takes(&scanner, "work");
	}
	if (block.kind != SQL_BLOCK_COMMIT && block.kind != SQL_BLOCK_ROLLBACK)
		is_good = take_modes(&scanner, &block);
	else /* AND CHAIN would begin another transaction block */
		is_good = !sql_takes(&scanner, "and") || sql_takes_all(&scanner, no_chain);
	token = sql_token(&scanner);
	return is_good && sql_is_end(&token) && sql_is_last(&scanner, token) ? block : other;
}

bool sql_is_set_local(struct bytes text)
{
	struct scanner scanner = { .rest = text };

	return sql_takes(&scanner, "set") && is_certain(text) && sql_takes(&scanner, "local") &&
	       /* with a snapshot, which another server does not have */
	       !sql_takes(&scanner, "transaction") && sql_is_last(&scanner, sql_token(&scanner));
}

/* Whether the scanner, behind SET, is at a mode of the transaction, in whatever form. */
static bool sets_mode(struct scanner *scanner)
{
	static const char word[] = "transaction"; /* transaction_read_only, too */
	struct token token = sql_token(scanner);

	if (sql_token_is(&token, "local") || sql_token_is(&token, "session"))
		token = sql_token(scanner);
	if (token.kind == TOKEN_QUOTED)
		return true;
	return token.kind == TOKEN_WORD && token.text.count >= sizeof(word) - 1 &&
	       strncasecmp(token.text.at, word, sizeof(word) - 1) == 0;
}

bool sql_is_no_block(struct bytes text)
{
	bool is_one = !text.count || !memchr(text.at, ';', text.count);
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);

	/* Where a string ends may depend on the session. */
	if (!is_one && !is_certain(text))
		return false;
	for (; token.kind != TOKEN_END; token = sql_next_statement(&scanner, token)) {
		enum sql_block_kind kind = kind_of(&token);

		if (kind != SQL_BLOCK_OTHER && (kind != SQL_BLOCK_SET || sets_mode(&scanner)))
			return false;
		if (is_one)
			return true;
	}
	return true;
}

/* ---- relations ---- */

bool sql_defines_relations(struct bytes text)
{
	static const char *const verbs[] = { "create", "alter", "import" };
	static const char *const kinds[] = { "table", "index", "sequence", "view" };
	static const char *const adjectives[] = { "global",   "local",  "temp",        "temporary",
		                                  "unlogged", "unique", "materialized" };
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);

	for (; token.kind != TOKEN_END; token = sql_next_statement(&scanner, token)) {
		if (!SQL_IS_ONE(&token, verbs))
			continue;
		do
			token = sql_token(&scanner);
		while (SQL_IS_ONE(&token, adjectives));
		if (!SQL_IS_ONE(&token, kinds))
			return false;
	}
	return is_certain(text);
}

/* ---- SET ---- */

/*
 * Parameters whose value is not what SET says: it is a list, it is completed from the value before,
 * it ends with the transaction, it is another parameter's old name, or it says who the user is.
 */
static bool is_certain_name(const char *name)
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
	size_t used = 0, size;

	if (sql_token_is_sign(&token, '-')) {
		out[used++] = '-';
		token = sql_token(scanner);
		if (token.kind != TOKEN_NUMBER)
			return false;
	}
	if (token.kind == TOKEN_NUMBER && is_plain_number(token.text))
		token.kind = TOKEN_WORD;
	if (sql_token_is(&token, "default") ||
	    (token.kind != TOKEN_WORD && !sql_is_plain_string(&token)))
		return false;
	size = sql_unquote(&token, false, out + used, SQL_SET_VALUE_MAX - used);
	if (size == SQL_CANNOT)
		return false;
	out[used + size] = 0;
	return true;
}

/* Reads SET and the parameter's name. NULL: the text does not begin so. */
static const char *begin_set(struct scanner *scanner, struct chain *chain)
{
	const char *name = NULL;

	if (is_certain(scanner->rest) && sql_takes(scanner, "set"))
		name = sql_read_parameter(scanner, chain);
	return name && bytes_are_ascii(bytes_text(name)) ? name : NULL;
}

bool sql_set_name(struct bytes text, char name[static SQL_SET_NAME_MAX + 1])
{
	struct scanner scanner = { .rest = text };
	struct chain chain;
	const char *found = begin_set(&scanner, &chain);

	if (found)
		memcpy(name, found, strlen(found) + 1);
	return found && sql_is_last(&scanner, sql_token(&scanner));
}

bool sql_set_read(struct bytes text, struct sql_set *set)
{
	struct scanner scanner = { .rest = text };
	struct chain chain;
	const char *name = begin_set(&scanner, &chain);
	struct token end;

	/* Not words that mean a parameter: their values are not such as are read here. */
	if (name != chain.name || !is_certain_name(name) ||
	    (!sql_takes_sign(&scanner, '=') && !sql_takes(&scanner, "to")))
		return false;
	memcpy(set->name, name, chain.count + 1);
	if (!read_value(&scanner, set->value) || might_be_quoted(set))
		return false;
	end = sql_token(&scanner);
	return sql_is_end(&end) && sql_is_last(&scanner, end);
}

/* ---- statements for which a database must have no sessions ---- */

/* Reads a name, or a string of the plain kind. */
static bool read_database(const struct token *token, char name[static SQL_DATABASE_SIZE])
{
	return (sql_is_name(token) || sql_is_plain_string(token)) &&
	       sql_unquote_text(token, name, SQL_DATABASE_SIZE);
}

/* CREATE DATABASE: the template, from after the name of the new one. */
static bool read_template(struct scanner *scanner, char name[SQL_DATABASE_SIZE])
{
	struct token token = sql_token(scanner);

	memcpy(name, "template1", sizeof("template1"));
	for (; !sql_is_end(&token); token = sql_token(scanner)) {
		if (!sql_token_is(&token, "template"))
			continue;
		sql_takes_sign(scanner, '=');
		token = sql_token(scanner);
		if (!read_database(&token, name))
			return false;
	}
	return sql_is_last(scanner, token);
}

bool sql_database(struct bytes text, char name[SQL_DATABASE_SIZE])
{
	static const char *const if_exists[] = { "if", "exists", NULL };
	struct scanner scanner = { .rest = text };
	struct token verb = sql_token(&scanner), token;

	if (!sql_takes(&scanner, "database"))
		return false;
	if (sql_token_is(&verb, "drop"))
		sql_takes_all(&scanner, if_exists);
	token = sql_token(&scanner);
	if (sql_token_is(&verb, "create"))
		return read_template(&scanner, name);
	if (!read_database(&token, name))
		return false;
	sql_takes(&scanner, "set");
	token = sql_token(&scanner);
	return (sql_token_is(&verb, "drop") ||
	        (sql_token_is(&verb, "alter") &&
	         (sql_token_is(&token, "rename") || sql_token_is(&token, "tablespace")))) &&
	       sql_is_last(&scanner, token);
}

/*
 * ---- items: libraries, channels and parameters in the statements of a text ----
 *
 * Hard here: a name may be known wrongly in ways that cannot be seen. What PostgreSQL makes of
 * capital letters outside of ASCII, of names of more than 63 bytes and of U&"..." depends on the
 * database or on more reading, so these are SQL_ITEM_UNSURE, and the server must be asked.
 */

#define LIBRARY_MAX 1023 /* PostgreSQL's limit for a path */

struct walk {
	struct scanner scanner;
	void (*found)(void *context, const struct sql_item *item);
	void *context;
};

static void report(const struct walk *walk, enum sql_item_kind kind, const char *name,
                   bool is_local)
{
	walk->found(walk->context, &(struct sql_item){ kind, name, is_local });
}

static void read_channel(const struct walk *walk, enum sql_item_kind kind)
{
	struct token token = sql_peek(walk->scanner);
	bool is_odd = token.kind == TOKEN_WORD && !bytes_are_ascii(token.text);
	char name[SQL_NAME_MAX + 1];

	if (kind == SQL_ITEM_UNLISTEN && sql_token_is_sign(&token, '*'))
		report(walk, SQL_ITEM_UNLISTEN_ALL, "", false);
	else if (sql_is_name(&token) && !is_odd && sql_unquote_text(&token, name, sizeof(name)))
		report(walk, kind, name, false);
	else
		report(walk, SQL_ITEM_UNSURE, "", false);
}

static void read_library(struct walk *walk)
{
	struct token token = sql_token(&walk->scanner), after = sql_peek(walk->scanner);
	char name[LIBRARY_MAX + 1];

	if (sql_is_plain_string(&token) && sql_is_end(&after) &&
	    (token.text.at[0] == '$' || !sql_has_backslash(token.text)) &&
	    sql_unquote_text(&token, name, sizeof(name)))
		report(walk, SQL_ITEM_LIBRARY, name, false);
	else
		report(walk, SQL_ITEM_UNSURE, "", false);
}

/* Behind RESET or SET. */
static void read_parameter(struct walk *walk, bool is_reset)
{
	struct scanner *scanner = &walk->scanner;
	const char *parameter;
	struct chain chain;
	struct token value;
	bool is_local, is_default;

	if (is_reset && sql_takes(scanner, "all")) {
		report(walk, SQL_ITEM_RESET, "", false);
		return;
	}
	is_local = !is_reset && sql_takes_scope(scanner, "local");
	parameter = sql_read_parameter(scanner, &chain);
	if (!parameter)
		return;
	if (!is_reset && !sql_takes(scanner, "to"))
		sql_takes_sign(scanner, '=');
	value = sql_peek(*scanner);
	is_default = is_reset || sql_is_end(&value) || sql_token_is(&value, "default") ||
	             (strcmp(parameter, "timezone") == 0 && sql_token_is(&value, "local"));
	/* SET x is a syntax error, but SET NAMES means the default. */
	if (is_reset || !sql_is_end(&value) || strcmp(parameter, "client_encoding") == 0)
		report(walk, is_default ? SQL_ITEM_RESET : SQL_ITEM_SET, parameter, is_local);
}

/* A statement whose effect does not depend on parameters. */
static bool is_indifferent(const struct walk *walk, const struct token *first)
{
	static const char *const words[] = { "begin",   "close", "commit", "deallocate",
		                             "discard", "end",   "notify", "start" };
	struct scanner scanner = walk->scanner;
	struct token end;

	if (SQL_IS_ONE(first, words))
		return true;
	/* SELECT pg_advisory_unlock_all() belongs to those by which drivers reset a session. */
	if (!sql_token_is(first, "select") || !sql_takes(&scanner, "pg_advisory_unlock_all") ||
	    !sql_takes_sign(&scanner, '(') || !sql_takes_sign(&scanner, ')'))
		return false;
	end = sql_token(&scanner);
	return sql_is_end(&end);
}

static void read_statement(struct walk *walk, const struct token *first)
{
	if (sql_token_is(first, "listen"))
		read_channel(walk, SQL_ITEM_LISTEN);
	else if (sql_token_is(first, "unlisten"))
		read_channel(walk, SQL_ITEM_UNLISTEN);
	else if (sql_token_is(first, "load"))
		read_library(walk);
	else if (sql_token_is(first, "reset") || sql_token_is(first, "set"))
		read_parameter(walk, sql_token_is(first, "reset"));
	else if (sql_token_is(first, "rollback") || sql_token_is(first, "abort"))
		report(walk, SQL_ITEM_ROLLBACK, "", false);
	else if (!is_indifferent(walk, first))
		report(walk, SQL_ITEM_OTHER, "", false);
}

static void walk_text(struct walk walk, struct bytes text, bool is_escaped)
{
	struct token token;

	walk.scanner = (struct scanner){ .rest = text, .is_escaped = is_escaped };
	token = sql_token(&walk.scanner);
	while (sql_token_is_sign(&token, ';'))
		token = sql_token(&walk.scanner);
	if (sql_token_is(&token, "discard")) {
		struct scanner ahead = walk.scanner;

		/* together with other statements it fails */
		if (sql_takes(&ahead, "all") && sql_is_last(&ahead, sql_token(&ahead)))
			report(&walk, SQL_ITEM_DISCARD, "", false);
	}
	for (; token.kind != TOKEN_END; token = sql_next_statement(&walk.scanner, token))
		read_statement(&walk, &token);
}

bool sql_is_alike(struct bytes text)
{
	struct scanner plain = { .rest = text }, escaped = { .rest = text, .is_escaped = true };
	struct token one, other;

	if (!sql_has_backslash(text))
		return true;
	do {
		one = sql_token(&plain);
		other = sql_token(&escaped);
		if (one.kind != other.kind || one.text.at != other.text.at ||
		    one.text.count != other.text.count)
			return false;
	} while (one.kind != TOKEN_END);
	return !sql_touch_is_unclear(text);
}

bool sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context)
{
	const struct walk walk = { .found = found, .context = context };
	bool is_alike = sql_is_alike(text);

	walk_text(walk, text, false);
	if (!is_alike)
		walk_text(walk, text, true);
	return is_alike;
}

/*
 * ---- single statements, and those that only read ----
 *
 * Hard here: what is not certain must be SQL_SINGLE_NOT. The meaning of a backslash depends on the
 * session, and in some encodings it is a part of another character: a text with a backslash is not
 * certain. In a read, no name may have a byte that is not ASCII: such a byte may be a part of a
 * name that looks like two.
 */

static const char *const reading_words[] = { "select", "values", "table", "with" };
static const char *const writing_words[] = { "insert", "update", "delete", "merge" };

#define LETTERS 26
#define CALL_MAX 40 /* a name of as many bytes is none of these */

/* Words by their first letters, each with a space before and behind it. */
typedef const char *word_lists[LETTERS];

/* What may be in front of a parenthesis: keywords, types, and functions that only read. */
static const word_lists calls = {
	['a' - 'a'] = " abs age all and any array array_agg array_append array_cat array_length "
		      "array_lower array_position array_positions array_prepend array_remove "
		      "array_replace array_to_json array_to_string array_upper as ascii avg ",
	['b' - 'a'] = " between bit bit_and bit_or bool_and bool_or btrim by ",
	['c' - 'a'] = " cardinality case cast cbrt ceil ceiling char char_length character "
		      "character_length chr coalesce concat concat_ws count cube cume_dist ",
	['d' - 'a'] = " date_bin date_part date_trunc dec decimal degrees dense_rank distinct "
		      "div ",
	['e' - 'a'] = " else every except exists exp extract ",
	['f' - 'a'] = " filter first_value float floor format from ",
	['g' - 'a'] = " generate_series generate_subscripts greatest grouping ",
	['h' - 'a'] = " having ",
	['i' - 'a'] = " ilike in initcap intersect interval is isfinite ",
	['j' - 'a'] = " join json_agg json_array_elements json_array_elements_text "
		      "json_array_length json_build_array json_build_object json_each "
		      "json_each_text json_extract_path json_extract_path_text json_object_agg "
		      "json_object_keys json_typeof jsonb_agg jsonb_array_elements "
		      "jsonb_array_elements_text jsonb_array_length jsonb_build_array "
		      "jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path "
		      "jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_set "
		      "jsonb_typeof ",
	['l' - 'a'] = " lag last_value lateral lead least left length like limit ln log lower "
		      "lpad ltrim ",
	['m' - 'a'] = " make_date make_interval make_time make_timestamp make_timestamptz "
		      "materialized max md5 min mod mode ",
	['n' - 'a'] = " not now nth_value ntile nullif numeric ",
	['o' - 'a'] = " octet_length offset on or over overlay ",
	['p' - 'a'] = " percent_rank percentile_cont percentile_disc plainto_tsquery position "
		      "power ",
	['q' - 'a'] = " quote_ident quote_literal quote_nullable ",
	['r' - 'a'] = " radians rank regexp_match regexp_matches regexp_replace "
		      "regexp_split_to_array regexp_split_to_table repeat replace reverse right "
		      "rollup round row row_number row_to_json rpad rtrim ",
	['s' - 'a'] = " select sets sign some split_part sqrt starts_with statement_timestamp "
		      "stddev stddev_pop stddev_samp string_agg string_to_array strpos substr "
		      "substring sum ",
	['t' - 'a'] = " then time timestamp timestamptz timetz to_char to_date to_json to_jsonb "
		      "to_number to_timestamp to_tsquery to_tsvector transaction_timestamp "
		      "translate trim trunc ts_headline ts_rank ",
	['u' - 'a'] = " union unnest upper using ",
	['v' - 'a'] = " values var_pop var_samp varchar variance varying ",
	['w' - 'a'] = " websearch_to_tsquery when where width_bucket within ",
};

/* A statement with one of these, at any place, may be no read: SELECT INTO, FOR UPDATE, ... */
static const char *const writing[] = { "delete", "for", "insert", "into", "merge", "update" };

static bool is_in(const word_lists lists, const struct token *token)
{
	char word[CALL_MAX + 3] = " ", first = sql_lower(token->text.at[0]);
	const char *list = first >= 'a' && first <= 'z' ? lists[first - 'a'] : NULL;
	size_t size = list ? sql_unquote(token, false, word + 1, CALL_MAX) : SQL_CANNOT;

	if (size == SQL_CANNOT)
		return false;
	word[size + 1] = ' ';
	return strstr(list, word);
}

static bool is_listed(const struct token *token, struct bytes functions)
{
	for (const char *name; bytes_take_text(&functions, &name);) {
		if (sql_token_is(token, name))
			return true;
	}
	return false;
}

/* The word, or the name in quotes, was no reason to be no read. `before` it there was a point. */
struct last {
	struct token token;
	bool is_behind_point;
};

static bool may_call(const struct last *last, struct bytes functions)
{
	if (last->token.kind == TOKEN_QUOTED || last->token.kind == TOKEN_NUMBER)
		return false;
	if (last->token.kind != TOKEN_WORD || is_listed(&last->token, functions))
		return true;
	return !last->is_behind_point && is_in(calls, &last->token);
}

static bool may_be_read(const struct token *token, const struct last *last, struct bytes functions)
{
	switch (token->kind) {
	case TOKEN_WORD:
		/* Views and functions of the system show the server that they run on. */
		return bytes_are_ascii(token->text) && !SQL_IS_ONE(token, writing) &&
		       (token->text.count < 3 || strncasecmp(token->text.at, "pg_", 3) != 0 ||
		        is_listed(token, functions));
	case TOKEN_QUOTED:
		return bytes_are_ascii(token->text) && !sql_is_unicode(token) &&
		       !(token->text.count > 3 && strncmp(token->text.at, "\"pg_", 4) == 0);
	case TOKEN_SIGN:
		return !sql_token_is_sign(token, '(') || may_call(last, functions);
	case TOKEN_NUMBER:
	case TOKEN_STRING:
	case TOKEN_OPEN:
	case TOKEN_END:
		break;
	}
	return true;
}

enum sql_single sql_single(struct bytes text, struct bytes functions)
{
	struct scanner scanner = { .rest = text };
	struct last last = { .token = sql_token(&scanner) };
	bool is_read = SQL_IS_ONE(&last.token, reading_words);
	struct token token;

	if (sql_has_backslash(text) || (!is_read && !SQL_IS_ONE(&last.token, writing_words)))
		return SQL_SINGLE_NOT;
	for (;;) {
		token = sql_token(&scanner);
		if (sql_is_end(&token))
			break;
		is_read = is_read && may_be_read(&token, &last, functions);
		last.is_behind_point = sql_token_is_sign(&last.token, '.');
		last.token = token;
	}
	if (!sql_is_last(&scanner, token))
		return SQL_SINGLE_NOT;
	return is_read ? SQL_SINGLE_READ : SQL_SINGLE_ANY;
}

bool sql_calls_unknown(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	struct last last = { 0 };
	struct token token = sql_token(&scanner);

	for (; token.kind != TOKEN_END; token = sql_token(&scanner)) {
		if (sql_token_is_sign(&token, '(') && !may_call(&last, bytes_of("", 0)))
			return true;
		last.is_behind_point = sql_token_is_sign(&last.token, '.');
		last.token = token;
	}
	return scanner.is_broken || sql_has_backslash(text);
}

/*
 * ---- texts for the primary ----
 *
 * Functions are found by their names anywhere in the text: quotes, comments and encodings need not
 * be followed, since a read on the primary does no harm.
 */

static const word_lists for_primary = {
	['b' - 'a'] = " brin_desummarize_range brin_summarize_new_values "
		      "brin_summarize_range ",
	['g' - 'a'] = " gin_clean_pending_list ",
	['l' - 'a'] = " lo_creat lo_create lo_from_bytea lo_import lo_put lo_truncate "
		      "lo_truncate64 lo_unlink lowrite ",
	['p' - 'a'] = " pg_copy_logical_replication_slot "
		      "pg_copy_physical_replication_slot "
		      "pg_create_logical_replication_slot "
		      "pg_create_physical_replication_slot pg_create_restore_point "
		      "pg_current_wal_flush_lsn pg_current_wal_insert_lsn "
		      "pg_current_wal_lsn pg_current_xact_id pg_drop_replication_slot "
		      "pg_export_snapshot pg_log_standby_snapshot "
		      "pg_logical_emit_message pg_logical_slot_get_binary_changes "
		      "pg_logical_slot_get_changes pg_logical_slot_peek_binary_changes "
		      "pg_logical_slot_peek_changes pg_replication_origin_advance "
		      "pg_replication_origin_create pg_replication_origin_drop "
		      "pg_replication_slot_advance pg_switch_wal pg_walfile_name "
		      "pg_walfile_name_offset ",
	['t' - 'a'] = " txid_current ",
};

/* With these, a statement is for the primary. */
static const char *const first_words[] = { "lock",    "analyze", "analyse",    "vacuum",
	                                   "cluster", "reindex", "checkpoint", "repack" };

static bool has_function(struct bytes text)
{
	while (text.count) {
		struct token word = { .kind = TOKEN_WORD, .text = bytes_of(text.at, 0) };
		size_t size = 0;

		while (size < text.count &&
		       (isalnum((unsigned char)text.at[size]) || text.at[size] == '_'))
			size++;
		word.text.count = size;
		if (size > strlen("lo_pu") && is_in(for_primary, &word))
			return true;
		text = bytes_skip(text, size ? size : 1);
	}
	return false;
}

bool sql_is_for_primary(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);

	if (has_function(text))
		return true;
	for (; token.kind != TOKEN_END; token = sql_next_statement(&scanner, token)) {
		if (SQL_IS_ONE(&token, first_words))
			return true;
	}
	return false;
}
