/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing LDAP options and user names: options are accepted or refused with a
 * reason, and no user name can end the value that it is inserted into.
 */
#include "../../src/auth/hba_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In a filter value, special characters are escaped by a backslash. */
static void judge_filter(const char *user)
{
	const struct ldap_options options = { .base_dn = (char *)"x" };
	struct buf out = { 0 };
	struct bytes value;

	ldap_options_filter(&options, user, &out);
	value = bytes_of(buf_text(&out) + 5, out.count - 6);
	assert(memcmp(out.at, "(uid=", 5) == 0 && out.at[out.count - 1] == ')');
	for (size_t i = 0; i < value.count; i++) {
		assert(!strchr("*()", value.at[i]));
		if (value.at[i] == '\\') {
			assert(i + 2 < value.count && strchr("0123456789abcdef", value.at[i + 1]) &&
			       strchr("0123456789abcdef", value.at[i + 2]));
			i += 2;
		}
	}
	buf_free(&out);
}

/* The same for a DN. */
static void judge_dn(const char *user)
{
	const struct ldap_options options = { .prefix = (char *)"uid=" };
	struct buf out = { 0 };

	ldap_options_dn(&options, user, &out);
	buf_text(&out);
	for (size_t i = 4; i < out.count; i++) {
		assert(!strchr("\"+,;<>=", out.at[i]));
		if (out.at[i] == '\\') {
			i++;
			assert(i < out.count);
		}
	}
	buf_free(&out);
}

static void add(struct buf *text, const char *name, const char *value)
{
	struct buf option = { 0 };

	if (!value)
		return;
	buf_add_text(&option, name);
	buf_add_text(&option, value);
	ldap_options_add(text, buf_text(&option));
	buf_free(&option);
}

static void judge_options(const char *text)
{
	struct buf again = { 0 };
	struct ldap_options options, other;
	struct err err = { 0 };
	bool is_good = ldap_options_parse(text, &options, &err);

	assert(is_good == !*err.text);
	if (is_good) {
		assert(options.servers && (options.base_dn || options.prefix || options.suffix));
		assert(!options.bind_dn == !options.bind_password);
		add(&again, "ldapserver=", options.servers);
		add(&again, "ldapprefix=", options.prefix);
		add(&again, "ldapsuffix=", options.suffix);
		add(&again, "ldapbasedn=", options.base_dn);
		add(&again, LDAP_PASSWORD, options.bind_password);
		add(&again, "ldapbinddn=", options.bind_dn);
		add(&again, "ldapsearchattribute=", options.search_attribute);
		add(&again, "ldapsearchfilter=", options.search_filter);
		assert(ldap_options_parse(buf_text(&again), &other, NULL) ||
		       again.count > LDAP_OPTIONS_MAX);
		ldap_options_done(&other);
	}
	ldap_options_done(&options);
	buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	judge_options(text);
	if (*text) {
		judge_filter(text);
		judge_dn(text);
	}
	free(text);
	return 0;
}
