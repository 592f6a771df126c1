/* SPDX-License-Identifier: ISC */
/*
 * Parses one line of an HBA file into a rule, or refuses it with a reason.
 *
 *   local  DATABASE USER          METHOD [OPTION ...]
 *   host.. DATABASE USER ADDRESS  METHOD [OPTION ...]
 *   host.. DATABASE USER IP MASK  METHOD [OPTION ...]
 *
 * Hard here: a comma separates the words of a field, but LDAP values contain commas.
 */
#include "hba_priv.h"

#include <stdlib.h>

#include "outside_priv.h"

#include "pgweir/base/text.h"

struct fields {
	const struct rule_word *next;
	size_t left; /* words from there on */
	const struct hba *hba;
};

/* ---- words from a table ---- */

static const char *const types[] = {
	[HBA_LOCAL] = "local",           [HBA_HOST] = "host",
	[HBA_HOSTSSL] = "hostssl",       [HBA_HOSTNOSSL] = "hostnossl",
	[HBA_HOSTGSSENC] = "hostgssenc", [HBA_HOSTNOGSSENC] = "hostnogssenc",
};

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

const char *hba_type_name(enum hba_type type) { return types[type]; }

static const char *const methods_missing[] = { "bsd",   "gss",    "ident", "krb5",
	                                       "oauth", "radius", "sspi" };

/* ---- flaws ---- */

/* Gives the rule a flaw, if it has none: it admits nobody, so the file need not be refused. */
static bool spoil(struct hba_rule *rule, const struct err *why, const char *end, struct err *err)
{
	if (!rule->flaw.count)
		buf_printf(&rule->flaw, "%s: %s", why->text, end);
	buf_text(&rule->flaw);
	return buf_ok(&rule->flaw) || err_set(err, ERR_MEMORY, "no memory");
}

static const char matches_nobody[] = "the rule never matches";
static const char rejects_all[] = "the rule rejects that whole range";
static const char lets_nobody_in[] = "the rule allows no login";

/* ---- fields ---- */

static struct rule_field take_field(struct fields *fields)
{
	struct rule_field field = { fields->next, 0 };

	while (fields->left && fields->next->field == field.words->field) {
		fields->next++;
		fields->left--;
		field.count++;
	}
	return field;
}

/* Parses a field of one word. NULL: *err says that `what` is missing, or that it is a list. */
static const struct rule_word *take_one(struct fields *fields, const char *what, struct err *err)
{
	struct rule_field field = take_field(fields);

	if (field.count == 1)
		return field.words;
	err_set(err, ERR_CONFIG,
	        field.count ? "%s is a list" : "%s is missing: the line ends before it", what);
	return NULL;
}

static bool read_type(struct hba_rule *rule, struct fields *fields, struct err *err)
{
	const struct rule_word *word = take_one(fields, "the connection type", err);

	if (!word)
		return false;
	for (size_t i = 0; i < COUNT_OF(types); i++) {
		rule->type = (enum hba_type)i;
		if (strcmp(types[i], word->text) == 0)
			return true;
	}
	return err_set(err, ERR_CONFIG,
	               "unknown connection type %s: valid types are local, host, hostssl, "
	               "hostnossl, hostgssenc and hostnogssenc",
	               word->text);
}

static bool read_names(struct patterns *patterns, struct fields *fields, const char *what,
                       unsigned int keywords, struct err *err)
{
	struct rule_field field = take_field(fields);

	if (field.count == 0)
		return err_set(err, ERR_CONFIG, "%s is missing: the line ends before it", what);
	return patterns_init(patterns, field, keywords, err);
}

/* ---- addresses ---- */

static const char *const places[] = {
	[WHERE_ALL] = "all",
	[WHERE_SAME_HOST] = "samehost",
	[WHERE_SAME_NET] = "samenet",
};

const char *hba_where_word(enum hba_where where) { return places[where]; }

static bool read_host(struct hba_rule *rule, const char *text, struct err *err)
{
	if (strchr(text, '/'))
		return err_set(err, ERR_CONFIG, "%s is not an IP address, so it can have no mask",
		               text);
	if (!*text || strspn(text, "0123456789.") == strlen(text) || strchr(text, ':'))
		return err_set(err, ERR_CONFIG, "%s is neither an IP address nor a host's name",
		               *text ? text : "\"\"");
	rule->where = *text == '.' ? WHERE_SUFFIX : WHERE_NAME;
	rule->host = strdup(text);
	return rule->host || err_set(err, ERR_MEMORY, "no memory");
}

static bool read_address(struct hba_rule *rule, struct fields *fields, struct err *why,
                         struct err *err)
{
	const struct rule_word *word = take_one(fields, "the address", err);
	enum range_result result;

	if (!word)
		return false;
	for (size_t i = 0; i < COUNT_OF(places) && !word->is_quoted; i++) {
		rule->where = (enum hba_where)i;
		if (places[i] && strcmp(places[i], word->text) == 0)
			return true;
	}
	rule->where = WHERE_RANGE;
	result = range_parse(&rule->range, word->text, err);
	if (result == RANGE_NAME)
		return read_host(rule, word->text, err);
	if (result == RANGE_NO_MASK) {
		word = take_one(fields, "the mask", err);
		result = word ? range_set_mask(&rule->range, word->text, err) : RANGE_BAD;
	}
	if (result == RANGE_LOOSE) {
		rule->where = WHERE_NOBODY;
		*why = *err;
	}
	return result == RANGE_OK || result == RANGE_LOOSE;
}

/* ---- method and options ---- */

static bool refuse_method(const char *word, struct err *err)
{
	struct nearest nearest = nearest_begin(word);

	for (int method = 0; method < AUTH_METHODS; method++) {
		if (auth_methods[method].hba_name)
			nearest_offer(&nearest, auth_methods[method].hba_name);
		if (auth_methods[method].hba_alias)
			nearest_offer(&nearest, auth_methods[method].hba_alias);
	}
	if (nearest.found)
		return err_set(err, ERR_CONFIG, "unknown method %s: did you mean %s?", word,
		               nearest.found);
	return err_set(err, ERR_CONFIG, "unknown method %s", word);
}

static bool read_method(struct hba_rule *rule, struct fields *fields, struct err *err)
{
	const struct rule_word *word = take_one(fields, "the method", err);
	const struct auth_method_row *row;
	struct err why;

	if (!word)
		return false;
	for (size_t i = 0; i < COUNT_OF(methods_missing); i++) {
		if (strcmp(methods_missing[i], word->text) == 0)
			return err_set(err, ERR_UNSUPPORTED, "method %s is not supported yet",
			               word->text);
	}
	rule->method = auth_methods_by_hba_name(word->text);
	if (rule->method == AUTH_METHODS)
		return refuse_method(word->text, err);
	row = &auth_methods[rule->method];
	if (row->outside && !row->outside->is_built)
		return err_set(err, ERR_UNSUPPORTED, "method %s: pgweir was built without %s",
		               word->text, row->outside->name);
	if (!row->hba_only || strcmp(row->hba_only, types[rule->type]) == 0)
		return true;
	err_set(&why, ERR_CONFIG, "method %s is only possible with %s", word->text, row->hba_only);
	return spoil(rule, &why, lets_nobody_in, err);
}

static bool take_map(struct hba_rule *rule, const char *value, const struct hba *hba,
                     struct err *err)
{
	if (auth_methods[rule->method].voucher == AUTH_NO_VOUCHER)
		return err_set(err, ERR_CONFIG, "map= is only possible with peer and cert");
	if (!hba->has_bad_maps && !ident_has_map(hba, value))
		return err_set(err, ERR_CONFIG, "there is no map %s in auth_ident_file", value);
	buf_add_cstr(&rule->maps, value);
	return buf_ok(&rule->maps) || err_set(err, ERR_MEMORY, "no memory");
}

static bool take_client_cert(struct hba_rule *rule, const char *value, const struct hba *hba,
                             struct err *err)
{
	(void)hba;
	if (rule->type != HBA_HOSTSSL)
		return err_set(err, ERR_CONFIG, "clientcert= is only possible with hostssl");
	if (strcmp(value, "verify-full") == 0)
		rule->client_cert = HBA_CERT_NAMED;
	else if (strcmp(value, "verify-ca") == 0 && rule->method != AUTH_METHOD_CERT)
		rule->client_cert = HBA_CERT_VALID;
	else
		return err_set(err, ERR_CONFIG,
		               rule->method == AUTH_METHOD_CERT
		                   ? "clientcert= of method cert can only be verify-full"
		                   : "clientcert= must be verify-ca or verify-full");
	return true;
}

static bool take_service(struct hba_rule *rule, const char *value, const struct hba *hba,
                         struct err *err)
{
	(void)hba;
	if (rule->method != AUTH_METHOD_PAM)
		return err_set(err, ERR_CONFIG, "pamservice= is only possible with pam");
	buf_clear(&rule->options);
	buf_add_text(&rule->options, value);
	buf_text(&rule->options);
	return outside_pam.check(value, err) == OUTSIDE_FIT;
}

static const struct {
	const char *name;
	bool (*take)(struct hba_rule *rule, const char *value, const struct hba *hba,
	             struct err *err);
} rule_options[] = {
	{ "map=", take_map },
	{ "clientcert=", take_client_cert },
	{ "pamservice=", take_service },
};

static bool is_ldap_word(const struct hba_rule *rule, const struct rule_word *word)
{
	return rule->method == AUTH_METHOD_LDAP && strncmp(word->text, "ldap", 4) == 0 &&
	       strchr(word->text, '=');
}

/*
 * Parses an LDAP option that begins with word `*index`. Words after a comma that are not
 * options belong to its value: dc=example,dc=com need not be quoted.
 */
static void take_ldap_option(struct hba_rule *rule, struct rule_field field, size_t *index)
{
	struct buf option = { 0 };

	buf_add_text(&option, field.words[*index].text);
	while (*index + 1 < field.count && !is_ldap_word(rule, &field.words[*index + 1])) {
		buf_add_byte(&option, ',');
		buf_add_text(&option, field.words[++*index].text);
	}
	ldap_options_add(&rule->options, buf_text(&option));
	if (strncmp(buf_text(&option), LDAP_PASSWORD, strlen(LDAP_PASSWORD)) == 0)
		buf_add_cstr(&rule->shown, LDAP_PASSWORD "***");
	else
		buf_add_cstr(&rule->shown, buf_text(&option));
	buf_wipe(&option);
}

static bool read_option(struct hba_rule *rule, const struct rule_word *word, const struct hba *hba,
                        struct err *err)
{
	for (size_t i = 0; i < COUNT_OF(rule_options); i++) {
		size_t count = strlen(rule_options[i].name);

		if (strncmp(rule_options[i].name, word->text, count) != 0)
			continue;
		buf_add_cstr(&rule->shown, word->text);
		return rule_options[i].take(rule, word->text + count, hba, err);
	}
	if (rule->method == AUTH_METHOD_LDAP) /* it may be a part of a password: do not show it */
		return err_set(err, ERR_CONFIG,
		               "not an option of ldap: a value with blanks must be quoted");
	return err_set(
	    err, ERR_CONFIG,
	    "unknown option %s: valid options are map=, clientcert= and pamservice=", word->text);
}

static bool read_options(struct hba_rule *rule, struct fields *fields, struct err *err)
{
	struct rule_field field;
	struct err why;

	while ((field = take_field(fields)).count) {
		for (size_t i = 0; i < field.count; i++) {
			if (is_ldap_word(rule, &field.words[i]))
				take_ldap_option(rule, field, &i);
			else if (!read_option(rule, &field.words[i], fields->hba, err))
				return false;
		}
	}
	if (!buf_ok(&rule->shown))
		return err_set(err, ERR_MEMORY, "no memory");
	if (rule->method != AUTH_METHOD_LDAP)
		return true;
	switch (outside_ldap.check(buf_text(&rule->options), &why)) {
	case OUTSIDE_FIT:
		return true;
	case OUTSIDE_CONTRADICTORY:
		return spoil(rule, &why, lets_nobody_in, err);
	case OUTSIDE_BAD:
		break;
	}
	*err = why;
	return false;
}

/* ---- the whole line ---- */

/*
 * Bits outside the mask: such a rule matches nobody, as in PgBouncer, and a reject rule the
 * whole range, as in PostgreSQL. So the mistake never admits anybody.
 */
static bool judge_loose(struct hba_rule *rule, const struct err *why, struct err *err)
{
	bool is_reject = rule->method == AUTH_METHOD_REJECT;

	if (is_reject)
		rule->where = WHERE_RANGE;
	buf_clear(&rule->flaw); /* the flaw of the address takes precedence */
	return spoil(rule, why, is_reject ? rejects_all : matches_nobody, err);
}

bool hba_rule_read(struct hba_rule *rule, const struct rule_line *line, const struct hba *hba,
                   struct err *err)
{
	static const unsigned int database_words = PATTERN_BIT(PATTERN_ALL) |
	                                           PATTERN_BIT(PATTERN_SAME_USER) |
	                                           PATTERN_BIT(PATTERN_REPLICATION);
	struct fields fields = { line->words, line->word_count, hba };
	struct err why;

	*rule = (struct hba_rule){ .pos = line->pos, .where = WHERE_ALL };
	return read_type(rule, &fields, err) &&
	       read_names(&rule->databases, &fields, "the database", database_words, err) &&
	       read_names(&rule->users, &fields, "the user", PATTERN_BIT(PATTERN_ALL), err) &&
	       (rule->type == HBA_LOCAL || read_address(rule, &fields, &why, err)) &&
	       read_method(rule, &fields, err) && read_options(rule, &fields, err) &&
	       (rule->where != WHERE_NOBODY || judge_loose(rule, &why, err));
}

void hba_rule_done(struct hba_rule *rule)
{
	patterns_done(&rule->databases);
	patterns_done(&rule->users);
	buf_free(&rule->maps);
	free(rule->host);
	buf_free(&rule->flaw);
	buf_free(&rule->shown);
	buf_wipe(&rule->options);
}
