/* SPDX-License-Identifier: ISC */
/*
 * Failed logins by address.
 */
#include "pgweir/auth/failures.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/table.h"

/* What failures are counted for: an IPv4 address, or a /64 network of IPv6. */
struct network {
	uint32_t family;
	unsigned char bytes[8];
};

struct failure {
	UT_hash_handle hh;
	struct network network;
	unsigned int count;
};

void failures_init(struct failures *failures)
{
	*failures = (struct failures){ 0 };
	hash_key_draw(&failures->secret);
}

/* false: the address has no network. */
static bool network_of(const struct address *address, struct network *network)
{
	*network = (struct network){ .family = address->family };
	if (address->family == AF_INET)
		memcpy(network->bytes, &address->in.sin_addr, 4);
	else if (address->family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr))
		memcpy(network->bytes, address->in6.sin6_addr.s6_addr + 8, 8);
	else if (address->family == AF_INET6)
		memcpy(network->bytes, address->in6.sin6_addr.s6_addr, 8);
	else
		return false;
	return true;
}

static struct failure *find(const struct failures *failures, const struct network *network)
{
	return TABLE_GET(hh, &failures->secret, failures->table, network, sizeof(*network));
}

bool failures_reach(const struct failures *failures, const struct address *address, int limit)
{
	const struct failure *failure;
	struct network network;

	if (limit <= 0 || !network_of(address, &network))
		return false;
	failure = find(failures, &network);
	return failure && failure->count >= (unsigned int)limit;
}

struct failure *failures_count(struct failures *failures, const struct address *address)
{
	struct failure *failure;
	struct network network;

	if (!network_of(address, &network))
		return NULL;
	failure = find(failures, &network);
	if (!failure) {
		failure = calloc(1, sizeof(*failure));
		if (!failure)
			return NULL;
		failure->network = network;
		TABLE_ADD(hh, &failures->secret, failures->table, &failure->network,
		          sizeof(failure->network), failure);
	}
	failure->count++;
	return failure;
}

void failures_forget(struct failures *failures, struct failure *failure)
{
	if (!failure || --failure->count)
		return;
	HASH_DEL(failures->table, failure);
	free(failure);
}
