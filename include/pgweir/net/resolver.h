/* SPDX-License-Identifier: ISC */
/*
 * The resolver: names of servers to addresses, by c-ares, without waiting.
 *
 * Answers are kept for a time of our own choice, good and bad ones; a name's
 * addresses are handed out in turn; all who ask for a name while its query is
 * under way wait for the same query. The hosts file is asked first (another one
 * may be named by CARES_HOSTS in the environment).
 *
 * Whoever is connected to an address that a name gave may stay known there, and
 * is told when a later lookup does not give that address any more. With a zone
 * period the serial numbers of the names' zones are watched: when one grows, all
 * names in that zone are looked up again.
 */
#ifndef PGWEIR_NET_RESOLVER_H
#define PGWEIR_NET_RESOLVER_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"

struct resolver;
struct resolver_name; /* private */
struct resolver_zone;

struct resolver_options {
	usec_t good_ttl;         /* how long an answer is used (dns_max_ttl); 0 = ask each time */
	usec_t bad_ttl;          /* how long a failure is used (dns_nxdomain_ttl) */
	usec_t zone_period;      /* how often zones are asked for their serial; 0 = never */
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
	/*
	 * All of the name's addresses (port 0), for who would rather choose himself. Good
	 * only within on_answer(), until the resolver is called again or the ask is freed.
	 */
	const struct address *addresses;
	unsigned int address_count;
};

/* Somebody who is connected to an address of a name. Lives inside it; at rest it is zeroed. */
struct resolver_watch {
	/*
	 * Comes at most once, from the loop: the name has other addresses now. The stay
	 * is at rest again, and its owner may be freed. Nothing comes when a lookup fails.
	 */
	void (*on_removed)(struct resolver_watch *stay);
	TAILQ_ENTRY(resolver_watch) node;
	struct resolver_name *name; /* NULL: at rest */
	struct address address;
	bool has_left;
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

/* How often the zones are asked from now on; 0: no more. */
void resolver_set_zone_period(struct resolver *resolver, usec_t period);

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

/*
 * From now on somebody is at this address of the name `host`. Nothing happens for
 * a numeric host, or without memory.
 */
void resolver_watch_begin(struct resolver *resolver, struct resolver_watch *stay, const char *host,
                          const struct address *address,
                          void (*on_removed)(struct resolver_watch *stay));

/* on_removed() will not come. Safe at rest. */
void resolver_watch_end(struct resolver_watch *stay);

/* Forgets all that is known; queries under way go on. */
void resolver_forget(struct resolver *resolver);

/* ---- for SHOW ---- */

unsigned int resolver_name_count(const struct resolver *resolver);  /* known names */
unsigned int resolver_query_count(const struct resolver *resolver); /* queries under way */

/* A known name as it stands. */
struct resolver_row {
	const char *host;
	usec_t ttl_left;                 /* 0: the next who asks makes a query */
	const struct address *addresses; /* port 0 */
	unsigned int address_count;      /* 0: a failure is known */
};

/*
 * The next known name behind *cursor, which starts at 0 and may be kept for as
 * long as one likes: names that come and go meanwhile do not disturb it. false:
 * that was all. What *row points to is good until the resolver is used again.
 */
bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row);

unsigned int resolver_zone_count(const struct resolver *resolver);

struct resolver_zone_row {
	const char *zone;
	uint32_t serial;    /* 0: not known */
	unsigned int count; /* names in it */
};

/* The next zone, in the same way. */
bool resolver_next_zone(struct resolver *resolver, unsigned long *cursor,
                        struct resolver_zone_row *row);

#endif
