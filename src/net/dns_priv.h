/* SPDX-License-Identifier: ISC */
/*
 * DNS queries by c-ares, in the loop. The resolver's cache uses them.
 */
#ifndef PGWEIR_NET_DNS_PRIV_H
#define PGWEIR_NET_DNS_PRIV_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"
#include "pgweir/net/resolver.h"

#define DNS_ADDRESSES_MAX 64 /* per name; further addresses are ignored */

struct dns;

/*
 * Called once per query: possibly by dns_query() itself, and by dns_free() for queries that
 * still run. It must not call dns_*(). count 0: `failure` is the reason, a static text.
 * `addresses` (port 0, without duplicates) are valid during the call.
 */
typedef void dns_on_found(void *arg, const struct address *addresses, unsigned int count,
                          const char *failure);

/* Copies the options it needs. NULL: *err says why. */
struct dns *dns_new(struct loop *loop, const struct resolver_options *options, struct err *err);
void dns_free(struct dns **dns);

/*
 * Looks up the addresses of a host. false: no query can be made; on_found() will not be called.
 */
bool dns_query(struct dns *dns, const char *host, dns_on_found *on_found, void *arg,
               struct err *err);

/* Same rules as for dns_on_found. serial NULL: `failure` is the reason. */
typedef void dns_on_serial(void *arg, const uint32_t *serial, const char *failure);

/* Looks up the serial number of a zone (its SOA record). false: as above. */
bool dns_query_serial(struct dns *dns, const char *zone, dns_on_serial *on_serial, void *arg,
                      struct err *err);

/* Same rules as for dns_on_found. name NULL: `failure` is the reason. */
typedef void dns_on_name(void *arg, const char *name, const char *failure);

/* Looks up the name of the host at an IP address (its PTR record). false: as above. */
bool dns_query_name(struct dns *dns, const struct address *address, dns_on_name *on_name, void *arg,
                    struct err *err);

/* Name and version of the library. Static. */
const char *dns_library(void);

/* Number of running queries. */
unsigned int dns_query_count(const struct dns *dns);

#endif
