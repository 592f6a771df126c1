/* SPDX-License-Identifier: ISC */
/*
 * Which clients the web server answers: addresses, names of hosts, and secrets.
 *
 * Hard here: a browser at an allowed address can show a page of a stranger. The browser lets that
 * page read our answers if it takes us for the page's own server, and it does if the name of that
 * server has our address ("DNS rebinding"). So the name that the browser asks for (Host) must be
 * one that no stranger can own: an address, localhost, or one of metrics_hosts.
 */
#include "web_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/auth/auth_methods.h"
#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"
#include "pgweir/net/address.h"

/*
 * ---- secrets: "Basic" with user and password (RFC 7617), "Bearer" with a token (RFC 6750) ----
 *
 * Only hashes are kept. All of them have one length, and a request is compared with each, so the
 * time of an answer tells nothing about a secret.
 */

#define SECRETS_MAX 1000
#define SECRET_LINE_MAX 1024
#define FILE_MAX ((size_t)4 * 1024 * 1024)

/* Adds the hash of a kind ('u' or 't') and its secret. false: the library refused. */
static bool hash_secret(char kind, struct bytes secret, unsigned char hash[SHA256_SIZE])
{
	char text[SECRET_LINE_MAX + 1];
	bool is_made;

	if (secret.count >= SECRET_LINE_MAX)
		return false;
	text[0] = kind;
	memcpy(text + 1, secret.at, secret.count);
	is_made = digest_sha256(bytes_of(text, secret.count + 1), hash);
	explicit_bzero(text, sizeof(text));
	return is_made;
}

/* ---- the file ---- */

static bool add_line(struct secrets *secrets, struct bytes line, struct err *err)
{
	const size_t scheme = strlen("bearer ");
	bool is_token = line.count > scheme && memcmp(line.at, "bearer ", scheme) == 0;
	struct bytes secret = is_token ? http_trim(bytes_skip(line, scheme)) : line;
	unsigned char(*grown)[SHA256_SIZE];

	if (!is_token && (*line.at == ':' || !memchr(line.at, ':', line.count)))
		return err_set(err, ERR_CONFIG, "is not user:password or bearer TOKEN");
	if (secrets->count == SECRETS_MAX)
		return err_set(err, ERR_CONFIG, "is one of more than %d", SECRETS_MAX);
	grown = realloc(secrets->hashes, (secrets->count + 1) * sizeof(*grown));
	if (!grown)
		return err_set(err, ERR_MEMORY, "out of memory");
	secrets->hashes = grown;
	if (!hash_secret(is_token ? 't' : 'u', secret, grown[secrets->count]))
		return err_set(err, ERR_CONFIG, "is too long");
	secrets->count++;
	return true;
}

bool rights_read_secrets(struct secrets *secrets, const char *path, struct err *err)
{
	struct buf text = { .limit = FILE_MAX + BUF_PIECE, .is_secret = true };
	const char *failed = buf_read_file(&text, path);
	struct bytes rest = buf_bytes(&text), line;
	bool is_good =
	    !failed || err_set(err, ERR_CONFIG, "cannot %s %s: %s", failed, path, strerror(errno));

	for (unsigned int number = 1; is_good && rest.count; number++) {
		line = http_trim(bytes_take_until(&rest, '\n'));
		if (line.count && *line.at != '#' && !add_line(secrets, line, err))
			is_good = err_prefix(err, "%s:%u ", path, number);
	}
	buf_free(&text);
	/* An empty file must not open the door that it should lock. */
	if (is_good && !secrets->count)
		is_good = err_set(err, ERR_CONFIG, "%s has no secret", path);
	return is_good;
}

void rights_free_secrets(struct secrets *secrets)
{
	free(secrets->hashes);
	*secrets = (struct secrets){ 0 };
}

/* ---- requests ---- */

/* Takes the scheme, and the blanks after it. */
static bool take_scheme(struct bytes *value, const char *scheme)
{
	size_t size = strlen(scheme);

	if (value->count <= size || value->at[size] != ' ' ||
	    !http_is(bytes_of(value->at, size), scheme))
		return false;
	*value = bytes_skip(*value, size);
	while (value->count && *value->at == ' ')
		*value = bytes_skip(*value, 1);
	return true;
}

static bool hash_authorization(struct bytes value, unsigned char hash[SHA256_SIZE])
{
	char text[SECRET_LINE_MAX];
	size_t size;
	bool is_made;

	if (take_scheme(&value, "Bearer"))
		return hash_secret('t', value, hash);
	if (!take_scheme(&value, "Basic") || !base64_decode(value, text, sizeof(text), &size))
		return false;
	is_made = hash_secret('u', bytes_of(text, size), hash);
	explicit_bzero(text, sizeof(text));
	return is_made;
}

bool rights_have_secret(const struct secrets *secrets, struct bytes authorization)
{
	unsigned char hash[SHA256_SIZE];
	bool is_known = false;

	if (!authorization.at || !hash_authorization(authorization, hash))
		return false;
	for (size_t i = 0; i < secrets->count; i++)
		is_known |= bytes_equal_secret(bytes_of(hash, sizeof(hash)),
		                               bytes_of(secrets->hashes[i], SHA256_SIZE));
	return is_known;
}

/* ---- made and freed ---- */

static bool make_tls(struct web_rights *rights, const struct config *config, struct err *err)
{
	struct tls_options options;

	if (!config->metrics_tls)
		return true;
	options = client_tls_options(config, "http/1.1");
	rights->tls = tls_context_new(&options, err);
	return rights->tls || err_prefix(err, "metrics_tls: ");
}

static void free_rights(struct web_rights *rights)
{
	config_unref(&rights->config);
	rights_free_secrets(&rights->secrets);
	tls_context_unref(&rights->tls);
	ranges_release(&rights->allow);
	free(rights);
}

REFS_FUNCTIONS(web_rights_hold, web_rights_release, struct web_rights, free_rights)

struct web_rights *web_rights_new(const struct config *config, struct err *err)
{
	const struct config_list *allow = &config->metrics_allow;
	struct web_rights *rights = err_calloc(sizeof(*rights), "out of memory", err);
	bool is_made = false;

	if (!rights)
		return NULL;
	rights->config = config_ref(config);
	rights->allow = ranges_new(allow->names, allow->count, err);
	if (!rights->allow)
		err_prefix(err, "metrics_allow: ");
	else if (!*config->metrics_secret_file ||
	         rights_read_secrets(&rights->secrets, config->metrics_secret_file, err) ||
	         err_prefix(err, "metrics_secret_file: "))
		is_made = make_tls(rights, config, err);
	if (!is_made)
		web_rights_release(&rights);
	return rights;
}

/* ---- asked ---- */

const struct tls_context *web_rights_tls(const struct web_rights *rights)
{
	return rights ? rights->tls : NULL;
}

static bool is_trusted_host(const struct web_rights *rights, struct bytes host)
{
	const struct config_list *names = &rights->config->metrics_hosts;
	struct address address;
	char text[ADDRESS_TEXT_SIZE];

	if (!host.count || http_is(host, "localhost"))
		return true;
	snprintf(text, sizeof(text), "%.*s", (int)host.count, host.at);
	if (host.count < sizeof(text) && address_parse(&address, text, 0))
		return true;
	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->names[i], "*") == 0 || http_is(host, names->names[i]))
			return true;
	}
	return false;
}

/* A secret is looked at only if a wrong one could still be delayed. */
int rights_judge(const struct web_rights *rights, const struct connection *connection,
                 const struct http_head *head, bool needs_secret, const char **why)
{
	const struct connections *all = connection->all;
	int most = rights->config->auth_failure_limit;
	bool is_known;

	if (needs_secret && failures_reach(&all->failures, &connection->peer, most)) {
		*why = "too many wrong secrets from this address, try again later";
		return 429;
	}
	if (!ranges_have(rights->allow, &connection->peer)) {
		*why = "this address is not in metrics_allow";
		return 403;
	}
	/* where none is needed, the answer must not tell whether it is right */
	is_known = needs_secret && rights_have_secret(&rights->secrets, head->authorization);
	if (needs_secret && rights->secrets.count && !is_known) {
		*why = WRONG_SECRET_TEXT;
		return 401;
	}
	/* A page of a stranger has no secret. */
	if (!is_known && !address_is_unix(&connection->peer) &&
	    !is_trusted_host(rights, head->host)) {
		*why = "the name of the host is not in metrics_hosts";
		return 403;
	}
	if (needs_secret && connections_are_busy(all)) {
		*why = "too many requests are being answered";
		return 503;
	}
	return 0;
}
