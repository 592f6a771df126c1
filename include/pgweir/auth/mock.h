/* SPDX-License-Identifier: ISC */
/*
 * A secret for somebody who has none: no such user, or one without a password. With it
 * the exchange and its work are those of a user who exists.
 *
 * It imitates one of the users who exist, chosen by the name: the kind of secret, and of
 * SCRAM the rounds and the length of the salt. The same name gets the same one as long as
 * the process and the users are the same. It is nobody's password: it is made of the
 * random key of the process.
 */
#ifndef PGWEIR_AUTH_MOCK_H
#define PGWEIR_AUTH_MOCK_H

#include "pgweir/auth/derived.h"

/* users NULL, or none of them with a secret: one like a plain password. false: no memory. */
bool mock_secret(const struct verifiers *verifiers, const struct users *users, const char *user,
                 struct buf *out);

#endif
