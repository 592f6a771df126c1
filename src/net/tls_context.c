/* SPDX-License-Identifier: ISC */
/*
 * A set of certificates and rules: OpenSSL's SSL_CTX.
 *
 *   options, files --> read once --> checked --> SSL_CTX
 *                          \--> fingerprint: does the next set differ?
 *
 * Hard here: what is checked must be what is used, so each file is read only once and parsed
 * from memory. And OpenSSL must not ask the terminal for the password of an encrypted key.
 */
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tls_priv.h"

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
	va_list args;

	va_start(args, format);
	err_vset(err, code, format, args);
	va_end(args);
	if (failure && ERR_SYSTEM_ERROR(failure))
		reason = strerror(ERR_GET_REASON(failure));
	ERR_clear_error();
	return err_suffix(err, ": %s", reason ? reason : "unknown reason");
}

static bool is_set(const char *text) { return text && *text; }

static const char *text_of(const char *text) { return text ? text : ""; }

/* ---- versions, ciphers, key exchange ---- */

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
	static const char *const words[] = { "", "default", "secure", "normal", "fast", NULL };
	const char *const *word = words;

	while (*word && strcasecmp(ciphers, *word) != 0)
		word++;
	return *word;
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

/*
 * For servers: PostgreSQL before 18 has prime256v1 only, and would ask for another ClientHello if
 * it got no key of that. Since OpenSSL 3.5, which alone understands the first list, two keys are
 * sent. A group that the library lacks makes it refuse a list, as in FIPS mode: then its default is
 * used.
 */
static void set_groups_for_servers(SSL_CTX *library)
{
	if (SSL_CTX_set1_groups_list(library, "*X25519MLKEM768/*P-256:?X25519/?X448:?P-384:?P-521/"
	                                      "?ffdhe2048:?ffdhe3072") != 1)
		SSL_CTX_set1_groups_list(library, "P-256:X25519:X448:P-521:P-384:ffdhe2048:"
		                                  "ffdhe3072:ffdhe4096:ffdhe6144:ffdhe8192");
	ERR_clear_error();
}

static bool set_exchange(SSL_CTX *library, const struct tls_options *options, struct err *err)
{
	const char *curve = text_of(options->curve), *params = text_of(options->dheparams);

	if (!*curve && options->role == TLS_CONNECTS)
		set_groups_for_servers(library);
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

/* ---- contexts ---- */

#define FILE_MAX ((size_t)4 * 1024 * 1024) /* a bundle of all public authorities has 200 KB */

/*
 * A session ticket costs a fifteenth of the handshake. Most PostgreSQL clients, including all
 * that use libpq, throw it away. When this many handshakes in a row came without a ticket, ...
 */
#define TICKETS_UNUSED_MAX 64
/* ... only one of this many gets one, until a client uses a ticket again. */
#define TICKETS_SPARED 16

/* A set that is being made. */
struct making {
	const struct tls_options *options;
	const char *cert_setting, *key_setting; /* what follows options->prefix */
	struct tls_context *context;
	SSL_CTX *library;
	EVP_MD_CTX *print;
	struct err *err;
};

/* ---- files ---- */

static void note(struct making *making, const void *at, size_t count)
{
	EVP_DigestUpdate(making->print, &count, sizeof(count));
	EVP_DigestUpdate(making->print, at, count);
}

/* Reads a file, and lets `take` parse it. */
static bool load(struct making *making, const char *what, const char *path,
                 bool (*take)(struct making *making, BIO *bio))
{
	/* a key may be in it */
	struct buf content = { .limit = FILE_MAX + BUF_PIECE, .is_secret = true };
	BIO *bio = NULL;
	bool is_good;

	if (!buf_read_file(&content, path)) {
		note(making, content.at, content.count);
		bio = BIO_new_mem_buf(content.count ? content.at : "", (int)content.count);
	}
	if (!bio)
		err_set(making->err, ERR_CONFIG, "%s_%s: cannot read %s: %s",
		        making->options->prefix, what, path, strerror(errno));
	is_good = bio && take(making, bio);
	BIO_free(bio);
	buf_free(&content);
	return is_good;
}

/* Whether parsing a PEM file ended at its end, and not at invalid data. */
static bool is_at_end(void)
{
	unsigned long failure = ERR_peek_last_error();
	bool is_end =
	    ERR_GET_LIB(failure) == ERR_LIB_PEM && ERR_GET_REASON(failure) == PEM_R_NO_START_LINE;

	if (is_end)
		ERR_clear_error();
	return is_end;
}

static bool take_certificates(struct making *making, BIO *bio)
{
	const struct tls_options *options = making->options;
	X509 *certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
	bool is_good = certificate && SSL_CTX_use_certificate(making->library, certificate) == 1;

	X509_free(certificate);
	while (is_good && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		is_good = SSL_CTX_add0_chain_cert(making->library, certificate) == 1;
		if (!is_good)
			X509_free(certificate);
	}
	if (is_good && is_at_end())
		return true;
	return tls_err(making->err, ERR_CONFIG, "%s_%s: no good certificate in %s", options->prefix,
	               making->cert_setting, options->cert_file);
}

/* Called by OpenSSL instead of asking the terminal for a password. */
static int refuse_password(char *out, int size, int is_writing, void *arg)
{
	(void)out;
	(void)size;
	(void)is_writing;
	*(bool *)arg = true;
	return 0;
}

static bool take_key(struct making *making, BIO *bio)
{
	const struct tls_options *options = making->options;
	bool is_encrypted = false;
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, &is_encrypted);
	bool is_good = key && SSL_CTX_use_PrivateKey(making->library, key) == 1;

	EVP_PKEY_free(key);
	if (is_good)
		return true;
	if (is_encrypted) {
		ERR_clear_error();
		return err_set(making->err, ERR_CONFIG,
		               "%s_%s: the key in %s is encrypted; store it without a password",
		               options->prefix, making->key_setting, options->key_file);
	}
	return tls_err(making->err, ERR_CONFIG, "%s_%s: no good key in %s, or not the one of %s",
	               options->prefix, making->key_setting, options->key_file, options->cert_file);
}

static bool load_own(struct making *making)
{
	const struct tls_options *options = making->options;
	bool needs_own = options->role == TLS_ACCEPTS;

	if (is_set(options->cert_file) != is_set(options->key_file) ||
	    (needs_own && !is_set(options->cert_file)))
		return err_set(
		    making->err, ERR_CONFIG, "%s_cert_file and %s_key_file must be set%s%s%s",
		    options->prefix, options->prefix, needs_own ? ": " : "",
		    needs_own ? options->prefix : "", needs_own ? "_sslmode requires them" : "");
	if (!is_set(options->cert_file))
		return true;
	making->context->cert_file = strdup(options->cert_file);
	if (!making->context->cert_file)
		return err_set(making->err, ERR_MEMORY, "no memory for TLS");
	return load(making, making->cert_setting, options->cert_file, take_certificates) &&
	       load(making, making->key_setting, options->key_file, take_key);
}

static bool take_authorities(struct making *making, BIO *bio)
{
	const struct tls_options *options = making->options;
	X509_STORE *store = SSL_CTX_get_cert_store(making->library);
	bool is_good = true;
	unsigned int count = 0;
	X509 *authority;

	while (is_good && (authority = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL))) {
		is_good = X509_STORE_add_cert(store, authority) == 1;
		/* Tells clients which authorities are accepted. */
		if (is_good && options->role == TLS_ACCEPTS)
			is_good = SSL_CTX_add_client_CA(making->library, authority) == 1;
		X509_free(authority);
		count++;
	}
	if (is_good && count && is_at_end())
		return true;
	return tls_err(making->err, ERR_CONFIG, "%s_ca_file: no good certificates in %s",
	               options->prefix, options->ca_file);
}

static bool load_authorities(struct making *making)
{
	const struct tls_options *options = making->options;

	if (options->check == TLS_CHECK_NONE)
		return true;
	if (!is_set(options->ca_file))
		return SSL_CTX_set_default_verify_paths(making->library) == 1 ||
		       tls_err(making->err, ERR_CONFIG, "%s_ca_file: the system's authorities",
		               options->prefix);
	return load(making, "ca_file", options->ca_file, take_authorities);
}

/* ---- rules ---- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                           const unsigned char *offered, unsigned int offered_size, void *arg)
{
	const struct tls_context *context = arg;
	unsigned char *chosen;

	(void)ssl;
	if (SSL_select_next_proto(&chosen, out_size, (const unsigned char *)context->protocol,
	                          context->protocol_size, offered,
	                          offered_size) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* A client that used a ticket always gets a new one: a ticket may be valid for one use only. */
static int choose_tickets(SSL *ssl, int *alert, void *arg)
{
	struct tls_context *context = arg;
	const unsigned char *ticket;
	size_t size;
	unsigned int before = 0;

	(void)alert;
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &ticket, &size) == 1)
		atomic_store(&context->unused, 0);
	else
		before = atomic_fetch_add(&context->unused, 1);
	SSL_set_num_tickets(ssl, before < TICKETS_UNUSED_MAX || before % TICKETS_SPARED == 0);
	return SSL_CLIENT_HELLO_SUCCESS;
}

static bool is_named(const struct tls_context *context, const char *name)
{
	X509 *certificate = SSL_CTX_get0_certificate(context->library);

	return X509_check_host(certificate, name, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) ==
	       1;
}

/* A client may ask for a name (SNI, RFC 6066). */
static int choose_certificate(SSL *ssl, int *alert, void *arg)
{
	const struct tls_context *context = arg;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	uint16_t number = 0;

	(void)alert;
	if (!name || is_named(context, name))
		return SSL_TLSEXT_ERR_NOACK;
	while (number < context->named_count && !is_named(context->named[number], name))
		number++;
	if (number == context->named_count)
		return SSL_TLSEXT_ERR_NOACK;
	tls_of_library(ssl)->named = (uint16_t)(number + 1);
	return SSL_set_SSL_CTX(ssl, context->named[number]->library) ? SSL_TLSEXT_ERR_OK
	                                                             : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void set_check(struct making *making)
{
	const struct tls_options *options = making->options;
	int mode = SSL_VERIFY_NONE;

	if (options->check != TLS_CHECK_NONE)
		mode = SSL_VERIFY_PEER;
	if (options->role == TLS_ACCEPTS && options->check >= TLS_CHECK_CHAIN)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(making->library, mode, NULL);
}

/* Settings that are the same in every set. */
static void set_ground(struct making *making)
{
	static const unsigned char name[] = "pgweir";
	SSL_CTX *library = making->library;
	const char *protocol = making->options->protocol ? making->options->protocol : "postgresql";

	/* As the library wants it, with its length in front. */
	making->context->protocol_size =
	    (unsigned int)snprintf(making->context->protocol, sizeof(making->context->protocol),
	                           "%c%s", (int)strlen(protocol), protocol);
	making->context->has_own_records = making->options->has_own_records;
	if (making->context->has_own_records)
		SSL_CTX_set_keylog_callback(library, tls_note_secret);
	SSL_CTX_set_mode(library, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_options(library, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	/* No sessions are stored here: a client that resumes one sends a ticket. */
	SSL_CTX_set_session_cache_mode(library, SSL_SESS_CACHE_OFF);
	if (making->options->role == TLS_ACCEPTS) {
		SSL_CTX_set_options(library, SSL_OP_CIPHER_SERVER_PREFERENCE);
		SSL_CTX_set_session_id_context(library, name, sizeof(name) - 1);
		SSL_CTX_set_client_hello_cb(library, choose_tickets, making->context);
		SSL_CTX_set_alpn_select_cb(library, choose_protocol, making->context);
	} else {
		SSL_CTX_set_alpn_protos(library, (const unsigned char *)making->context->protocol,
		                        making->context->protocol_size);
	}
}

static void note_options(struct making *making)
{
	const struct tls_options *options = making->options;
	const char *const texts[] = {
		options->ca_file, options->cert_file,    options->key_file, options->protocols,
		options->ciphers, options->ciphersuites, options->curve,    options->dheparams,
	};

	note(making, &options->role, sizeof(options->role));
	note(making, &options->check, sizeof(options->check));
	note(making, &options->has_own_records, sizeof(options->has_own_records));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		note(making, text_of(texts[i]), strlen(text_of(texts[i])));
}

/* ---- certificates ---- */

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

/* ---- sets ---- */

static struct tls_context *make_context(const struct tls_options *options, const char *cert_setting,
                                        const char *key_setting, struct err *err);

/* Those for the names that clients ask for: other certificates, and all else is the same. */
static bool make_named(struct making *making, struct tls_context *context)
{
	struct tls_options options = *making->options;

	if (!options.name_file_count)
		return true;
	if (options.name_file_count > TLS_NAME_FILES_MAX)
		return err_set(making->err, ERR_CONFIG,
		               "%s_name_files: %zu files, at most %d are possible", options.prefix,
		               options.name_file_count, TLS_NAME_FILES_MAX);
	context->named = calloc(options.name_file_count, sizeof(struct tls_context *));
	if (!context->named)
		return err_set(making->err, ERR_MEMORY, "no memory for TLS");
	options.name_file_count = 0;
	for (size_t i = 0; i < making->options->name_file_count; i++) {
		struct tls_context *named;

		options.cert_file = options.key_file = making->options->name_files[i];
		named = make_context(&options, "name_files", "name_files", making->err);
		if (!named)
			return false;
		context->named[context->named_count++] = named;
		note(making, named->print, TLS_PRINT_SIZE);
	}
	SSL_CTX_set_tlsext_servername_callback(making->library, choose_certificate);
	SSL_CTX_set_tlsext_servername_arg(making->library, context);
	return true;
}

static bool fill_context(struct making *making, struct tls_context *context)
{
	const struct tls_options *options = making->options;

	making->library =
	    SSL_CTX_new(options->role == TLS_ACCEPTS ? TLS_server_method() : TLS_client_method());
	making->print = EVP_MD_CTX_new();
	context->library = making->library;
	context->transport = tls_transport_new();
	if (!making->library || !making->print || !context->transport ||
	    EVP_DigestInit_ex(making->print, EVP_sha256(), NULL) != 1)
		return tls_err(making->err, ERR_MEMORY, "cannot prepare TLS");
	note_options(making);
	set_ground(making);
	set_check(making);
	if (!set_protocols(making->library, options, making->err) ||
	    !set_ciphers(making->library, options, making->err) ||
	    !set_exchange(making->library, options, making->err) || !load_own(making) ||
	    !load_authorities(making) || !make_named(making, context))
		return false;
	context->binding_count =
	    tls_binding_of(SSL_CTX_get0_certificate(making->library), context->binding);
	return EVP_DigestFinal_ex(making->print, context->print, NULL) == 1;
}

static void context_free(struct tls_context *context)
{
	while (context->named_count)
		tls_context_unref(&context->named[--context->named_count]);
	free(context->named);
	free(context->cert_file);
	SSL_CTX_free(context->library);
	BIO_meth_free(context->transport);
	free(context);
}

REFS_FUNCTIONS(tls_context_ref, tls_context_unref, struct tls_context, context_free)

static struct tls_context *make_context(const struct tls_options *options, const char *cert_setting,
                                        const char *key_setting, struct err *err)
{
	struct tls_context *context = err_calloc(sizeof(*context), "no memory for TLS", err);
	struct making making = {
		.options = options,
		.cert_setting = cert_setting,
		.key_setting = key_setting,
		.context = context,
		.err = err,
	};
	bool is_good;

	if (!context)
		return NULL;
	context->role = options->role;
	context->check = options->check;
	ERR_clear_error();
	is_good = fill_context(&making, context);
	EVP_MD_CTX_free(making.print);
	if (!is_good)
		tls_context_unref(&context);
	return context;
}

struct tls_context *tls_context_new(const struct tls_options *options, struct err *err)
{
	return make_context(options, "cert_file", "key_file", err);
}

bool tls_context_same(const struct tls_context *one, const struct tls_context *other)
{
	if (!one || !other)
		return one == other;
	return memcmp(one->print, other->print, TLS_PRINT_SIZE) == 0;
}

bool tls_context_certificate(const struct tls_context *context, size_t number,
                             struct tls_certificate *certificate)
{
	const struct tls_context *of = context;
	const X509 *found;
	int days = 0, rest = 0;

	if (!context || number > context->named_count)
		return false;
	if (number)
		of = context->named[number - 1];
	found = SSL_CTX_get0_certificate(of->library);
	if (!found || ASN1_TIME_diff(&days, &rest, NULL, X509_get0_notAfter(found)) != 1)
		return false;
	certificate->file = of->cert_file;
	certificate->seconds_left = (int64_t)days * 24 * 3600 + rest;
	return true;
}
