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

bool request_read_talk(struct bytes text, struct request *request)
{
	struct bytes rest = text;
	struct token token;

	*request = (struct request){ .kind = REQUEST_EMPTY, .tag = "" };
	do
		grammar_next_token(&rest, &token);
	while (token.kind == TOKEN_SIGN && grammar_token_is(&token, ";"));
	if (token.kind == TOKEN_END)
		return true;
	request->kind = REQUEST_TALK;
	request->talk = small_talk_find(text, &request->words);
	if (!request->talk)
		return false;
	request->tag = request->talk->tag;
	request->show = request->talk->rows;
	request->column =
	    (struct column){ .name = request->talk->title, .type = request->talk->type };
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

/* SELECT is an alias of SHOW. */
static bool is_show(struct words *words)
{
	if (words->count > 1 && strcasecmp(words->command, "SELECT") == 0)
		text_copy(words->command, sizeof(words->command), "SHOW");
	return words->count > 1 && strcasecmp(words->command, "SHOW") == 0;
}

/* Whether the SHOW accepts the words after its name, if there are any. */
static bool takes_argument(const struct show *show, const struct words *words)
{
	if (words->count < 3)
		return true;
	if (words->count > 3 && show->argument != SHOW_OF_STATEMENTS)
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

/* `SHOW name` is a table or, if there is no such table, a setting. */
static bool read_show(struct request *request)
{
	struct words *words = &request->words;
	const struct setting *setting;

	request->kind = REQUEST_SHOW;
	request->tag = "SHOW";
	request->show = show_find(words->argument);
	if (request->show)
		return takes_argument(request->show, words);
	setting = words->count == 2 ? small_talk_setting(words->argument) : NULL;
	if (!setting)
		return false;
	words->count = 3;
	text_copy(words->value, sizeof(words->value), setting->name);
	request->show = &show_setting;
	request->column = *show_setting.columns.at;
	request->column.name = setting->name;
	return true;
}

bool request_read_table(const char *text, struct request *request, struct err *err)
{
	size_t count = strcspn(text, " ");
	bool has_argument = text[count];
	struct words *words = &request->words;

	*request = (struct request){ .kind = REQUEST_SHOW, .words.count = has_argument ? 3 : 2 };
	if (count < sizeof(words->argument) &&
	    text_copy(words->value, sizeof(words->value), text + count + has_argument)) {
		memcpy(words->argument, text, count);
		request->show = show_find(words->argument);
	}
	return (request->show && takes_argument(request->show, words)) ||
	       err_set(err, ERR_SYNTAX, "there is no such table");
}

static bool read_command(struct request *request)
{
	request->kind = REQUEST_COMMAND;
	request->show = NULL;
	request->command = command_find(&request->words);
	if (request->command)
		request->tag = request->command->tag;
	return request->command;
}

bool request_read(struct bytes text, struct request *request, struct err *err)
{
	struct words words;
	enum words_result result = grammar_read_words(text, &words);
	/* RESET of a setting is small talk, but RESET STATEMENTS is a command. */
	bool is_reset =
	    result == WORDS_OK && strcasecmp(words.command, "RESET") == 0 && command_find(&words);

	if (!is_reset && request_read_talk(text, request))
		return true;
	if (result == WORDS_TOO_LONG)
		return err_set(err, ERR_SYNTAX, "bad arguments");
	*request = (struct request){ .words = words };
	return (result == WORDS_OK &&
	        ((is_show(&request->words) && read_show(request)) || read_command(request))) ||
	       invalid(text, err);
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

/* The SHOW exists, but the word after its name is wrong. */
static void suggest_argument(const struct words *words, char *out, size_t size)
{
	const struct show *show = show_find(words->argument);

	if (show->argument == SHOW_OF_TABLE)
		suggest_show(words->value, "SHOW COLUMNS ", out, size);
	if (!*out)
		snprintf(out, size, "Syntax: SHOW %s%s.", show->item,
		         show_argument_name(show->argument));
}

static void suggest_command(const struct words *words, char *out, size_t size)
{
	char both[sizeof(words->command) + sizeof(words->argument) + 1];
	struct nearest one = nearest_begin(words->command), two;

	snprintf(both, sizeof(both), "%s %s", words->command, words->argument);
	two = nearest_begin(both);
	for (size_t i = 0; i < commands_count; i++) {
		const struct command *command = &commands[i];

		if (strcasecmp(command->words, words->command) == 0 && words->count < 3) {
			snprintf(out, size, "Syntax: %s%s.", command->words, command->usage);
		}
		nearest_offer(&one, command->words);
		nearest_offer(&two, command->words);
	}
	if (words->count == 2 && two.found && strchr(two.found, ' '))
		suggest(out, size, "", two.found);
	else if (!*out)
		suggest(out, size, "", one.found);
	if (!*out && words->count == 1)
		suggest_show(words->command, "SHOW ", out, size);
}

void request_suggest(struct bytes text, char *out, size_t size)
{
	struct words words;
	struct token first;
	struct bytes rest = text;

	*out = 0;
	if (grammar_read_words(text, &words) != WORDS_OK) {
		grammar_next_token(&rest, &first);
		if (grammar_token_is(&first, "SET"))
			snprintf(out, size, "Syntax: SET key = value.");
		return;
	}
	if (!is_show(&words))
		suggest_command(&words, out, size);
	else if (words.count >= 3 && show_find(words.argument))
		suggest_argument(&words, out, size);
	else
		suggest_show(words.argument, "SHOW ", out, size);
}

void request_hide(struct bytes text, char *out, size_t size)
{
	struct token first, second;
	struct bytes rest = text;
	bool is_secret;
	char name[64];

	*out = 0;
	grammar_next_token(&rest, &first);
	grammar_next_token(&rest, &second);
	/* it names a setting whose value may contain a password, or is a malformed SET */
	is_secret = grammar_token_is(&first, "SET");
	for (size_t i = 0; i < settings_count && !is_secret; i++) {
		const char *word = settings[i].hidden_with;

		is_secret = word && memmem(text.at, text.count, word, strlen(word));
	}
	if (!is_secret)
		return;
	if (first.kind != TOKEN_WORD || !grammar_copy_token(&second, name, sizeof(name)) ||
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
	    request->words.count < 3 || strcmp(name, CONFIG_CONSOLE_DATABASE) == 0 ||
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

	return (struct show_asked){ request->show, words->count >= 3 ? words->value : NULL,
		                    words->argument };
}
