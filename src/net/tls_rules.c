/* SPDX-License-Identifier: ISC */
/*
 * The rules of a set: TLS versions, ciphers, key exchange.
 */
#include <string.h>
#include <strings.h>

#include "openssl_priv.h"
#include "tls_priv.h"

#include "pgweir/base/banned.h"

static bool is_set(const char *text) { return text && *text; }

static const char *text_of(const char *text) { return text ? text : ""; }

#define V1_0 1u
#define V1_1 2u
#define V1_2 4u
#define V1_3 8u

static const struct {
	const char *name;
	unsigned int versions;
} protocols[] = {
	{ "secure", V1_2 | V1_3 },
	{ "default", V1_2 | V1_3 },
	{ "all", V1_0 | V1_1 | V1_2 | V1_3 },
	{ "tlsv1", V1_0 | V1_1 | V1_2 | V1_3 },
	{ "tlsv1.0", V1_0 },
	{ "tlsv1.1", V1_1 },
	{ "tlsv1.2", V1_2 },
	{ "tlsv1.3", V1_3 },
};

/* Adds one word of the list, which may begin with "!". false: unknown word. */
static bool add_protocol(const char *word, size_t count, unsigned int *versions)
{
	bool is_without = *word == '!';

	word += is_without;
	count -= is_without;
	for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
		if (strlen(protocols[i].name) != count ||
		    strncasecmp(protocols[i].name, word, count) != 0)
			continue;
		if (!is_without)
			*versions |= protocols[i].versions;
		else
			*versions = (*versions ? *versions : V1_0 | V1_1 | V1_2 | V1_3) &
			            ~protocols[i].versions;
		return true;
	}
	return false;
}

static bool set_protocols(SSL_CTX *library, const struct tls_options *options, struct err *err)
{
	static const uint64_t refusals[] = { SSL_OP_NO_TLSv1, SSL_OP_NO_TLSv1_1, SSL_OP_NO_TLSv1_2,
		                             SSL_OP_NO_TLSv1_3 };
	const char *list = is_set(options->protocols) ? options->protocols : "secure";
	unsigned int versions = 0;

	for (const char *at = list; *at;) {
		size_t count = strcspn(at, ",: \t");

		if (count && !add_protocol(at, count, &versions))
			return err_set(err, ERR_CONFIG,
			               "%s_protocols: \"%.*s\" is not one of secure, all, tlsv1.0, "
			               "tlsv1.1, tlsv1.2 and tlsv1.3",
			               options->prefix, (int)count, at);
		at += count + (at[count] != 0);
	}
	if (!versions)
		return err_set(err, ERR_CONFIG, "%s_protocols: nothing is left of \"%s\"",
		               options->prefix, list);
	SSL_CTX_set_min_proto_version(library, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(library, 0);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (!(versions & (1u << i)))
			SSL_CTX_set_options(library, refusals[i]);
	}
	return true;
}

/* Words for the default ciphers of OpenSSL or of the system. */
static bool is_default(const char *ciphers)
{
	static const char *const words[] = { "", "default", "secure", "normal", "fast" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(ciphers, words[i]) == 0)
			return true;
	}
	return false;
}

static bool set_ciphers(SSL_CTX *library, const struct tls_options *options, struct err *err)
{
	if (!is_default(text_of(options->ciphers)) &&
	    SSL_CTX_set_cipher_list(library, options->ciphers) != 1)
		return tls_err(err, ERR_CONFIG, "%s_ciphers: \"%s\"", options->prefix,
		               options->ciphers);
	if (is_set(options->ciphersuites) &&
	    SSL_CTX_set_ciphersuites(library, options->ciphersuites) != 1)
		return tls_err(err, ERR_CONFIG, "%s13_ciphers: \"%s\"", options->prefix,
		               options->ciphersuites);
	return true;
}

static bool set_exchange(SSL_CTX *library, const struct tls_options *options, struct err *err)
{
	const char *curve = text_of(options->curve), *params = text_of(options->dheparams);

	/* "none" means the default too: without a curve TLS 1.3 is impossible. */
	if (*curve && strcasecmp(curve, "auto") != 0 && strcasecmp(curve, "none") != 0 &&
	    SSL_CTX_set1_groups_list(library, curve) != 1)
		return tls_err(err, ERR_CONFIG, "%s_ecdhcurve: \"%s\"", options->prefix, curve);
	if (!*params || strcasecmp(params, "auto") == 0)
		SSL_CTX_set_dh_auto(library, 1);
	else if (strcasecmp(params, "legacy") == 0)
		SSL_CTX_set_dh_auto(library, 2);
	else if (strcasecmp(params, "none") != 0)
		return err_set(err, ERR_CONFIG,
		               "%s_dheparams: \"%s\" is not one of auto, none and legacy",
		               options->prefix, params);
	return true;
}

bool tls_rules_apply(SSL_CTX *library, const struct tls_options *options, struct err *err)
{
	return set_protocols(library, options, err) && set_ciphers(library, options, err) &&
	       set_exchange(library, options, err);
}
