/* SPDX-License-Identifier: ISC */
/*
 * One name in a rule: a name, a keyword, or a regular expression.
 */
#ifndef PGWEIR_AUTH_PATTERN_PRIV_H
#define PGWEIR_AUTH_PATTERN_PRIV_H

#include <regex.h>

#include "pgweir/base/err.h"

#include "rulefile_priv.h"

#define PATTERN_REGEX_MAX 512    /* bytes of a regular expression */
#define PATTERN_REPEATS_MAX 128  /* what all {..} and + of one come to, multiplied */
#define PATTERN_SUBJECT_MAX 1024 /* a longer text matches no regular expression */

enum pattern_kind {
	PATTERN_NAME,
	PATTERN_ALL,
	PATTERN_SAME_USER,
	PATTERN_REPLICATION,
	PATTERN_REGEX /* written as /regular expression */
};

struct pattern {
	enum pattern_kind kind;
	char *text;     /* as written, without quotes */
	regex_t *regex; /* REGEX */
};

struct patterns {
	struct pattern *at;
	size_t count;
};

/*
 * Makes a pattern of a word. `keywords`: PATTERN_BIT() of those kinds that are keywords
 * here. false: *err says why; *pattern is at rest.
 */
#define PATTERN_BIT(kind) (1u << (kind))
bool pattern_init(struct pattern *pattern, const struct rule_word *word, unsigned int keywords,
                  struct err *err);
void pattern_done(struct pattern *pattern);

/* Whether it has a first group in parentheses, which \1 can stand for. */
bool pattern_has_group(const struct pattern *pattern);

/*
 * NAME and REGEX: whether `subject` is or matches it. `group`, unless NULL: what
 * lies in the first group, or .at NULL.
 */
bool pattern_matches(const struct pattern *pattern, const char *subject, struct bytes *group);

/* All words of a field, each by pattern_init(). */
bool patterns_init(struct patterns *patterns, struct rule_field field, unsigned int keywords,
                   struct err *err);
void patterns_done(struct patterns *patterns);

#endif
