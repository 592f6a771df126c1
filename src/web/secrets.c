/* SPDX-License-Identifier: ISC */
/*
 * Secrets of HTTP clients: "Basic" with user and password (RFC 7617), "Bearer" with a token
 * (RFC 6750).
 *
 * Only hashes are kept. All of them have one length, and a request is compared with each, so the
 * time of an answer tells nothing about a secret.
 */
#include "secrets_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"

#include "http_head_priv.h"

#define SECRETS_MAX 1000
#define SECRET_LINE_MAX 1024

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

static bool add_line(struct secrets *secrets, char *line, struct err *err)
{
	bool is_token = strncmp(line, "bearer ", strlen("bearer ")) == 0;
	char *secret = is_token ? text_trim(line + strlen("bearer ")) : line;
	unsigned char(*grown)[SHA256_SIZE];

	if (!*secret || (!is_token && (!strchr(line, ':') || *line == ':')))
		return err_set(err, ERR_CONFIG, "is not user:password or bearer TOKEN");
	if (secrets->count == SECRETS_MAX)
		return err_set(err, ERR_CONFIG, "is one of more than %d", SECRETS_MAX);
	grown = realloc(secrets->hashes, (secrets->count + 1) * sizeof(*grown));
	if (!grown)
		return err_set(err, ERR_MEMORY, "out of memory");
	secrets->hashes = grown;
	if (!hash_secret(is_token ? 't' : 'u', bytes_text(secret), grown[secrets->count]))
		return err_set(err, ERR_CONFIG, "is too long");
	secrets->count++;
	return true;
}

static bool read_lines(struct secrets *secrets, FILE *file, const char *path, struct err *err)
{
	char text[SECRET_LINE_MAX];
	unsigned int number = 0;
	bool is_good = true;

	while (is_good && fgets(text, sizeof(text), file)) {
		size_t size = strlen(text);
		bool is_cut = size == sizeof(text) - 1 && text[size - 1] != '\n';
		char *line = text_trim(text);

		number++;
		if (is_cut)
			is_good = err_set(err, ERR_CONFIG, "is too long");
		else if (*line && *line != '#')
			is_good = add_line(secrets, line, err);
	}
	explicit_bzero(text, sizeof(text));
	if (!is_good)
		return err_prefix(err, "%s:%u ", path, number);
	/* An empty file must not open the door that it should lock. */
	return secrets->count || err_set(err, ERR_CONFIG, "%s has no secret", path);
}

bool secrets_read(struct secrets *secrets, const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");
	bool is_read;

	if (!file)
		return err_set(err, ERR_CONFIG, "cannot open %s: %s", path, strerror(errno));
	is_read = read_lines(secrets, file, path, err);
	fclose(file);
	return is_read;
}

void secrets_free(struct secrets *secrets)
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

bool secrets_have(const struct secrets *secrets, struct bytes authorization)
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
