/* SPDX-License-Identifier: ISC */
/*
 * Requests: what is typed at the console, and what it asks for; and tables for the web server.
 *
 *   text --> sentences of tokens --> small talk | SHOW | command, or what may have been meant
 *
 * Hard here: drivers put comments around their statements, and quotes around names and
 * values. A `;` inside a comment or quotes does not end the statement.
 */
#include "admin_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/base/version.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"
#include "pgweir/pgwire/sql_token.h"

#define BLANKS " \t\r\n\f\v"

#define TOKENS_MAX 64 /* more than any sentence has that is understood */

/* A statement. A whole number is a word here. */
struct sentence {
	struct token tokens[TOKENS_MAX + 1]; /* behind the last one is what ended it */
	size_t count;    /* without the `;`; a last one TOKEN_OPEN: no end of quotes or a comment */
	const char *end; /* of the whole text */
	bool is_alone;   /* there is nothing else in the text, but for one `;` behind it */
};

enum words_result {
	WORDS_OK,
	WORDS_INVALID, /* not in the console's grammar */
	WORDS_TOO_LONG /* a word is longer than its field */
};

/* Skips blanks and comments. A whole number is a word. TOKEN_OPEN: no end of quotes or a comment.
 */
static void next_token(struct bytes *rest, struct token *token)
{
	struct scanner scanner = { .rest = *rest };
	size_t letters;

	*token = sql_token(&scanner);
	*rest = scanner.rest;
	if (scanner.is_broken)
		token->kind = TOKEN_OPEN;
	if (token->kind != TOKEN_NUMBER || memchr(token->text.at, '.', token->text.count))
		return;
	/* A word may begin with digits here. */
	letters = sql_word_size(*rest);
	*token =
	    (struct token){ TOKEN_WORD, bytes_of(token->text.at, token->text.count + letters) };
	*rest = bytes_skip(*rest, letters);
}

/* Copies the text with its zero, and doubled quotes as one. false: it has no room. */
static bool copy_token(const struct token *token, char *out, size_t size)
{
	size_t used = token->text.count;

	if (token->kind == TOKEN_QUOTED || token->kind == TOKEN_STRING)
		used = sql_unquote(token, false, out, size);
	else
		memcpy(out, token->text.at, used < size ? used : size);
	if (used >= size)
		return false;
	out[used] = 0;
	return true;
}

/* Whether the token is this word; upper and lower case are equal. */
static bool token_is(const struct token *token, const char *word)
{
	struct bytes text = sql_name_text(token);

	return (sql_is_name(token) || token->kind == TOKEN_SIGN) && text.count == strlen(word) &&
	       strncasecmp(text.at, word, text.count) == 0;
}

/* Removes the next statement that is not empty. false: none is left. */
static bool read_sentence(struct bytes *rest, struct sentence *sentence)
{
	struct bytes next;
	struct token token;
	bool is_first = true;

	sentence->count = 0;
	sentence->end = rest->at + rest->count;
	for (next_token(rest, &token); sql_token_is_sign(&token, ';'); next_token(rest, &token))
		is_first = false;
	for (; !sql_is_end(&token); next_token(rest, &token)) {
		if (sentence->count < TOKENS_MAX)
			sentence->tokens[sentence->count++] = token;
		if (token.kind == TOKEN_OPEN)
			break;
	}
	sentence->tokens[sentence->count] = token;
	next = *rest;
	next_token(&next, &token);
	sentence->is_alone = is_first && token.kind == TOKEN_END;
	return sentence->count > 0;
}

/*
 * How many tokens at its begin match the words of the pattern, of which "?" matches one token, and
 * "..." the rest. The last two tokens of "?" go to words->argument and words->value. 0: none.
 */
static size_t match(const char *pattern, const struct sentence *sentence, struct words *words)
{
	const struct token *at = sentence->tokens, *end = at + sentence->count;

	for (; *pattern; at++) {
		size_t length = strcspn(pattern, " ");
		char word[64];

		memcpy(word, pattern, length);
		word[length] = 0;
		pattern += length + strspn(pattern + length, " ");
		if (strcmp(word, "...") == 0)
			return sentence->count;
		if (at == end || at->kind == TOKEN_OPEN)
			return 0;
		if (strcmp(word, "?") == 0) {
			text_copy(words->argument, sizeof(words->argument), words->value);
			if (!copy_token(at, words->value, sizeof(words->value)))
				return 0;
		} else if (!token_is(at, word)) {
			return 0;
		}
	}
	return (size_t)(at - sentence->tokens);
}

/* Whether at most one `;` follows, and nothing after it. */
static bool ends(struct bytes rest)
{
	struct token token;

	next_token(&rest, &token);
	if (sql_token_is_sign(&token, ';'))
		next_token(&rest, &token);
	return token.kind == TOKEN_END;
}

/* A value without quotes ends at the next blank, `;` or quote. So -1 and 127.0.0.1 are values. */
static void value_next(struct bytes *rest, struct token *token)
{
	size_t count = 0;

	while (rest->count && *rest->at && strchr(BLANKS, *rest->at))
		*rest = bytes_skip(*rest, 1);
	if (rest->count && (*rest->at == '\'' || *rest->at == '"')) {
		next_token(rest, token);
		return;
	}
	while (count < rest->count && !strchr(BLANKS ";'\"", rest->at[count]))
		count++;
	token->kind = count ? TOKEN_WORD : TOKEN_END;
	token->text = bytes_of(rest->at, count);
	*rest = bytes_skip(*rest, count);
}

/* Reads a value behind this token, at the end of the text, to words->value. */
static enum words_result read_value(const struct sentence *sentence, const struct token *behind,
                                    struct words *words)
{
	const char *at = behind->text.at + behind->text.count;
	struct bytes rest = bytes_of(at, (size_t)(sentence->end - at));
	struct token value;

	value_next(&rest, &value);
	if ((value.kind != TOKEN_WORD && value.kind != TOKEN_STRING &&
	     value.kind != TOKEN_QUOTED) ||
	    !ends(rest))
		return WORDS_INVALID;
	words->count = 2;
	return copy_token(&value, words->value, sizeof(words->value)) ? WORDS_OK : WORDS_TOO_LONG;
}

/*
 * ---- small talk ----
 *
 * Queries that drivers and connection pools send to any server. They are answered as PostgreSQL
 * would answer, so that such programs can use the console. A SET of a PostgreSQL parameter has no
 * effect here, and a NOTICE reports it.
 */

#define VERSION_SERVER VERSION_COMPATIBLE "/bouncer"

static bool next_talk(struct cursor *cursor, void *at)
{
	const struct release *release = rows_release(cursor->source);
	const char *text = cursor->argument;

	if (cursor->index++)
		return false;
	if (strcmp(text, VERSION_SHOW) == 0)
		text = release->shown;
	else if (strcmp(text, VERSION_SERVER) == 0)
		text = release->server_version;
	if (strcmp(text, "1") == 0)
		*(int64_t *)at = 1;
	else
		*(const char **)at = text;
	return true;
}

/*
 * ---- what the tab completion of psql 15 asks for after SHOW or SET ----
 *
 * Names of settings and, for SHOW, of tables; the type of a setting; its possible values.
 */

/* pattern: a prefix and %, or a complete name. */
static bool is_like(const char *name, const char *pattern)
{
	for (; *pattern && *pattern != '%'; pattern++, name++) {
		if (*pattern == '\\' && pattern[1])
			pattern++;
		if (tolower((unsigned char)*name) != tolower((unsigned char)*pattern))
			return false;
	}
	return *pattern == '%' || !*name;
}

/*
 * Tables first, then HELP, then settings; after SET only settings that can be changed. Only the
 * query of SET has another string.
 */
static bool next_name(struct cursor *cursor, void *row)
{
	bool is_set = *cursor->other;
	size_t tables = 0;

	while (shows[tables])
		tables++;
	while (cursor->index < tables + 1 + settings_count) {
		size_t index = cursor->index++;
		const struct setting *setting =
		    index > tables ? &settings[index - tables - 1] : NULL;
		const char *name = setting          ? setting->name
		                   : index < tables ? shows[index]->item
		                                    : "HELP";

		if ((is_set && (!setting || setting->reload != RELOAD_LIVE)) ||
		    !is_like(name, cursor->argument))
			continue;
		*(const char **)row = cursor_lower(cursor, name);
		return true;
	}
	return false;
}

/* The setting of this name; upper and lower case are equal. NULL: there is none. */
static const struct setting *find_setting(const char *name)
{
	for (size_t i = 0; i < settings_count; i++) {
		if (strcasecmp(settings[i].name, name) == 0)
			return &settings[i];
	}
	return NULL;
}

static bool next_type(struct cursor *cursor, void *at)
{
	const struct setting *setting = cursor->index++ ? NULL : find_setting(cursor->argument);

	if (setting)
		*(const char **)at = setting_types[setting->type].vartype;
	return setting != NULL;
}

/* The query has two strings: the prefix of the value (`other`), then the setting's name. */
static bool next_value(struct cursor *cursor, void *at)
{
	const struct setting *setting = find_setting(cursor->argument);
	const char **text = at;

	while (setting && setting->words && setting->words[cursor->index]) {
		*text = setting->words[cursor->index++];
		if (is_like(*text, cursor->other))
			return true;
	}
	return false;
}

/* ---- what is said ---- */

#define PSQL_NAMES "SELECT pg_catalog . lower ( name ) FROM pg_catalog . pg_settings "

/* A statement without a row; one with a single row; a query of psql's tab completion. */
#define DOES(pattern, answer, what)                             \
	{                                                       \
		.words = pattern, .tag = answer, .effect = what \
	}
#define ROWS(fill, of, name)    \
	.show = { .item = "",   \
		  .next = fill, \
		  .columns = COLUMNS(((const struct column[]){ { name, of, ROW_NEXT, NULL } })) }
#define SAYS(pattern, answer, of, value, name)                                                    \
	{                                                                                         \
		.words = pattern, .tag = answer, .text = value, ROWS(next_talk, VALUE_##of, name) \
	}
#define SHOWS(name, value) SAYS("SHOW " name, "SHOW", TEXT, value, name)
#define LISTS(pattern, fill, name)                                              \
	{                                                                       \
		.words = pattern, .tag = "SELECT", ROWS(fill, VALUE_TEXT, name) \
	}

static const struct talk talks[] = {
	DOES("BEGIN ...", "BEGIN", TALK_BEGIN),
	DOES("START TRANSACTION ...", "START TRANSACTION", TALK_BEGIN),
	DOES("COMMIT ...", "COMMIT", TALK_END),
	DOES("END ...", "COMMIT", TALK_END),
	DOES("ROLLBACK TO ...", "ROLLBACK", TALK_NOTHING),
	DOES("ROLLBACK ...", "ROLLBACK", TALK_END),
	DOES("ABORT ...", "ROLLBACK", TALK_END),
	DOES("SAVEPOINT ?", "SAVEPOINT", TALK_NOTHING),
	DOES("RELEASE ...", "RELEASE", TALK_NOTHING),
	DOES("DISCARD ALL", "DISCARD ALL", TALK_FORGET_ALL),
	DOES("DEALLOCATE ALL", "DEALLOCATE ALL", TALK_FORGET_ALL),
	DOES("DEALLOCATE PREPARE ALL", "DEALLOCATE ALL", TALK_FORGET_ALL),
	DOES("DEALLOCATE PREPARE ?", "DEALLOCATE", TALK_FORGET),
	DOES("DEALLOCATE ?", "DEALLOCATE", TALK_FORGET),
	{ .words = "RESET STATEMENTS" }, /* no small talk: a command */
	DOES("RESET ...", "RESET", TALK_NOTHING),
	DOES("CLOSE ALL", "CLOSE CURSOR ALL", TALK_NOTHING),
	DOES("UNLISTEN ?", "UNLISTEN", TALK_NOTHING),
	DOES("SET SESSION CHARACTERISTICS ...", "SET", TALK_IGNORED),
	DOES("SET TRANSACTION ...", "SET", TALK_IGNORED),
	DOES("SET TIME ZONE ...", "SET", TALK_IGNORED),
	DOES("SET NAMES ...", "SET", TALK_IGNORED),
	SAYS("SELECT 1", "SELECT 1", INT4, "1", "?column?"),
	SAYS("SELECT version ( )", "SELECT 1", TEXT, VERSION_SHOW, "version"),
	SAYS("SELECT pg_catalog . version ( )", "SELECT 1", TEXT, VERSION_SHOW, "version"),
	SAYS("SELECT current_database ( )", "SELECT 1", TEXT, CONFIG_CONSOLE_DATABASE,
	     "current_database"),
	SAYS("SELECT pg_advisory_unlock_all ( )", "SELECT 1", VOID, "", "pg_advisory_unlock_all"),
	SAYS("SHOW TRANSACTION ISOLATION LEVEL", "SHOW", TEXT, "read committed",
	     "transaction_isolation"),
	SAYS("SHOW TIME ZONE", "SHOW", TEXT, "GMT", "TimeZone"),
	SHOWS("client_encoding", "UTF-8"),
	SHOWS("default_transaction_isolation", "read committed"),
	SHOWS("transaction_isolation", "read committed"),
	SHOWS("standard_conforming_strings", "on"),
	SHOWS("datestyle", "ISO"),
	SHOWS("timezone", "GMT"),
	SHOWS("server_version", VERSION_SERVER),
	SHOWS("server_encoding", "UTF8"),
	SHOWS("is_superuser", "on"),
	/* Queries of psql's tab completion, from version 15 on. */
	LISTS(PSQL_NAMES "WHERE pg_catalog . lower ( name ) LIKE pg_catalog . lower ( ? ) ...",
	      next_name, "lower"),
	LISTS(PSQL_NAMES "WHERE context IN ( ? , ? ) AND pg_catalog . lower ( name ) LIKE "
	                 "pg_catalog . lower ( ? ) ...",
	      next_name, "lower"),
	LISTS("SELECT vartype FROM pg_catalog . pg_settings WHERE pg_catalog . lower ( name ) = "
	      "pg_catalog . lower ( ? )",
	      next_type, "vartype"),
	LISTS("SELECT val FROM ( SELECT name , pg_catalog . unnest ( enumvals ) AS val FROM "
	      "pg_catalog . pg_settings ) ss WHERE val LIKE ? and pg_catalog . lower ( name ) = "
	      "pg_catalog . lower ( ? ) ...",
	      next_value, "val"),
};

/* SET of these is small talk too, unless pgweir has a setting of the same name. */
static const struct talk set_ignored = DOES("SET", "SET", TALK_IGNORED);
static const char *const parameters[] = {
	"application_name",
	"backslash_quote",
	"bytea_output",
	"client_encoding",
	"client_min_messages",
	"datestyle",
	"default_transaction_deferrable",
	"default_transaction_isolation",
	"default_transaction_read_only",
	"extra_float_digits",
	"geqo",
	"idle_in_transaction_session_timeout",
	"idle_session_timeout",
	"intervalstyle",
	"jit",
	"lc_messages",
	"lc_monetary",
	"lc_numeric",
	"lc_time",
	"lock_timeout",
	"role",
	"row_security",
	"search_path",
	"session_replication_role",
	"sql_mode",
	"standard_conforming_strings",
	"statement_timeout",
	"synchronous_commit",
	"timezone",
	"transaction_isolation",
	"transaction_read_only",
	"work_mem",
	"xmloption",
};

static bool is_parameter(const struct token *name)
{
	char text[64];

	if (!copy_token(name, text, sizeof(text)) || setting_find(text))
		return false;
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
		if (strcasecmp(parameters[i], text) == 0)
			return true;
	}
	return false;
}

/* Matches SET [SESSION | LOCAL] parameter { = | TO } value. */
static bool is_set(const struct sentence *sentence)
{
	const struct token *at = sentence->tokens, *end = at + sentence->count;

	if (!token_is(at++, "SET"))
		return false;
	if (token_is(at, "SESSION") || token_is(at, "LOCAL"))
		at++;
	return end - at > 2 && is_parameter(&at[0]) &&
	       (token_is(&at[1], "=") || token_is(&at[1], "TO")) && at[2].kind != TOKEN_OPEN;
}

static const struct talk *find_talk(const struct sentence *sentence, struct words *words)
{
	for (size_t i = 0; i < sizeof(talks) / sizeof(talks[0]); i++) {
		if (match(talks[i].words, sentence, words) != sentence->count)
			continue;
		words->count = 2;
		if (talks[i].text)
			text_copy(words->value, sizeof(words->value), talks[i].text);
		return talks[i].tag ? &talks[i] : NULL;
	}
	return is_set(sentence) ? &set_ignored : NULL;
}

/* Whether it is small talk, or nothing. */
static bool read_talk(const struct sentence *sentence, struct request *request)
{
	const struct talk *talk;

	*request = (struct request){ .tag = "" };
	if (!sentence->count)
		return true;
	talk = find_talk(sentence, &request->words);
	if (!talk)
		return false;
	request->talk = talk;
	request->tag = talk->tag;
	request->show = talk->show.next ? &talk->show : NULL;
	return true;
}

/* Whether its answer fits into one piece with those of others. */
static bool is_brief(const struct request *request)
{
	return !request->show || request->talk->text;
}

/* ---- SHOW and commands ---- */

/* Maximum bytes of an unknown query that its error quotes. */
#define QUOTE_MAX 400

#define COMMAND_SIZE 16 /* no command has a longer word at its begin */
#define SUGGEST_SIZE 64

static bool invalid(struct bytes text, struct err *err)
{
	size_t count = text.count;

	if (count > QUOTE_MAX) {
		for (count = QUOTE_MAX; count > 0 && (text.at[count] & 0xc0) == 0x80;)
			count--; /* do not cut within a UTF-8 character */
	}
	return err_set(err, ERR_SYNTAX, "invalid command '%.*s%s', use SHOW HELP;", (int)count,
	               text.at, count < text.count ? "..." : "");
}

/* Whether the SHOW accepts the words after its name, if there are any. */
static bool takes_argument(const struct show *show, const struct words *words)
{
	if (words->count < 2)
		return true;
	if (words->count > 2 && show->argument != SHOW_OF_STATEMENTS)
		return false;
	switch (show->argument) {
	case SHOW_OF_DATABASE:
		return true;
	case SHOW_OF_TABLE:
		return show_find(words->value) != NULL;
	case SHOW_HIT:
		return strcasecmp(words->value, "HIT") == 0;
	case SHOW_OF_STATEMENTS:
		return show_statements_takes(words->value);
	default:
		return false;
	}
}

static bool are_names(const struct sentence *sentence)
{
	for (size_t i = 0; i < sentence->count; i++) {
		if (!sql_is_name(&sentence->tokens[i]))
			return false;
	}
	return sentence->count && sentence->is_alone;
}

/* Joins the words that follow the name of a SHOW, with one space between them. */
static bool join_values(const struct sentence *sentence, struct words *words)
{
	size_t size = sizeof(words->argument), used = 0;

	for (size_t i = 2; i < sentence->count; i++) {
		if (used && used + 1 < size)
			words->value[used++] = ' ';
		if (!copy_token(&sentence->tokens[i], words->value + used, size - used))
			return false;
		used += strlen(words->value + used);
	}
	words->count = (unsigned int)sentence->count - 1;
	return true;
}

/* `SHOW name` is a table or, if there is no such table, a setting. */
static enum words_result read_show(const struct sentence *sentence, struct request *request)
{
	struct words *words = &request->words;
	const struct setting *setting;

	*request = (struct request){ .tag = "SHOW" };
	if (!are_names(sentence) || sentence->count < 2 ||
	    !token_is(&sentence->tokens[0], "SHOW") ||
	    !copy_token(&sentence->tokens[1], words->argument, sizeof(words->argument)))
		return WORDS_INVALID;
	if (!join_values(sentence, words))
		return WORDS_TOO_LONG;
	request->show = show_find(words->argument);
	if (request->show)
		return takes_argument(request->show, words) ? WORDS_OK : WORDS_INVALID;
	setting = words->count == 1 ? find_setting(words->argument) : NULL;
	if (!setting)
		return WORDS_INVALID;
	words->count = 2;
	text_copy(words->value, sizeof(words->value), setting->name);
	request->show = &show_setting;
	return WORDS_OK;
}

/* The table of this name, and behind a space its argument, without quotes. false: there is none. */
static bool read_table(const char *text, struct request *request, struct err *err)
{
	size_t count = strcspn(text, " ");
	bool has_argument = text[count];
	struct words *words = &request->words;

	*request = (struct request){ .tag = "SHOW", .words.count = has_argument ? 2 : 1 };
	if (count < sizeof(words->argument) &&
	    text_copy(words->value, sizeof(words->value), text + count + has_argument)) {
		memcpy(words->argument, text, count);
		request->show = show_find(words->argument);
	}
	return (request->show && takes_argument(request->show, words)) ||
	       err_set(err, ERR_SYNTAX, "there is no such table");
}

/* Reads what is behind the words of a command, which are so many tokens. */
static enum words_result read_argument(enum command_argument argument,
                                       const struct sentence *sentence, size_t count,
                                       struct words *words)
{
	const struct token *next = &sentence->tokens[count];
	size_t left = sentence->count - count;

	*words = (struct words){ 0 };
	if (argument == ARG_HOST)
		return left ? read_value(sentence, next - 1, words) : WORDS_INVALID;
	if (!left && sentence->is_alone && argument != ARG_SETTING)
		return WORDS_OK;
	if (!sql_is_name(next))
		return WORDS_INVALID;
	if (argument == ARG_SETTING ? !token_is(&next[1], "=") && !token_is(&next[1], "TO")
	                            : argument == ARG_NONE || left > 1 || !sentence->is_alone)
		return WORDS_INVALID;
	words->count = 1;
	if (!copy_token(next, words->argument, sizeof(words->argument)))
		return WORDS_TOO_LONG;
	return argument == ARG_SETTING ? read_value(sentence, &next[1], words) : WORDS_OK;
}

static enum words_result read_command(const struct sentence *sentence, const struct command *known,
                                      struct request *request)
{
	enum words_result result = WORDS_INVALID;
	const struct command *command = known;

	*request = (struct request){ 0 };
	for (; command->words && result == WORDS_INVALID; command++) {
		size_t count = match(command->words, sentence, &request->words);

		if (count)
			result = read_argument(command->argument, sentence, count, &request->words);
	}
	request->command = command - 1;
	request->tag = request->command->tag;
	return result;
}

/* Whether an unknown statement has a command or an argument that is too long for any. */
static bool is_too_long(const struct sentence *sentence)
{
	const struct token *tokens = sentence->tokens;
	char command[COMMAND_SIZE], argument[sizeof(((struct words *)NULL)->argument)];

	return sql_is_name(&tokens[0]) &&
	       (!copy_token(&tokens[0], command, sizeof(command)) ||
	        (sentence->count == 2 && are_names(sentence) && !token_is(&tokens[0], "SET") &&
	         !copy_token(&tokens[1], argument, sizeof(argument))));
}

/* SELECT is an alias of SHOW, where it is no small talk. */
static void rename_select(struct sentence *sentence)
{
	if (token_is(&sentence->tokens[0], "SELECT"))
		sentence->tokens[0] = (struct token){ TOKEN_WORD, bytes_text("SHOW") };
}

unsigned int request_read(struct bytes text, const struct command *known, struct request *requests,
                          unsigned int most, struct err *err)
{
	struct sentence first, next;
	struct bytes rest = text;
	enum words_result result;
	unsigned int count = 1;
	bool is_talk;

	read_sentence(&rest, &first);
	is_talk = read_talk(&first, requests);
	for (; is_talk && read_sentence(&rest, &next); count++)
		is_talk = count < most && is_brief(&requests[count - 1]) &&
		          read_talk(&next, &requests[count]) && is_brief(&requests[count]);
	if (is_talk)
		return count;
	rename_select(&first);
	result = read_command(&first, known, requests);
	if (result == WORDS_INVALID)
		result = read_show(&first, requests);
	if (result == WORDS_TOO_LONG || (result == WORDS_INVALID && is_too_long(&first)))
		return err_set(err, ERR_SYNTAX, "bad arguments");
	return result == WORDS_OK || invalid(text, err);
}

/* ---- suggestions ---- */

static void suggest(char *out, size_t size, const char *front, const char *found)
{
	if (found)
		snprintf(out, size, "Did you mean %s%s?", front, found);
}

/* Suggests a table or, for SHOW itself, a setting. */
static void suggest_show(const char *wanted, const char *front, char *out, size_t size)
{
	struct nearest nearest = nearest_begin(wanted);
	bool is_show = strcmp(front, "SHOW ") == 0;

	for (size_t i = 0; shows[i]; i++)
		nearest_offer(&nearest, shows[i]->item);
	if (is_show)
		nearest_offer(&nearest, "HELP");
	for (size_t i = 0; is_show && i < settings_count; i++)
		nearest_offer(&nearest, settings[i].name);
	suggest(out, size, front, nearest.found);
}

static void suggest_command(const struct command *known, size_t count, const char *first,
                            const char *second, char *out, size_t size)
{
	struct nearest one = nearest_begin(first), two;
	char both[2 * SUGGEST_SIZE];

	snprintf(both, sizeof(both), "%s %s", first, second);
	two = nearest_begin(both);
	for (const struct command *command = known; command->words; command++) {
		if (strcasecmp(command->words, first) == 0)
			snprintf(out, size, "Syntax: %s%s.", command->words, command->usage);
		nearest_offer(&one, command->words);
		nearest_offer(&two, command->words);
	}
	if (count == 2 && two.found && strchr(two.found, ' '))
		suggest(out, size, "", two.found);
	else if (!*out)
		suggest(out, size, "", one.found);
	if (!*out && count == 1)
		suggest_show(first, "SHOW ", out, size);
}

/* For SHOW and these words. */
static void suggest_for_show(const struct sentence *sentence, const char *name, char *out,
                             size_t size)
{
	const struct show *show = sentence->count > 2 ? show_find(name) : NULL;
	struct words words;

	if (!show) {
		suggest_show(name, "SHOW ", out, size);
		return;
	}
	/* it exists, but the word after its name is wrong */
	if (show->argument == SHOW_OF_TABLE && join_values(sentence, &words))
		suggest_show(words.value, "SHOW COLUMNS ", out, size);
	if (!*out)
		snprintf(out, size, "Syntax: SHOW %s%s.", show->item,
		         show_argument_name(show->argument));
}

/* Says what to log instead of a text that may contain a password. */
static void hide(const struct sentence *sentence, struct bytes text, char *out, size_t size)
{
	const struct token *first = &sentence->tokens[0];
	bool is_secret;
	char name[64];

	*out = 0;
	/* it names a setting whose value may contain a password, or is a malformed SET */
	is_secret = token_is(first, "SET");
	for (size_t i = 0; i < settings_count && !is_secret; i++) {
		const char *word = settings[i].hidden_with;

		is_secret = word && memmem(text.at, text.count, word, strlen(word));
	}
	if (!is_secret)
		return;
	if (first->kind != TOKEN_WORD || !copy_token(first + 1, name, sizeof(name)) ||
	    !setting_find(name))
		*name = 0;
	snprintf(out, size, "invalid command '%s%s%s...', use SHOW HELP;", *name ? "SET " : "",
	         name, *name ? " " : "");
}

void request_explain(struct bytes text, const struct command *known,
                     struct console_session *session)
{
	char first[SUGGEST_SIZE], second[SUGGEST_SIZE] = "", *hint = session->hint;
	const size_t size = sizeof(session->hint);
	struct bytes rest = text;
	struct sentence sentence;
	const struct token *tokens = sentence.tokens;

	*hint = 0;
	read_sentence(&rest, &sentence);
	hide(&sentence, text, session->logged, sizeof(session->logged));
	rename_select(&sentence);
	if (token_is(&tokens[0], "SET"))
		snprintf(hint, size, "Syntax: SET key = value.");
	else if (are_names(&sentence) && copy_token(&tokens[0], first, sizeof(first)) &&
	         (sentence.count == 1 || copy_token(&tokens[1], second, sizeof(second)))) {
		if (sentence.count > 1 && strcasecmp(first, "SHOW") == 0)
			suggest_for_show(&sentence, second, hint, size);
		else if (sentence.count <= 2)
			suggest_command(known, sentence.count, first, second, hint, size);
	}
}

/* ---- what a request returns ---- */

bool request_check(const struct request *request, const struct console *console,
                   enum console_role role, struct err *err)
{
	const char *name = request->words.value;
	struct pools *pools = console_pools(console);

	if ((request->command && role < request->command->role) ||
	    (request->show && role < request->show->role))
		return err_set(err, ERR_RIGHTS, "admin access needed");
	if (!request->show || request->show->argument != SHOW_OF_DATABASE ||
	    request->words.count < 2 || strcmp(name, CONFIG_CONSOLE_DATABASE) == 0 ||
	    pools_find_database(pools, name) || config_database_auto(pools->config))
		return true;
	return err_set(err, ERR_NO_DATABASE, "no such database: %s", name);
}

/*
 * ---- SHOW tables for other readers than sessions of the console ----
 *
 * What one piece may take: bytes, and time on the main thread while all lanes are held. To find the
 * first row takes as long as there are pools, in each turn again, so it does not count, and some
 * rows are always made.
 */
#define PIECE_BYTES ((size_t)64 * 1024)
#define PIECE_TIME ((usec_t)250)
#define PIECE_ROWS 32

struct table {
	struct console *console;
	struct request request; /* the cursor has pointers into it */
	struct cursor cursor;
};

const struct show *tables_find(const char *words)
{
	struct request request;

	return read_table(words, &request, NULL) ? request.show : NULL;
}

struct table *table_begin(struct console *console, const char *words, bool skips_unused,
                          struct err *err)
{
	struct table *table = err_calloc(sizeof(*table), "out of memory", err);

	if (!table)
		return NULL;
	table->console = console;
	if (!read_table(words, &table->request, err) ||
	    !request_check(&table->request, console, CONSOLE_STATS, err)) {
		free(table);
		return NULL;
	}
	cursor_begin(&table->cursor, &console->source, table->request.show, &table->request.words);
	table->cursor.role = CONSOLE_STATS;
	table->cursor.skips_unused = skips_unused;
	return table;
}

static enum table_result add_rows(struct table *table, struct buf *out)
{
	struct columns columns = table->request.show->columns;
	_Alignas(max_align_t) char row[ROW_SIZE_MAX];
	unsigned int count = 0;
	usec_t until = 0;

	do {
		if (!cursor_next(&table->cursor, row))
			return table->cursor.has_more ? TABLE_MORE : TABLE_END;
		rows_add(out, columns, 0, row);
		if (count++ == 0)
			until = clock_now() + PIECE_TIME;
	} while (buf_ok(out) && out->count < PIECE_BYTES &&
	         (count < PIECE_ROWS || clock_now() < until));
	return buf_ok(out) ? TABLE_MORE : TABLE_BROKEN;
}

enum table_result table_next(struct table *table, struct buf *out)
{
	enum table_result result;

	lanes_hold(table->console->with.lanes);
	result = add_rows(table, out);
	cursor_suspend(&table->cursor);
	lanes_release(table->console->with.lanes);
	return result;
}

void table_end(struct table **table)
{
	if (!*table)
		return;
	cursor_end(&(*table)->cursor);
	free(*table);
	*table = NULL;
}
