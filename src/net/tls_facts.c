/* SPDX-License-Identifier: ISC */
/*
 * Facts about an encrypted stream: version and cipher, the peer's certificate, channel binding.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "tls_priv.h"

/* NULL: not encrypted, or still in the handshake. */
static SSL *ssl_of(const struct stream *stream)
{
	return stream_is_encrypted(stream) ? stream->tls->ssl : NULL;
}

const char *tls_text(const struct stream *stream, char *out, size_t size)
{
	SSL *ssl = ssl_of(stream);
	EVP_PKEY *key = NULL;
	char group[32] = "";

	out[0] = 0;
	if (!ssl)
		return out;
	if (SSL_get_peer_tmp_key(ssl, &key) == 1 && key) {
		if (EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) != 1)
			snprintf(group, sizeof(group), "%s", EVP_PKEY_get0_type_name(key));
	}
	snprintf(out, size, "%s/%s", SSL_get_version(ssl), SSL_get_cipher_name(ssl));
	if (*group) {
		size_t used = strlen(out);

		if (EVP_PKEY_is_a(key, "DH"))
			snprintf(out + used, size - used, "/DH=%d", EVP_PKEY_get_bits(key));
		else
			snprintf(out + used, size - used, "/ECDH=%s", group);
	}
	EVP_PKEY_free(key);
	ERR_clear_error();
	return out;
}

size_t tls_agreed_protocol(const struct stream *stream, const char **name)
{
	const unsigned char *at = NULL;
	unsigned int count = 0;
	SSL *ssl = ssl_of(stream);

	if (ssl)
		SSL_get0_alpn_selected(ssl, &at, &count);
	*name = at ? (const char *)at : "";
	return count;
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

bool tls_peer_names(const struct stream *stream, struct buf *out)
{
	SSL *ssl = ssl_of(stream);
	const X509 *certificate = ssl ? SSL_get0_peer_certificate(ssl) : NULL;

	if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK)
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
	SSL *ssl = ssl_of(stream);
	const struct tls_context *context;

	if (!ssl)
		return 0;
	context = stream->tls->context;
	if (context->role == TLS_CONNECTS)
		return tls_binding_of(SSL_get0_peer_certificate(ssl), out);
	memcpy(out, context->binding, context->binding_count);
	return context->binding_count;
}
