/* SPDX-License-Identifier: ISC */
/*
 * SCRAM-SHA-256 (RFC 5802, RFC 7677), both roles; with channel binding by
 * tls-server-end-point (RFC 5929) as SCRAM-SHA-256-PLUS.
 *
 * client: n,,n=,r=<c>  -->                        scram_client_first
 *                      <--  r=<c><s>,s=..,i=..    scram_server_first
 * client: c=biws,r=<c><s>,p=..  -->               scram_client_final
 *                      <--  v=..                  scram_server_final
 *
 * Binding: who is in the middle with an encrypted connection to either side has a
 * certificate of his own, and what was said with that in it does not hold here.
 *
 * Whatever comes from the other side is checked for length and form before use.
 * A failure fills *err with the reason, which is for the log: what the other
 * side may be told, the caller decides. ERR_PROTOCOL: not such a message;
 * ERR_PASSWORD: a proof that does not hold.
 */
#ifndef PGWEIR_AUTH_SCRAM_H
#define PGWEIR_AUTH_SCRAM_H

#include "pgweir/auth/digest.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

#define SCRAM_MECHANISM "SCRAM-SHA-256"
#define SCRAM_PLUS_MECHANISM "SCRAM-SHA-256-PLUS"
#define SCRAM_BINDING_MAX 64 /* bytes of a channel's binding data */
#define SCRAM_KEY_SIZE SHA256_SIZE
#define SCRAM_SALT_SIZE 16  /* bytes of a salt of ours */
#define SCRAM_SALT_MAX 256  /* bytes of a salt of theirs */
#define SCRAM_NONCE_SIZE 33 /* room for a nonce of ours: 18 random bytes as text */
#define SCRAM_NONCE_MAX 256
#define SCRAM_MESSAGE_MAX 2048
#define SCRAM_ITERATIONS_MAX 10000000       /* more would hold a thread for many seconds */
#define SCRAM_SERVER_ITERATIONS_MAX 1000000 /* what a server may ask of us */

/* What a password becomes: all that both roles need. */
struct scram_keys {
	unsigned char client_key[SCRAM_KEY_SIZE];
	unsigned char stored_key[SCRAM_KEY_SIZE];
	unsigned char server_key[SCRAM_KEY_SIZE];
};

/* What a server keeps. */
struct scram_verifier {
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[SCRAM_SALT_MAX];
	unsigned char stored_key[SCRAM_KEY_SIZE];
	unsigned char server_key[SCRAM_KEY_SIZE];
};

/* The text form that pg_authid has. false: it is not one. */
bool scram_verifier_parse(const char *text, struct scram_verifier *verifier);
void scram_verifier_text(const struct scram_verifier *verifier, struct buf *out);

/* The keys of a password (SASLprep included). Slow: `iterations` rounds. */
bool scram_derive(const char *password, struct bytes salt, unsigned int iterations,
                  struct scram_keys *keys);

/* One exchange, of either role. Zeroed at first; scram_done() wipes it. */
struct scram {
	char nonce[SCRAM_NONCE_SIZE]; /* ours; made at the first step unless it is there */
	struct buf said;              /* AuthMessage, as far as it has come */
	struct buf joint;             /* both nonces, as text */
	char gs2;                     /* what the client said of channel binding: 'n', 'y', 'p' */
	bool is_plus;                 /* SCRAM-SHA-256-PLUS was chosen. Set before the first step */
	size_t binding_count; /* 0: the channel cannot be bound to; then nobody offers PLUS */
	unsigned char binding[SCRAM_BINDING_MAX];
	unsigned char proof[SCRAM_KEY_SIZE];
};

void scram_done(struct scram *scram);

/* The exchange goes over a channel with this binding data. Before the first step. */
void scram_bind(struct scram *scram, struct bytes binding);

/* ---- the server's role ---- */

/* Reads client-first, adds server-first to *out. */
bool scram_server_first(struct scram *scram, struct bytes client_first, struct bytes salt,
                        unsigned int iterations, struct buf *out, struct err *err);

/* Reads client-final and keeps its proof. */
bool scram_server_read(struct scram *scram, struct bytes client_final, struct err *err);

/* Whether the proof holds. client_key gets the client's key, for logins in its name. */
bool scram_server_check(const struct scram *scram, const unsigned char stored_key[SCRAM_KEY_SIZE],
                        unsigned char client_key[SCRAM_KEY_SIZE], struct err *err);

/* Adds server-final. */
bool scram_server_final(const struct scram *scram, const unsigned char server_key[SCRAM_KEY_SIZE],
                        struct buf *out, struct err *err);

/* ---- the client's role ---- */

/* `user` is "" for PostgreSQL, which ignores it. */
bool scram_client_first(struct scram *scram, const char *user, struct buf *out, struct err *err);

struct scram_challenge {
	unsigned int iterations;
	size_t salt_count;
	unsigned char salt[SCRAM_SALT_MAX];
};

/* Reads server-first. */
bool scram_client_read(struct scram *scram, struct bytes server_first,
                       struct scram_challenge *challenge, struct err *err);

/* Adds client-final. */
bool scram_client_final(struct scram *scram, const struct scram_keys *keys, struct buf *out,
                        struct err *err);

/* Reads server-final: has the server proved that it knows the keys too? */
bool scram_client_check(const struct scram *scram, const struct scram_keys *keys,
                        struct bytes server_final, struct err *err);

#endif
