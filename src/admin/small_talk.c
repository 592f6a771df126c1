/* SPDX-License-Identifier: ISC */
/*
 * Small talk: queries that drivers and connection pools send to any server. They are
 * answered as PostgreSQL would answer, so that such programs can use the console.
 *
 * A SET of a PostgreSQL parameter has no effect here, and a NOTICE reports it.
 */
#include "admin_priv.h"

#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/base/version.h"
#include "pgweir/config/settings.h"

#include "pgweir/base/banned.h"

struct talk_row {
	const char *text;
	int64_t number;
};

#define NAMED(name)                                                     \
	{                                                               \
		name, VALUE_TEXT, offsetof(struct talk_row, text), NULL \
	}
#define SHOWS(name, value)                                             \
	{                                                              \
		"SHOW " name, "SHOW", TALK_NOTHING, value, NAMED(name) \
	}

#define PSQL_NAMES "SELECT pg_catalog . lower ( name ) FROM pg_catalog . pg_settings "

static const struct talk talks[] = {
	{ "BEGIN ...", "BEGIN", TALK_BEGIN, NULL, { 0 } },
	{ "START TRANSACTION ...", "START TRANSACTION", TALK_BEGIN, NULL, { 0 } },
	{ "COMMIT ...", "COMMIT", TALK_END, NULL, { 0 } },
	{ "END ...", "COMMIT", TALK_END, NULL, { 0 } },
	{ "ROLLBACK TO ...", "ROLLBACK", TALK_NOTHING, NULL, { 0 } },
	{ "ROLLBACK ...", "ROLLBACK", TALK_END, NULL, { 0 } },
	{ "ABORT ...", "ROLLBACK", TALK_END, NULL, { 0 } },
	{ "SAVEPOINT ?", "SAVEPOINT", TALK_NOTHING, NULL, { 0 } },
	{ "RELEASE ...", "RELEASE", TALK_NOTHING, NULL, { 0 } },
	{ "DISCARD ALL", "DISCARD ALL", TALK_FORGET_ALL, NULL, { 0 } },
	{ "DEALLOCATE ALL", "DEALLOCATE ALL", TALK_FORGET_ALL, NULL, { 0 } },
	{ "DEALLOCATE PREPARE ALL", "DEALLOCATE ALL", TALK_FORGET_ALL, NULL, { 0 } },
	{ "DEALLOCATE PREPARE ?", "DEALLOCATE", TALK_FORGET, NULL, { 0 } },
	{ "DEALLOCATE ?", "DEALLOCATE", TALK_FORGET, NULL, { 0 } },
	{ "RESET ...", "RESET", TALK_NOTHING, NULL, { 0 } },
	{ "CLOSE ALL", "CLOSE CURSOR ALL", TALK_NOTHING, NULL, { 0 } },
	{ "UNLISTEN ?", "UNLISTEN", TALK_NOTHING, NULL, { 0 } },
	{ "SET SESSION CHARACTERISTICS ...", "SET", TALK_IGNORED, NULL, { 0 } },
	{ "SET TRANSACTION ...", "SET", TALK_IGNORED, NULL, { 0 } },
	{ "SET TIME ZONE ...", "SET", TALK_IGNORED, NULL, { 0 } },
	{ "SET NAMES ...", "SET", TALK_IGNORED, NULL, { 0 } },
	{ "SELECT 1",
	  "SELECT 1",
	  TALK_ONE,
	  "1",
	  { "?column?", VALUE_INT4, offsetof(struct talk_row, number), NULL } },
	{ "SELECT version ( )", "SELECT 1", TALK_NOTHING, VERSION_SHOW, NAMED("version") },
	{ "SELECT pg_catalog . version ( )", "SELECT 1", TALK_NOTHING, VERSION_SHOW,
	  NAMED("version") },
	{ "SELECT current_database ( )", "SELECT 1", TALK_NOTHING, CONFIG_CONSOLE_DATABASE,
	  NAMED("current_database") },
	{ "SELECT pg_advisory_unlock_all ( )",
	  "SELECT 1",
	  TALK_NOTHING,
	  "",
	  { "pg_advisory_unlock_all", VALUE_VOID, offsetof(struct talk_row, text), NULL } },
	{ "SHOW TRANSACTION ISOLATION LEVEL", "SHOW", TALK_NOTHING, "read committed",
	  NAMED("transaction_isolation") },
	{ "SHOW TIME ZONE", "SHOW", TALK_NOTHING, "GMT", NAMED("TimeZone") },
	SHOWS("client_encoding", "UTF-8"),
	SHOWS("default_transaction_isolation", "read committed"),
	SHOWS("transaction_isolation", "read committed"),
	SHOWS("standard_conforming_strings", "on"),
	SHOWS("datestyle", "ISO"),
	SHOWS("timezone", "GMT"),
	SHOWS("server_version", VERSION_COMPATIBLE "/bouncer"),
	SHOWS("server_encoding", "UTF8"),
	SHOWS("is_superuser", "on"),
	/* Queries of psql's tab completion, from version 15 on. */
	{ PSQL_NAMES "WHERE pg_catalog . lower ( name ) LIKE pg_catalog . lower ( ? ) ...",
	  "SELECT",
	  TALK_NAMES,
	  NULL,
	  { 0 } },
	{ PSQL_NAMES "WHERE context IN ( ? , ? ) AND pg_catalog . lower ( name ) LIKE "
	             "pg_catalog . lower ( ? ) ...",
	  "SELECT",
	  TALK_CHANGEABLE_NAMES,
	  NULL,
	  { 0 } },
	{ "SELECT vartype FROM pg_catalog . pg_settings WHERE pg_catalog . lower ( name ) = "
	  "pg_catalog . lower ( ? )",
	  "SELECT",
	  TALK_TYPE,
	  NULL,
	  { 0 } },
	{ "SELECT val FROM ( SELECT name , pg_catalog . unnest ( enumvals ) AS val FROM "
	  "pg_catalog . pg_settings ) ss WHERE val LIKE ? and pg_catalog . lower ( name ) = "
	  "pg_catalog . lower ( ? ) ...",
	  "SELECT",
	  TALK_VALUES,
	  NULL,
	  { 0 } },
};

/*
 * SET of these parameters is small talk too. If pgweir has a setting of the same name, SET
 * changes that setting instead.
 */
static const struct talk set_ignored = { "SET", "SET", TALK_IGNORED, NULL, { 0 } };
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
static bool is_set(struct bytes text)
{
	struct token token;

	grammar_next_token(&text, &token);
	if (!grammar_token_is(&token, "SET"))
		return false;
	grammar_next_token(&text, &token);
	if (grammar_token_is(&token, "SESSION") || grammar_token_is(&token, "LOCAL"))
		grammar_next_token(&text, &token);
	if (!is_parameter(&token))
		return false;
	grammar_next_token(&text, &token);
	if (!grammar_token_is(&token, "=") && !grammar_token_is(&token, "TO"))
		return false;
	grammar_next_token(&text, &token);
	return token.kind != TOKEN_END && token.kind != TOKEN_OPEN &&
	       !grammar_token_is(&token, ";");
}

/* At most one `;` may follow. */
static bool ends(struct bytes rest)
{
	struct token token;

	grammar_next_token(&rest, &token);
	if (token.kind == TOKEN_SIGN && grammar_token_is(&token, ";"))
		grammar_next_token(&rest, &token);
	return token.kind == TOKEN_END;
}

/* Whether `rest` is the end of one statement, with no other one after it. */
static bool is_one(struct bytes rest)
{
	struct bytes statement;

	grammar_next_statement(&rest, &statement);
	return ends(rest);
}

static bool matches(const char *pattern, struct bytes text, struct words *words)
{
	while (*pattern) {
		size_t length = strcspn(pattern, " ");
		char word[64];
		struct token token;

		memcpy(word, pattern, length);
		word[length] = 0;
		pattern += length + strspn(pattern + length, " ");
		if (strcmp(word, "...") == 0)
			return is_one(text);
		grammar_next_token(&text, &token);
		if (token.kind == TOKEN_END || token.kind == TOKEN_OPEN)
			return false;
		if (strcmp(word, "?") == 0) {
			text_copy(words->argument, sizeof(words->argument), words->value);
			if (!grammar_copy_token(&token, words->value, sizeof(words->value)))
				return false;
		} else if (!grammar_token_is(&token, word)) {
			return false;
		}
	}
	return ends(text);
}

const struct talk *small_talk_find(struct bytes text, struct words *words)
{
	for (size_t i = 0; i < sizeof(talks) / sizeof(talks[0]); i++) {
		if (matches(talks[i].words, text, words))
			return &talks[i];
	}
	return is_set(text) && is_one(text) ? &set_ignored : NULL;
}

const struct show *small_talk_rows(const struct talk *talk)
{
	switch (talk->effect) {
	case TALK_NAMES:
		return &show_names;
	case TALK_CHANGEABLE_NAMES:
		return &show_changeable_names;
	case TALK_TYPE:
		return &show_type;
	case TALK_VALUES:
		return &show_values;
	default:
		return NULL;
	}
}

static bool next_talk(struct cursor *cursor, void *at)
{
	struct talk_row *row = at;

	if (cursor->index++)
		return false;
	*row = (struct talk_row){ cursor->asked.argument, 1 };
	return true;
}

const struct show show_talk = { .item = "", .next = next_talk };
