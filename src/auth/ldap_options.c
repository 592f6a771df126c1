/* SPDX-License-Identifier: ISC */
/*
 * Parses and checks LDAP options, and makes names and filters from them.
 *
 * Hard here: the user's name comes from an unauthenticated client and becomes a part of a DN or
 * a filter, where none of its characters may have a special meaning. And one option is a
 * password, so an error text must not repeat a word of an invalid text.
 */
#include "outside_priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#if PGWEIR_LDAP
#include <ldap.h>
#endif

#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"

#include "hba_priv.h"

#define USERNAME "$username"
#define BLANKS " \t\r\n"

/* ---- words ---- */

void ldap_options_add(struct buf *text, const char *option)
{
	buf_add_text(text, text->count ? " \"" : "\"");
	for (; *option; option++) {
		if (*option == '"')
			buf_add_byte(text, '"');
		buf_add_byte(text, *option);
	}
	buf_add_byte(text, '"');
}

/* ---- values ---- */

static bool put(char **slot, const char *value, struct err *err)
{
	char *copy = strdup(value);

	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	secret_free(slot);
	*slot = copy;
	return true;
}

static bool put_port(struct ldap_options *options, const char *value, struct err *err)
{
	int64_t port;

	if (!text_to_i64(value, &port) || port < 1 || port > 65535)
		return err_set(err, ERR_CONFIG, "the LDAP port must be from 1 to 65535");
	options->port = (int)port;
	return true;
}

static bool put_scheme(struct ldap_options *options, const char *value, struct err *err)
{
	options->is_ldaps = strcmp(value, "ldaps") == 0;
	return options->is_ldaps || strcmp(value, "ldap") == 0 ||
	       err_set(err, ERR_CONFIG, "ldapscheme must be ldap or ldaps");
}

static bool put_tls(struct ldap_options *options, const char *value, struct err *err)
{
	options->has_start_tls = strcmp(value, "1") == 0;
	return options->has_start_tls || strcmp(value, "0") == 0 ||
	       err_set(err, ERR_CONFIG, "ldaptls must be 0 or 1");
}

#define AT(field) offsetof(struct ldap_options, field)

static const struct key {
	const char *name;
	size_t at; /* of its text, unless: */
	bool (*put)(struct ldap_options *options, const char *value, struct err *err);
} keys[] = {
	{ "ldapserver", AT(servers), NULL },
	{ "ldapport", 0, put_port },
	{ "ldapscheme", 0, put_scheme },
	{ "ldaptls", 0, put_tls },
	{ "ldapprefix", AT(prefix), NULL },
	{ "ldapsuffix", AT(suffix), NULL },
	{ "ldapbasedn", AT(base_dn), NULL },
	{ "ldapbinddn", AT(bind_dn), NULL },
	{ "ldapbindpasswd", AT(bind_password), NULL },
	{ "ldapsearchattribute", AT(search_attribute), NULL },
	{ "ldapsearchfilter", AT(search_filter), NULL },
	{ "ldapurl", 0, ldap_options_url },
};

static char **text_at(struct ldap_options *options, const struct key *key)
{
	return (char **)((char *)options + key->at);
}

/* Splits `word` at its '='. An unknown word may be a part of a password: do not show it. */
static bool put_word(struct ldap_options *options, char *word, int number, struct err *err)
{
	char *equals = strchr(word, '=');

	if (!equals)
		return err_set(err, ERR_CONFIG,
		               "LDAP option %d contains no =: a value with blanks must be quoted",
		               number);
	*equals = 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].name, word) == 0)
			return keys[i].put ? keys[i].put(options, equals + 1, err)
			                   : put(text_at(options, &keys[i]), equals + 1, err);
	}
	if (strncmp(word, "ldap", 4) == 0 && strlen(word) < 64)
		return err_set(err, ERR_CONFIG, "unknown LDAP option %s", word);
	return err_set(err, ERR_CONFIG, "LDAP option %d is unknown", number);
}

/* ---- all options together ---- */

static bool check_servers(const char *servers, struct err *err)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789.-_:" BLANKS;

	if (!servers || !servers[strspn(servers, BLANKS)])
		return err_set(err, ERR_CONFIG, "LDAP needs ldapserver or ldapurl");
	/* exactly one colon: a name and a port */
	for (const char *at = servers; *(at += strspn(at, BLANKS)); at += strcspn(at, BLANKS)) {
		const char *colon = memchr(at, ':', strcspn(at, BLANKS));

		if (colon && !memchr(colon + 1, ':', strcspn(colon + 1, BLANKS)))
			return err_set(err, ERR_CONFIG,
			               "ldapserver must not contain a port: use ldapport");
	}
	return !servers[strspn(servers, good)] ||
	       err_set(err, ERR_CONFIG,
	               "ldapserver must be a list of names and addresses, separated by blanks");
}

static bool contradict(struct ldap_options *options, struct err *err, const char *words)
{
	options->is_contradictory = true;
	return err_set(err, ERR_CONFIG, "%s", words);
}

static bool check_search(struct ldap_options *options, struct err *err)
{
	if (options->search_filter && !strstr(options->search_filter, USERNAME))
		return err_set(err, ERR_CONFIG,
		               "ldapsearchfilter does not contain " USERNAME
		               ", so it would find the same entry for every user");
	if (!options->bind_dn != !options->bind_password ||
	    (options->bind_dn && (!*options->bind_dn || !*options->bind_password)))
		return err_set(err, ERR_CONFIG,
		               "ldapbinddn and ldapbindpasswd must both be set and not be empty");
	if (options->search_attribute && options->search_filter)
		return contradict(options, err,
		                  "ldapsearchattribute and ldapsearchfilter exclude each other");
	return true;
}

static bool check(struct ldap_options *options, struct err *err)
{
	bool is_simple = options->prefix || options->suffix;
	bool is_search = options->base_dn || options->bind_dn || options->bind_password ||
	                 options->search_attribute || options->search_filter;

	if (!check_servers(options->servers, err))
		return false;
	if (!is_simple && !is_search)
		return err_set(err, ERR_CONFIG, "LDAP needs ldapprefix, ldapsuffix or ldapbasedn");
	if (is_simple && is_search)
		return contradict(
		    options, err,
		    "ldapprefix and ldapsuffix cannot be combined with search options");
	if (is_search && !options->base_dn)
		return err_set(err, ERR_CONFIG, "a search needs ldapbasedn");
	if (is_search && !check_search(options, err))
		return false;
	if (options->is_ldaps && options->has_start_tls)
		return contradict(options, err, "ldaps has TLS: it cannot have ldaptls=1 too");
	return true;
}

bool ldap_options_parse(const char *text, struct ldap_options *options, struct err *err)
{
	struct buf word = { 0 };
	bool is_good = true, is_quoted;

	*options = (struct ldap_options){ .scope = LDAP_SUBTREE };
	if (strlen(text) > LDAP_OPTIONS_MAX)
		return err_set(err, ERR_CONFIG, "the LDAP options are longer than %d bytes",
		               LDAP_OPTIONS_MAX);
	for (int i = 1; is_good && *(text += strspn(text, BLANKS)); i++) {
		bool is_whole;

		buf_clear(&word);
		is_whole = rulefile_word(&text, BLANKS, &word, &is_quoted);
		/* adds a terminating zero; also allocates the text of an empty word */
		buf_text(&word);
		if (!is_whole || !buf_ok(&word))
			is_good =
			    err_set(err, ERR_CONFIG, "unterminated quote in LDAP option %d", i);
		else if (word.count == 0)
			is_good = err_set(err, ERR_CONFIG, "LDAP option %d is empty", i);
		else
			is_good = put_word(options, word.at, i, err);
	}
	buf_wipe(&word);
	return is_good && check(options, err);
}

void ldap_options_done(struct ldap_options *options)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (!keys[i].put)
			secret_free(text_at(options, &keys[i]));
	}
}

/* ---- names ---- */

static void add_hex(struct buf *out, char byte)
{
	char hex[3];

	text_hex(hex, &byte, 1);
	buf_add_byte(out, '\\');
	buf_add_text(out, hex);
}

/* RFC 4514: adds a value within a DN. */
static void add_value(struct buf *out, const char *text)
{
	for (const char *at = text; *at; at++) {
		bool is_edge = at == text || !at[1];

		if (strchr("\"+,;<>\\=", *at) || (at == text && *at == '#') ||
		    (is_edge && *at == ' '))
			buf_add_byte(out, '\\');
		if ((unsigned char)*at < ' ' || *at == 127)
			add_hex(out, *at);
		else
			buf_add_byte(out, *at);
	}
}

/* RFC 4515: adds a value within a filter. */
static void add_assertion(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("*()\\", *text) || (unsigned char)*text < ' ' || *text == 127)
			add_hex(out, *text);
		else
			buf_add_byte(out, *text);
	}
}

void ldap_options_dn(const struct ldap_options *options, const char *user, struct buf *out)
{
	if (options->prefix)
		buf_add_text(out, options->prefix);
	add_value(out, user);
	if (options->suffix)
		buf_add_text(out, options->suffix);
}

void ldap_options_filter(const struct ldap_options *options, const char *user, struct buf *out)
{
	const char *at = options->search_filter, *hit;

	if (!at) {
		buf_add_byte(out, '(');
		buf_add_text(out, options->search_attribute ? options->search_attribute : "uid");
		buf_add_byte(out, '=');
		add_assertion(out, user);
		buf_add_byte(out, ')');
		return;
	}
	for (; (hit = strstr(at, USERNAME)); at = hit + strlen(USERNAME)) {
		buf_add(out, at, (size_t)(hit - at));
		add_assertion(out, user);
	}
	buf_add_text(out, at);
}

/* ---- URLs ---- */

#if PGWEIR_LDAP

/* libldap decodes %41 and the like, but overlooks what is malformed. */
static bool has_bad_byte(const char *url)
{
	while ((url = strchr(url, '%'))) {
		if (!isxdigit((unsigned char)url[1]) || !isxdigit((unsigned char)url[2]) ||
		    strncmp(url, "%00", 3) == 0)
			return true;
		url += 3;
	}
	return false;
}

/* Why these parts cannot be used; NULL: they can. */
static const char *problem_of(const LDAPURLDesc *parts)
{
	if (strcmp(parts->lud_scheme, "ldap") != 0 && strcmp(parts->lud_scheme, "ldaps") != 0)
		return "it must begin with ldap:// or ldaps://";
	if (!parts->lud_host || !*parts->lud_host)
		return "the host is missing";
	if (parts->lud_port < 1 || parts->lud_port > 65535)
		return "the port must be from 1 to 65535";
	if (parts->lud_attrs && parts->lud_attrs[0] && parts->lud_attrs[1])
		return "there is more than one attribute in it";
	if (parts->lud_scope < LDAP_SCOPE_BASE || parts->lud_scope > LDAP_SCOPE_SUBTREE)
		return "the scope must be base, one or sub";
	return parts->lud_exts ? "extensions are not supported" : NULL;
}

static bool put_part(char **slot, const char *part, struct err *err)
{
	return !part || !*part || put(slot, part, err);
}

bool ldap_options_url(struct ldap_options *options, const char *url, struct err *err)
{
	LDAPURLDesc *parts = NULL;
	bool is_url = !has_bad_byte(url) && ldap_url_parse(url, &parts) == LDAP_URL_SUCCESS;
	const char *problem = is_url ? problem_of(parts) : "it is not a valid LDAP URL";
	bool is_good;

	_Static_assert((int)LDAP_ONE_LEVEL == LDAP_SCOPE_ONELEVEL &&
	                   (int)LDAP_SUBTREE == LDAP_SCOPE_SUBTREE,
	               "scopes are libldap's");
	if (problem) {
		ldap_free_urldesc(parts);
		return err_set(err, ERR_CONFIG, "ldapurl: %s", problem);
	}
	options->is_ldaps = strcmp(parts->lud_scheme, "ldaps") == 0;
	options->port = parts->lud_port == (options->is_ldaps ? LDAPS_PORT : LDAP_PORT)
	                    ? 0 /* perhaps by default: a later ldapscheme counts */
	                    : parts->lud_port;
	options->scope = (enum ldap_scope)parts->lud_scope;
	is_good = put_part(&options->servers, parts->lud_host, err) &&
	          put_part(&options->base_dn, parts->lud_dn, err) &&
	          put_part(&options->search_attribute,
	                   parts->lud_attrs ? parts->lud_attrs[0] : NULL, err) &&
	          put_part(&options->search_filter, parts->lud_filter, err);
	ldap_free_urldesc(parts);
	return is_good;
}

#else

bool ldap_options_url(struct ldap_options *options, const char *url, struct err *err)
{
	(void)url;
	(void)options;
	return err_set(err, ERR_CONFIG, "ldapurl: built without LDAP");
}

#endif
