/* SPDX-License-Identifier: ISC */
/*
 * The record layer of TLS 1.3 (RFC 8446, sections 5 and 7): what encrypts and decrypts a
 * connection once its handshake is over. Two secrets, two sequence numbers and a cipher are all
 * that it needs, so such a connection is small and can be written down. Without a socket: bytes of
 * the wire go in, bytes for the wire are added to a buffer.
 *
 * Only what may follow a handshake is understood: data, key updates, session tickets (ignored) and
 * alerts. Anything else ends the connection with a fatal alert. The cryptography is OpenSSL's.
 */
#ifndef PGWEIR_NET_TLS_RECORDS_PRIV_H
#define PGWEIR_NET_TLS_RECORDS_PRIV_H

#include "pgweir/base/buf.h"

struct evp_cipher_ctx_st; /* EVP_CIPHER_CTX of OpenSSL */

#define TLS_RECORD_MAX ((size_t)16 * 1024) /* bytes of data in a record */
#define TLS_HEADER_SIZE ((size_t)5)        /* type, version and length of a record */
#define TLS_BODY_MAX (TLS_RECORD_MAX + 256)
#define TLS_SECRET_MAX 48
#define TLS_KEY_MAX 32
#define TLS_IV_SIZE 12
#define TLS_TAG_SIZE 16

/*
 * Key updates and tickets of the peer that are accepted; tls.c reduces the count for time and data.
 * Each costs the peer 27 bytes and us a derivation of keys.
 */
#define TLS_UPDATES_MAX 32

/* Records without data in a row that are accepted. */
#define TLS_EMPTY_MAX 32

/* We change our key before so many records: AES-GCM is safe for 2^24.5 (section 5.5). */
#define TLS_KEY_RECORDS ((UINT64_C(1) << 24) - 1024)

enum tls_cipher { TLS_CIPHER_NONE, TLS_AES_128_GCM, TLS_AES_256_GCM, TLS_CHACHA20, TLS_CIPHERS };

/* Whether and why no more can be read. */
enum tls_end {
	TLS_GOES_ON,
	TLS_ENDED, /* the peer has sent close_notify */
	TLS_BROKEN /* invalid bytes were received */
};

/*
 * One direction. The key and the IV follow from the secret, but to derive them costs ten times as
 * much as to encrypt a short record. Without the hole that would be behind the IV.
 */
struct tls_way {
	uint64_t number; /* sequence number of the next record */
	unsigned char secret[TLS_SECRET_MAX], key[TLS_KEY_MAX], iv[TLS_IV_SIZE];
} __attribute__((packed, aligned(4)));

/* Small, as every idle connection has it. */
struct tls_records {
	struct tls_way in, out;
	/*
	 * Of a handshake message that is cut: the first bytes of its header as a number, if
	 * header_count is not 0; else the count of bytes that are still to come
	 */
	uint32_t message : 24;
	uint32_t header_count : 2;
	uint32_t is_key_update : 1; /* its last byte is still to come */
	uint32_t cipher : 3;        /* enum tls_cipher */
	uint32_t accepts : 1;       /* the peer is the client of the handshake */
	uint32_t is_flooded : 1;
	uint8_t empty_count;
	uint8_t update_count;  /* see TLS_UPDATES_MAX */
	uint16_t opened_bytes; /* data bytes not yet counted for a reduction: tls.c */
};

/* Whether it is in use, instead of OpenSSL's. */
static inline bool tls_records_are_on(const struct tls_records *records)
{
	return records->cipher != TLS_CIPHER_NONE;
}

/*
 * OpenSSL's contexts for the two directions of a connection, made when needed. Whoever is busy has
 * some with its keys. Zero: none yet.
 */
struct tls_keyed {
	struct tls_keyed_way {
		struct evp_cipher_ctx_st *context;
		uint8_t cipher; /* what it was made for */
		bool is_keyed;
	} in, out;
};

void tls_keyed_done(struct tls_keyed *keyed);

/* Overwrites the keys, and keeps the contexts for another connection. */
void tls_keyed_forget(struct tls_keyed *keyed);

/* Bytes of a secret of this cipher; 0: no such cipher. */
size_t tls_secret_size(enum tls_cipher cipher);

/* The cipher with the number that TLS gives it (0x1301, ...). */
enum tls_cipher tls_cipher_of(uint32_t number);
const char *tls_cipher_name(enum tls_cipher cipher);

/* Derives the keys from cipher and secrets, which are set. false: not possible. */
bool tls_records_begin(struct tls_records *records);

/*
 * Decrypts all complete records of *in to `at`, which must have room for as many bytes as *in has,
 * and skips them there. *count: the bytes of data. Adds answers (a key update, an alert) to *out.
 * An incomplete record that could not become a good one is TLS_BROKEN already.
 */
enum tls_end tls_records_open(struct tls_records *records, struct tls_keyed *keyed,
                              struct bytes *in, char *at, size_t *count, struct buf *out);

/* Encrypts, in as many records as needed. false: no memory, or OpenSSL refuses. */
bool tls_records_seal(struct tls_records *records, struct tls_keyed *keyed, struct bytes in,
                      struct buf *out);

/* Changes our key, after telling the peer; `asks`: and asks it to do the same. */
bool tls_records_update(struct tls_records *records, struct tls_keyed *keyed, bool asks,
                        struct buf *out);

/* Tells the peer that nothing more will be sent. */
void tls_records_goodbye(struct tls_records *records, struct tls_keyed *keyed, struct buf *out);

#endif
