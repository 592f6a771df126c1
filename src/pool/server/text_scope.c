/* SPDX-License-Identifier: ISC */
/*
 * Scopes of statements.
 *
 * Hard here: each Bind needs the scope. A server usually has the same map as before, so the cost is
 * usually one comparison of pointers.
 */
#include "pgweir/pool/server/text_scope.h"

#include <string.h>
#include <strings.h>

#include "pgweir/base/banned.h"

static const char *const names[] = {
	"array_nulls",
	"backslash_quote",
	"client_encoding",
	"DateStyle",
	"IntervalStyle",
	"lc_monetary",
	"role",
	"search_path",
	"session_authorization",
	"standard_conforming_strings",
	"TimeZone",
	"timezone_abbreviations",
	"transform_null_equals",
	"xmloption",
};

static bool is_in_scope(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/* Words of statements that set parameters of the scope, or parameters that are not known. */
static const char *const words[] = {
	"all",
	"array_nulls",
	"backslash_quote",
	"client_encoding",
	"datestyle",
	"intervalstyle",
	"lc_monetary",
	"names",
	"standard_conforming_strings",
	"timezone",
	"transform_null_equals",
	"xml",
	"zone",
	"$1", /* set_config($1, $2, false) */
};

static bool has_word(struct bytes text, const char *word)
{
	size_t size = strlen(word);

	for (; text.count >= size; text = bytes_skip(text, 1)) {
		if ((text.at[0] | 0x20) == (word[0] | 0x20) &&
		    strncasecmp(text.at, word, size) == 0)
			return true;
	}
	return false;
}

bool text_scope_is_named(struct bytes text)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (has_word(text, words[i]))
			return true;
	}
	return false;
}

/* What of a text makes a parameter decide over how it is read first. */
struct reading {
	bool has_backslash;
	bool has_encoding; /* it is not ASCII */
};

static bool is_read_once(const char *name, struct reading reading)
{
	if (strcasecmp(name, "client_encoding") == 0)
		return reading.has_encoding;
	return reading.has_backslash && (strcasecmp(name, "standard_conforming_strings") == 0 ||
	                                 strcasecmp(name, "backslash_quote") == 0);
}

struct pair {
	const char *name; /* NULL: the end of the list */
	const char *value;
};

static struct pair next_pair(struct bytes *list, bool is_once, struct reading reading)
{
	struct pair pair;

	while (bytes_take_text(list, &pair.name) && bytes_take_text(list, &pair.value)) {
		if (is_read_once(pair.name, reading) == is_once)
			return pair;
	}
	return (struct pair){ NULL, NULL };
}

bool text_scope_merge(struct bytes text, struct bytes first, struct bytes now, struct buf *out)
{
	struct reading reading = {
		.has_backslash = memchr(text.at, '\\', text.count) != NULL,
		.has_encoding = !bytes_are_ascii(text),
	};
	struct pair old = next_pair(&first, true, reading);
	struct pair new = next_pair(&now, false, reading);

	while (old.name || new.name) {
		bool is_old = old.name && (!new.name || strcasecmp(old.name, new.name) < 0);
		struct pair *pair = is_old ? &old : &new;

		buf_add_cstr(out, pair->name);
		buf_add_cstr(out, pair->value);
		*pair = next_pair(is_old ? &first : &now, is_old, reading);
	}
	return buf_ok(out);
}

bool text_scope_read(struct text_scope *scope, struct params_table *table,
                     const struct params *params, struct bytes *text)
{
	const char *at = NULL, *name, *value;

	if (scope->params != params) {
		text_scope_done(scope, table);
		while (params_next(params, &at, &name, &value)) {
			if (!is_in_scope(name))
				continue;
			buf_add_cstr(&scope->text, name);
			buf_add_cstr(&scope->text, value);
		}
		if (!buf_ok(&scope->text)) {
			buf_free(&scope->text);
			return false;
		}
		scope->params = params_hold(params);
	}
	*text = buf_bytes(&scope->text);
	return true;
}

void text_scope_done(struct text_scope *scope, struct params_table *table)
{
	if (scope->params)
		params_release(table, &scope->params);
	scope->params = NULL;
	buf_free(&scope->text);
}
