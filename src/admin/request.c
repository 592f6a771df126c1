/* SPDX-License-Identifier: ISC */
/*
 * Requests: parses them, says what they return, and suggests a correction if a statement is
 * unknown.
 */
#include "admin_priv.h"

#include <stdio.h>
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"

/* Maximum bytes of an unknown query that its error quotes. */
#define QUOTE_MAX 400

#define COMMAND_SIZE 16 /* no command has a longer word at its begin */
#define SUGGEST_SIZE 64

bool request_read_talk(const struct sentence *sentence, struct request *request)
{
	const struct talk *talk;

	*request = (struct request){ .kind = REQUEST_EMPTY, .tag = "" };
	if (!sentence->count)
		return true;
	talk = small_talk_find(sentence, &request->words);
	if (!talk)
		return false;
	request->kind = REQUEST_TALK;
	request->talk = talk;
	request->tag = talk->tag;
	request->show = talk->show.next ? &talk->show : NULL;
	return true;
}

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
		if (!grammar_copy_token(&sentence->tokens[i], words->value + used, size - used))
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

	*request = (struct request){ .kind = REQUEST_SHOW, .tag = "SHOW" };
	if (!are_names(sentence) || sentence->count < 2 ||
	    !grammar_token_is(&sentence->tokens[0], "SHOW") ||
	    !grammar_copy_token(&sentence->tokens[1], words->argument, sizeof(words->argument)))
		return WORDS_INVALID;
	if (!join_values(sentence, words))
		return WORDS_TOO_LONG;
	request->show = show_find(words->argument);
	if (request->show)
		return takes_argument(request->show, words) ? WORDS_OK : WORDS_INVALID;
	setting = words->count == 1 ? small_talk_setting(words->argument) : NULL;
	if (!setting)
		return WORDS_INVALID;
	words->count = 2;
	text_copy(words->value, sizeof(words->value), setting->name);
	request->show = &show_setting;
	return WORDS_OK;
}

bool request_read_table(const char *text, struct request *request, struct err *err)
{
	size_t count = strcspn(text, " ");
	bool has_argument = text[count];
	struct words *words = &request->words;

	*request = (struct request){ .kind = REQUEST_SHOW, .words.count = has_argument ? 2 : 1 };
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
		return left ? grammar_read_value(sentence, next - 1, words) : WORDS_INVALID;
	if (!left && sentence->is_alone && argument != ARG_SETTING)
		return WORDS_OK;
	if (!sql_is_name(next))
		return WORDS_INVALID;
	if (argument == ARG_SETTING
	        ? !grammar_token_is(&next[1], "=") && !grammar_token_is(&next[1], "TO")
	        : argument == ARG_NONE || left > 1 || !sentence->is_alone)
		return WORDS_INVALID;
	words->count = 1;
	if (!grammar_copy_token(next, words->argument, sizeof(words->argument)))
		return WORDS_TOO_LONG;
	return argument == ARG_SETTING ? grammar_read_value(sentence, &next[1], words) : WORDS_OK;
}

static enum words_result read_command(const struct sentence *sentence, struct request *request)
{
	enum words_result result = WORDS_INVALID;
	size_t i, count;

	*request = (struct request){ .kind = REQUEST_COMMAND };
	for (i = 0; i < commands_count && result == WORDS_INVALID; i++) {
		count = grammar_match(commands[i].words, sentence, &request->words);
		if (count)
			result =
			    read_argument(commands[i].argument, sentence, count, &request->words);
	}
	request->command = &commands[i - 1];
	request->tag = request->command->tag;
	return result;
}

/* Whether an unknown statement has a command or an argument that is too long for any. */
static bool is_too_long(const struct sentence *sentence)
{
	const struct token *tokens = sentence->tokens;
	char command[COMMAND_SIZE], argument[sizeof(((struct words *)NULL)->argument)];

	return sql_is_name(&tokens[0]) &&
	       (!grammar_copy_token(&tokens[0], command, sizeof(command)) ||
	        (sentence->count == 2 && are_names(sentence) &&
	         !grammar_copy_token(&tokens[1], argument, sizeof(argument))));
}

/* SELECT is an alias of SHOW, where it is no small talk. */
static void rename_select(struct sentence *sentence)
{
	if (grammar_token_is(&sentence->tokens[0], "SELECT"))
		sentence->tokens[0] = (struct token){ TOKEN_WORD, bytes_text("SHOW") };
}

bool request_read(struct bytes text, struct request *request, struct err *err)
{
	struct sentence sentence, second;
	struct bytes rest = text;
	enum words_result result;

	grammar_read_sentence(&rest, &sentence);
	if (request_read_talk(&sentence, request) && !grammar_read_sentence(&rest, &second))
		return true;
	rename_select(&sentence);
	result = read_command(&sentence, request);
	if (result == WORDS_INVALID)
		result = read_show(&sentence, request);
	if (result == WORDS_TOO_LONG || (result == WORDS_INVALID && is_too_long(&sentence)))
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

static void suggest_command(size_t count, const char *first, const char *second, char *out,
                            size_t size)
{
	struct nearest one = nearest_begin(first), two;
	char both[2 * SUGGEST_SIZE];

	snprintf(both, sizeof(both), "%s %s", first, second);
	two = nearest_begin(both);
	for (size_t i = 0; i < commands_count; i++) {
		const struct command *command = &commands[i];

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

void request_suggest(struct bytes text, char *out, size_t size)
{
	char first[SUGGEST_SIZE], second[SUGGEST_SIZE] = "";
	struct sentence sentence;
	const struct token *tokens = sentence.tokens;

	*out = 0;
	grammar_read_sentence(&text, &sentence);
	rename_select(&sentence);
	if (grammar_token_is(&tokens[0], "SET"))
		snprintf(out, size, "Syntax: SET key = value.");
	else if (are_names(&sentence) && grammar_copy_token(&tokens[0], first, sizeof(first)) &&
	         (sentence.count == 1 || grammar_copy_token(&tokens[1], second, sizeof(second)))) {
		if (sentence.count > 1 && strcasecmp(first, "SHOW") == 0)
			suggest_for_show(&sentence, second, out, size);
		else if (sentence.count <= 2)
			suggest_command(sentence.count, first, second, out, size);
	}
}

void request_hide(struct bytes text, char *out, size_t size)
{
	struct bytes rest = text;
	struct sentence sentence;
	const struct token *first = &sentence.tokens[0];
	bool is_secret;
	char name[64];

	*out = 0;
	grammar_read_sentence(&rest, &sentence);
	/* it names a setting whose value may contain a password, or is a malformed SET */
	is_secret = grammar_token_is(first, "SET");
	for (size_t i = 0; i < settings_count && !is_secret; i++) {
		const char *word = settings[i].hidden_with;

		is_secret = word && memmem(text.at, text.count, word, strlen(word));
	}
	if (!is_secret)
		return;
	if (first->kind != TOKEN_WORD || !grammar_copy_token(first + 1, name, sizeof(name)) ||
	    !setting_find(name))
		*name = 0;
	snprintf(out, size, "invalid command '%s%s%s...', use SHOW HELP;", *name ? "SET " : "",
	         name, *name ? " " : "");
}

/* ---- what a request returns ---- */

bool request_check_rows(const struct request *request, const struct console *console,
                        struct err *err)
{
	const char *name = request->words.value;
	struct pools *pools = console_pools(console);

	if (request->kind != REQUEST_SHOW || request->show->argument != SHOW_OF_DATABASE ||
	    request->words.count < 2 || strcmp(name, CONFIG_CONSOLE_DATABASE) == 0 ||
	    pools_find_database(pools, name) || config_database_auto(pools->config))
		return true;
	return err_set(err, ERR_NO_DATABASE, "no such database: %s", name);
}

bool request_check(const struct request *request, const struct console_session *session,
                   struct err *err)
{
	/*
	 * If SELECT 1 fails with PgBouncer's error, pgcli recognises a console and sends no queries
	 * on PostgreSQL's catalogs. So the error is the same here.
	 */
	if (request->kind == REQUEST_TALK && strcmp(request->talk->words, "SELECT 1") == 0 &&
	    strcmp(show_application(session->client), "pgcli") == 0)
		return err_set(err, ERR_PROTOCOL, "invalid command 'SELECT 1', use SHOW HELP;");
	return request_check_rows(request, session->console, err);
}

struct show_asked request_asked(const struct request *request)
{
	const struct words *words = &request->words;

	return (struct show_asked){ request->show, words->count >= 2 ? words->value : NULL,
		                    words->argument };
}
