/* SPDX-License-Identifier: ISC */
/*
 * A name in a rule: a plain name, a keyword, or a regular expression.
 */
#ifndef PGWEIR_AUTH_PATTERN_PRIV_H
#define PGWEIR_AUTH_PATTERN_PRIV_H

#include <regex.h>

#include "pgweir/base/err.h"

#include "rulefile_priv.h"

#define PATTERN_REGEX_MAX 512    /* bytes of a regular expression */
#define PATTERN_REPEATS_MAX 128  /* limit for the product of all repetitions of repetitions */
#define PATTERN_SUBJECT_MAX 1024 /* longer texts match no regular expression */

enum pattern_kind {
	PATTERN_NAME,
	PATTERN_ALL,
	PATTERN_SAME_USER,
	PATTERN_REPLICATION,
	PATTERN_REGEX /* written as /expression */
};

struct pattern {
	enum pattern_kind kind;
	char *text;     /* as written, without quotes */
	regex_t *regex; /* for REGEX */
};

struct patterns {
	struct pattern *at;
	size_t count;
};

/*
 * Makes a pattern from a word. `keywords`: PATTERN_BIT() of the kinds that are keywords in this
 * field. false: *err says why; *pattern is empty.
 */
#define PATTERN_BIT(kind) (1u << (kind))
bool pattern_init(struct pattern *pattern, const struct rule_word *word, unsigned int keywords,
                  struct err *err);
void pattern_done(struct pattern *pattern);

/* Whether it has a group in parentheses, for which \1 can be used. */
bool pattern_has_group(const struct pattern *pattern);

/*
 * NAME and REGEX: whether `subject` matches. *group (may be NULL) is the text of the first
 * group, or .at is NULL.
 */
bool pattern_matches(const struct pattern *pattern, const char *subject, struct bytes *group);

/* Makes patterns from all words of a field, as pattern_init() does. */
bool patterns_init(struct patterns *patterns, struct rule_field field, unsigned int keywords,
                   struct err *err);
void patterns_done(struct patterns *patterns);

#endif
