/* SPDX-License-Identifier: ISC */
/*
 * The record layer of TLS 1.3.
 *
 *   record: type 23, version, length | encrypted: content, its type, zeros | tag
 *   nonce:  the IV, XOR the sequence number          authenticated too: the 5 bytes of the header
 *
 * Hard here: nothing of a record may be used before its tag was found good. A record is decrypted
 * to where its content will be read, but counted only afterwards, and wiped if the tag is wrong.
 * Tags are compared by OpenSSL, in constant time. All that is decided here depends on bytes that
 * are public, or authenticated.
 */
#include "tls_priv.h"

#include <openssl/hmac.h>

enum content { CONTENT_ALERT = 21, CONTENT_HANDSHAKE = 22, CONTENT_DATA = 23 };

enum alert {
	ALERT_CLOSE_NOTIFY = 0,
	ALERT_UNEXPECTED_MESSAGE = 10,
	ALERT_BAD_RECORD_MAC = 20,
	ALERT_RECORD_OVERFLOW = 22,
	ALERT_ILLEGAL_PARAMETER = 47,
	ALERT_DECODE_ERROR = 50,
	ALERT_INTERNAL_ERROR = 80,
	ALERT_USER_CANCELED = 90,
	ALERT_NONE = 256
};

enum message { MESSAGE_TICKET = 4, MESSAGE_KEY_UPDATE = 24 };

#define HEADER_SIZE 4 /* of a handshake message: type, and three bytes of length */

/* The longest NewSessionTicket that can be written down. */
#define TICKET_MAX (4u + 4 + 1 + 255 + 2 + 65535 + 2 + 65535)

static const struct {
	uint32_t number;
	const char *name;
	size_t secret_size, key_size;
	const EVP_CIPHER *(*cipher)(void);
	const EVP_MD *(*hash)(void);
} ciphers[TLS_CIPHERS] = {
	[TLS_AES_128_GCM] = { 0x1301, "TLS_AES_128_GCM_SHA256", 32, 16, EVP_aes_128_gcm,
	                      EVP_sha256 },
	[TLS_AES_256_GCM] = { 0x1302, "TLS_AES_256_GCM_SHA384", 48, 32, EVP_aes_256_gcm,
	                      EVP_sha384 },
	[TLS_CHACHA20] = { 0x1303, "TLS_CHACHA20_POLY1305_SHA256", 32, 32, EVP_chacha20_poly1305,
	                   EVP_sha256 },
};

size_t tls_secret_size(enum tls_cipher cipher)
{
	return cipher < TLS_CIPHERS ? ciphers[cipher].secret_size : 0;
}

enum tls_cipher tls_cipher_of(uint32_t number)
{
	enum tls_cipher cipher = TLS_CIPHERS;

	while (--cipher > TLS_CIPHER_NONE && ciphers[cipher].number != number)
		;
	return cipher;
}

const char *tls_cipher_name(enum tls_cipher cipher) { return ciphers[cipher].name; }

/* ---- keys ---- */

/* HKDF-Expand-Label (section 7.1) without a context. `size` is at most that of the hash. */
static bool expand(const struct tls_records *records, const struct tls_way *way, const char *label,
                   void *out, size_t size)
{
	unsigned char info[32] = { 0 }, block[EVP_MAX_MD_SIZE];
	size_t label_size = strlen(label), info_size = 3 + label_size + 2;
	unsigned int block_size = 0;
	bool ok;

	store_be16(info, (uint16_t)size);
	info[2] = (unsigned char)label_size;
	memcpy(info + 3, label, label_size);
	info[info_size - 1] = 1; /* the first block of HKDF, and the only one */
	ok = HMAC(ciphers[records->cipher].hash(), way->secret,
	          (int)tls_secret_size(records->cipher), info, info_size, block,
	          &block_size) != NULL &&
	     block_size >= size;
	if (ok)
		memcpy(out, block, size);
	OPENSSL_cleanse(block, sizeof(block));
	return ok;
}

static bool derive(const struct tls_records *records, struct tls_way *way)
{
	return expand(records, way, "tls13 key", way->key, ciphers[records->cipher].key_size) &&
	       expand(records, way, "tls13 iv", way->iv, TLS_IV_SIZE);
}

/*
 * The next secret of a direction, after a key update (section 7.2). If that fails, the way cannot
 * be used any more: an old key must not meet a number again.
 */
static bool advance(const struct tls_records *records, struct tls_way *way)
{
	way->number = UINT64_MAX;
	if (!expand(records, way, "tls13 traffic upd", way->secret,
	            tls_secret_size(records->cipher)) ||
	    !derive(records, way))
		return false;
	way->number = 0;
	return true;
}

bool tls_records_begin(struct tls_records *records)
{
	return tls_secret_size(records->cipher) && derive(records, &records->in) &&
	       derive(records, &records->out);
}

static void forget_key(struct tls_keyed_way *keyed)
{
	static const unsigned char none[TLS_KEY_MAX];

	keyed->is_keyed = false;
	if (!keyed->context || EVP_CipherInit_ex(keyed->context, NULL, NULL, none, NULL, -1) == 1)
		return;
	EVP_CIPHER_CTX_free(keyed->context);
	keyed->context = NULL;
}

void tls_keyed_forget(struct tls_keyed *keyed)
{
	forget_key(&keyed->in);
	forget_key(&keyed->out);
}

void tls_keyed_done(struct tls_keyed *keyed)
{
	EVP_CIPHER_CTX_free(keyed->in.context);
	EVP_CIPHER_CTX_free(keyed->out.context);
	*keyed = (struct tls_keyed){ 0 };
}

static EVP_CIPHER_CTX *give_key(struct tls_keyed_way *keyed, enum tls_cipher cipher,
                                const struct tls_way *way, bool encrypts)
{
	bool is_same = keyed->context && keyed->cipher == cipher;

	if (keyed->is_keyed)
		return keyed->context;
	if (!keyed->context)
		keyed->context = EVP_CIPHER_CTX_new();
	if (!keyed->context ||
	    EVP_CipherInit_ex(keyed->context, is_same ? NULL : ciphers[cipher].cipher(), NULL,
	                      way->key, NULL, encrypts) != 1)
		return NULL;
	keyed->cipher = (uint8_t)cipher;
	keyed->is_keyed = true;
	return keyed->context;
}

/* Prepares a context for the next record of a direction. `header` is its additional data. */
static bool begin_record(EVP_CIPHER_CTX *context, struct tls_way *way, const void *header)
{
	unsigned char nonce[TLS_IV_SIZE];
	int done;

	if (!context || way->number == UINT64_MAX)
		return false;
	memcpy(nonce, way->iv, sizeof(nonce));
	for (unsigned int i = 0; i < 8; i++)
		nonce[TLS_IV_SIZE - 1 - i] ^= (unsigned char)(way->number >> (8 * i));
	way->number++;
	return EVP_CipherInit_ex(context, NULL, NULL, NULL, nonce, -1) == 1 &&
	       EVP_CipherUpdate(context, NULL, &done, header, (int)TLS_HEADER_SIZE) == 1;
}

/* ---- encrypting ---- */

/* Shorter content is copied and encrypted with its type: a call costs more than the copy. */
#define APART_LEAST ((size_t)1024)

static bool seal_record(struct tls_records *records, struct tls_keyed *keyed, enum content type,
                        struct bytes in, struct buf *out)
{
	EVP_CIPHER_CTX *context = give_key(&keyed->out, records->cipher, &records->out, true);
	size_t size = TLS_HEADER_SIZE + in.count + 1 + TLS_TAG_SIZE;
	size_t apart = in.count < APART_LEAST ? 0 : in.count;
	unsigned char *at = (unsigned char *)buf_reserve(out, size);
	unsigned char *body, *tag;
	int done;

	if (!at)
		return false;
	body = at + TLS_HEADER_SIZE;
	tag = body + in.count + 1;
	memcpy(at, "\x17\x03\x03", 3);
	store_be16(at + 3, (uint16_t)(size - TLS_HEADER_SIZE));
	memcpy(body + apart, in.at + apart, in.count - apart);
	body[in.count] = (unsigned char)type;
	if (!begin_record(context, &records->out, at) ||
	    (apart && EVP_CipherUpdate(context, body, &done, (const unsigned char *)in.at,
	                               (int)apart) != 1) ||
	    EVP_CipherUpdate(context, body + apart, &done, body + apart,
	                     (int)(in.count + 1 - apart)) != 1 ||
	    EVP_CipherFinal_ex(context, tag, &done) != 1 ||
	    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TLS_TAG_SIZE, tag) != 1) {
		ERR_clear_error();
		return false;
	}
	out->count += size;
	return true;
}

bool tls_records_update(struct tls_records *records, struct tls_keyed *keyed, bool asks,
                        struct buf *out)
{
	unsigned char message[] = { MESSAGE_KEY_UPDATE, 0, 0, 1, asks };
	bool is_sent =
	    seal_record(records, keyed, CONTENT_HANDSHAKE, bytes_of(message, sizeof(message)), out);

	keyed->out.is_keyed = false;
	return is_sent && advance(records, &records->out);
}

bool tls_records_seal(struct tls_records *records, struct tls_keyed *keyed, struct bytes in,
                      struct buf *out)
{
	while (in.count) {
		size_t count = in.count < TLS_RECORD_MAX ? in.count : TLS_RECORD_MAX;

		if (records->out.number >= TLS_KEY_RECORDS &&
		    !tls_records_update(records, keyed, false, out))
			return false;
		if (!seal_record(records, keyed, CONTENT_DATA, bytes_of(in.at, count), out))
			return false;
		in = bytes_skip(in, count);
	}
	return true;
}

static void send_alert(struct tls_records *records, struct tls_keyed *keyed, enum alert alert,
                       struct buf *out)
{
	unsigned char message[] = { alert == ALERT_CLOSE_NOTIFY ? 1 : 2, (unsigned char)alert };

	seal_record(records, keyed, CONTENT_ALERT, bytes_of(message, sizeof(message)), out);
}

void tls_records_goodbye(struct tls_records *records, struct tls_keyed *keyed, struct buf *out)
{
	send_alert(records, keyed, ALERT_CLOSE_NOTIFY, out);
}

/* ---- decrypting ---- */

/* Decrypts one record. Returns the bytes in it with their type and the zeros; 0: the tag is wrong.
 */
static size_t open_record(struct tls_records *records, struct tls_keyed *keyed,
                          const unsigned char *record, size_t size, unsigned char *at)
{
	EVP_CIPHER_CTX *context = give_key(&keyed->in, records->cipher, &records->in, false);
	const unsigned char *body = record + TLS_HEADER_SIZE;
	size_t count = size - TLS_HEADER_SIZE - TLS_TAG_SIZE;
	int done;

	if (begin_record(context, &records->in, record) &&
	    EVP_CipherUpdate(context, at, &done, body, (int)count) == 1 &&
	    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TLS_TAG_SIZE,
	                        (void *)(body + count)) == 1 &&
	    EVP_CipherFinal_ex(context, at + count, &done) == 1)
		return count;
	OPENSSL_cleanse(at, count);
	ERR_clear_error();
	return 0;
}

static bool is_within_message(const struct tls_records *records)
{
	return records->header_count || records->message;
}

static enum alert count_update(struct tls_records *records)
{
	records->is_flooded = ++records->update_count > TLS_UPDATES_MAX;
	return records->is_flooded ? ALERT_UNEXPECTED_MESSAGE : ALERT_NONE;
}

/* The new key begins with the next record, so that this one must end here. */
static enum alert on_key_update(struct tls_records *records, struct tls_keyed *keyed,
                                struct bytes body, struct buf *out)
{
	bool asks = *body.at == 1;

	if (body.count != 1)
		return ALERT_UNEXPECTED_MESSAGE;
	if (!asks && *body.at)
		return ALERT_ILLEGAL_PARAMETER;
	keyed->in.is_keyed = false;
	if (!advance(records, &records->in) ||
	    (asks && !tls_records_update(records, keyed, false, out)))
		return ALERT_INTERNAL_ERROR;
	return count_update(records);
}

static enum alert on_header(struct tls_records *records, unsigned char type, uint32_t size)
{
	records->message = size;
	records->header_count = 0;
	records->is_key_update = type == MESSAGE_KEY_UPDATE;
	if (records->is_key_update)
		return size == 1 ? ALERT_NONE : ALERT_DECODE_ERROR;
	if (type != MESSAGE_TICKET || records->accepts)
		return ALERT_UNEXPECTED_MESSAGE;
	return size > TICKET_MAX ? ALERT_DECODE_ERROR : count_update(records);
}

/* Messages may be cut anywhere by records, and a record may have several. */
static enum alert on_handshake(struct tls_records *records, struct tls_keyed *keyed,
                               struct bytes in, struct buf *out)
{
	enum alert alert = ALERT_NONE;

	while (in.count && alert == ALERT_NONE) {
		uint32_t message = records->message, used = 1;

		if (records->is_key_update) {
			records->is_key_update = records->message = 0;
			return on_key_update(records, keyed, in, out);
		}
		if (message && !records->header_count) {
			used = in.count < message ? (uint32_t)in.count : message;
			records->message = message - used;
		} else if (records->header_count < HEADER_SIZE - 1) {
			records->message = message << 8 | (unsigned char)*in.at;
			records->header_count++;
		} else {
			alert = on_header(records, (unsigned char)(message >> 16),
			                  (message & 0xffff) << 8 | (unsigned char)*in.at);
		}
		in = bytes_skip(in, used);
	}
	return alert;
}

static enum alert on_empty(struct tls_records *records)
{
	return ++records->empty_count > TLS_EMPTY_MAX ? ALERT_UNEXPECTED_MESSAGE : ALERT_NONE;
}

/* What is in one record that is not data; *end: it is the last one. */
static enum alert on_other(struct tls_records *records, struct tls_keyed *keyed, unsigned char type,
                           struct bytes in, enum tls_end *end, struct buf *out)
{
	if (!in.count)
		return ALERT_UNEXPECTED_MESSAGE;
	if (type == CONTENT_HANDSHAKE)
		return on_handshake(records, keyed, in, out);
	if (type != CONTENT_ALERT || is_within_message(records))
		return ALERT_UNEXPECTED_MESSAGE;
	if (in.count != 2)
		return ALERT_DECODE_ERROR;
	if (in.at[1] == ALERT_USER_CANCELED)
		return on_empty(records);
	*end = in.at[1] == ALERT_CLOSE_NOTIFY ? TLS_ENDED : TLS_BROKEN;
	return ALERT_NONE;
}

/* `in` begins with a whole record. Adds the data that was at `at` to *count. */
static enum alert on_record(struct tls_records *records, struct tls_keyed *keyed, struct bytes in,
                            size_t size, unsigned char *at, size_t *count, enum tls_end *end,
                            struct buf *out)
{
	size_t whole = open_record(records, keyed, (const unsigned char *)in.at, size, at);
	size_t left = whole;

	if (!whole)
		return ALERT_BAD_RECORD_MAC;
	if (whole > TLS_RECORD_MAX + 1)
		return ALERT_RECORD_OVERFLOW;
	while (left && !at[left - 1])
		left--;
	if (!left--)
		return ALERT_UNEXPECTED_MESSAGE;
	if (at[left] != CONTENT_DATA)
		return on_other(records, keyed, at[left], bytes_of(at, left), end, out);
	if (is_within_message(records))
		return ALERT_UNEXPECTED_MESSAGE;
	if (!left)
		return on_empty(records);
	records->empty_count = 0;
	*count += left;
	return ALERT_NONE;
}

/* *size: of the record; 0: it is incomplete. */
static enum alert measure(struct bytes in, size_t *size)
{
	size_t body;

	*size = 0;
	if (in.count && *in.at != CONTENT_DATA)
		return ALERT_UNEXPECTED_MESSAGE;
	if (in.count < TLS_HEADER_SIZE)
		return ALERT_NONE;
	body = load_be16(in.at + 3);
	if (body > TLS_BODY_MAX)
		return ALERT_RECORD_OVERFLOW;
	if (body <= TLS_TAG_SIZE)
		return ALERT_BAD_RECORD_MAC;
	if (in.count >= TLS_HEADER_SIZE + body)
		*size = TLS_HEADER_SIZE + body;
	return ALERT_NONE;
}

enum tls_end tls_records_open(struct tls_records *records, struct tls_keyed *keyed,
                              struct bytes *in, char *at, size_t *count, struct buf *out)
{
	enum tls_end end = TLS_GOES_ON;
	enum alert alert;
	size_t size;

	*count = 0;
	while ((alert = measure(*in, &size)) == ALERT_NONE && size && end == TLS_GOES_ON) {
		alert = on_record(records, keyed, *in, size, (unsigned char *)at + *count, count,
		                  &end, out);
		*in = bytes_skip(*in, size);
		if (alert != ALERT_NONE)
			break;
	}
	if (alert == ALERT_NONE || end != TLS_GOES_ON)
		return end;
	send_alert(records, keyed, alert, out);
	return TLS_BROKEN;
}
