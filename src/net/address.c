/* SPDX-License-Identifier: ISC */
/*
 * Addresses: parsed from text, read from the kernel, formatted as text.
 *
 * Hard here: the address of a Unix socket does not identify the peer. Its credentials do:
 * process and user at the time of connect().
 */
#include "pgweir/net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "pgweir/base/refs.h"
#include "pgweir/base/err.h"
#include "pgweir/base/text.h"

_Static_assert(sizeof(struct address) <= 32, "an address lies in every client and server");

/* ---- from text and from the kernel ---- */

/* Cuts a "%scope" off `text` into *scope: name or number of a network interface. */
static bool cut_scope(char *text, uint32_t *scope)
{
	char *percent = strchr(text, '%');
	int64_t number;

	*scope = 0;
	if (!percent)
		return true;
	*percent = 0;
	*scope = if_nametoindex(percent + 1);
	if (*scope == 0 && text_to_i64(percent + 1, &number) && number > 0 && number <= UINT32_MAX)
		*scope = (uint32_t)number;
	return *scope != 0;
}

static bool parse_ipv6(struct address *address, const char *text, uint16_t port)
{
	char host[ADDRESS_TEXT_SIZE];
	uint32_t scope;

	if (!text_copy(host, sizeof(host), text) || !cut_scope(host, &scope))
		return false;
	*address = (struct address){
		.in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope }
	};
	return inet_pton(AF_INET6, host, &address->in6.sin6_addr) == 1;
}

bool address_parse(struct address *address, const char *text, uint16_t port)
{
	*address = (struct address){ .in = { .sin_family = AF_INET, .sin_port = htons(port) } };
	if (inet_pton(AF_INET, text, &address->in.sin_addr) == 1 || parse_ipv6(address, text, port))
		return true;
	*address = (struct address){ .family = AF_UNSPEC };
	return false;
}

bool address_from_sockaddr(struct address *address, const struct sockaddr *from, socklen_t size)
{
	*address = (struct address){ .family = AF_UNSPEC };
	if (size < (socklen_t)sizeof(from->sa_family))
		return false;
	if (from->sa_family == AF_INET && size >= (socklen_t)sizeof(address->in))
		memcpy(&address->in, from, sizeof(address->in));
	else if (from->sa_family == AF_INET6 && size >= (socklen_t)sizeof(address->in6))
		memcpy(&address->in6, from, sizeof(address->in6));
	else
		return false;
	return true;
}

static void fill_unix(struct address *address, int fd, uint16_t port)
{
	struct ucred peer = { .pid = 0, .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	address->un = (struct address_unix){
		.family = AF_UNIX, .pid = peer.pid, .uid = peer.uid, .port = port
	};
}

uid_t address_peer_uid(int fd)
{
	struct address address;

	fill_unix(&address, fd, 0);
	return address.un.uid;
}

static bool from_kernel(struct address *address, int fd, uint16_t unix_port,
                        int (*ask)(int fd, struct sockaddr *name, socklen_t *size))
{
	struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
	socklen_t size = sizeof(name);

	*address = (struct address){ .family = AF_UNSPEC };
	if (ask(fd, (struct sockaddr *)&name, &size) != 0)
		return false;
	if (name.ss_family != AF_UNIX)
		return address_from_sockaddr(address, (struct sockaddr *)&name, size);
	fill_unix(address, fd, unix_port);
	return true;
}

bool address_of_peer(struct address *address, int fd, uint16_t unix_port)
{
	return from_kernel(address, fd, unix_port, getpeername);
}

bool address_of_self(struct address *address, int fd, uint16_t unix_port)
{
	return from_kernel(address, fd, unix_port, getsockname);
}

socklen_t address_sockaddr_size(const struct address *address)
{
	return address->family == AF_INET6 ? sizeof(address->in6) : sizeof(address->in);
}

/* ---- parts of an address ---- */

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "the port is at the same place");

uint16_t address_port(const struct address *address)
{
	return address_is_unix(address) ? address->un.port : ntohs(address->in.sin_port);
}

void address_set_port(struct address *address, uint16_t port)
{
	if (address_is_unix(address))
		address->un.port = port;
	else if (address->family != AF_UNSPEC)
		address->in.sin_port = htons(port);
}

bool address_equal_host(const struct address *a, const struct address *b)
{
	if (a->family != b->family)
		return false;
	switch (a->family) {
	case AF_INET:
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	case AF_INET6:
		return a->in6.sin6_scope_id == b->in6.sin6_scope_id &&
		       IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr);
	case AF_UNIX:
		return a->un.pid == b->un.pid && a->un.uid == b->un.uid;
	default:
		return true;
	}
}

bool address_equal(const struct address *a, const struct address *b)
{
	return address_equal_host(a, b) && address_port(a) == address_port(b);
}

bool address_is_among(const struct address *address, const struct address *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (address_equal_host(address, &list[i]))
			return true;
	}
	return false;
}

/* ---- to text ---- */

/* Used for each connection, so it must be cheap: inet_ntop() would call printf(). */
static void add_ipv4(const struct in_addr *in, struct strbuf *out)
{
	const unsigned char *part = (const unsigned char *)&in->s_addr;

	for (int i = 0; i < 4; i++) {
		if (i > 0)
			strbuf_add_bytes(out, ".", 1);
		strbuf_add_number(out, part[i]);
	}
}

static void add_ipv6(const struct sockaddr_in6 *in6, struct strbuf *out)
{
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
	strbuf_add(out, text);
	if (in6->sin6_scope_id) {
		strbuf_add_bytes(out, "%", 1);
		strbuf_add_number(out, in6->sin6_scope_id);
	}
}

static void add_host(const struct address *address, struct strbuf *out)
{
	if (address->family == AF_UNIX)
		strbuf_add(out, "unix");
	else if (address->family == AF_INET)
		add_ipv4(&address->in.sin_addr, out);
	else if (address->family == AF_INET6)
		add_ipv6(&address->in6, out);
	else
		strbuf_add(out, "nowhere");
}

void address_add(const struct address *address, struct strbuf *out)
{
	bool has_brackets = address->family == AF_INET6;

	if (has_brackets)
		strbuf_add_bytes(out, "[", 1);
	add_host(address, out);
	if (has_brackets)
		strbuf_add_bytes(out, "]", 1);
	if (address->family == AF_UNIX) {
		strbuf_add_bytes(out, "(", 1);
		strbuf_add_number(out, (uint64_t)address->un.pid);
		strbuf_add_bytes(out, ")", 1);
	}
	strbuf_add_bytes(out, ":", 1);
	strbuf_add_number(out, address_port(address));
}

const char *address_format_host(const struct address *address, char *out, size_t size)
{
	struct strbuf text = strbuf_begin(out, size);

	add_host(address, &text);
	return out;
}

const char *address_format(const struct address *address, char *out, size_t size)
{
	struct strbuf text = strbuf_begin(out, size);

	address_add(address, &text);
	return out;
}

/* ---- names of Unix sockets ---- */

bool address_unix_name(struct sockaddr_un *name, socklen_t *size, const char *path, struct err *err)
{
	size_t count = strlen(path);
	bool is_abstract = path[0] == '@';

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (count == 0)
		return err_set(err, ERR_CONFIG, "a Unix socket needs a name");
	/* An abstract name has no terminating zero: the size tells its length. */
	if (count + !is_abstract > sizeof(name->sun_path))
		return err_set(err, ERR_CONFIG,
		               "the Unix socket's name %s is longer than %zu bytes", path,
		               sizeof(name->sun_path) - 1);
	memcpy(name->sun_path, path, count);
	if (is_abstract)
		name->sun_path[0] = 0;
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + count + !is_abstract);
	return true;
}

const char *address_unix_path(char out[ADDRESS_UNIX_PATH_SIZE], const char *dir, int port)
{
	if (dir && *dir)
		snprintf(out, ADDRESS_UNIX_PATH_SIZE, "%s/.s.PGSQL.%d", dir, port);
	else
		*out = 0;
	return out;
}

/*
 * ---- range ----
 *
 * An address with bits outside its mask gets its own result: it is probably a mistake.
 * PostgreSQL accepts it as the whole range, PgBouncer as a range that matches no address.
 */

#define BITS_MAX 128
#define BITS_IPV4 32

/* IPv4 in its IPv6 form: ::ffff:10.0.0.1. false: the address is of neither. */
static bool bits_of(const struct address *address, unsigned char out[16])
{
	memset(out, 0, 16);
	if (address->family == AF_INET6) {
		memcpy(out, &address->in6.sin6_addr, 16);
		return true;
	}
	out[10] = out[11] = 0xff;
	memcpy(out + 12, &address->in.sin_addr, 4);
	return address->family == AF_INET;
}

static bool is_ipv4(const unsigned char bits[16])
{
	static const unsigned char prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(bits, prefix, sizeof(prefix)) == 0;
}

/* The first `bits` of the address are those of the range. */
static void set_bits(struct range *range, unsigned int bits)
{
	if (range->family == AF_INET)
		bits += BITS_MAX - BITS_IPV4;
	memset(range->mask, 0, sizeof(range->mask));
	for (unsigned int i = 0; i < bits; i++)
		range->mask[i / 8] |= (unsigned char)(0x80u >> i % 8);
}

static struct range range_of_host(const struct address *address)
{
	struct range range = { .family = address->family };

	bits_of(address, range.first);
	memset(range.mask, 0xff, sizeof(range.mask));
	return range;
}

struct address range_address(const struct range *range, const unsigned char bits[16])
{
	struct address address = { .family = range->family };

	if (range->family == AF_INET)
		memcpy(&address.in.sin_addr, bits + 12, 4);
	else
		memcpy(&address.in6.sin6_addr, bits, 16);
	return address;
}

static enum range_result check_bits(const struct range *range, struct err *err)
{
	struct address first;
	unsigned char bits[16];
	char text[ADDRESS_TEXT_SIZE];

	for (size_t i = 0; i < sizeof(bits); i++)
		bits[i] = range->first[i] & range->mask[i];
	if (memcmp(bits, range->first, sizeof(bits)) == 0)
		return RANGE_OK;
	first = range_address(range, bits);
	err_set(err, ERR_CONFIG, "the address has bits outside of its mask: the range begins at %s",
	        address_format_host(&first, text, sizeof(text)));
	return RANGE_LOOSE;
}

static bool parse_host(struct address *address, const char *text)
{
	return !strchr(text, '%') && address_parse(address, text, 0);
}

enum range_result range_parse(struct range *range, const char *text, struct err *err)
{
	const char *slash = strchr(text, '/');
	char host[ADDRESS_TEXT_SIZE];
	struct address address;
	int64_t bits, most;

	if (!text_copy(host, sizeof(host), text))
		return RANGE_NAME;
	if (slash)
		host[slash - text] = 0;
	if (!parse_host(&address, host))
		return RANGE_NAME;
	*range = range_of_host(&address);
	if (!slash)
		return RANGE_NO_MASK;
	most = range->family == AF_INET6 ? BITS_MAX : BITS_IPV4;
	if (!text_to_i64(slash + 1, &bits) || bits < 0 || bits > most) {
		err_set(err, ERR_CONFIG, "the mask of %s must be a number from 0 to %d", host,
		        (int)most);
		return RANGE_BAD;
	}
	set_bits(range, (unsigned int)bits);
	return check_bits(range, err);
}

enum range_result range_set_mask(struct range *range, const char *text, struct err *err)
{
	struct address mask;

	if (!parse_host(&mask, text)) {
		err_set(err, ERR_CONFIG, "%s is not a mask", text);
		return RANGE_BAD;
	}
	if (mask.family != range->family) {
		err_set(err, ERR_CONFIG, "the address and its mask %s are not of the same kind",
		        text);
		return RANGE_BAD;
	}
	bits_of(&mask, range->mask);
	return check_bits(range, err);
}

bool range_has(const struct range *range, const struct address *address)
{
	unsigned char bits[16];

	if (!bits_of(address, bits) || is_ipv4(bits) != is_ipv4(range->first))
		return false;
	for (size_t i = 0; i < sizeof(bits); i++) {
		if (((bits[i] ^ range->first[i]) & range->mask[i]) != 0)
			return false;
	}
	return true;
}

/* ---- ranges ---- */

struct ranges {
	struct refs refs; /* everything else never changes */
	bool has_unix;
	size_t count;
	struct range list[];
};

REFS_FUNCTIONS(ranges_hold, ranges_release, struct ranges, free)

static bool add(struct ranges *ranges, const char *text, struct err *err)
{
	if (strcmp(text, "unix") == 0) {
		ranges->has_unix = true;
		return true;
	}
	switch (range_parse(&ranges->list[ranges->count], text, err)) {
	case RANGE_OK:
	case RANGE_NO_MASK:
		ranges->count++;
		return true;
	case RANGE_NAME:
		return err_set(err, ERR_CONFIG, "\"%s\" is not an address, a range or \"unix\"",
		               text);
	case RANGE_LOOSE:
	case RANGE_BAD:
		break;
	}
	return false;
}

struct ranges *ranges_new(char *const *texts, size_t count, struct err *err)
{
	struct ranges *ranges =
	    err_calloc(sizeof(*ranges) + count * sizeof(ranges->list[0]), "out of memory", err);

	for (size_t i = 0; ranges && i < count; i++) {
		if (!add(ranges, texts[i], err))
			ranges_release(&ranges);
	}
	return ranges;
}

bool ranges_have(const struct ranges *ranges, const struct address *address)
{
	if (!ranges)
		return false;
	if (address_is_unix(address))
		return ranges->has_unix;
	for (size_t i = 0; i < ranges->count; i++) {
		if (range_has(&ranges->list[i], address))
			return true;
	}
	return false;
}

/* ---- interfaces: by getifaddrs(), which does not block ---- */

static bool read_address(struct address *address, const struct sockaddr *from)
{
	socklen_t size = from && from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                     : sizeof(struct sockaddr_in);

	return from && address_from_sockaddr(address, from, size);
}

static bool has(const struct ifaddrs *interface, const struct address *address,
                enum interfaces_part part)
{
	struct address ours, mask;
	struct range range;

	if (!read_address(&ours, interface->ifa_addr))
		return false;
	range = range_of_host(&ours);
	/* A tunnel may have no mask, or 0: such a "network" must not include all addresses. */
	if (part == INTERFACES_NET && read_address(&mask, interface->ifa_netmask) &&
	    !address_equal_host(&mask, &(struct address){ .family = mask.family }))
		bits_of(&mask, range.mask);
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
