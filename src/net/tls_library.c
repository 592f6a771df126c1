/* SPDX-License-Identifier: ISC */
/*
 * Small functions on top of OpenSSL: its version, its errors, the hash of a certificate.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "openssl_priv.h"
#include "tls_priv.h"

#include "pgweir/base/banned.h"

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
