/* SPDX-License-Identifier: ISC */
/*
 * The secrets of metrics_secret_file.
 */
#ifndef PGWEIR_WEB_SECRETS_PRIV_H
#define PGWEIR_WEB_SECRETS_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/err.h"

/* Zeroed: none. */
struct secrets {
	size_t count;
	unsigned char (*hashes)[32]; /* SHA-256 */
};

/* Adds the secrets of a file. false: *err says which line is invalid; free what is there. */
bool secrets_read(struct secrets *secrets, const char *path, struct err *err);

void secrets_free(struct secrets *secrets);

/* Whether the value of an Authorization line has one of them. .at NULL: there is no such line. */
bool secrets_have(const struct secrets *secrets, struct bytes authorization);

#endif
