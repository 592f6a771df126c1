/* SPDX-License-Identifier: ISC */
/*
 * DNS queries by c-ares, in the loop: what the resolver is above.
 */
#ifndef PGWEIR_NET_DNS_PRIV_H
#define PGWEIR_NET_DNS_PRIV_H

#include "pgweir/loop/loop.h"
#include "pgweir/net/resolver.h"

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

unsigned int dns_running_count(const struct dns *dns);

/*
 * Looks up a name, or the name of the host at an IP address (PTR), and leaves the query in *query.
 * false: no query can be made; on_answer() will not be called.
 */
bool dns_query(struct dns *dns, enum dns_kind kind, const char *name, struct dns_query **query,
               dns_on_answer *on_answer, struct err *err);
bool dns_query_name(struct dns *dns, const struct address *address, struct dns_query **query,
                    dns_on_answer *on_answer, struct err *err);

#endif
