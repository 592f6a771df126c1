/* SPDX-License-Identifier: ISC */
/*
 * The lines of HBA files and the options of LDAP, internal to the module.
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

/*
 * ALL, NAME and REGEX: whether `subject` matches; false for other keywords. *group (may be NULL)
 * is the text of the first group, or .at is NULL.
 */
bool pattern_matches(const struct pattern *pattern, const char *subject, struct bytes *group);

/* ---- ident: which system user may log in as which database user ---- */

bool ident_has_map(const struct hba *hba, const char *map);

/*
 * ---- ldap ----
 *
 * LDAP options, as in auth_ldap_options and HBA lines.
 *
 *   ldapserver="a.example.com b.example.com" ldapbasedn="dc=example,dc=com" ldaptls=1
 *
 * Options are key=value, separated by blanks. A value in quotes may contain blanks, and ""
 * means one quote.
 */

#define LDAP_OPTIONS_MAX 8192 /* bytes of all options together */

enum ldap_scope { LDAP_AT_BASE, LDAP_ONE_LEVEL, LDAP_SUBTREE }; /* as libldap has them */

/* All texts are owned. NULL: the option is not set, unless the comment says otherwise. */
struct ldap_options {
	char *servers; /* names and addresses, separated by blanks; never NULL */
	int port;      /* 0 = default of the scheme */
	bool is_ldaps; /* TLS from the start */
	bool has_start_tls;
	/* simple bind: prefix, name and suffix make the user's entry */
	char *prefix, *suffix;
	/* search and bind: if base_dn is set, the user's entry is searched */
	char *base_dn;
	char *bind_dn, *bind_password; /* both or neither: who searches */
	char *search_attribute;        /* used if there is no filter; NULL = uid */
	char *search_filter;           /* contains $username */
	enum ldap_scope scope;
	bool is_contradictory; /* the only error is that two options exclude each other */
};

/* false: *err says why, without a secret. Call ldap_options_done() in both cases. */
bool ldap_options_parse(const char *text, struct ldap_options *options, struct err *err);

/* Wipes and frees the texts. */
void ldap_options_done(struct ldap_options *options);

/* The option that is never shown. */
#define LDAP_PASSWORD "ldapbindpasswd="

/* Adds an option to a text of options, quoted if necessary. */
void ldap_options_add(struct buf *text, const char *option);

/* Makes the entry for a simple bind. The name is escaped: it stays one value of one attribute. */
void ldap_options_dn(const struct ldap_options *options, const char *user, struct buf *out);

/* Makes the filter of a search. The name is escaped: none of its characters is special. */
void ldap_options_filter(const struct ldap_options *options, const char *user, struct buf *out);

/*
 * Parses ldap[s]://host[:port]/base[?attribute[?scope[?filter]]] into the options, by libldap. An
 * empty part changes nothing.
 */
bool ldap_options_url(struct ldap_options *options, const char *url, struct err *err);

#endif
