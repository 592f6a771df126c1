/* SPDX-License-Identifier: ISC */
/*
 * Failures to prove who one is, counted for each address that they came from. What is counted is
 * what is delayed or otherwise bounded by the caller, so the table is bounded too. No lock.
 */
#ifndef PGWEIR_AUTH_FAILURES_H
#define PGWEIR_AUTH_FAILURES_H

#include <stdbool.h>

#include "pgweir/base/hash.h"
#include "pgweir/net/address.h"

struct failure;

struct failures {
	struct hash_key secret;
	struct failure *table;
};

void failures_init(struct failures *failures);

/* Whether so many failures of this address are counted. limit 0: there is none. */
bool failures_reach(const struct failures *failures, const struct address *address, int limit);

/*
 * Counts one, until failures_forget(). An IPv6 address counts with its /64 network. NULL: it is not
 * counted, as the address has no network (a Unix socket), or there is no memory.
 */
struct failure *failures_count(struct failures *failures, const struct address *address);

/* Accepts NULL. */
void failures_forget(struct failures *failures, struct failure *failure);

#endif
