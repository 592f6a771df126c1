/* SPDX-License-Identifier: ISC */
/*
 * Mock secrets: for an unknown user, or one without a password. With it the exchange and the
 * work are the same as for other users.
 *
 * The mock secret imitates one of the existing users, selected by the name: the kind of secret,
 * and for SCRAM the iteration count and the length of the salt. The same name gets the same
 * mock secret as long as the process and the users are the same. No password matches it: it is
 * made from the random key of the process.
 */
#ifndef PGWEIR_AUTH_MOCK_H
#define PGWEIR_AUTH_MOCK_H

#include "pgweir/auth/derived.h"

/* users NULL, or no user has a secret: makes one like a plain password. false: no memory. */
bool mock_secret(const struct verifiers *verifiers, const struct users *users, const char *user,
                 struct buf *out);

#endif
