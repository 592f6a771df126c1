/* SPDX-License-Identifier: ISC */
/*
 * The network interfaces of this host, as they are at the moment of the question.
 */
#ifndef PGWEIR_NET_INTERFACES_H
#define PGWEIR_NET_INTERFACES_H

#include "pgweir/net/address.h"

enum interfaces_part {
	INTERFACES_HOST, /* the very addresses of this host */
	INTERFACES_NET   /* the networks that it is in */
};

/* Whether the address is one of ours, or in one of our networks. Never waits. */
bool interfaces_have(const struct address *address, enum interfaces_part part);

#endif
