/* SPDX-License-Identifier: ISC */
/*
 * SASLprep (RFC 4013) as PostgreSQL does it: a password that is not UTF-8, or
 * that the rules forbid, or of which nothing would remain, is used as it is.
 */
#ifndef PGWEIR_AUTH_SASLPREP_H
#define PGWEIR_AUTH_SASLPREP_H

/* A new text (free it with secret_free()); NULL only when memory has run out. */
char *saslprep(const char *password);

#endif
