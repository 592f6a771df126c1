/* SPDX-License-Identifier: ISC */
/*
 * The right side of a line in [databases], [users] and [peers].
 *
 * Hard here: an unquoted value may contain any character except blanks, even quotes, ; and #
 * (e.g. a password). So a comment can follow only a quoted value. And if a password contains a
 * blank but was not quoted, its second half must not appear in an error text.
 */
#include "pairs_priv.h"

#include <string.h>

#include "pgweir/base/banned.h"

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

/* Parses a quoted value at *at, in place; NULL: the closing quote is missing. */
static char *take_quoted(char **at)
{
	char *value = *at, *in = *at + 1, *out = *at;

	for (;; in++) {
		if (!*in)
			return NULL;
		if (*in == '\'' && *++in != '\'')
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
		if (!take_quoted(&at))
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
