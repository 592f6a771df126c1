/* SPDX-License-Identifier: ISC */
/*
 * A server's parameters: what to say so that they become what a client wants,
 * and what its reports mean.
 *
 * A map holds only what differs from the server's own defaults. What a client
 * does not have goes back: to the value that the server reported at its login,
 * or by RESET if it does not report that name.
 *
 * Hard here: a client may RESET what it had given at its start. The server says
 * so for the names that it reports; the others are unknown from then on, and
 * stand in the map with a value that nobody can want.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pool_priv.h"
#include "server_priv.h"

#include "pgweir/base/banned.h"

/* No value of a parameter: PostgreSQL does not take control characters in a startup packet's words
 * for anything, and no one sends this. */
#define UNKNOWN "\001"

/* Parameters that are lists of quoted names: SET would take the whole text for one name. */
static const char *const name_lists[] = { "search_path", "temp_tablespaces",
	                                  "local_preload_libraries", "session_preload_libraries" };

static bool is_name_list(const char *name)
{
	for (size_t i = 0; i < sizeof(name_lists) / sizeof(name_lists[0]); i++) {
		if (strcasecmp(name_lists[i], name) == 0)
			return true;
	}
	return false;
}

/* Parameters whose values PostgreSQL reads in any case, and reports in its own spelling. */
static const char *const caseless[] = { "client_encoding", "DateStyle", "IntervalStyle",
	                                "standard_conforming_strings", "TimeZone" };

/* Whether a value need not be set. "Foo" and "foo" are two schemas in a search_path. */
static bool is_same(const char *name, const char *have, const char *want)
{
	if (strcmp(have, want) == 0)
		return true;
	for (size_t i = 0; i < sizeof(caseless) / sizeof(caseless[0]); i++) {
		if (strcasecmp(caseless[i], name) == 0)
			return strcasecmp(have, want) == 0;
	}
	return false;
}

/*
 * In some client encodings (SJIS, BIG5, GBK) a backslash may be the second byte of a
 * character: doubled, the second one would stand for itself, and take the quote behind
 * the value with it. Between dollars no byte means anything but the closing tag.
 */
static void add_dollar_literal(struct buf *text, const char *value)
{
	char tag[24];
	unsigned int number = 0;

	do
		snprintf(tag, sizeof(tag), "$w%u", number++);
	while (strstr(value, tag)); /* without its last $, which the value's end could lend it */
	buf_printf(text, "%s$%s%s$", tag, value, tag);
}

static bool is_ascii(const char *value)
{
	while (*value && (unsigned char)*value < 0x80)
		value++;
	return *value == 0;
}

/* An SQL literal, safe whatever standard_conforming_strings and client_encoding say. */
static void add_literal(struct buf *text, const char *value)
{
	if (strchr(value, '\\') && !is_ascii(value)) {
		add_dollar_literal(text, value);
		return;
	}
	buf_add_text(text, strchr(value, '\\') ? "E'" : "'");
	for (; *value; value++) {
		if (*value == '\'' || *value == '\\')
			buf_add_byte(text, *value);
		buf_add_byte(text, *value);
	}
	buf_add_byte(text, '\'');
}

/* A parameter's name: identifiers with dots between them. */
static void add_name(struct buf *text, const char *name)
{
	buf_add_byte(text, '"');
	for (; *name; name++) {
		if (*name == '.') {
			buf_add_text(text, "\".\"");
			continue;
		}
		if (*name == '"')
			buf_add_byte(text, '"');
		buf_add_byte(text, *name);
	}
	buf_add_byte(text, '"');
}

static void add_set(struct buf *text, const char *name, const char *value)
{
	if (is_name_list(name)) {
		buf_add_text(text, "SELECT pg_catalog.set_config(");
		add_literal(text, name);
		buf_add_text(text, ",");
		add_literal(text, value);
		buf_add_text(text, ",false);");
		return;
	}
	buf_add_text(text, "SET ");
	add_name(text, name);
	buf_add_byte(text, '=');
	add_literal(text, value);
	buf_add_byte(text, ';');
}

static void add_set_back(struct buf *text, const struct server *server, const char *name)
{
	const char *value = params_find(server->baseline, name);

	if (value) {
		add_set(text, name, value);
		return;
	}
	buf_add_text(text, "RESET ");
	add_name(text, name);
	buf_add_byte(text, ';');
}

/* What no query can come out differently by. */
static bool is_harmless(const char *name) { return strcasecmp(name, "application_name") == 0; }

bool server_replay_text(const struct server *server, const struct params *want, struct buf *text)
{
	const char *at = NULL, *name, *value;
	bool all_harmless = true;

	while (params_next(server->params, &at, &name, &value)) {
		if (params_find(want, name))
			continue;
		add_set_back(text, server, name);
		all_harmless &= is_harmless(name);
	}
	at = NULL;
	while (params_next(want, &at, &name, &value)) {
		const char *have = params_find(server->params, name);

		if (!have)
			have = params_find(server->baseline, name);
		if (have && is_same(name, have, value))
			continue;
		add_set(text, name, value);
		all_harmless &= is_harmless(name);
	}
	return all_harmless;
}

/* A map that does not say what is set there any more is good for nobody else. */
static void change(struct server *server, const struct params **params, const char *name,
                   const char *value)
{
	if (!params_change(server->pool->pools->with.params, params, name, value))
		server_set_close_needed(server, true);
}

bool server_parameter(struct server *server, const char *name, const char *value)
{
	const char *tracked = pools_tracked(server->pool->pools, name);
	const char *had = params_find(server->params, name);
	const char *normal = params_find(server->baseline, name);
	bool is_news = strcmp(had ? had : normal ? normal : "", value) != 0;

	if (!tracked && !had) {
		change(server, &server->baseline, name, value);
		return is_news;
	}
	if (normal && strcmp(normal, value) == 0)
		value = NULL;
	change(server, &server->params, tracked ? tracked : name, value);
	return is_news;
}

void server_forget_rest(struct server *server, bool is_all)
{
	struct params_table *table = server->pool->pools->with.params;
	const struct params *before = params_hold(server->params);
	const char *at = NULL, *name, *value;

	while (params_next(before, &at, &name, &value)) {
		if (!params_find(server->baseline, name))
			change(server, &server->params, name, is_all ? NULL : UNKNOWN);
	}
	params_release(table, &before);
	server->is_rest_unknown = true;
}
