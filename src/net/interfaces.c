/* SPDX-License-Identifier: ISC */
/*
 * The network interfaces of this host, by getifaddrs(), which does not block.
 */
#include "pgweir/net/interfaces.h"

#include <ifaddrs.h>
#include <string.h>

#include "pgweir/net/range.h"

#include "pgweir/base/banned.h"

static bool read_address(struct address *address, const struct sockaddr *from)
{
	socklen_t size = from && from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                     : sizeof(struct sockaddr_in);

	return from && address_from_sockaddr(address, from, size);
}

static bool is_zero(const struct address *mask)
{
	static const struct in6_addr none;

	return mask->family == AF_INET6 ? IN6_ARE_ADDR_EQUAL(&mask->in6.sin6_addr, &none)
	                                : mask->in.sin_addr.s_addr == 0;
}

static bool has(const struct ifaddrs *interface, const struct address *address,
                enum interfaces_part part)
{
	struct address ours, mask;
	struct range range;

	if (!read_address(&ours, interface->ifa_addr))
		return false;
	range = range_of_host(&ours);
	/*
	 * A tunnel may have no mask, or the mask 0. Such a "network" must not include all
	 * addresses.
	 */
	if (part == INTERFACES_NET && read_address(&mask, interface->ifa_netmask) &&
	    !is_zero(&mask))
		range.mask = mask;
	return range_has(&range, address);
}

bool interfaces_have(const struct address *address, enum interfaces_part part)
{
	struct ifaddrs *interfaces;
	bool is_found = false;

	if (getifaddrs(&interfaces) != 0)
		return false;
	for (const struct ifaddrs *at = interfaces; at && !is_found; at = at->ifa_next)
		is_found = has(at, address, part);
	freeifaddrs(interfaces);
	return is_found;
}
