/* SPDX-License-Identifier: ISC */
/*
 * The network interfaces of this host, as they are at the time of the call.
 */
#ifndef PGWEIR_NET_INTERFACES_H
#define PGWEIR_NET_INTERFACES_H

#include "pgweir/net/address.h"

enum interfaces_part {
	INTERFACES_HOST, /* the addresses of this host */
	INTERFACES_NET   /* the networks of its interfaces */
};

/* Whether the address is one of ours, or in one of our networks. Does not block. */
bool interfaces_have(const struct address *address, enum interfaces_part part);

#endif
