/* SPDX-License-Identifier: ISC */
/*
 * What is asked about TLS: errors, certificates, and facts about a connection, whoever encrypts it.
 */
#include "tls_priv.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tls library ---- */

/* Freed objects of OpenSSL may have had secrets, not all of which it wipes itself. */
static void wipe_and_free(void *at, const char *file, int line)
{
	(void)file;
	(void)line;
	if (at)
		explicit_bzero(at, malloc_usable_size(at));
	free(at);
}

static void *take_again(void *at, size_t size, const char *file, int line)
{
	size_t old = at ? malloc_usable_size(at) : 0;
	void *fresh = size ? malloc(size) : NULL;

	if (fresh && at)
		memcpy(fresh, at, old < size ? old : size);
	if (fresh || !size)
		wipe_and_free(at, file, line);
	return fresh;
}

void tls_library_prepare(void) { CRYPTO_set_mem_functions(NULL, take_again, wipe_and_free); }

const char *tls_library(void) { return OpenSSL_version(OPENSSL_VERSION); }

bool tls_err(struct err *err, enum err_code code, const char *format, ...)
{
	unsigned long failure = ERR_peek_last_error();
	const char *reason = failure ? ERR_reason_error_string(failure) : NULL;
	char words[ERR_TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (failure && ERR_SYSTEM_ERROR(failure))
		reason = strerror(ERR_GET_REASON(failure));
	err_set(err, code, "%s: %s", words, reason ? reason : "unknown reason");
	ERR_clear_error();
	return false;
}

size_t tls_binding_of(const X509 *certificate, unsigned char out[TLS_BINDING_MAX])
{
	const EVP_MD *hash;
	unsigned int size = 0;
	int nid = NID_undef;

	if (!certificate ||
	    X509_get_signature_info((X509 *)certificate, &nid, NULL, NULL, NULL) != 1)
		return 0;
	/*
	 * RFC 5929: use the hash function of the signature, but SHA-256 instead of MD5 and
	 * SHA-1.
	 */
	if (nid == NID_md5 || nid == NID_sha1)
		nid = NID_sha256;
	hash = nid == NID_undef ? NULL : EVP_get_digestbynid(nid);
	if (!hash || EVP_MD_get_size(hash) > TLS_BINDING_MAX ||
	    X509_digest(certificate, hash, out, &size) != 1)
		size = 0;
	ERR_clear_error();
	return size;
}

bool tls_seconds_left(const X509 *certificate, int64_t *seconds)
{
	int days = 0, rest = 0;
	bool is_known =
	    certificate && ASN1_TIME_diff(&days, &rest, NULL, X509_get0_notAfter(certificate)) == 1;

	*seconds = (int64_t)days * 24 * 3600 + rest;
	return is_known;
}

/* ---- facts: version and cipher, the peer's certificate, channel binding ---- */

/* clang-format off */
/* Those of TLS 1.3, as OpenSSL calls them. */
static const char *const groups[] = {
	"", "X25519", "X448", "prime256v1", "secp384r1", "secp521r1", "brainpoolP256r1",
	"brainpoolP384r1", "brainpoolP512r1", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144",
	"ffdhe8192", "X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "MLKEM512",
	"MLKEM768", "MLKEM1024",
};
/* clang-format on */

_Static_assert(sizeof(groups) / sizeof(groups[0]) <= 32, "tls->group has 5 bits");

const char *tls_group_name(unsigned int group) { return groups[group]; }

uint8_t tls_group_of(struct bytes name)
{
	uint8_t group = sizeof(groups) / sizeof(groups[0]);

	while (--group && !bytes_are(name, groups[group]))
		;
	return group;
}

void tls_read_group(SSL *ssl, char *out, size_t size)
{
	EVP_PKEY *key = NULL;

	*out = 0;
	if (SSL_get_peer_tmp_key(ssl, &key) != 1 || !key)
		return;
	if (EVP_PKEY_is_a(key, "DH"))
		snprintf(out, size, "ffdhe%d", EVP_PKEY_get_bits(key));
	else if (EVP_PKEY_get_group_name(key, out, size, NULL) != 1)
		snprintf(out, size, "%s", EVP_PKEY_get0_type_name(key));
	EVP_PKEY_free(key);
	ERR_clear_error();
}

/* NULL: not encrypted, or still in the handshake. */
static const struct tls *tls_of(const struct stream *stream)
{
	return stream->tls && !stream->tls->is_shaking ? stream->tls : NULL;
}

const char *tls_text(const struct stream *stream, char *out, size_t size)
{
	const struct tls *tls = tls_of(stream);
	const char *version = "TLSv1.3", *cipher;
	char group[TLS_GROUP_SIZE];

	out[0] = 0;
	if (!tls)
		return out;
	if (tls_records_are_on(&tls->records)) {
		cipher = tls_cipher_name(tls->records.cipher);
		snprintf(group, sizeof(group), "%s", tls_group_name(tls->group));
	} else {
		version = SSL_get_version(tls->engine->ssl);
		cipher = SSL_get_cipher_name(tls->engine->ssl);
		tls_read_group(tls->engine->ssl, group, sizeof(group));
	}
	if (strncmp(group, "ffdhe", 5) == 0)
		snprintf(out, size, "%s/%s/DH=%s", version, cipher, group + 5);
	else
		snprintf(out, size, "%s/%s%s%s", version, cipher, *group ? "/ECDH=" : "", group);
	return out;
}

const char *tls_records_text(const struct stream *stream)
{
	const struct tls *tls = tls_of(stream);

	if (!tls)
		return "";
	return tls_records_are_on(&tls->records) ? "own" : "openssl";
}

size_t tls_agreed_protocol(const struct stream *stream, const char **name)
{
	const struct tls *tls = tls_of(stream);
	/* Only one protocol is ever offered, or chosen. */
	bool is_agreed = tls && tls->context && tls->is_agreed;

	*name = is_agreed ? tls->context->protocol + 1 : "";
	return is_agreed ? tls->context->protocol_size - 1 : 0;
}

/* ---- names in a certificate ---- */

static void add_name(struct buf *out, const char *kind, const void *at, size_t count)
{
	if (memchr(at, 0, count)) /* a zero byte in it: "good.example\0.evil.example" */
		return;
	buf_add_cstr(out, kind);
	buf_add(out, at, count);
	buf_add_byte(out, 0);
}

static void add_address(struct buf *out, const ASN1_OCTET_STRING *address)
{
	int count = ASN1_STRING_length(address);
	char text[INET6_ADDRSTRLEN];

	if ((count == 4 || count == 16) &&
	    inet_ntop(count == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text,
	              sizeof(text)))
		add_name(out, "IP", text, strlen(text));
}

static void add_alternatives(struct buf *out, const X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		const ASN1_STRING *text = name->d.ia5;

		if (name->type == GEN_IPADD)
			add_address(out, name->d.iPAddress);
		else if (name->type == GEN_DNS || name->type == GEN_EMAIL)
			add_name(out, name->type == GEN_DNS ? "DNS" : "EMAIL",
			         ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
	}
	GENERAL_NAMES_free(names);
}

static void add_common_names(struct buf *out, const X509_NAME *subject)
{
	int at = -1;

	while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0) {
		unsigned char *text = NULL;
		int count = ASN1_STRING_to_UTF8(
		    &text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));

		if (count >= 0)
			add_name(out, "CN", text, (size_t)count);
		OPENSSL_free(text);
	}
}

static void add_subject(struct buf *out, const X509_NAME *subject)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	long count;

	if (bio &&
	    X509_NAME_print_ex(bio, subject, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0) {
		count = BIO_get_mem_data(bio, &text);
		add_name(out, "DN", text ? text : "", (size_t)count);
	}
	BIO_free(bio);
}

static const X509 *certificate_of(const struct tls *tls)
{
	return tls_records_are_on(&tls->records) ? tls->peer
	                                         : SSL_get0_peer_certificate(tls->engine->ssl);
}

bool tls_peer_names(const struct stream *stream, struct buf *out)
{
	const struct tls *tls = tls_of(stream);
	const X509 *certificate = tls ? certificate_of(tls) : NULL;

	if (!certificate || !tls->is_peer_verified)
		return false;
	add_common_names(out, X509_get_subject_name(certificate));
	add_alternatives(out, certificate);
	add_subject(out, X509_get_subject_name(certificate));
	ERR_clear_error();
	return buf_ok(out);
}

/* ---- the time of a certificate ---- */

bool tls_time_left(const char *path, int64_t *seconds)
{
	FILE *file = fopen(path, "re");
	X509 *certificate = file ? PEM_read_X509_AUX(file, NULL, NULL, NULL) : NULL;
	bool is_known = tls_seconds_left(certificate, seconds);

	X509_free(certificate);
	if (file)
		fclose(file);
	ERR_clear_error();
	return is_known;
}

/* ---- channel binding ---- */

size_t tls_channel_binding(const struct stream *stream, unsigned char out[TLS_BINDING_MAX])
{
	const struct tls *tls = tls_of(stream);
	const struct tls_context *context = tls ? tls->context : NULL;

	if (!context)
		return 0;
	if (context->role == TLS_CONNECTS)
		return tls_binding_of(certificate_of(tls), out);
	if (tls->named)
		context = context->named[tls->named - 1];
	memcpy(out, context->binding, context->binding_count);
	return context->binding_count;
}

void tls_forget_peer(const struct stream *stream)
{
	if (!tls_of(stream) || !tls_records_are_on(&stream->tls->records))
		return;
	X509_free(stream->tls->peer);
	stream->tls->peer = NULL;
}
