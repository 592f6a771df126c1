/* SPDX-License-Identifier: ISC */
/*
 * A range of IP addresses: those that agree with one in the bits of a mask.
 */
#ifndef PGWEIR_NET_RANGE_H
#define PGWEIR_NET_RANGE_H

#include "pgweir/base/err.h"
#include "pgweir/net/address.h"

struct range {
	struct address address; /* bits outside of the mask do not count */
	struct address mask;    /* of the same family */
};

enum range_result {
	RANGE_OK,
	RANGE_NO_MASK, /* an address alone: its mask may follow, or it means this one host */
	RANGE_NAME,    /* not a numeric address at all */
	RANGE_LOOSE,   /* the address has bits outside of the mask; *err says where it begins */
	RANGE_BAD      /* *err says why */
};

/* This one address, IPv4 or IPv6. */
struct range range_of_host(const struct address *address);

/*
 * Reads ADDRESS or ADDRESS/BITS. After RANGE_NO_MASK the mask has all bits;
 * range_set_mask() gives it another.
 */
enum range_result range_parse(struct range *range, const char *text, struct err *err);

/* Reads a mask such as 255.255.255.0. RANGE_OK, RANGE_LOOSE or RANGE_BAD. */
enum range_result range_set_mask(struct range *range, const char *text, struct err *err);

/* An IPv4 address that is written as IPv6 (::ffff:10.0.0.1) is that IPv4 address, on both sides. */
bool range_has(const struct range *range, const struct address *address);

#endif
