/* SPDX-License-Identifier: ISC */
/*
 * The header that a proxy puts before a connection that it passes on: who the
 * client is. Text (version 1) or binary (version 2).
 *
 * Source: "The PROXY protocol, versions 1 & 2", by HAProxy's authors.
 */
#ifndef PGWEIR_PGWIRE_PROXY_H
#define PGWEIR_PGWIRE_PROXY_H

#include "pgweir/base/err.h"
#include "pgweir/pgwire/frame.h"

#define PROXY_V1_MAX 107                          /* bytes of a header of version 1 */
#define PROXY_V2_SIZE 16                          /* bytes of version 2 before the addresses */
#define PROXY_HEADER_MAX (PROXY_V2_SIZE + 0xffff) /* bytes of any header */

enum proxy_source {
	PROXY_ITSELF,  /* the proxy talks for itself (a health check): the connection's own address
	                */
	PROXY_UNKNOWN, /* a client whose address the header does not say, or not as an IP address */
	PROXY_IPV4,
	PROXY_IPV6
};

struct proxy {
	enum proxy_source source;
	uint16_t port;          /* the client's, host order */
	unsigned char host[16]; /* the client's, network order; of IPv4 the first four */
	uint32_t length;        /* bytes of the whole header */
};

/*
 * Whether `in` begins with such a header, as far as it has come: no packet of
 * PostgreSQL's begins like one. false also when nothing has come.
 */
bool proxy_begins(struct bytes in);

/*
 * Reads the header at the start of `in`, which must proxy_begins(). Takes
 * nothing, keeps no pointer. WIRE_BAD as soon as it is certain: *err says why.
 *
 * Of version 2 whatever stands behind the addresses must be well-formed, and a
 * CRC32C that is among it must be right; the rest is not looked at. Headers
 * without addresses (LOCAL, UNSPEC) are stepped over, as the source demands.
 */
enum wire_result proxy_read(struct bytes in, struct proxy *proxy, struct err *err);

#endif
