/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing TLS's record layer with a peer that has the keys.
 *
 * The first byte of the input chooses cipher and role, the second one how the wire is cut. Then
 * come records: a byte for the kind, one for the length, and that many bytes. Most are encrypted,
 * whatever they contain, so that the code behind a good tag is reached; some are put on the wire as
 * they are.
 *
 * All that is read was said as data, in this order, and answers are bounded.
 */
#include "../../src/net/tls_priv.h"

#include <assert.h>
#include <stdlib.h>

#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/evp.h>
#undef ERR_STATE

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RAW 1u
#define UPDATES 2u /* the peer changes its key, with this record */
#define IS_DATA 4u /* what a good peer would send */

struct fuzz {
	struct tls_records we, peer;
	struct tls_keyed ours, theirs;
	struct buf wire, said, got, answer;
};

static void begin(struct fuzz *fuzz, enum tls_cipher cipher, bool accepts)
{
	*fuzz = (struct fuzz){ .we = { .cipher = (uint8_t)cipher, .accepts = accepts },
		               .peer = { .cipher = (uint8_t)cipher, .accepts = !accepts } };
	memset(fuzz->we.in.secret, 1, TLS_SECRET_MAX);
	memset(fuzz->peer.out.secret, 1, TLS_SECRET_MAX);
	assert(tls_records_begin(&fuzz->we) && tls_records_begin(&fuzz->peer));
}

/* A record with any content, its type behind it. */
static void encrypt(struct fuzz *fuzz, struct bytes inner)
{
	static const EVP_CIPHER *(*const ciphers[])(
	    void) = { NULL, EVP_aes_128_gcm, EVP_aes_256_gcm, EVP_chacha20_poly1305 };
	struct tls_way *way = &fuzz->peer.out;
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	char header[5] = "\x17\3\3", tag[TLS_TAG_SIZE];
	char *body = buf_reserve(&fuzz->wire, inner.count + 5 + TLS_TAG_SIZE);
	unsigned char nonce[TLS_IV_SIZE];
	int done;

	store_be16(header + 3, (uint16_t)(inner.count + TLS_TAG_SIZE));
	memcpy(nonce, way->iv, sizeof(nonce));
	for (int i = 0; i < 8; i++)
		nonce[TLS_IV_SIZE - 1 - i] ^= (unsigned char)(way->number >> (8 * i));
	way->number++;
	buf_add(&fuzz->wire, header, sizeof(header));
	body = fuzz->wire.at + fuzz->wire.count;
	EVP_EncryptInit_ex(context, ciphers[fuzz->peer.cipher](), NULL, way->key, nonce);
	EVP_EncryptUpdate(context, NULL, &done, (unsigned char *)header, sizeof(header));
	if (inner.count)
		EVP_EncryptUpdate(context, (unsigned char *)body, &done,
		                  (const unsigned char *)inner.at, (int)inner.count);
	EVP_EncryptFinal_ex(context, (unsigned char *)body, &done);
	EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TLS_TAG_SIZE, tag);
	EVP_CIPHER_CTX_free(context);
	fuzz->wire.count += inner.count;
	buf_add(&fuzz->wire, tag, sizeof(tag));
}

static void note_data(struct fuzz *fuzz, struct bytes inner)
{
	while (inner.count && !inner.at[inner.count - 1])
		inner.count--;
	if (inner.count && inner.at[inner.count - 1] == 23)
		buf_add(&fuzz->said, inner.at, inner.count - 1);
}

static void say(struct fuzz *fuzz, unsigned int kind, struct bytes content)
{
	if (kind & RAW) {
		buf_add(&fuzz->wire, content.at, content.count);
	} else if (kind & UPDATES) {
		tls_records_update(&fuzz->peer, &fuzz->theirs, content.count & 1, &fuzz->wire);
	} else if (kind & IS_DATA) {
		buf_add(&fuzz->said, content.at, content.count);
		tls_records_seal(&fuzz->peer, &fuzz->theirs, content, &fuzz->wire);
	} else {
		note_data(fuzz, content);
		encrypt(fuzz, content);
	}
}

static void hear(struct fuzz *fuzz, size_t piece)
{
	size_t heard = 0, count, at_once = piece ? piece : SIZE_MAX / 2;
	char *at = malloc(fuzz->wire.count + 1);
	enum tls_end end = TLS_GOES_ON;
	struct bytes in;

	while (end == TLS_GOES_ON && heard < fuzz->wire.count) {
		heard = at_once < fuzz->wire.count - heard ? heard + at_once : fuzz->wire.count;
		in = bytes_of(fuzz->wire.at, heard);
		end = tls_records_open(&fuzz->we, &fuzz->ours, &in, at, &count, &fuzz->answer);
		buf_add(&fuzz->got, at, count);
		buf_drop(&fuzz->wire, heard - in.count);
		heard = in.count;
	}
	free(at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size);
	struct fuzz fuzz;
	uint8_t piece;

	if (in.count < 2)
		return 0;
	begin(&fuzz, (enum tls_cipher)(1 + data[0] % 3), data[0] & 128);
	piece = data[1];
	in = bytes_skip(in, 2);
	while (in.count >= 2) {
		size_t count = (unsigned char)in.at[1];

		if (count > in.count - 2)
			count = in.count - 2;
		say(&fuzz, (unsigned char)in.at[0], bytes_of(in.at + 2, count));
		in = bytes_skip(in, 2 + count);
	}
	hear(&fuzz, piece);
	assert(fuzz.got.count <= fuzz.said.count);
	assert(!fuzz.got.count || memcmp(fuzz.got.at, fuzz.said.at, fuzz.got.count) == 0);
	assert(fuzz.answer.count <= (TLS_UPDATES_MAX + 1) * 27 + 24);
	tls_keyed_done(&fuzz.ours);
	tls_keyed_done(&fuzz.theirs);
	buf_free(&fuzz.wire);
	buf_free(&fuzz.said);
	buf_free(&fuzz.got);
	buf_free(&fuzz.answer);
	return 0;
}
