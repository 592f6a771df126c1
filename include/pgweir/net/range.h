/* SPDX-License-Identifier: ISC */
/*
 * A range of IP addresses: all that agree with an address in the bits of a mask.
 */
#ifndef PGWEIR_NET_RANGE_H
#define PGWEIR_NET_RANGE_H

#include "pgweir/base/err.h"
#include "pgweir/net/address.h"

struct range {
	struct address address; /* bits outside the mask are ignored */
	struct address mask;    /* of the same family */
};

enum range_result {
	RANGE_OK,
	RANGE_NO_MASK, /* an address without a mask: one may follow, otherwise it means this host */
	RANGE_NAME,    /* not a numeric address at all */
	RANGE_LOOSE,   /* the address has bits outside the mask; *err says where the range begins */
	RANGE_BAD      /* *err says why */
};

/* Returns the range with only this address (IPv4 or IPv6). */
struct range range_of_host(const struct address *address);

/*
 * Parses ADDRESS or ADDRESS/BITS. After RANGE_NO_MASK all bits of the mask are set, and
 * range_set_mask() can change it.
 */
enum range_result range_parse(struct range *range, const char *text, struct err *err);

/* Parses a mask such as 255.255.255.0. Returns RANGE_OK, RANGE_LOOSE or RANGE_BAD. */
enum range_result range_set_mask(struct range *range, const char *text, struct err *err);

/*
 * Whether the address is in the range. An IPv4-mapped IPv6 address (::ffff:10.0.0.1) is treated
 * as IPv4, on both sides.
 */
bool range_has(const struct range *range, const struct address *address);

#endif
