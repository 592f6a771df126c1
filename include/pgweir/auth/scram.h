/* SPDX-License-Identifier: ISC */
/*
 * SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides; with channel binding by tls-server-end-point
 * (RFC 5929) also SCRAM-SHA-256-PLUS.
 *
 * client: n,,n=,r=<c>  -->                        scram_client_first
 *                      <--  r=<c><s>,s=..,i=..    scram_server_first
 * client: c=biws,r=<c><s>,p=..  -->               scram_client_final
 *                      <--  v=..                  scram_server_check
 *
 * Channel binding: a man in the middle, with an encrypted connection to each side, has another
 * certificate. Messages that include the hash of one certificate are not valid with the other.
 *
 * Everything received is checked for length and form before use. A failure fills *err with the
 * reason, which is for the log; the caller decides what to tell the other side. ERR_PROTOCOL:
 * an invalid message; ERR_PASSWORD: a wrong proof.
 */
#ifndef PGWEIR_AUTH_SCRAM_H
#define PGWEIR_AUTH_SCRAM_H

#include "pgweir/auth/digest.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

#define SCRAM_MECHANISM "SCRAM-SHA-256"
#define SCRAM_PLUS_MECHANISM "SCRAM-SHA-256-PLUS"
#define SCRAM_BINDING_MAX 64 /* bytes of channel binding data */
#define SCRAM_KEY_SIZE SHA256_SIZE
#define SCRAM_SALT_SIZE 16 /* bytes of our salts */
#define SCRAM_SALT_MAX 256 /* bytes of a received salt */
/* size of our nonce: 18 random bytes as text, with a terminating zero */
#define SCRAM_NONCE_SIZE 33
#define SCRAM_NONCE_MAX 256
#define SCRAM_MESSAGE_MAX 2048
#define SCRAM_ITERATIONS_MAX 10000000       /* more would occupy a thread for many seconds */
#define SCRAM_SERVER_ITERATIONS_MAX 1000000 /* maximum that a server may demand */

/* Keys derived from a password, for both sides. */
struct scram_keys {
	unsigned char client_key[SCRAM_KEY_SIZE];
	unsigned char stored_key[SCRAM_KEY_SIZE];
	unsigned char server_key[SCRAM_KEY_SIZE];
};

/* What keys are derived with, apart from the password. */
struct scram_challenge {
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[SCRAM_SALT_MAX];
};

static inline struct bytes scram_salt(const struct scram_challenge *challenge)
{
	return bytes_of(challenge->salt, challenge->salt_count);
}

/* Keys, and the challenge that they belong to; without a salt it is unknown. */
struct scram_verifier {
	struct scram_challenge made_for;
	struct scram_keys keys; /* the client's key is not in the text */
};

/* Parses the text format of pg_authid. false: it is not a verifier. */
bool scram_verifier_parse(const char *text, struct scram_verifier *verifier);
void scram_verifier_text(const struct scram_verifier *verifier, struct buf *out);

/* Derives the keys of a password (with SASLprep). Slow: `iterations` rounds. */
bool scram_derive(const char *password, struct bytes salt, unsigned int iterations,
                  struct scram_keys *keys);

/* One exchange, of either side. Zero it before first use; scram_done() wipes it. */
struct scram {
	char nonce[SCRAM_NONCE_SIZE]; /* our nonce; made in the first step unless it is set */
	struct buf said;              /* AuthMessage so far */
	struct buf joint;             /* both nonces as text */
	char gs2;                     /* the client's gs2 flag for channel binding: 'n', 'y', 'p' */
	/* SCRAM-SHA-256-PLUS was selected. Set it before the first step */
	bool is_plus;
	size_t binding_count; /* 0: no channel binding; then PLUS is not offered */
	unsigned char binding[SCRAM_BINDING_MAX];
	unsigned char proof[SCRAM_KEY_SIZE];
};

void scram_done(struct scram *scram);

/* Sets the channel binding data of the connection. Call it before the first step. */
void scram_bind(struct scram *scram, struct bytes binding);

/* ---- the server's side ---- */

/* Parses client-first, adds server-first to *out. */
bool scram_server_first(struct scram *scram, struct bytes client_first, struct bytes salt,
                        unsigned int iterations, struct buf *out, struct err *err);

/* Parses client-final and keeps its proof. */
bool scram_server_read(struct scram *scram, struct bytes client_final, struct err *err);

/*
 * Whether the proof is correct, by the stored key. Then keys->client_key gets the client's key, for
 * logging in to servers, and server-final is added to *out.
 */
bool scram_server_check(const struct scram *scram, struct scram_keys *keys, struct buf *out,
                        struct err *err);

/* ---- the client's side ---- */

/* Adds client-first. `user` is "" for PostgreSQL, which ignores it. */
bool scram_client_first(struct scram *scram, const char *user, struct buf *out, struct err *err);

bool scram_client_read(struct scram *scram, struct bytes server_first,
                       struct scram_challenge *challenge, struct err *err);

bool scram_client_final(struct scram *scram, const struct scram_keys *keys, struct buf *out,
                        struct err *err);

/* Parses server-final: whether the server has proved that it knows the keys too. */
bool scram_client_check(const struct scram *scram, const struct scram_keys *keys,
                        struct bytes server_final, struct err *err);

#endif
