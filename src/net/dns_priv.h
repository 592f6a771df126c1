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

/* The numbers of the others are those of the records. */
enum dns_kind {
	DNS_ADDRESSES,    /* of a host */
	DNS_SERIAL = 6,   /* of a zone (its SOA record) */
	DNS_SERVICES = 33 /* the hosts of a service (SRV) */
};

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
