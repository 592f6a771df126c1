/* SPDX-License-Identifier: ISC */
/*
 * The HBA file: loads it with the ident file, counts references, and lists the rules.
 */
#include "pgweir/auth/hba.h"

#include <stdlib.h>
#include <strings.h>

#include "pgweir/net/address.h"

#include "hba_priv.h"

/* ---- creation and end ---- */

static void mapping_done(struct mapping *mapping)
{
	free(mapping->map);
	pattern_done(&mapping->system_user);
	pattern_done(&mapping->user);
}

static void hba_free(struct hba *hba)
{
	for (size_t i = 0; i < hba->count; i++)
		hba_rule_done(&hba->rules[i]);
	free(hba->rules);
	for (size_t i = 0; i < hba->mapping_count; i++)
		mapping_done(&hba->mappings[i]);
	free(hba->mappings);
	source_files_done(&hba->files);
	free(hba);
}

REFS_FUNCTIONS(hba_hold, hba_release, struct hba, hba_free)

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
	    !pattern_has_group(&mapping->system_user))
		return err_set(err, ERR_CONFIG, "%s has no (group) for \\1",
		               mapping->system_user.text);
	return true;
}

static void load_mapping(struct rule_reader *reader, const struct rule_line *line)
{
	struct hba *hba = reader->arg;
	struct mapping mapping = { .pos = line->pos },
		       *mappings = array_room(hba->mappings, hba->mapping_count,
	                                      &hba->mapping_capacity, sizeof(mapping));
	struct err err;

	if (mappings)
		hba->mappings = mappings;
	if (!mappings) {
		err_set(&err, ERR_MEMORY, "no memory");
	} else if (read_mapping(&mapping, line, &err)) {
		hba->mappings[hba->mapping_count++] = mapping;
		return;
	}
	problems_add(reader->problems, line->pos, "%s", err.text);
	mapping_done(&mapping);
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

/* ---- loading ---- */

static void load_line(struct rule_reader *reader, const struct rule_line *line)
{
	struct hba *hba = reader->arg;
	struct hba_rule rule,
	    *rules = array_room(hba->rules, hba->count, &hba->capacity, sizeof(rule));
	struct err err;

	if (!rules) {
		problems_add(reader->problems, line->pos, "no memory");
		return;
	}
	hba->rules = rules;
	if (hba_rule_read(&rule, line, hba, &err)) {
		if (rule.flaw.count)
			problems_warn(reader->problems, line->pos, "%s", rule.flaw.at);
		hba->rules[hba->count++] = rule;
	} else {
		problems_add(reader->problems, line->pos, "%s", err.text);
		hba_rule_done(&rule);
	}
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
		buf_add_cstr(out, rule->host ? rule->host : hba_where_word(rule->where));
	buf_add_cstr(out, "");
}

void hba_rule_texts(const struct hba_rule *rule, struct buf *out)
{
	struct bytes shown = buf_bytes(&rule->shown);
	const char *option;
	size_t at;

	add_patterns(out, &rule->databases);
	add_patterns(out, &rule->users);
	add_address(out, rule);
	at = out->count;
	while (bytes_take_text(&shown, &option))
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

enum match { MATCH_NO, MATCH_YES, MATCH_HOST_UNKNOWN };

static bool type_fits(enum hba_type type, const struct hba_facts *facts)
{
	bool is_unix = address_is_unix(facts->peer);

	switch (type) {
	case HBA_LOCAL:
		return is_unix;
	case HBA_HOST:
	case HBA_HOSTNOGSSENC:
		return !is_unix;
	case HBA_HOSTSSL:
		return !is_unix && facts->is_tls;
	case HBA_HOSTNOSSL:
		return !is_unix && !facts->is_tls;
	case HBA_HOSTGSSENC:
		break;
	}
	return false;
}

static bool database_fits(const struct pattern *pattern, const struct hba_facts *facts)
{
	/* As in PostgreSQL, not even `all` matches physical replication. */
	if (facts->is_physical)
		return pattern->kind == PATTERN_REPLICATION;
	if (pattern->kind == PATTERN_SAME_USER)
		return strcmp(facts->database, facts->user) == 0;
	return pattern_matches(pattern, facts->database, NULL);
}

static bool databases_fit(const struct patterns *patterns, const struct hba_facts *facts)
{
	for (size_t i = 0; i < patterns->count; i++) {
		if (database_fits(&patterns->at[i], facts))
			return true;
	}
	return false;
}

static bool users_fit(const struct patterns *patterns, const char *user)
{
	for (size_t i = 0; i < patterns->count; i++) {
		if (pattern_matches(&patterns->at[i], user, NULL))
			return true;
	}
	return false;
}

static bool name_fits(const struct hba_rule *rule, const char *host)
{
	size_t count = strlen(host), wanted = strlen(rule->host);

	if (rule->where == WHERE_NAME)
		return strcasecmp(rule->host, host) == 0;
	return count > wanted && strcasecmp(rule->host, host + count - wanted) == 0;
}

static enum match address_fits(const struct hba_rule *rule, const struct hba_facts *facts)
{
	bool fits = false;

	switch (rule->where) {
	case WHERE_ALL:
		return MATCH_YES;
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
	case WHERE_SUFFIX:
		if (!facts->is_host_known)
			return MATCH_HOST_UNKNOWN;
		fits = facts->host && name_fits(rule, facts->host);
		break;
	}
	return fits ? MATCH_YES : MATCH_NO;
}

enum hba_answer hba_find(const struct hba *hba, const struct hba_facts *facts,
                         const struct hba_rule **found)
{
	*found = NULL;
	for (size_t i = 0; i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];

		if (!type_fits(rule->type, facts) || !databases_fit(&rule->databases, facts) ||
		    !users_fit(&rule->users, facts->user))
			continue;
		switch (address_fits(rule, facts)) {
		case MATCH_NO:
			break;
		case MATCH_HOST_UNKNOWN:
			return HBA_NEEDS_HOST;
		case MATCH_YES:
			*found = rule;
			return HBA_RULE;
		}
	}
	return HBA_NO_RULE;
}

bool hba_rule_admits(const struct hba *hba, const struct hba_rule *rule, const char *name,
                     const char *user)
{
	struct bytes maps = buf_bytes(&rule->maps);
	const char *map;

	if (!maps.count)
		return strcmp(name, user) == 0;
	while (bytes_take_text(&maps, &map)) {
		if (ident_admits(hba, map, name, user))
			return true;
	}
	return false;
}
