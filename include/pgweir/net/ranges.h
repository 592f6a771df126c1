/* SPDX-License-Identifier: ISC */
/*
 * A list of address ranges, such as those of trusted proxies. A list is immutable and counts its
 * references, so any thread may use one to which it holds a reference.
 */
#ifndef PGWEIR_NET_RANGES_H
#define PGWEIR_NET_RANGES_H

#include "pgweir/net/range.h"

struct ranges;

/*
 * Each text is ADDRESS, ADDRESS/BITS, or the word "unix" for clients of Unix sockets. The caller
 * owns one reference. NULL: *err says which text is invalid.
 */
struct ranges *ranges_new(char *const *texts, size_t count, struct err *err);

/* Adds a reference and returns it. */
struct ranges *ranges_hold(struct ranges *ranges);

/* Releases a reference and sets NULL; accepts NULL. */
void ranges_release(struct ranges **ranges);

/* Whether one of the ranges contains the address. NULL contains none. */
bool ranges_have(const struct ranges *ranges, const struct address *address);

#endif
