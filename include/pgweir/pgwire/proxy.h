/* SPDX-License-Identifier: ISC */
/*
 * The PROXY header: sent by a proxy in front of a connection that it forwards, to report the
 * client's address. Text (version 1) or binary (version 2).
 *
 * Source: "The PROXY protocol, versions 1 & 2", by HAProxy's authors.
 */
#ifndef PGWEIR_PGWIRE_PROXY_H
#define PGWEIR_PGWIRE_PROXY_H

#include "pgweir/base/err.h"
#include "pgweir/pgwire/frame.h"

#define PROXY_V1_MAX 107 /* bytes of the longest header of version 1 */
/* bytes of a header of version 2 before the addresses */
#define PROXY_V2_SIZE 16
#define PROXY_HEADER_MAX (PROXY_V2_SIZE + 0xffff) /* bytes of the longest header */

enum proxy_source {
	PROXY_ITSELF,  /* the proxy's own connection (a health check) */
	PROXY_UNKNOWN, /* a client; the header has no IP address of it */
	PROXY_IPV4,
	PROXY_IPV6
};

struct proxy {
	enum proxy_source source;
	uint16_t port; /* the client's port, host byte order */
	/* the client's address, network byte order; IPv4: the first four bytes */
	unsigned char host[16];
	uint32_t length; /* bytes of the whole header */
};

/*
 * Whether the bytes that have arrived can begin a PROXY header. No packet of PostgreSQL begins
 * like one. false also if nothing has arrived.
 */
bool proxy_begins(struct bytes in);

/*
 * Parses the header at the start of `in`, for which proxy_begins() must be true. Consumes
 * nothing and keeps no pointer. WIRE_BAD as soon as the header is certainly invalid: *err says
 * why.
 *
 * In version 2, extensions after the addresses must be well-formed, and a CRC32C among them
 * must be right; other extensions are ignored. The content of headers without addresses (LOCAL,
 * UNSPEC) is ignored, as the source demands.
 */
enum wire_result proxy_read(struct bytes in, struct proxy *proxy, struct err *err);

#endif
