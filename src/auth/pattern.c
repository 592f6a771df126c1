/* SPDX-License-Identifier: ISC */
/*
 * Patterns for names in rules.
 *
 * Regular expressions are POSIX extended ones, by the C library. They are matched against texts
 * of unauthenticated clients, so none may be slow: back-references are refused, and length and
 * repetitions are limited.
 */
#include "pattern_priv.h"

#include <ctype.h>
#include <stdlib.h>

#include "pgweir/base/banned.h"

static const struct {
	const char *word;
	enum pattern_kind kind;
} keywords_known[] = {
	{ "all", PATTERN_ALL },
	{ "sameuser", PATTERN_SAME_USER },
	{ "replication", PATTERN_REPLICATION },
};

/* Words that have a meaning in PostgreSQL but cannot be supported here. */
static bool refuse_groups(const struct rule_word *word, unsigned int keywords, struct err *err)
{
	if (*word->text == '+')
		return err_set(
		    err, ERR_CONFIG,
		    "%s: groups are not supported: list the names, or put them into a file "
		    "and write @file",
		    word->text);
	if (keywords & PATTERN_BIT(PATTERN_SAME_USER) &&
	    (strcmp(word->text, "samerole") == 0 || strcmp(word->text, "samegroup") == 0))
		return err_set(err, ERR_CONFIG, "%s: groups are not supported", word->text);
	return true;
}

/* ---- regular expressions ---- */

/* Returns the maximum of the {..} at `at`. */
static unsigned long repeats_at(const char *at)
{
	unsigned long most = 1;

	for (at++; *at && *at != '}'; at++) {
		unsigned long number = strtoul(at, NULL, 10);

		if (isdigit((unsigned char)*at) && number > most)
			most = number;
	}
	return most > PATTERN_REPEATS_MAX ? PATTERN_REPEATS_MAX + 1 : most;
}

/*
 * Whether the sign at `at` repeats something that may contain repetitions. The C library expands a
 * + to twice its size, and follows a * or ? twice as often: its time for a long row of * would be
 * exponential.
 */
static bool doubles_at(const char *text, const char *at)
{
	return strchr("+*?", *at) && at > text && strchr(")+*?}", at[-1]);
}

static bool check_regex(const char *text, struct err *err)
{
	unsigned long repeats = 1;

	if (!*text)
		return err_set(err, ERR_CONFIG, "an empty regular expression");
	if (strlen(text) > PATTERN_REGEX_MAX)
		return err_set(err, ERR_CONFIG, "a regular expression longer than %d bytes",
		               PATTERN_REGEX_MAX);
	for (const char *at = text; *at; at++) {
		if (*at == '{')
			repeats *= repeats_at(at);
		if (doubles_at(text, at))
			repeats *= 2;
		if (repeats > PATTERN_REPEATS_MAX)
			return err_set(err, ERR_CONFIG, "/%s repeats too often", text);
		if (*at != '\\' || !at[1])
			continue;
		at++;
		if (*at >= '1' && *at <= '9')
			return err_set(err, ERR_CONFIG, "/%s: back-references are not supported",
			               text);
	}
	return true;
}

static bool compile(struct pattern *pattern, const char *text, struct err *err)
{
	char reason[128];
	int code;

	if (!check_regex(text, err))
		return false;
	pattern->regex = calloc(1, sizeof(*pattern->regex));
	if (!pattern->regex)
		return err_set(err, ERR_MEMORY, "no memory");
	code = regcomp(pattern->regex, text, REG_EXTENDED);
	if (code == 0)
		return true;
	regerror(code, pattern->regex, reason, sizeof(reason));
	free(pattern->regex);
	pattern->regex = NULL;
	return err_set(err, ERR_CONFIG, "/%s: %s", text, reason);
}

/* ---- patterns ---- */

bool pattern_init(struct pattern *pattern, const struct rule_word *word, unsigned int keywords,
                  struct err *err)
{
	*pattern = (struct pattern){ .kind = PATTERN_NAME };
	if (!word->is_quoted && !refuse_groups(word, keywords, err))
		return false;
	pattern->text = strdup(word->text);
	if (!pattern->text)
		return err_set(err, ERR_MEMORY, "no memory");
	for (size_t i = 0; i < sizeof(keywords_known) / sizeof(keywords_known[0]); i++) {
		if (!word->is_quoted && keywords & PATTERN_BIT(keywords_known[i].kind) &&
		    strcmp(word->text, keywords_known[i].word) == 0)
			pattern->kind = keywords_known[i].kind;
	}
	if (*word->text != '/')
		return true;
	pattern->kind = PATTERN_REGEX;
	if (compile(pattern, word->text + 1, err))
		return true;
	pattern_done(pattern);
	return false;
}

void pattern_done(struct pattern *pattern)
{
	if (pattern->regex)
		regfree(pattern->regex);
	free(pattern->regex);
	free(pattern->text);
	*pattern = (struct pattern){ .kind = PATTERN_NAME };
}

bool pattern_has_group(const struct pattern *pattern)
{
	return pattern->kind == PATTERN_REGEX && pattern->regex->re_nsub > 0;
}

bool pattern_matches(const struct pattern *pattern, const char *subject, struct bytes *group)
{
	regmatch_t found[2];

	if (group)
		*group = bytes_of(NULL, 0);
	if (pattern->kind == PATTERN_NAME)
		return strcmp(pattern->text, subject) == 0;
	if (pattern->kind != PATTERN_REGEX || strlen(subject) > PATTERN_SUBJECT_MAX ||
	    regexec(pattern->regex, subject, 2, found, 0) != 0)
		return false;
	if (group && pattern_has_group(pattern) && found[1].rm_so >= 0)
		*group =
		    bytes_of(subject + found[1].rm_so, (size_t)(found[1].rm_eo - found[1].rm_so));
	return true;
}

bool patterns_init(struct patterns *patterns, struct rule_field field, unsigned int keywords,
                   struct err *err)
{
	*patterns = (struct patterns){ .at = calloc(field.count + 1, sizeof(*patterns->at)) };
	if (!patterns->at)
		return err_set(err, ERR_MEMORY, "no memory");
	for (; patterns->count < field.count; patterns->count++) {
		if (!pattern_init(&patterns->at[patterns->count], &field.words[patterns->count],
		                  keywords, err))
			return false;
	}
	return true;
}

void patterns_done(struct patterns *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		pattern_done(&patterns->at[i]);
	free(patterns->at);
	*patterns = (struct patterns){ NULL, 0 };
}
