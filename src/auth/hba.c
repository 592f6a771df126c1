/* SPDX-License-Identifier: ISC */
/*
 * The HBA file: loads it with the ident file, counts references, lists the rules, and finds the one
 * for a client.
 */
#include "pgweir/auth/hba.h"

#include <stdlib.h>
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/net/address.h"

#include "hba_priv.h"

/*
 * ---- ident: maps of user names ----
 *
 *   map  system-user  database-user
 *   map  /^(.*)@example\.com$  \1
 *
 * A map consists of all lines with its name; one line that fits is enough.
 */

/* Returns \1 in a name that is not a regular expression; NULL: it has none. */
static char *group_in(const struct pattern *user)
{
	return user->kind == PATTERN_NAME ? strstr(user->text, "\\1") : NULL;
}

static bool read_mapping(struct mapping *mapping, const struct rule_line *line, struct err *err)
{
	if (line->field_count != 3 || line->word_count != 3)
		return err_set(err, ERR_CONFIG, "a line must read: map system-user database-user");
	mapping->map = strdup(line->words[0].text);
	if (!mapping->map)
		return err_set(err, ERR_MEMORY, "no memory");
	if (!pattern_init(&mapping->system_user, &line->words[1], 0, err) ||
	    !pattern_init(&mapping->user, &line->words[2], PATTERN_BIT(PATTERN_ALL), err))
		return false;
	if (group_in(&mapping->user) && mapping->system_user.kind == PATTERN_REGEX &&
	    !mapping->system_user.regex->re_nsub)
		return err_set(err, ERR_CONFIG, "%s has no (group) for \\1",
		               mapping->system_user.text);
	return true;
}

static void load_mapping(struct rule_reader *reader, const struct rule_line *line)
{
	struct hba *hba = reader->arg;
	struct mapping *mapping =
	    array_room(hba->mappings, hba->mapping_count, &hba->mapping_capacity, sizeof(*mapping));
	struct err err;

	if (!mapping) {
		problems_add(reader->problems, line->pos, "no memory");
		return;
	}
	hba->mappings = mapping;
	mapping += hba->mapping_count++;
	*mapping = (struct mapping){ .pos = line->pos };
	if (!read_mapping(mapping, line, &err))
		problems_add(reader->problems, line->pos, "%s", err.text);
}

bool ident_has_map(const struct hba *hba, const char *map)
{
	for (size_t i = 0; i < hba->mapping_count; i++) {
		if (strcmp(hba->mappings[i].map, map) == 0)
			return true;
	}
	return false;
}

/* Whether `user` equals `pattern` with \1 replaced by `group`. */
static bool is_expanded(const struct pattern *pattern, struct bytes group, const char *user)
{
	const char *at = group_in(pattern);
	struct bytes rest = bytes_text(user);
	size_t before = (size_t)(at - pattern->text);

	if (!group.at || rest.count < before || memcmp(rest.at, pattern->text, before) != 0)
		return false;
	rest = bytes_skip(rest, before);
	if (rest.count < group.count || memcmp(rest.at, group.at, group.count) != 0)
		return false;
	return bytes_are(bytes_skip(rest, group.count), at + 2);
}

static bool fits(const struct mapping *mapping, const char *system_user, const char *user)
{
	struct bytes group;

	if (!pattern_matches(&mapping->system_user, system_user, &group))
		return false;
	if (group_in(&mapping->user) && mapping->system_user.kind == PATTERN_REGEX)
		return is_expanded(&mapping->user, group, user);
	return pattern_matches(&mapping->user, user, NULL);
}

static bool ident_admits(const struct hba *hba, const char *map, const char *system_user,
                         const char *user)
{
	for (size_t i = 0; i < hba->mapping_count; i++) {
		if (strcmp(hba->mappings[i].map, map) == 0 &&
		    fits(&hba->mappings[i], system_user, user))
			return true;
	}
	return false;
}

/*
 * ---- one line of the HBA file ----
 *
 *   local  DATABASE USER          METHOD [OPTION ...]
 *   host.. DATABASE USER ADDRESS  METHOD [OPTION ...]
 *   host.. DATABASE USER IP MASK  METHOD [OPTION ...]
 *
 * Hard here: a comma separates the words of a field, but LDAP values contain commas.
 */

struct fields {
	const struct rule_word *next;
	size_t left; /* words from there on */
	const struct hba *hba;
};

/* The words of one field. count 0: there is no such field. */
struct rule_field {
	const struct rule_word *words;
	size_t count;
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

static void patterns_done(struct patterns *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		pattern_done(&patterns->at[i]);
	free(patterns->at);
}

static bool read_names(struct patterns *patterns, struct fields *fields, const char *what,
                       unsigned int keywords, struct err *err)
{
	struct rule_field field = take_field(fields);

	if (field.count == 0)
		return err_set(err, ERR_CONFIG, "%s is missing: the line ends before it", what);
	patterns->at = calloc(field.count, sizeof(*patterns->at));
	if (!patterns->at)
		return err_set(err, ERR_MEMORY, "no memory");
	for (; patterns->count < field.count; patterns->count++) {
		if (!pattern_init(&patterns->at[patterns->count], &field.words[patterns->count],
		                  keywords, err))
			return false;
	}
	return true;
}

/* ---- addresses ---- */

static const char *const places[] = {
	[WHERE_ALL] = "all",
	[WHERE_SAME_HOST] = "samehost",
	[WHERE_SAME_NET] = "samenet",
};

static bool read_host(struct hba_rule *rule, const char *text, struct err *err)
{
	if (strchr(text, '/'))
		return err_set(err, ERR_CONFIG, "%s is not an IP address, so it can have no mask",
		               text);
	if (!*text || strspn(text, "0123456789.") == strlen(text) || strchr(text, ':'))
		return err_set(err, ERR_CONFIG, "%s is neither an IP address nor a host's name",
		               *text ? text : "\"\"");
	rule->where = WHERE_NAME;
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

/* A rule that PgBouncer accepts but that can admit nobody is accepted, and has a flaw. */
static bool read_rule(struct hba_rule *rule, const struct rule_line *line, const struct hba *hba,
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

/* ---- all rules ---- */

static void hba_free(struct hba *hba)
{
	for (size_t i = 0; i < hba->count; i++) {
		struct hba_rule *rule = &hba->rules[i];

		patterns_done(&rule->databases);
		patterns_done(&rule->users);
		buf_free(&rule->maps);
		free(rule->host);
		buf_free(&rule->flaw);
		buf_free(&rule->shown);
		buf_wipe(&rule->options);
	}
	free(hba->rules);
	for (size_t i = 0; i < hba->mapping_count; i++) {
		free(hba->mappings[i].map);
		pattern_done(&hba->mappings[i].system_user);
		pattern_done(&hba->mappings[i].user);
	}
	free(hba->mappings);
	source_files_done(&hba->files);
	free(hba);
}

REFS_FUNCTIONS(hba_hold, hba_release, struct hba, hba_free)

static void load_line(struct rule_reader *reader, const struct rule_line *line)
{
	struct hba *hba = reader->arg;
	struct hba_rule *rule = array_room(hba->rules, hba->count, &hba->capacity, sizeof(*rule));
	struct err err;

	if (!rule) {
		problems_add(reader->problems, line->pos, "no memory");
		return;
	}
	hba->rules = rule;
	rule += hba->count++;
	if (!read_rule(rule, line, hba, &err))
		problems_add(reader->problems, line->pos, "%s", err.text);
	else if (rule->flaw.count)
		problems_warn(reader->problems, line->pos, "%s", rule->flaw.at);
}

struct hba *hba_load(const char *path, const char *ident_path, struct problems *problems)
{
	struct source_pos pos = { path, 0 };
	struct rule_reader reader = { .problems = problems, .line = load_mapping };
	size_t count = problems_count(problems);
	struct hba *hba = calloc(1, sizeof(*hba));

	if (!hba) {
		problems_add(problems, pos, "no memory");
		return NULL;
	}
	reader.arg = hba;
	if (ident_path && *ident_path)
		rulefile_read(&reader, ident_path);
	hba->has_bad_maps = problems_count(problems) != count;
	reader.line = load_line;
	rulefile_read(&reader, path);
	hba->files = reader.files;
	if (hba->count == 0 && !problems_any(problems))
		problems_add(problems, pos, "it contains no rule, so no login would be possible");
	if (problems_any(problems))
		hba_release(&hba);
	return hba;
}

/* ---- showing ---- */

/* Adds one element to the array that begins at `at`, in PostgreSQL's text format. */
static void add_element(struct buf *out, size_t at, const char *text)
{
	bool is_plain =
	    *text && !text[strcspn(text, " \t\r\n,{}\"\\")] && strcasecmp(text, "null") != 0;

	buf_add_text(out, out->count > at ? "," : "{");
	if (!is_plain)
		buf_add_byte(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_add_byte(out, '\\');
		buf_add_byte(out, *text);
	}
	if (!is_plain)
		buf_add_byte(out, '"');
}

static void end_array(struct buf *out, size_t at) { buf_add_cstr(out, out->count > at ? "}" : ""); }

static void add_patterns(struct buf *out, const struct patterns *patterns)
{
	size_t at = out->count;

	for (size_t i = 0; i < patterns->count; i++)
		add_element(out, at, patterns->at[i].text);
	end_array(out, at);
}

static void add_range_part(struct buf *out, const struct range *range, const unsigned char *bits)
{
	struct address address = range_address(range, bits);
	char text[ADDRESS_TEXT_SIZE];

	buf_add_cstr(out, address_format_host(&address, text, sizeof(text)));
}

static void add_address(struct buf *out, const struct hba_rule *rule)
{
	if (rule->where == WHERE_RANGE || rule->where == WHERE_NOBODY) {
		add_range_part(out, &rule->range, rule->range.first);
		add_range_part(out, &rule->range, rule->range.mask);
		return;
	}
	if (rule->type == HBA_LOCAL)
		buf_add_cstr(out, "");
	else
		buf_add_cstr(out, rule->host ? rule->host : places[rule->where]);
	buf_add_cstr(out, "");
}

void hba_rule_texts(const struct hba_rule *rule, struct buf *out)
{
	struct bytes shown = buf_bytes(&rule->shown);
	size_t at;

	add_patterns(out, &rule->databases);
	add_patterns(out, &rule->users);
	add_address(out, rule);
	at = out->count;
	for (const char *option; bytes_take_text(&shown, &option);)
		add_element(out, at, option);
	end_array(out, at);
}

/*
 * ---- the rule that applies to a client ----
 *
 * Hard here: a rule may contain a host name, and looking up the client's host name takes time.
 * So everything else is compared first. If only an unknown host name decides whether a rule
 * matches, the result is HBA_NEEDS_HOST.
 */

/* GSSAPI is not supported: no connection is encrypted by it. */
static bool type_fits(enum hba_type type, const struct hba_facts *facts)
{
	if (address_is_unix(facts->peer))
		return type == HBA_LOCAL;
	return type == HBA_HOST || type == HBA_HOSTNOGSSENC ||
	       type == (facts->is_tls ? HBA_HOSTSSL : HBA_HOSTNOSSL);
}

/*
 * Databases or users: `name` is that of the client. As in PostgreSQL, not even `all` matches
 * physical replication.
 */
static bool any_fits(const struct patterns *patterns, const char *name, const char *user,
                     bool is_physical)
{
	bool fits = false;

	for (size_t i = 0; i < patterns->count && !fits; i++) {
		const struct pattern *pattern = &patterns->at[i];

		if (is_physical)
			fits = pattern->kind == PATTERN_REPLICATION;
		else if (pattern->kind == PATTERN_SAME_USER)
			fits = strcmp(name, user) == 0;
		else
			fits = pattern_matches(pattern, name, NULL);
	}
	return fits;
}

static bool name_fits(const struct hba_rule *rule, const char *host)
{
	size_t count = strlen(host), wanted = strlen(rule->host);

	if (*rule->host != '.')
		return strcasecmp(rule->host, host) == 0;
	return count > wanted && strcasecmp(rule->host, host + count - wanted) == 0;
}

static enum hba_answer judge_address(const struct hba_rule *rule, const struct hba_facts *facts)
{
	bool fits = false;

	switch (rule->where) {
	case WHERE_ALL:
		return HBA_RULE;
	case WHERE_RANGE:
		fits = range_has(&rule->range, facts->peer);
		break;
	case WHERE_NOBODY:
		break;
	case WHERE_SAME_HOST:
		fits = interfaces_have(facts->peer, INTERFACES_HOST);
		break;
	case WHERE_SAME_NET:
		fits = interfaces_have(facts->peer, INTERFACES_NET);
		break;
	case WHERE_NAME:
		if (!facts->is_host_known)
			return HBA_NEEDS_HOST;
		fits = facts->host && name_fits(rule, facts->host);
		break;
	}
	return fits ? HBA_RULE : HBA_NO_RULE;
}

enum hba_answer hba_find(const struct hba *hba, const struct hba_facts *facts,
                         const struct hba_rule **found)
{
	enum hba_answer answer = HBA_NO_RULE;

	*found = NULL;
	for (size_t i = 0; answer == HBA_NO_RULE && i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];

		if (type_fits(rule->type, facts) &&
		    any_fits(&rule->databases, facts->database, facts->user, facts->is_physical) &&
		    any_fits(&rule->users, facts->user, facts->user, false))
			answer = judge_address(rule, facts);
		if (answer == HBA_RULE)
			*found = rule;
	}
	return answer;
}

bool hba_rule_admits(const struct hba *hba, const struct hba_rule *rule, const char *name,
                     const char *user)
{
	struct bytes maps = buf_bytes(&rule->maps);

	if (!maps.count)
		return strcmp(name, user) == 0;
	for (const char *map; bytes_take_text(&maps, &map);) {
		if (ident_admits(hba, map, name, user))
			return true;
	}
	return false;
}
