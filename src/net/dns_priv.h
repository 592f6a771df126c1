/* SPDX-License-Identifier: ISC */
/*
 * Queries by c-ares within the loop; the resolver's cache stands above it.
 */
#ifndef PGWEIR_NET_DNS_PRIV_H
#define PGWEIR_NET_DNS_PRIV_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"
#include "pgweir/net/resolver.h"

#define DNS_ADDRESSES_MAX 64 /* of one name; more are left out */

struct dns;

/*
 * Comes once, perhaps from within dns_query(), and from within dns_free() for
 * what is still under way. No call of dns_*() may be made from within.
 * count 0: `failure` says why, in words that are static.
 * `addresses` (port 0, each once) are good until it returns.
 */
typedef void dns_on_found(void *arg, const struct address *addresses, unsigned int count,
                          const char *failure);

/* Copies what it needs of the options. NULL: *err says why. */
struct dns *dns_new(struct loop *loop, const struct resolver_options *options, struct err *err);
void dns_free(struct dns **dns);

/* false: no query can be made; on_found() does not come. */
bool dns_query(struct dns *dns, const char *host, dns_on_found *on_found, void *arg,
               struct err *err);

/* The same rules as for dns_on_found. NULL: `failure` says why there is no serial number. */
typedef void dns_on_serial(void *arg, const uint32_t *serial, const char *failure);

/* Asks for the serial number of a zone (its SOA record). false as above. */
bool dns_query_serial(struct dns *dns, const char *zone, dns_on_serial *on_serial, void *arg,
                      struct err *err);

/* The same rules as for dns_on_found. NULL: `failure` says why there is no name. */
typedef void dns_on_name(void *arg, const char *name, const char *failure);

/* Asks what the host at an IP address is called (its PTR record). false as above. */
bool dns_query_name(struct dns *dns, const struct address *address, dns_on_name *on_name, void *arg,
                    struct err *err);

/* Name and version of the library. Static. */
const char *dns_library(void);

/* Queries under way. */
unsigned int dns_query_count(const struct dns *dns);

#endif
