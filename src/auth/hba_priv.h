/* SPDX-License-Identifier: ISC */
/*
 * HBA rules, internal to the module.
 */
#ifndef PGWEIR_AUTH_HBA_PRIV_H
#define PGWEIR_AUTH_HBA_PRIV_H

#include "pgweir/auth/hba.h"
#include "pgweir/base/err.h"

/*
 * ---- rulefile ----
 *
 * The lines of HBA and ident files, in PostgreSQL's format: fields separated by blanks, each a
 * list of words separated by commas. Supports quotes, comments, continuation by a backslash,
 * @file for the words of another file, and include for its lines.
 */

struct rule_word {
	const char *text;
	bool is_quoted; /* partly quoted, so it is not a keyword */
	size_t at;      /* for the reader only */
	size_t field;   /* index of its field, from 0 */
};

/* One line with at least one word. Valid only during the call. */
struct rule_line {
	struct source_pos
	    pos; /* of its beginning; the file's name is valid as long as the reader */
	const struct rule_word *words; /* sorted by field */
	size_t word_count, field_count;
};

struct rule_reader {
	void (*line)(struct rule_reader *reader, const struct rule_line *line);
	void *arg; /* for line() */
	struct problems *problems;
	struct source_files files; /* to be freed: source_files_done() */
};

/* Calls reader->line for each line; adds errors to reader->problems. */
void rulefile_read(struct rule_reader *reader, const char *path);

/*
 * Adds the word at *at, up to one of `ends`, and moves *at past it. Within quotes a doubled quote
 * means one. false: a quote has no end.
 */
bool rulefile_word(const char **at, const char *ends, struct buf *out, bool *is_quoted);

/* ---- pattern: a plain name, a keyword, or a regular expression ---- */

#define PATTERN_REGEX_MAX 512    /* bytes of a regular expression */
#define PATTERN_REPEATS_MAX 128  /* limit for the product of all repetitions of repetitions */
#define PATTERN_SUBJECT_MAX 1024 /* longer texts match no regular expression */

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
 * ALL, NAME and REGEX: whether `subject` matches; false for other keywords. *group (may be NULL)
 * is the text of the first group, or .at is NULL.
 */
bool pattern_matches(const struct pattern *pattern, const char *subject, struct bytes *group);

/* The words of one field. count 0: there is no such field. */
struct rule_field {
	const struct rule_word *words;
	size_t count;
};

/* Makes patterns from all words of a field, as pattern_init() does. */
bool patterns_init(struct patterns *patterns, struct rule_field field, unsigned int keywords,
                   struct err *err);
void patterns_done(struct patterns *patterns);

/*
 * Parses a rule. false: *err says why, and *rule can be freed by hba_rule_done() too. A rule that
 * PgBouncer accepts but that can admit nobody is accepted, and has a flaw.
 */
bool hba_rule_read(struct hba_rule *rule, const struct rule_line *line, const struct hba *hba,
                   struct err *err);
void hba_rule_done(struct hba_rule *rule);

/* The keyword for an address; NULL: there is none. */
const char *hba_where_word(enum hba_where where);

/* ---- ident: which system user may log in as which database user ---- */

bool ident_has_map(const struct hba *hba, const char *map);

#endif
