/* SPDX-License-Identifier: ISC */
/*
 * Looks up the host name of an address, without blocking. A name is accepted only if its own
 * addresses include that address. Results are not cached, because clients choose these names
 * and could fill the resolver's table.
 */
#ifndef PGWEIR_NET_REVERSE_H
#define PGWEIR_NET_REVERSE_H

#include "pgweir/net/resolver.h"

#define REVERSE_MAX 1000 /* lookups running at the same time */

struct reverse_query; /* private */

/* One lookup. Embedded in its owner; zero it before first use. */
struct reverse {
	/*
	 * Called once, from the loop, never by reverse_start(). The lookup can be reused. host:
	 * valid during the call; NULL: there is no acceptable name.
	 */
	void (*on_host)(struct reverse *reverse, const char *host);
	struct reverse_query *query; /* NULL: not in use */
};

/* Starts a lookup. false: no memory, or too many lookups: *err; on_host() will not be called. */
bool reverse_start(struct resolver *resolver, struct reverse *reverse,
                   const struct address *address,
                   void (*on_host)(struct reverse *reverse, const char *host), struct err *err);

/* Cancels a lookup: on_host() will not be called. Safe if it is not in use. */
void reverse_cancel(struct reverse *reverse);

#endif
