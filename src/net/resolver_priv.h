/* SPDX-License-Identifier: ISC */
/*
 * Names and zones of the resolver, and DNS queries: internal to the module.
 */
#ifndef PGWEIR_NET_RESOLVER_PRIV_H
#define PGWEIR_NET_RESOLVER_PRIV_H

#define HASH_NONFATAL_OOM 1 /* out of memory: the element is not added and its hh.tbl is NULL */
#include "pgweir/base/table.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/resolver.h"

TAILQ_HEAD(ask_list, resolver_ask);
TAILQ_HEAD(watch_list, resolver_watch);
TAILQ_HEAD(name_list, resolver_name);

struct resolver_name {
	struct resolver *resolver;
	UT_hash_handle hh; /* tbl NULL: a numeric address, for one ask */
	unsigned long serial;
	struct timer expiry; /* set: the stored result is valid */
	struct task task;    /* answers `asks` */
	struct ask_list asks;
	struct watch_list watches;
	struct dns_query *query;    /* NULL: none is running */
	struct resolver_zone *zone; /* NULL: none */
	TAILQ_ENTRY(resolver_name) zone_node;
	struct address *addresses;
	unsigned int address_count;
	unsigned int next;   /* index of the next address to return */
	const char *failure; /* NULL: never looked up; why there is no address, a static text */
	bool is_busy;        /* owners are being called */
	char host[];
};

struct resolver {
	struct loop *loop;
	struct dns *dns;
	usec_t good_ttl;
	usec_t bad_ttl;
	struct resolver_name *names;
	struct resolver_name *last_row; /* for resolver_next_row() */
	struct resolver_zone *zones;
	usec_t zone_period;
	unsigned long serial;
	unsigned int rotation; /* index of the first address for the next result */
	struct resolver *next; /* a ring of the resolvers of all loops */
};

/* A zone: what follows the first dot of a name. It ends with its last name. */
struct resolver_zone {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long number; /* for resolver_next_zone() */
	struct name_list names;
	unsigned int name_count;
	struct timer timer; /* when to query the serial number again */
	struct dns_query *query;
	uint32_t serial;
	bool has_serial;
	char text[];
};

/* Adds a name to its zone, or removes it, together with its position in the table. */
void resolver_zone_enter(struct resolver_name *name);
void resolver_zone_leave(struct resolver_name *name);

/* Looks it up again, even if its result is valid. */
void resolver_refresh_name(struct resolver_name *name);

/* ---- DNS queries by c-ares, in the loop: dns.c ---- */

#define DNS_ADDRESSES_MAX 64 /* per name; further addresses are ignored */

struct dns;

enum dns_kind {
	DNS_ADDRESSES, /* of a host */
	DNS_SERIAL,    /* of a zone (its SOA record) */
	DNS_SERVICES   /* the hosts of a service (SRV) */
};

/* What a query has found: of the fields between, only those that it asks for. */
struct dns_answer {
	struct address *addresses; /* port 0, without duplicates; who takes them leaves NULL */
	struct service_host *services;
	char *name; /* NULL: none */
	uint32_t serial;
	unsigned int count;  /* of addresses, services or serials; 0: there are none */
	const char *failure; /* why there are none; a static text */
};

/*
 * Called once, at the end of a turn, never by dns_query*(). `query` is where the owner had it. The
 * answer is valid during the call.
 */
typedef void dns_on_answer(struct dns_query **query, struct dns_answer *answer);

/* Copies the options it needs. NULL: *err says why. */
struct dns *dns_new(struct loop *loop, const struct resolver_options *options, struct err *err);
void dns_free(struct dns **dns);

/*
 * Looks up a name, or the name of the host at an IP address (PTR), and leaves the query in *query.
 * false: no query can be made; on_answer() will not be called.
 */
bool dns_query(struct dns *dns, enum dns_kind kind, const char *name, struct dns_query **query,
               dns_on_answer *on_answer, struct err *err);
bool dns_query_name(struct dns *dns, const struct address *address, struct dns_query **query,
                    dns_on_answer *on_answer, struct err *err);

#endif
