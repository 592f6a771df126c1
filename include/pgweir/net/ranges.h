/* SPDX-License-Identifier: ISC */
/*
 * A list of ranges of addresses, such as those of proxies that are trusted.
 */
#ifndef PGWEIR_NET_RANGES_H
#define PGWEIR_NET_RANGES_H

#include "pgweir/net/range.h"

struct ranges;

/*
 * Each text is ADDRESS, ADDRESS/BITS, or the word unix for whoever comes by a Unix
 * socket. NULL: *err says which of them is none.
 */
struct ranges *ranges_new(char *const *texts, size_t count, struct err *err);

/* Accepts NULL, leaves NULL. */
void ranges_free(struct ranges **ranges);

/* NULL has nobody. */
bool ranges_have(const struct ranges *ranges, const struct address *address);

#endif
