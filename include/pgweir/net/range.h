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

/*
 * ---- ranges ----
 *
 * A list of address ranges, such as those of trusted proxies. A list is immutable and counts its
 * references, so any thread may use one to which it holds a reference.
 */

struct ranges;

/*
 * Each text is ADDRESS, ADDRESS/BITS, or the word "unix" for clients of Unix sockets. The caller
 * owns one reference. NULL: *err says which text is invalid.
 */
struct ranges *ranges_new(char *const *texts, size_t count, struct err *err);

/* Adds a reference and returns it. */
struct ranges *ranges_hold(struct ranges *ranges);

/* Releases a reference and sets NULL; accepts NULL. */
void ranges_release(struct ranges **ranges);

/* Whether one of the ranges contains the address. NULL contains none. */
bool ranges_have(const struct ranges *ranges, const struct address *address);

/*
 * ---- interfaces ----
 *
 * The network interfaces of this host, as they are at the time of the call.
 */

enum interfaces_part {
	INTERFACES_HOST, /* the addresses of this host */
	INTERFACES_NET   /* the networks of its interfaces */
};

/* Whether the address is one of ours, or in one of our networks. Does not block. */
bool interfaces_have(const struct address *address, enum interfaces_part part);

#endif
