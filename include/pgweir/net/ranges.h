/* SPDX-License-Identifier: ISC */
/*
 * A list of address ranges, such as those of trusted proxies.
 */
#ifndef PGWEIR_NET_RANGES_H
#define PGWEIR_NET_RANGES_H

#include "pgweir/net/range.h"

struct ranges;

/*
 * Each text is ADDRESS, ADDRESS/BITS, or the word "unix" for clients of Unix sockets. NULL:
 * *err says which text is invalid.
 */
struct ranges *ranges_new(char *const *texts, size_t count, struct err *err);

/* Frees the list and sets NULL; accepts NULL. */
void ranges_free(struct ranges **ranges);

/* Whether one of the ranges contains the address. NULL contains none. */
bool ranges_have(const struct ranges *ranges, const struct address *address);

#endif
