/* SPDX-License-Identifier: ISC */
/*
 * The name of the host at an address, without waiting: asked for backwards, and
 * believed only if that name leads to the address again. Nothing is kept: names
 * that strangers choose shall not fill the resolver's table.
 */
#ifndef PGWEIR_NET_REVERSE_H
#define PGWEIR_NET_REVERSE_H

#include "pgweir/net/resolver.h"

#define REVERSE_MAX 1000 /* lookups under way at one time */

struct reverse_query; /* private */

/* One question. Lives inside its owner; at rest it is zeroed. */
struct reverse {
	/*
	 * Comes once, from the loop, never from within reverse_start(); the question is at
	 * rest again. host: good until it returns; NULL: there is none to believe.
	 */
	void (*on_host)(struct reverse *reverse, const char *host);
	struct reverse_query *query; /* NULL: at rest */
};

/* false: no memory, or too many at once: *err; on_host() will not come. */
bool reverse_start(struct resolver *resolver, struct reverse *reverse,
                   const struct address *address,
                   void (*on_host)(struct reverse *reverse, const char *host), struct err *err);

/* on_host() will not come. Safe at rest. */
void reverse_cancel(struct reverse *reverse);

#endif
