/* SPDX-License-Identifier: ISC */
/*
 * LDAP URLs (RFC 4516), for the option ldapurl:
 *
 *   ldap[s]://host[:port]/base[?attribute[?scope[?filter]]]
 *
 * In the parts after the host, %41 and the like are percent-encoded bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ldap_options_priv.h"

#include "pgweir/base/banned.h"

static bool bad(struct err *err, const char *reason)
{
	return err_set(err, ERR_CONFIG, "ldapurl: %s", reason);
}

static int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)((at - digits) % 16) : -1;
}

/* Adds `in` with percent-encoding removed. */
static bool decode(struct bytes in, struct buf *out)
{
	for (size_t i = 0; i < in.count; i++) {
		int high, low;

		if (in.at[i] != '%') {
			buf_add_byte(out, in.at[i]);
			continue;
		}
		high = i + 2 < in.count ? digit_of(in.at[i + 1]) : -1;
		low = high >= 0 ? digit_of(in.at[i + 2]) : -1;
		if (low < 0 || high + low == 0)
			return false;
		buf_add_byte(out, (char)(high * 16 + low));
		i += 2;
	}
	return buf_ok(out);
}

/* Stores a part in a text of the options. An empty part changes nothing. */
static bool put_part(char **slot, struct bytes part, struct err *err)
{
	struct buf text = { 0 };
	bool is_good = true;

	if (!decode(part, &text))
		is_good = bad(err, "a % is not followed by two hexadecimal digits");
	else if (text.count)
		is_good = ldap_options_put(slot, buf_bytes(&text), err);
	buf_free(&text);
	return is_good;
}

static bool put_scope(struct ldap_options *options, struct bytes part, struct err *err)
{
	static const char *const scopes[] = {
		[LDAP_AT_BASE] = "base", [LDAP_ONE_LEVEL] = "one", [LDAP_SUBTREE] = "sub"
	};

	options->scope = LDAP_AT_BASE;
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		if (!bytes_are(part, scopes[i]))
			continue;
		options->scope = (enum ldap_scope)i;
		return true;
	}
	return part.count == 0 || bad(err, "the scope must be base, one or sub");
}

/* Parses host, host:port, [address] or [address]:port. */
static bool put_authority(struct ldap_options *options, struct bytes in, struct err *err)
{
	bool has_brackets = in.count && in.at[0] == '[';
	const char *end = in.count ? memchr(in.at, has_brackets ? ']' : ':', in.count) : NULL;
	struct bytes host = in, port = { NULL, 0 };
	char text[8];

	if (has_brackets && !end)
		return bad(err, "a ] is missing");
	if (end) {
		host = bytes_of(in.at + has_brackets, (size_t)(end - in.at) - has_brackets);
		port = bytes_skip(in, (size_t)(end - in.at) + has_brackets);
	}
	if (!host.count)
		return bad(err, "the host is missing");
	if (memchr(host.at, ' ', host.count) || memchr(host.at, '\t', host.count))
		return bad(err, "the host contains a blank");
	if (port.count && (port.at[0] != ':' || port.count > sizeof(text) - 1))
		return bad(err, "the host must be followed by : and a port");
	options->port = 0;
	if (port.count) {
		memcpy(text, port.at + 1, port.count - 1);
		text[port.count - 1] = 0;
		if (!ldap_options_put_port(options, text, err))
			return false;
	}
	return ldap_options_put(&options->servers, host, err);
}

/* Returns what precedes the next `mark` and moves *rest past it. */
static struct bytes take_part(struct bytes *rest, char mark)
{
	const char *end = rest->count ? memchr(rest->at, mark, rest->count) : NULL;
	struct bytes part = *rest;

	if (!end) {
		*rest = bytes_skip(*rest, rest->count);
		return part;
	}
	part.count = (size_t)(end - part.at);
	*rest = bytes_skip(*rest, part.count + 1);
	return part;
}

bool ldap_options_url(const char *url, struct ldap_options *options, struct err *err)
{
	struct bytes rest = bytes_text(url), part;

	options->is_ldaps = strncasecmp(url, "ldaps://", 8) == 0;
	if (!options->is_ldaps && strncasecmp(url, "ldap://", 7) != 0)
		return bad(err, "it must begin with ldap:// or ldaps://");
	rest = bytes_skip(rest, options->is_ldaps ? 8 : 7);
	part = take_part(&rest, '/');
	if (!put_authority(options, part, err))
		return false;
	if (!put_part(&options->base_dn, take_part(&rest, '?'), err))
		return false;
	part = take_part(&rest, '?');
	if (part.count && memchr(part.at, ',', part.count))
		return bad(err, "there is more than one attribute in it");
	if (!put_part(&options->search_attribute, part, err) ||
	    !put_scope(options, take_part(&rest, '?'), err))
		return false;
	part = take_part(&rest, '?');
	if (rest.count)
		return bad(err, "extensions are not supported");
	return put_part(&options->search_filter, part, err);
}
