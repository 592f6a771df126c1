/* SPDX-License-Identifier: ISC */
/*
 * SASLprep (RFC 4013) as in PostgreSQL: a password that is not UTF-8, is forbidden by the
 * rules, or would become empty, is used unchanged.
 */
#ifndef PGWEIR_AUTH_SASLPREP_H
#define PGWEIR_AUTH_SASLPREP_H

/* Returns a new text (free it with secret_free()); NULL: no memory. */
char *saslprep(const char *password);

#endif
