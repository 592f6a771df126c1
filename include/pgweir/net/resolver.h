/* SPDX-License-Identifier: ISC */
/*
 * The resolver: names of servers to addresses, by c-ares, without waiting.
 *
 * Answers are kept for a time of our own choice, good and bad ones; a name's
 * addresses are handed out in turn; all who ask for a name while its query is
 * under way wait for the same query. The hosts file is asked first (another one
 * may be named by CARES_HOSTS in the environment).
 */
#ifndef PGWEIR_NET_RESOLVER_H
#define PGWEIR_NET_RESOLVER_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"

struct resolver;
struct resolver_name; /* private */

struct resolver_options {
	usec_t good_ttl;         /* how long an answer is used (dns_max_ttl); 0 = ask each time */
	usec_t bad_ttl;          /* how long a failure is used (dns_nxdomain_ttl) */
	const char *resolv_conf; /* NULL or "" = the system's */
	usec_t try_limit;    /* for the first try of a DNS server, the next are longer; 0 = 2 s */
	const char *servers; /* "ip:port,..." instead of the system's: for tests; NULL */
};

/* One question. Lives inside its owner; at rest it is zeroed. */
struct resolver_ask {
	/*
	 * Comes once, from the loop, never from within resolver_start(); the ask is at rest
	 * again. `address`: with the port that was asked for, the next of the name's. NULL:
	 * *err (ERR_SERVER_CONNECT) has the name and the reason.
	 */
	void (*on_answer)(struct resolver_ask *ask, const struct address *address,
	                  const struct err *err);
	TAILQ_ENTRY(resolver_ask) node;
	struct resolver_name *name; /* NULL: at rest */
	uint16_t port;
};

/* NULL: *err says why. */
struct resolver *resolver_new(struct loop *loop, const struct resolver_options *options,
                              struct err *err);

/* No ask may wait any more. */
void resolver_free(struct resolver **resolver);

/* "c-ares 1.18.1". Static. */
const char *resolver_library(void);

/* For answers that come from now on. */
void resolver_set_ttl(struct resolver *resolver, usec_t good_ttl, usec_t bad_ttl);

/*
 * Asks for `host`, a name or a numeric address. false: no memory, or too many
 * names at once; on_answer() will not come.
 */
bool resolver_start(struct resolver *resolver, struct resolver_ask *ask, const char *host,
                    uint16_t port,
                    void (*on_answer)(struct resolver_ask *ask, const struct address *address,
                                      const struct err *err),
                    struct err *err);

/* on_answer() will not come. Safe at rest. */
void resolver_cancel(struct resolver_ask *ask);

/* Forgets all that is known; queries under way go on. */
void resolver_forget(struct resolver *resolver);

/* ---- for SHOW ---- */

unsigned int resolver_name_count(const struct resolver *resolver);  /* known names */
unsigned int resolver_query_count(const struct resolver *resolver); /* queries under way */

/* A known name as it stands. */
struct resolver_row {
	const char *host;
	usec_t ttl_left;                 /* 0: a query is under way */
	const struct address *addresses; /* port 0 */
	unsigned int address_count;      /* 0: a failure is known */
};

/*
 * The next known name behind *cursor, which starts at 0 and may be kept for as
 * long as one likes: names that come and go meanwhile do not disturb it. false:
 * that was all. What *row points to is good until the resolver is used again.
 */
bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row);

#endif
