/* SPDX-License-Identifier: ISC */
/*
 * Small talk: queries that drivers and connection pools send to any server. They are
 * answered as PostgreSQL would answer, so that such programs can use the console.
 *
 * A SET of a PostgreSQL parameter has no effect here, and a NOTICE reports it.
 */
#include "admin_priv.h"

#include <ctype.h>
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/base/version.h"
#include "pgweir/config/settings.h"

static bool next_talk(struct cursor *cursor, void *row);
static bool next_name(struct cursor *cursor, void *row);
static bool next_changeable_name(struct cursor *cursor, void *row);
static bool next_type(struct cursor *cursor, void *row);
static bool next_value(struct cursor *cursor, void *row);

#define VERSION_SERVER VERSION_COMPATIBLE "/bouncer"
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
	      next_changeable_name, "lower"),
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

	if (!grammar_copy_token(name, text, sizeof(text)) || setting_find(text))
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

	if (!grammar_token_is(at++, "SET"))
		return false;
	if (grammar_token_is(at, "SESSION") || grammar_token_is(at, "LOCAL"))
		at++;
	return end - at > 2 && is_parameter(&at[0]) &&
	       (grammar_token_is(&at[1], "=") || grammar_token_is(&at[1], "TO")) &&
	       at[2].kind != TOKEN_OPEN;
}

const struct talk *small_talk_find(const struct sentence *sentence, struct words *words)
{
	for (size_t i = 0; i < sizeof(talks) / sizeof(talks[0]); i++) {
		if (grammar_match(talks[i].words, sentence, words) != sentence->count)
			continue;
		words->count = 2;
		if (talks[i].text)
			text_copy(words->value, sizeof(words->value), talks[i].text);
		return talks[i].tag ? &talks[i] : NULL;
	}
	return is_set(sentence) ? &set_ignored : NULL;
}

static bool next_talk(struct cursor *cursor, void *at)
{
	const struct release *release = rows_release(cursor->source);
	const char *text = cursor->asked.argument;

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

/* Tables first, then HELP, then settings; after SET only settings that can be changed. */
static bool find_name(struct cursor *cursor, bool is_set, void *row)
{
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
		    !is_like(name, cursor->asked.argument))
			continue;
		*(const char **)row = cursor_lower(cursor, name);
		return true;
	}
	return false;
}

static bool next_name(struct cursor *cursor, void *row) { return find_name(cursor, false, row); }

static bool next_changeable_name(struct cursor *cursor, void *row)
{
	return find_name(cursor, true, row);
}

const struct setting *small_talk_setting(const char *name)
{
	for (size_t i = 0; i < settings_count; i++) {
		if (strcasecmp(settings[i].name, name) == 0)
			return &settings[i];
	}
	return NULL;
}

static bool next_type(struct cursor *cursor, void *at)
{
	const struct setting *setting =
	    cursor->index++ ? NULL : small_talk_setting(cursor->asked.argument);

	if (setting)
		*(const char **)at = setting_types[setting->type].vartype;
	return setting != NULL;
}

/* The query has two strings: the prefix of the value (`other`), then the setting's name. */
static bool next_value(struct cursor *cursor, void *at)
{
	const struct setting *setting = small_talk_setting(cursor->asked.argument);
	const char **text = at;

	while (setting && setting->words && setting->words[cursor->index]) {
		*text = setting->words[cursor->index++];
		if (is_like(*text, cursor->asked.other))
			return true;
	}
	return false;
}
