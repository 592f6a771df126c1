/* SPDX-License-Identifier: ISC */
/*
 * Credentials for logging in to a server as a user. They own their texts.
 */
#ifndef PGWEIR_AUTH_CREDENTIALS_H
#define PGWEIR_AUTH_CREDENTIALS_H

#include "pgweir/auth/scram.h"
#include "pgweir/auth/users.h"

enum credentials_kind {
	CREDENTIALS_NONE,  /* usable only if the server requests no authentication */
	CREDENTIALS_PLAIN, /* a password */
	CREDENTIALS_MD5,   /* an "md5..." secret: usable only for md5 */
	CREDENTIALS_KEYS   /* SCRAM keys of a client that has logged in: usable only for SCRAM */
};

/* Zero it before first use. */
struct credentials {
	enum credentials_kind kind;
	char *text;              /* for PLAIN and MD5 */
	struct scram_keys *keys; /* for KEYS */
	/* for KEYS: salt and iteration count of their secret; or NULL */
	struct scram_challenge *made_for;
	/* sent by a client, or revealed by its proof; not from a file or query */
	bool is_shown;
};

/* Makes credentials from a stored secret: plain or md5; none from others. false: no memory. */
bool credentials_from_secret(struct credentials *credentials, const struct secret *secret);

/* Stores a copy of the challenge to which the keys belong. false: no memory. */
bool credentials_set_made_for(struct credentials *credentials,
                              const struct scram_challenge *made_for);

/* Copies credentials to *to, which must be empty. false: no memory, *to is empty. */
bool credentials_copy(struct credentials *to, const struct credentials *from);

/* Whether both give the same result in an authentication exchange. */
bool credentials_equal(const struct credentials *a, const struct credentials *b);

/* Wipes and frees them, and leaves them empty. */
void credentials_done(struct credentials *credentials);

#endif
