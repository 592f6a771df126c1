/* SPDX-License-Identifier: ISC */
/*
 * With what we can log in to a server in a user's name. Owns its texts.
 */
#ifndef PGWEIR_AUTH_CREDENTIALS_H
#define PGWEIR_AUTH_CREDENTIALS_H

#include "pgweir/auth/scram.h"
#include "pgweir/auth/users.h"

enum credentials_kind {
	CREDENTIALS_NONE,  /* only a server that asks nothing lets us in */
	CREDENTIALS_PLAIN, /* the password itself */
	CREDENTIALS_MD5,   /* "md5..." secret: good for md5 only */
	CREDENTIALS_KEYS   /* the SCRAM keys of a client that proved itself: good for SCRAM only */
};

/* At rest zeroed. */
struct credentials {
	enum credentials_kind kind;
	char *text;                       /* PLAIN, MD5 */
	struct scram_keys *keys;          /* KEYS */
	struct scram_challenge *made_for; /* KEYS: the salt and rounds of their secret; or NULL */
	bool is_shown;                    /* a client has sent it, or its proof has revealed it */
};

/* What a stored secret is good for: plain and md5; nothing else. false: no memory. */
bool credentials_from_secret(struct credentials *credentials, const struct secret *secret);

/* Notes of which secret the keys are. Copied. false: no memory. */
bool credentials_set_made_for(struct credentials *credentials,
                              const struct scram_challenge *made_for);

/* Fills *to (at rest before) with the like. false: no memory, *to is at rest. */
bool credentials_copy(struct credentials *to, const struct credentials *from);

/* Whether both would prove the same. */
bool credentials_equal(const struct credentials *a, const struct credentials *b);

/* Wipes and frees; leaves it at rest. */
void credentials_done(struct credentials *credentials);

#endif
