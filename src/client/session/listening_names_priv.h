/* SPDX-License-Identifier: ISC */
/*
 * Lists of channels: those that a server listens to, as its facts say, and those of a text.
 */
#ifndef PGWEIR_CLIENT_SESSION_LISTENING_NAMES_PRIV_H
#define PGWEIR_CLIENT_SESSION_LISTENING_NAMES_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/bytes.h"

/* The channels that a server listens to, in order. The names are borrowed. */
struct listening_names {
	const char **list;
	size_t count;
};

/* Reads name\0name\0... false: no memory; free it in any case. */
bool listening_names_read(struct listening_names *names, struct bytes channels);

bool listening_names_have(const struct listening_names *names, const char *name);

void listening_names_free(struct listening_names *names);

/* Whether name\0name\0... has this one. */
bool listening_names_of_text(struct bytes list, struct bytes name);

#endif
