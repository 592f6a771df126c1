/* SPDX-License-Identifier: ISC */
/*
 * Parses single values.
 *
 * Hard here: what PgBouncer accepts must have the same meaning (number bases as in C, seconds
 * with a fraction). Units and words are our extensions: PgBouncer refuses them.
 */
#include "config_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/text.h"

/* In the order of their enums. */
const char *const value_pool_modes[] = { "session", "transaction", "statement", NULL };
const char *const value_session_states[] = { "follow", "refuse", "off", NULL };
const char *const value_session_isolations[] = { "known", "strict", "off", NULL };
const char *const value_causal_reads[] = { "off", "session", NULL };
const char *const value_route_reads[] = { "off", "transactions", "sessions", "statements", NULL };
const char *const value_load_balances[] = { "round-robin", "disable", "least-connections", NULL };
const char *const value_priorities[] = { "high", "normal", "low", NULL };
const char *const value_targets[] = { "any",     "read-write",     "read-only", "primary",
	                              "standby", "prefer-standby", NULL };

/* A comment after a value is a frequent mistake. */
static const char *comment_hint(const char *text)
{
	const char *mark = strpbrk(text, ";#");

	return mark && mark != text ? " (a comment needs a line of its own, or the value in quotes)"
	                            : "";
}

static bool is_not(struct err *err, const char *text, const char *what)
{
	if (!*text)
		return err_set(err, ERR_PARAMETER, "the value is missing: %s is needed", what);
	return err_set(err, ERR_PARAMETER, "\"%s\" is not %s%s", text, what, comment_hint(text));
}

static bool whole_number(const char *text, int base, int64_t *value)
{
	char *end;

	if (isspace((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoll(text, &end, base);
	return end != text && *end == 0 && errno == 0;
}

bool value_int(const char *text, int base, int64_t *value, struct err *err)
{
	return whole_number(text, base, value) || is_not(err, text, "a whole number");
}

bool value_bool(const char *text, bool *value, struct err *err)
{
	static const char *const words[] = { "off", "on", "false", "true", "no", "yes", NULL };
	int at = value_word(text, words);
	int64_t number;

	if (at >= 0)
		*value = at % 2 == 1;
	else if (whole_number(text, 0, &number))
		*value = number != 0;
	else
		return is_not(err, text, "a switch (1 or 0, on or off, true or false, yes or no)");
	return true;
}

struct unit {
	const char *name;
	int64_t size;
};

static const struct unit time_units[] = {
	{ "us", 1 },
	{ "ms", USEC_PER_MS },
	{ "s", USEC_PER_SEC },
	{ "min", 60 * USEC_PER_SEC },
	{ "h", 3600 * USEC_PER_SEC },
	{ "d", 86400 * USEC_PER_SEC },
	{ NULL, 0 },
};

static const struct unit byte_units[] = {
	{ "B", 1 }, { "kB", 1 << 10 }, { "MB", 1 << 20 }, { "GB", 1 << 30 }, { NULL, 0 },
};

/* Other spellings of units, for hints. */
static const struct {
	const char *written, *meant;
} other_units[] = {
	{ "m", "min" },  { "mins", "min" }, { "minute", "min" }, { "minutes", "min" },
	{ "sec", "s" },  { "secs", "s" },   { "second", "s" },   { "seconds", "s" },
	{ "hour", "h" }, { "hours", "h" },  { "hr", "h" },       { "day", "d" },
	{ "days", "d" }, { "msec", "ms" },  { "usec", "us" },    { "k", "kB" },
	{ "kib", "kB" }, { "mib", "MB" },   { "gib", "GB" },     { "bytes", "B" },
	{ "m", "MB" },   { "g", "GB" },
};

/* Adds `: did you mean "5min"?` if the unit meant is known. Returns false. */
static bool hint_unit(struct err *err, const char *text, const struct unit *units)
{
	size_t count = strspn(text, "+-.0123456789");
	const char *unit = text + count + strspn(text + count, " \t");

	for (size_t i = 0; i < sizeof(other_units) / sizeof(other_units[0]); i++) {
		const struct unit *known = units;

		while (known->name && strcmp(known->name, other_units[i].meant) != 0)
			known++;
		if (count && known->name && strcasecmp(other_units[i].written, unit) == 0)
			return err_suffix(err, ": did you mean \"%.*s%s\"?", (int)count, text,
			                  known->name);
	}
	return false;
}

/* The unit after a number, with or without blanks before it; 0: no such unit. */
static int64_t unit_size(const char *text, const struct unit *unit, int64_t bare)
{
	text += strspn(text, " \t");
	if (!*text)
		return bare;
	for (; unit->name; unit++) {
		if (strcasecmp(unit->name, text) == 0)
			return unit->size;
	}
	return 0;
}

bool value_time(const char *text, usec_t unit, int base, usec_t *value, struct err *err)
{
	static const char what[] = "a duration (a number, or one with us, ms, s, min, h or d)";
	const char *digits = text + strspn(text, "+-");
	int64_t whole, size;
	double number;
	char *end;

	/* strtod() would accept "inf", "nan" and hexadecimal fractions */
	if (digits > text + 1 || !strchr("0123456789.", *digits) || !*digits)
		return is_not(err, text, what);
	/* PgBouncer parses such numbers like C: 010 is 8, 0x10 is 16. */
	if (base == 0 && whole_number(text, 0, &whole)) {
		number = (double)whole;
		size = unit;
	} else if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
		return is_not(err, text, what);
	} else {
		number = strtod(text, &end);
		size = unit_size(end, time_units, unit);
		if (end == text || size == 0)
			return is_not(err, text, what) || hint_unit(err, text, time_units);
	}
	number *= (double)size;
	if (number > (double)VALUE_TIME_MAX || number < -(double)VALUE_TIME_MAX)
		return err_set(err, ERR_PARAMETER, "\"%s\" is too long a time", text);
	*value = (usec_t)(number < 0 ? number - 0.5 : number + 0.5);
	return true;
}

bool value_bytes(const char *text, int64_t *value, struct err *err)
{
	static const char what[] = "a size (a number of bytes, or one with B, kB, MB or GB)";
	int64_t number, size;
	char *end;

	errno = 0;
	number = strtoll(text, &end, 0);
	size = unit_size(end, byte_units, 1);
	if (end == text || isspace((unsigned char)*text) || size == 0)
		return is_not(err, text, what) || hint_unit(err, text, byte_units);
	if (errno || number > INT64_MAX / size || number < INT64_MIN / size)
		return err_set(err, ERR_PARAMETER, "\"%s\" is too large a size", text);
	*value = number * size;
	return true;
}

int value_word(const char *text, const char *const *words)
{
	for (int i = 0; words[i]; i++) {
		if (strcasecmp(words[i], text) == 0)
			return i;
	}
	return -1;
}

/* The word that was probably meant: the nearest, or the only one that begins so. NULL: none. */
static const char *value_near_word(const char *text, const char *const *words)
{
	struct nearest nearest = nearest_begin(text);
	const char *longer = NULL;
	size_t count = strlen(text), longer_count = 0;

	for (; *words; words++) {
		nearest_offer(&nearest, *words);
		if (count >= 3 && strncasecmp(*words, text, count) == 0) {
			longer = *words;
			longer_count++;
		}
	}
	if (nearest.found)
		return nearest.found;
	return longer_count == 1 ? longer : NULL;
}

bool value_refuse_word(const char *text, const char *const *words, struct err *err)
{
	const char *near = value_near_word(text, words);

	err_set(err, ERR_PARAMETER, "\"%s\" is not one of its values: ", text);
	for (const char *const *word = words; *word; word++)
		err_suffix(err, "%s%s", word == words ? "" : word[1] ? ", " : " or ", *word);
	return near ? err_suffix(err, ": did you mean \"%s\"?", near) : false;
}

/* Cuts the next name off *at, in place. "" between two commas; NULL: no more names. */
static char *next_name(char **at, const char *separators)
{
	char *name = *at, *end;

	name += strspn(name, " \t");
	if (!*name)
		return NULL;
	end = name + strcspn(name, separators);
	*at = *end ? end + 1 : end;
	*end = 0;
	for (; end > name && strchr(" \t", end[-1]); end--)
		end[-1] = 0;
	return name;
}

/* The names are behind their pointers, in the same memory. */
bool value_list(const char *text, bool splits_at_blanks, struct config_list *list, struct err *err)
{
	const char *separators = splits_at_blanks ? ", \t" : ",";
	size_t size = strlen(text) + 1, most = size / 2 + 1;
	char *at, *name;

	*list = (struct config_list){ .text = strdup(text),
		                      .names = malloc(most * sizeof(char *) + size) };
	if (!list->text || !list->names) {
		value_list_free(list);
		return err_set(err, ERR_MEMORY, "no memory");
	}
	at = memcpy(list->names + most, text, size);
	while ((name = next_name(&at, separators))) {
		if (*name)
			list->names[list->count++] = name;
	}
	return true;
}

/* Whether this can be the name of a function, as SQL has it without quotes. */
static bool is_function(const char *name)
{
	if (isdigit((unsigned char)*name) || *name == '$')
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("_$", *name) &&
		    (unsigned char)*name < 0x80)
			return false;
	}
	return true;
}

bool value_functions(const struct config_list *list, struct err *err)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!is_function(list->names[i]))
			return err_set(err, ERR_PARAMETER,
			               "\"%s\" is not the name of a function (without schema, "
			               "quotes and arguments)",
			               list->names[i]);
	}
	return true;
}

void value_list_free(struct config_list *list)
{
	free(list->names);
	free(list->text);
	*list = (struct config_list){ 0 };
}

bool value_unquote(char **text, struct err *err)
{
	char quote = **text;
	char *end, *rest;

	if (quote != '\'' && quote != '"')
		return true;
	end = strchr(*text + 1, quote);
	if (!end)
		return err_set(err, ERR_PARAMETER, "unterminated quote");
	rest = end + 1 + strspn(end + 1, " \t");
	if (*rest && !strchr(";#", *rest))
		return err_set(err, ERR_PARAMETER, "unexpected \"%s\" after the quotes", rest);
	*end = 0;
	++*text;
	return true;
}

void value_time_text(usec_t value, char *out, size_t size)
{
	const struct unit *unit = time_units;

	for (const struct unit *larger = time_units; larger->name; larger++) {
		if (value && value % larger->size == 0)
			unit = larger;
	}
	if (value)
		snprintf(out, size, "%lld%s", (long long)(value / unit->size), unit->name);
	else
		snprintf(out, size, "0");
}

/*
 * ---- pairs ----
 *
 * The right side of a line in [databases], [users] and [peers].
 *
 * Hard here: an unquoted value may contain any character except blanks, even quotes, ; and #
 * (e.g. a password). So a comment can follow only a quoted value. And if a password contains a
 * blank but was not quoted, its second half must not appear in an error text.
 */

#define BLANKS " \t"

static char *skip_blanks(char *at) { return at + strspn(at, BLANKS); }

static enum pairs_result no_pair(const struct pairs *pairs, struct err *err)
{
	static const char hint[] = "a value that holds blanks, or has a comment behind it, needs "
				   "single quotes";

	if (pairs->key)
		err_set(err, ERR_CONFIG, "key=value is expected after %s (%s)", pairs->key, hint);
	else
		err_set(err, ERR_CONFIG, "key=value is expected");
	return PAIRS_BAD;
}

static enum pairs_result bad_value(const struct pairs *pairs, const char *reason, struct err *err)
{
	err_set(err, ERR_CONFIG, "%s: %s", pairs->key, reason);
	return PAIRS_BAD;
}

char *value_take_quoted(char **at)
{
	char quote = **at;
	char *value = *at, *in = *at + 1, *out = *at;

	for (;; in++) {
		if (!*in)
			return NULL;
		if (*in == quote && *++in != quote)
			break;
		*out++ = *in;
	}
	*at = in;
	*out = 0; /* never behind `in`: at least the opening quote has been removed */
	return value;
}

static enum pairs_result take_value(struct pairs *pairs, struct err *err)
{
	char *at = pairs->at;

	pairs->value = at;
	if (*at == '\'') {
		if (!value_take_quoted(&at))
			return bad_value(pairs, "unterminated quote", err);
		if (*at && !strchr(BLANKS, *at))
			return bad_value(pairs, "a blank must follow the quotes", err);
		at = skip_blanks(at);
		if (*at == ';' || *at == '#')
			at += strlen(at);
	} else {
		at += strcspn(at, BLANKS);
		if (*at)
			*at++ = 0;
	}
	pairs->at = at;
	if (!*pairs->value)
		return bad_value(pairs, "the value is missing (omit the key for its default)", err);
	return PAIRS_ONE;
}

enum pairs_result pairs_next(struct pairs *pairs, struct err *err)
{
	char *key = skip_blanks(pairs->at);
	char *end = key + strcspn(key, BLANKS "='");
	char *at = skip_blanks(end);

	if (!*key)
		return PAIRS_END;
	if (end == key || *at != '=')
		return no_pair(pairs, err);
	*end = 0;
	pairs->key = key;
	pairs->at = skip_blanks(at + 1);
	return take_value(pairs, err);
}
