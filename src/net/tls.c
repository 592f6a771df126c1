/* SPDX-License-Identifier: ISC */
/*
 * One encrypted connection: OpenSSL's SSL, reading from and writing to memory.
 *
 *   bytes of the wire --> transport --> SSL --> plain bytes
 *   plain bytes --> SSL --> transport --> buffer for the wire
 *   after the handshake:  SSL --> secrets, sequence numbers --> tls_records.c instead of both
 *
 * Hard here: OpenSSL wants something like a socket. The transport gives it the bytes of the
 * current call, and then "no more for now". So only an incomplete record stays in the engine.
 * It is therefore safe to wait for the socket to become readable: all bytes that have arrived
 * have been processed.
 */
#include "tls_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/net/address.h"

/* ---- the engine ---- */

/*
 * Counts the records of each direction since its last key: the one that begins behind Finished. An
 * own session ticket of ours is one, for example.
 */
static void count_record(struct tls *tls, bool is_sent, int type, const void *at, size_t count)
{
	struct tls_way *way = is_sent ? &tls->records.out : &tls->records.in;

	if (type == SSL3_RT_HEADER)
		way->number++;
	else if (type == SSL3_RT_HANDSHAKE && count &&
	         *(const unsigned char *)at == SSL3_MT_FINISHED)
		way->number = 0;
}

/*
 * Called for each message that OpenSSL has read. OpenSSL processes records as long as there are
 * any. After too many key updates, the input is emptied, so that it finds no more.
 */
static void on_message(int is_sent, int version, int type, const void *at, size_t count,
                       SSL *library, void *arg)
{
	struct tls *tls = arg;

	(void)version;
	(void)library;
	if (tls->context->has_own_records)
		count_record(tls, is_sent, type, at, count);
	if (is_sent || type != SSL3_RT_HANDSHAKE || !count ||
	    *(const unsigned char *)at != SSL3_MT_KEY_UPDATE)
		return;
	if (++tls->records.update_count <= TLS_UPDATES_MAX)
		return;
	tls->records.is_flooded = true;
	tls->engine->in = (struct bytes){ 0 };
}

static void reduce_updates(struct tls *tls, uint32_t due)
{
	uint8_t *count = &tls->records.update_count;

	*count -= due < *count ? (uint8_t)due : *count;
}

void tls_forgive_updates(struct tls *tls, usec_t now)
{
	uint16_t period = (uint16_t)(now / TLS_UPDATE_PERIOD);

	reduce_updates(tls, (uint16_t)(period - tls->forgiven_at));
	tls->forgiven_at = period;
}

static void forgive_for_data(struct tls *tls, size_t count)
{
	count += tls->records.opened_bytes;
	reduce_updates(tls, (uint32_t)(count / TLS_UPDATE_BYTES));
	tls->records.opened_bytes = count % TLS_UPDATE_BYTES;
}

static bool is_address(const char *name) { return address_parse(&(struct address){ 0 }, name, 0); }

static bool set_up(struct tls *tls)
{
	BIO *bio = BIO_new(tls->context->transport);
	const char *name = tls->name;

	if (!bio)
		return false;
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->engine->ssl, bio, bio);
	SSL_set_msg_callback(tls->engine->ssl, on_message);
	SSL_set_msg_callback_arg(tls->engine->ssl, tls);
	if (tls->context->role == TLS_ACCEPTS) {
		SSL_set_accept_state(tls->engine->ssl);
		return true;
	}
	SSL_set_connect_state(tls->engine->ssl);
	/* An IP address must not be sent as server name (RFC 6066). */
	return !name || !*name || is_address(name) ||
	       SSL_set_tlsext_host_name(tls->engine->ssl, name) == 1;
}

static void release(struct slab *slab, struct tls *tls)
{
	OPENSSL_cleanse(tls, sizeof(*tls));
	if (slab)
		slab_put(slab, tls);
	else
		free(tls);
}

bool tls_move(struct tls **tls, struct slab *from, struct slab *to)
{
	struct tls *old = *tls, *moved = to ? slab_take(to) : malloc(sizeof(*moved));

	if (!moved)
		return false;
	*moved = *old;
	if (!tls_is_own(moved)) {
		BIO_set_data(SSL_get_rbio(moved->engine->ssl), moved);
		SSL_set_msg_callback_arg(moved->engine->ssl, moved);
	}
	release(from, old);
	*tls = moved;
	return true;
}

struct tls *tls_new(struct slab *slab, struct tls_context *context, const char *name)
{
	struct tls *tls = slab_take(slab);

	if (!tls)
		return NULL;
	if (context)
		tls->context = tls_context_ref(context);
	tls->records.accepts = context && context->role == TLS_ACCEPTS;
	if (!tls->records.accepts && name && *name && !(tls->name = strdup(name)))
		tls_free(slab, &tls);
	return tls;
}

/* Created in the first step, so that the thread which does the handshake does this too. */
static bool has_engine(struct tls *tls)
{
	if (tls->engine)
		return true;
	tls->engine = calloc(1, sizeof(*tls->engine));
	if (!tls->engine)
		return false;
	tls->engine->ssl = SSL_new(tls->context->library);
	return tls->engine->ssl && set_up(tls);
}

static void engine_free(struct tls_engine **engine)
{
	if (*engine)
		SSL_free((*engine)->ssl);
	free(*engine);
	*engine = NULL;
}

static void drop_part(struct tls *tls)
{
	if (tls->part)
		buf_free(tls->part);
	free(tls->part);
	tls->part = NULL;
}

void tls_free(struct slab *slab, struct tls **tlsp)
{
	struct tls *tls = *tlsp;

	*tlsp = NULL;
	if (!tls)
		return;
	if (tls_is_own(tls))
		X509_free(tls->peer);
	else
		engine_free(&tls->engine); /* before the context: that has its transport's method */
	tls_context_unref(&tls->context);
	drop_part(tls);
	free(tls->name);
	release(slab, tls);
}

static void lend(struct tls *tls, struct bytes in, struct buf *out)
{
	tls->engine->in = in;
	tls->engine->out = out;
}

static void engine_end(struct tls *tls)
{
	tls->engine->in = (struct bytes){ 0 };
	tls->engine->out = NULL;
}

/* ---- the handshake ---- */

/*
 * Whether the certificate is for this host. Its subject alternative names take precedence over
 * its CN.
 */
static bool check_host(const struct tls *tls, struct err *err)
{
	X509 *given = SSL_get0_peer_certificate(tls->engine->ssl);
	const char *name = tls->name;

	if (tls->context->role != TLS_CONNECTS || tls->context->check != TLS_CHECK_NAME)
		return true;
	if (name &&
	    ((is_address(name) && X509_check_ip_asc(given, name, 0) == 1) ||
	     X509_check_host(given, name, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1))
		return true;
	return err_set(err, ERR_SERVER_CONNECT, "its certificate is not that of host \"%s\"",
	               tls->name ? tls->name : "");
}

static void explain(const struct tls *tls, struct err *err)
{
	long verdict = SSL_get_verify_result(tls->engine->ssl);
	unsigned long failure = ERR_peek_last_error();

	if (verdict != X509_V_OK && ERR_GET_LIB(failure) == ERR_LIB_SSL &&
	    ERR_GET_REASON(failure) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
		ERR_clear_error();
		err_set(err, ERR_SERVER_CONNECT, "certificate verify failed: %s",
		        X509_verify_cert_error_string(verdict));
		return;
	}
	tls_err(err, ERR_SERVER_CONNECT, "TLS handshake failed");
}

/* ---- from OpenSSL to our record layer ---- */

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

/* Name of the group of the key exchange: "X25519", "ffdhe2048"; "": none. */
static void read_group(SSL *ssl, char *out, size_t size)
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

/* Reads hexadecimal digits up to the end of the text. Returns the number of bytes; 0: none. */
static size_t read_hex(const char *text, unsigned char *out, size_t size)
{
	size_t count = strlen(text) / 2;

	if (count > size)
		return 0;
	for (size_t i = 0; i < count; i++) {
		int byte = text_unhex(text + 2 * i);

		if (byte < 0)
			return 0;
		out[i] = (unsigned char)byte;
	}
	return count;
}

struct tls *tls_of_library(const SSL *ssl) { return BIO_get_data(SSL_get_rbio(ssl)); }

/* line: "CLIENT_TRAFFIC_SECRET_0 <the client's random number> <the secret>", or another secret. */
void tls_note_secret(const SSL *ssl, const char *line)
{
	static const char rest[] = "_TRAFFIC_SECRET_0 ";
	struct tls *tls = tls_of_library(ssl);
	bool is_client = strncmp(line, "CLIENT", 6) == 0;
	struct tls_way *way;

	if ((!is_client && strncmp(line, "SERVER", 6) != 0) ||
	    strncmp(line + 6, rest, sizeof(rest) - 1) != 0)
		return;
	way = is_client == tls->records.accepts ? &tls->records.in : &tls->records.out;
	tls->engine->secret_sizes +=
	    (unsigned int)read_hex(strrchr(line, ' ') + 1, way->secret, sizeof(way->secret));
}

/* Whether nothing of OpenSSL's is needed any more: all that it has is known here. */
static bool may_take_over(const struct tls *tls, enum tls_cipher cipher)
{
	SSL *ssl = tls->engine->ssl;

	return tls->context->has_own_records && SSL_version(ssl) == TLS1_3_VERSION && cipher &&
	       SSL_SESSION_get_max_fragment_length(SSL_get_session(ssl)) == 0 &&
	       tls->engine->secret_sizes == 2 * tls_secret_size(cipher) && !SSL_has_pending(ssl) &&
	       SSL_get_key_update_type(ssl) == SSL_KEY_UPDATE_NONE;
}

/*
 * OpenSSL has read whole records only, and written all into our buffer. What is asked for later is
 * copied.
 */
static void take_over(struct tls *tls)
{
	struct tls_engine *engine = tls->engine;
	enum tls_cipher cipher =
	    tls_cipher_of(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(engine->ssl)));
	char group[TLS_GROUP_SIZE];

	tls->records.cipher = cipher;
	if (!may_take_over(tls, cipher) || !tls_records_begin(&tls->records)) {
		OPENSSL_cleanse(&tls->records, sizeof(tls->records));
		return;
	}
	tls->peer = SSL_get1_peer_certificate(engine->ssl);
	read_group(engine->ssl, group, sizeof(group));
	tls->group = tls_group_of(bytes_text(group));
	engine_free(&engine);
}

/*
 * By what OpenSSL has done, not by what comes: it has sent our Finished. After a request for
 * another ClientHello it has not.
 */
bool tls_is_finishing(const struct tls *tls)
{
	unsigned char part;

	return tls->engine && SSL_get_finished(tls->engine->ssl, &part, sizeof(part)) &&
	       SSL_get_verify_mode(tls->engine->ssl) == SSL_VERIFY_NONE;
}

enum tls_step tls_shake(struct tls *tls, struct bytes *in, struct buf *out, struct err *err)
{
	const unsigned char *protocol;
	unsigned int protocol_size;
	int result, why;

	if (!has_engine(tls)) {
		tls_err(err, ERR_MEMORY, "no memory for TLS");
		return TLS_FAILED;
	}
	/* SSL_get_error() takes all errors since the last clearing into account. */
	ERR_clear_error();
	lend(tls, *in, out);
	result = SSL_do_handshake(tls->engine->ssl);
	why = SSL_get_error(tls->engine->ssl, result);
	*in = tls->engine->in;
	engine_end(tls);
	if (result != 1 && why != SSL_ERROR_WANT_READ) {
		explain(tls, err);
		return TLS_FAILED;
	}
	tls_drop_buffers(tls); /* a peer that lets us wait should cost little memory */
	if (result != 1) {
		tls_keep_buffers(tls);
		return TLS_MORE;
	}
	if (!check_host(tls, err)) {
		buf_clear(out); /* do not send our part to the wrong host */
		return TLS_FAILED;
	}
	/* The next bytes may be a password: wipe them in OpenSSL's buffers. */
	SSL_set_options(tls->engine->ssl, SSL_OP_CLEANSE_PLAINTEXT);
	SSL_get0_alpn_selected(tls->engine->ssl, &protocol, &protocol_size);
	tls->is_agreed = protocol_size != 0;
	tls->is_peer_verified = SSL_get_verify_result(tls->engine->ssl) == X509_V_OK;
	take_over(tls);
	return TLS_DONE;
}

/* ---- data ---- */

void tls_keep_buffers(struct tls *tls)
{
	if (!tls_is_own(tls))
		SSL_clear_mode(tls->engine->ssl, SSL_MODE_RELEASE_BUFFERS);
}

void tls_drop_buffers(struct tls *tls)
{
	SSL *ssl = tls_is_own(tls) ? NULL : tls->engine->ssl;

	if (!ssl)
		return;
	SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS); /* for a buffer with a part of a record */
	/*
	 * Since 3.2 it stays in this mode, so it has dropped them already, and crashes when it
	 * wipes a buffer that is not there.
	 */
	if (OpenSSL_version_num() < 0x30200000 ||
	    !(SSL_get_options(ssl) & SSL_OP_CLEANSE_PLAINTEXT))
		SSL_free_buffers(ssl);
}

/*
 * Why no more could be decrypted. Not by SSL_get_error(), which would require ERR_clear_error()
 * before every call, even a successful one.
 */
static enum tls_end end_of(const struct tls *tls)
{
	bool is_error = ERR_peek_error() != 0; /* a fatal alert sets SSL_RECEIVED_SHUTDOWN too */

	ERR_clear_error();
	if (SSL_want_read(tls->engine->ssl))
		return TLS_GOES_ON;
	if (!is_error && (SSL_get_shutdown(tls->engine->ssl) & SSL_RECEIVED_SHUTDOWN))
		return TLS_ENDED;
	return TLS_BROKEN;
}

/* The contexts of the connection's slot; without one, for this call only. */
static struct tls_keyed *borrow_keyed(struct tls *tls, struct tls_keyed *spare)
{
	*spare = (struct tls_keyed){ 0 };
	return tls->slot ? &tls->slot->keyed : spare;
}

bool tls_keep_part(struct tls *tls, struct bytes more)
{
	if (!more.count)
		return true;
	if (!tls->part)
		tls->part = calloc(1, sizeof(*tls->part));
	if (!tls->part)
		return false;
	buf_add(tls->part, more.at, more.count);
	return buf_ok(tls->part);
}

static size_t open_own(struct tls *tls, struct bytes in, char *at, struct buf *out)
{
	struct tls_keyed spare, *keyed = borrow_keyed(tls, &spare);
	struct bytes part = tls_part(tls);
	size_t count;

	/* Whether the record is still incomplete with these bytes. Its header was judged before. */
	if (part.count >= TLS_HEADER_SIZE &&
	    part.count + in.count < TLS_HEADER_SIZE + load_be16(part.at + 3)) {
		tls->end = tls_keep_part(tls, in) ? TLS_GOES_ON : TLS_BROKEN;
		return 0;
	}
	in = bytes_of(in.at - part.count, in.count + part.count);
	memcpy((char *)in.at, part.at, part.count);
	tls->end = tls_records_open(&tls->records, keyed, &in, at, &count, out);
	drop_part(tls);
	if (tls->end == TLS_GOES_ON && !tls_keep_part(tls, in))
		tls->end = TLS_BROKEN;
	tls_keyed_done(&spare);
	forgive_for_data(tls, count);
	return count;
}

size_t tls_open(struct tls *tls, struct bytes in, char *at, size_t size, struct buf *out)
{
	size_t count = 0, done = 0;
	int result;

	if (tls_is_own(tls))
		return open_own(tls, in, at, out);
	lend(tls, in, out);
	/*
	 * One call decrypts one record. Stop when the input is used up: another call would only
	 * say that.
	 */
	do {
		result = SSL_read_ex(tls->engine->ssl, at + count, size - count, &done);
		count += result == 1 ? done : 0;
	} while (result == 1 && tls->engine->in.count && count < size);
	if (result != 1)
		tls->end = tls->records.is_flooded ? TLS_BROKEN : end_of(tls);
	forgive_for_data(tls, count);
	/* Bytes after a close_notify or an error are ignored. */
	engine_end(tls);
	return count;
}

bool tls_seal(struct tls *tls, struct bytes in, struct buf *out)
{
	size_t done;
	bool is_good;

	if (tls_is_own(tls)) {
		struct tls_keyed spare, *keyed = borrow_keyed(tls, &spare);

		is_good = tls_records_seal(&tls->records, keyed, in, out);
		tls_keyed_done(&spare);
		return is_good;
	}
	lend(tls, (struct bytes){ 0 }, out);
	is_good = SSL_write_ex(tls->engine->ssl, in.at, in.count, &done) == 1;
	engine_end(tls);
	if (!is_good)
		ERR_clear_error();
	return is_good && buf_ok(out);
}

void tls_goodbye(struct tls *tls, struct buf *out)
{
	if (tls_is_own(tls)) {
		struct tls_keyed spare, *keyed = borrow_keyed(tls, &spare);

		tls_records_goodbye(&tls->records, keyed, out);
		tls_keyed_done(&spare);
		return;
	}
	lend(tls, (struct bytes){ 0 }, out);
	SSL_shutdown(tls->engine->ssl);
	engine_end(tls);
	ERR_clear_error();
}

/* ---- facts ---- */

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
	if (tls_is_own(tls)) {
		cipher = tls_cipher_name(tls->records.cipher);
		snprintf(group, sizeof(group), "%s", tls_group_name(tls->group));
	} else {
		version = SSL_get_version(tls->engine->ssl);
		cipher = SSL_get_cipher_name(tls->engine->ssl);
		read_group(tls->engine->ssl, group, sizeof(group));
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
	return tls_is_own(tls) ? "own" : "openssl";
}

size_t tls_agreed_protocol(const struct stream *stream, const char **name)
{
	const struct tls *tls = tls_of(stream);
	/* Only one protocol is ever offered, or chosen. */
	bool is_agreed = tls && tls->context && tls->is_agreed;

	*name = is_agreed ? tls->context->protocol + 1 : "";
	return is_agreed ? tls->context->protocol_size - 1 : 0;
}

/* ---- the name in a certificate ---- */

static int next_common_name(const X509_NAME *subject, int at)
{
	return X509_NAME_get_index_by_NID(subject, NID_commonName, at);
}

/* The CN of a subject. NULL: it has none, or several, or a zero byte in it. */
static char *common_name(const X509_NAME *subject)
{
	int at = next_common_name(subject, -1), count;
	unsigned char *text = NULL;
	char *name = NULL;

	if (at < 0 || next_common_name(subject, at) >= 0)
		return NULL;
	count =
	    ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (count >= 0 && !memchr(text, 0, (size_t)count)) /* "good.example\0.evil.example" */
		name = strndup((char *)text, (size_t)count);
	OPENSSL_free(text);
	return name;
}

static const X509 *certificate_of(const struct tls *tls)
{
	return tls_is_own(tls) ? tls->peer : SSL_get0_peer_certificate(tls->engine->ssl);
}

bool tls_peer_name(const struct stream *stream, char **name)
{
	const struct tls *tls = tls_of(stream);
	const X509 *certificate = tls ? certificate_of(tls) : NULL;
	bool is_known = certificate && tls->is_peer_verified;

	*name = is_known ? common_name(X509_get_subject_name(certificate)) : NULL;
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
	if (!tls_of(stream) || !tls_is_own(stream->tls))
		return;
	X509_free(stream->tls->peer);
	stream->tls->peer = NULL;
}

/*
 * ---- the transport of a TLS engine ----
 *
 * A BIO that reads the bytes of the current call and writes to
 * its buffer.
 */

static int transport_read(BIO *bio, char *out, int size)
{
	struct tls *tls = BIO_get_data(bio);
	size_t count = tls->engine->in.count < (size_t)size ? tls->engine->in.count : (size_t)size;

	BIO_clear_retry_flags(bio);
	if (count == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, tls->engine->in.at, count);
	tls->engine->in = bytes_skip(tls->engine->in, count);
	return (int)count;
}

static int transport_write(BIO *bio, const char *bytes, int count)
{
	struct tls *tls = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (!tls->engine->out)
		return -1;
	buf_add(tls->engine->out, bytes, (size_t)count);
	return buf_ok(tls->engine->out) ? count : -1;
}

static long transport_control(BIO *bio, int command, long number, void *arg)
{
	(void)bio;
	(void)number;
	(void)arg;
	return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_transport_new(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_MEM, "pgweir");

	if (!method)
		return NULL;
	BIO_meth_set_read(method, transport_read);
	BIO_meth_set_write(method, transport_write);
	BIO_meth_set_ctrl(method, transport_control);
	return method;
}
