/* SPDX-License-Identifier: ISC */
/*
 * The HBA file: loads it with the ident file, counts references, and lists the rules.
 */
#include "pgweir/auth/hba.h"

#include <stddef.h>
#include <stdlib.h>
#include <strings.h>

#include "pgweir/auth/ldap_options.h"

#include "hba_priv.h"

#include "pgweir/base/banned.h"

struct load {
	struct rule_reader reader; /* must be first: see load_line() */
	struct hba *hba;
};

/* ---- creation and end ---- */

static void hba_free(struct hba *hba)
{
	for (size_t i = 0; i < hba->count; i++)
		hba_rule_done(&hba->rules[i]);
	free(hba->rules);
	ident_free(&hba->ident);
	rulefile_free_names(hba->files, hba->file_count);
	free(hba);
}

struct hba *hba_hold(struct hba *hba)
{
	hba->reference_count++;
	return hba;
}

void hba_release(struct hba **hba)
{
	if (*hba && --(*hba)->reference_count == 0)
		hba_free(*hba);
	*hba = NULL;
}

/* ---- loading ---- */

static bool grow_rules(struct hba *hba)
{
	size_t capacity = hba->capacity ? 2 * hba->capacity : 16;
	struct hba_rule *grown;

	if (hba->count < hba->capacity)
		return true;
	grown = realloc(hba->rules, capacity * sizeof(*grown));
	if (!grown)
		return false;
	hba->rules = grown;
	hba->capacity = capacity;
	return true;
}

static void load_line(struct rule_reader *reader, const struct rule_line *line)
{
	struct hba *hba = ((struct load *)reader)->hba;
	struct hba_rule rule;
	struct err err;

	_Static_assert(offsetof(struct load, reader) == 0, "load_line() counts on it");
	if (!grow_rules(hba)) {
		problems_add(reader->problems, line->pos, "no memory");
	} else if (hba_rule_read(&rule, line, hba->ident, &err)) {
		if (rule.flaw)
			problems_warn(reader->problems, line->pos, "%s", rule.flaw);
		hba->rules[hba->count++] = rule;
	} else {
		problems_add(reader->problems, line->pos, "%s", err.text);
		reader->problems->unfit_count += err.code == ERR_UNFIT;
		hba_rule_done(&rule);
	}
}

/*
 * Owns `ident` from now on. ident NULL: its errors have been reported. path NULL: parses
 * `text`.
 */
static struct hba *load(const char *path, struct bytes text, struct ident *ident,
                        struct problems *problems)
{
	struct load load = {
		.reader = { .line = load_line, .problems = problems, .may_include = path != NULL },
		.hba = calloc(1, sizeof(struct hba))
	};

	if (!load.hba) {
		problems_add(problems, (struct source_pos){ path, 0 }, "no memory");
		ident_free(&ident);
		return NULL;
	}
	load.hba->reference_count = 1;
	load.hba->ident = ident;
	if (path)
		rulefile_read(&load.reader, path);
	else
		rulefile_read_bytes(&load.reader, text, "hba");
	load.hba->files = load.reader.files;
	load.hba->file_count = load.reader.file_count;
	if (load.hba->count == 0 && !problems_any(problems))
		problems_add(problems, (struct source_pos){ path ? path : "hba", 0 },
		             "it contains no rule, so no login would be possible");
	if (problems_any(problems))
		hba_release(&load.hba);
	return load.hba;
}

struct hba *hba_load(const char *path, const char *ident_path, struct problems *problems)
{
	struct ident *ident = ident_load(ident_path, problems);

	return load(path, bytes_of(NULL, 0), ident, problems);
}

struct hba *hba_parse(struct bytes text, struct bytes ident, struct problems *problems)
{
	return load(NULL, text, ident_parse(ident, "ident", problems), problems);
}

/* ---- facts about a rule ---- */

enum auth_method hba_rule_method(const struct hba_rule *rule) { return rule->method; }

const char *hba_rule_flaw(const struct hba_rule *rule) { return rule->flaw; }

enum hba_client_cert hba_rule_client_cert(const struct hba_rule *rule) { return rule->client_cert; }

struct source_pos hba_rule_source_pos(const struct hba_rule *rule) { return rule->pos; }

const char *hba_rule_options(const struct hba_rule *rule)
{
	return rule->options.count ? rule->options.at : NULL;
}

size_t hba_rule_count(const struct hba *hba) { return hba->count; }

/* ---- showing ---- */

/* Adds one element to an array in PostgreSQL's text format. */
static void add_element(struct buf *out, const char *prefix, const char *text)
{
	bool is_plain =
	    *text && !text[strcspn(text, " \t\r\n,{}\"\\")] && strcasecmp(text, "null") != 0;

	buf_add_text(out, out->count ? "," : "{");
	if (!is_plain)
		buf_add_byte(out, '"');
	buf_add_text(out, prefix);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_add_byte(out, '\\');
		buf_add_byte(out, *text);
	}
	if (!is_plain)
		buf_add_byte(out, '"');
}

static void end_array(struct buf *out)
{
	if (out->count)
		buf_add_byte(out, '}');
}

static void add_patterns(struct buf *out, const struct patterns *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		add_element(out, "", patterns->at[i].text);
	end_array(out);
}

static void add_ldap(struct buf *out, const char *text)
{
	struct buf option = { 0 };

	while (ldap_options_next(&text, &option))
		add_element(out, "", buf_text(&option));
	buf_free(&option);
}

static void add_options(struct buf *out, const struct hba_rule *rule)
{
	static const char *const wanted[] = {
		[HBA_CERT_VALID] = "verify-ca", [HBA_CERT_NAMED] = "verify-full"
	};

	for (size_t i = 0; i < rule->map_count; i++)
		add_element(out, "map=", rule->maps[i]);
	if (rule->client_cert != HBA_CERT_ANY)
		add_element(out, "clientcert=", wanted[rule->client_cert]);
	if (rule->options.count && rule->method == AUTH_METHOD_PAM)
		add_element(out, "pamservice=", rule->options.at);
	else if (rule->options.count)
		add_ldap(out, rule->options.at);
	end_array(out);
}

static void show_address(const struct hba_rule *rule, struct hba_row *row, struct hba_lists *lists)
{
	static const char *const words[] = {
		[WHERE_ALL] = "all", [WHERE_SAME_HOST] = "samehost", [WHERE_SAME_NET] = "samenet"
	};

	if (rule->type == HBA_LOCAL)
		return;
	if (rule->host) {
		row->address = rule->host;
	} else if (rule->where == WHERE_RANGE || rule->where == WHERE_NOBODY) {
		row->address = address_format_host(&rule->range.address, lists->address,
		                                   sizeof(lists->address));
		row->netmask =
		    address_format_host(&rule->range.mask, lists->netmask, sizeof(lists->netmask));
	} else {
		row->address = words[rule->where];
	}
}

bool hba_row(const struct hba *hba, size_t index, struct hba_row *row, struct hba_lists *lists)
{
	const struct hba_rule *rule;

	if (index >= hba->count)
		return false;
	rule = &hba->rules[index];
	*row = (struct hba_row){ .file = rule->pos.file,
		                 .line = rule->pos.line,
		                 .type = hba_type_name(rule->type),
		                 .method = auth_methods[rule->method].hba_name,
		                 .error = rule->flaw };
	show_address(rule, row, lists);
	add_patterns(&lists->database, &rule->databases);
	add_patterns(&lists->user, &rule->users);
	add_options(&lists->options, rule);
	return true;
}

bool hba_ident_row(const struct hba *hba, size_t index, struct ident_row *row)
{
	return ident_row(hba->ident, index, row);
}
