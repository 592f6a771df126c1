/* SPDX-License-Identifier: ISC */
/*
 * The resolver: looks up host names of servers with c-ares, without blocking.
 *
 * Results, both addresses and failures, are cached for configured times. The addresses of a
 * name are returned in turn. If a query for a name is running, further asks for it wait for the
 * same query. The hosts file is searched first (the environment variable CARES_HOSTS may name
 * another one).
 *
 * The owner of a connection to one of the addresses can watch it: it is notified when a later
 * lookup does not return that address any more. With a period (resolver_configure()) the serial
 * numbers of the names' zones are queried; when one grows, all names of that zone are looked up
 * again.
 *
 * The resolvers of several loops make queries of their own, but tell each other what they have
 * found, so mostly one query is enough for all.
 */
#ifndef PGWEIR_NET_RESOLVER_H
#define PGWEIR_NET_RESOLVER_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"

struct resolver;
struct resolver_name; /* these three: private */
struct resolver_zone;
struct dns_query;

struct resolver_options {
	usec_t good_ttl;         /* how long addresses are cached (dns_max_ttl); 0 = not at all */
	usec_t bad_ttl;          /* how long a failure is cached (dns_nxdomain_ttl) */
	const char *resolv_conf; /* NULL or "" = that of the system */
	/* time limit of the first try of a DNS server; later ones are longer; 0 = 2 s */
	usec_t try_limit;
	const char *servers; /* for tests: "ip:port,..." instead of the system's servers; or NULL */
	/*
	 * One of the resolvers of other loops, or NULL. To be made
	 * before any of them is used; freed while no loop runs, but before all loops.
	 */
	struct resolver *other;
};

/* One ask. Embedded in its owner; zero it before first use. */
struct resolver_ask {
	/*
	 * Called once, from the loop, never by resolver_start(). The ask can be reused.
	 * `address`: the next address of the name, with the requested port. NULL: *err
	 * (ERR_SERVER_CONNECT) contains the name and the reason.
	 */
	void (*on_answer)(struct resolver_ask *ask, const struct address *address,
	                  const struct err *err);
	TAILQ_ENTRY(resolver_ask) node;
	struct resolver_name *name; /* NULL: not in use */
	uint16_t port;
	/*
	 * All addresses of the name (port 0), for an owner that wants to choose. Valid only in
	 * on_answer(), until the resolver is called again or the ask is freed.
	 */
	const struct address *addresses;
	unsigned int address_count;
};

/*
 * Watches the address of a name for its owner, a connection to that address. Embedded in the
 * owner; zero it before first use.
 */
struct resolver_watch {
	/*
	 * Called at most once, from the loop, when a lookup did not return the address. The
	 * watch has ended, and its owner may be freed. Not called for failed lookups.
	 */
	void (*on_removed)(struct resolver_watch *watch);
	TAILQ_ENTRY(resolver_watch) node;
	struct resolver_name *name; /* NULL: not in use */
	struct address address;
};

/* NULL: *err says why. */
struct resolver *resolver_new(struct loop *loop, const struct resolver_options *options,
                              struct err *err);

/* No ask may be waiting when this is called. */
void resolver_free(struct resolver **resolver);

/* "c-ares 1.18.1". Static. */
const char *dns_library(void);

/*
 * Sets how long results are cached, for results from now on; and how often the serial numbers of
 * zones are queried, 0 (at first): never.
 */
void resolver_configure(struct resolver *resolver, usec_t good_ttl, usec_t bad_ttl, usec_t period);

/* A name or a number. false: no memory, or too many names; on_answer() does not come. */
bool resolver_start(struct resolver *resolver, struct resolver_ask *ask, const char *host,
                    uint16_t port,
                    void (*on_answer)(struct resolver_ask *ask, const struct address *address,
                                      const struct err *err),
                    struct err *err);

/* Cancels an ask: on_answer() will not be called. Safe if it is not in use. */
void resolver_cancel(struct resolver_ask *ask);

/* Does nothing for a numeric host, or without memory. */
void resolver_watch_begin(struct resolver *resolver, struct resolver_watch *watch, const char *host,
                          const struct address *address,
                          void (*on_removed)(struct resolver_watch *watch));

/* Ends a watch: on_removed() will not be called. Safe if it is not in use. */
void resolver_watch_end(struct resolver_watch *watch);

/* ---- for SHOW ---- */

unsigned int resolver_name_count(const struct resolver *resolver);  /* names in the cache */
unsigned int resolver_query_count(const struct resolver *resolver); /* running queries */

struct resolver_row {
	const char *host;
	usec_t ttl_left;                 /* 0: the next ask makes a query */
	const struct address *addresses; /* port 0 */
	unsigned int address_count;      /* 0: the last lookup failed */
};

/*
 * The next name after *cursor, which starts at 0 and stays valid when names come or go. false:
 * no more. *row is valid until the resolver is used again.
 */
bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row);

unsigned int resolver_zone_count(const struct resolver *resolver);

struct resolver_zone_row {
	const char *zone;
	uint32_t serial;    /* 0: not known */
	unsigned int count; /* number of its names */
};

/* Returns the next zone, in the same way. */
bool resolver_next_zone(struct resolver *resolver, unsigned long *cursor,
                        struct resolver_zone_row *row);

/*
 * ---- names of addresses ----
 *
 * A name is accepted only if its own addresses include the address. Results are not cached, because
 * clients choose these names and could fill the resolver's table.
 */

#define REVERSE_MAX 1000 /* queries of all kinds that run when one begins */

/* One lookup. Embedded in its owner; zero it before first use. */
struct reverse {
	/*
	 * Called once, from the loop, never by reverse_start(). The lookup can be reused. host:
	 * valid during the call; NULL: there is no acceptable name.
	 */
	void (*on_host)(struct reverse *reverse, const char *host);
	struct resolver *resolver;
	struct address address;
	char *host;              /* the name found for the address, not checked yet */
	struct dns_query *query; /* NULL: not in use */
};

/* Starts a lookup. false: no memory, or too many lookups: *err; on_host() will not be called. */
bool reverse_start(struct resolver *resolver, struct reverse *reverse,
                   const struct address *address,
                   void (*on_host)(struct reverse *reverse, const char *host), struct err *err);

/* Cancels a lookup: on_host() will not be called. Safe if it is not in use. */
void reverse_cancel(struct reverse *reverse);

/* ---- hosts of a service: SRV records, which are not cached ---- */

#define SERVICES_MAX 64 /* of one name; further ones are ignored */
#define SERVICE_NAME_SIZE 256

struct service_host {
	char name[SERVICE_NAME_SIZE];
	uint16_t port;
};

/* What a query has found: of the fields between, only those that it asks for. */
struct dns_answer {
	struct address *addresses;     /* port 0, without duplicates; who takes them leaves NULL */
	struct service_host *services; /* in order of their priority, then of their names */
	char *name;                    /* NULL: none */
	uint32_t serial;
	unsigned int count;  /* of addresses, services or serials; 0: there are none */
	const char *failure; /* why there are none; a static text */
};

/*
 * Called once, at the end of a turn, never by the function that begins the query. `query` is where
 * the owner had it. The answer is valid during the call.
 */
typedef void dns_on_answer(struct dns_query **query, struct dns_answer *answer);

/* Leaves the query in *query, which must be NULL. false: *err; on_answer() will not be called. */
bool resolver_find_services(struct resolver *resolver, const char *name, struct dns_query **query,
                            dns_on_answer *on_answer, struct err *err);

/* Cancels a query: its owner will not be called. Safe if there is none. */
void dns_forget(struct dns_query **query);

#endif
