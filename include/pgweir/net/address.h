/* SPDX-License-Identifier: ISC */
/*
 * The address of a peer: an IP address with a port, or the peer of a Unix socket. A plain
 * value, which may be copied. All zero: none (AF_UNSPEC).
 */
#ifndef PGWEIR_NET_ADDRESS_H
#define PGWEIR_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "pgweir/base/err.h"
#include "pgweir/base/text.h"

/* Identifies the peer of a Unix socket: the process that connected. */
struct address_unix {
	sa_family_t family; /* AF_UNIX */
	pid_t pid;          /* 0 = not known */
	uid_t uid;          /* (uid_t)-1 = not known */
	uint16_t port;      /* of the socket's name, host byte order: shown as port by SHOW */
};

struct address {
	union {
		sa_family_t family; /* AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX */
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct address_unix un;
	};
};

/* Size of the longest text of an address, with port and terminating zero: [v6%scope]:port. */
#define ADDRESS_TEXT_SIZE 80

/* Parses a numeric address, without brackets. false: it is a name, or invalid. */
bool address_parse(struct address *address, const char *text, uint16_t port);

/* Copies an address from the kernel or a resolver. false: neither IPv4 nor IPv6. */
bool address_from_sockaddr(struct address *address, const struct sockaddr *from, socklen_t size);

/* For bind() and connect(). Only for IP addresses. */
static inline const struct sockaddr *address_sockaddr(const struct address *address)
{
	return &address->any;
}
socklen_t address_sockaddr_size(const struct address *address);

/*
 * Of the remote and the local end of a socket. Unix: the credentials of the peer, with
 * `unix_port`. false: it is not connected.
 */
bool address_of_peer(struct address *address, int fd, uint16_t unix_port);
bool address_of_self(struct address *address, int fd, uint16_t unix_port);

/* The system user at the other end of a Unix socket. (uid_t)-1: not known. */
uid_t address_peer_uid(int fd);

static inline bool address_is_unix(const struct address *address)
{
	return address->family == AF_UNIX;
}

/* Returns the port in host byte order; 0 for AF_UNSPEC. */
uint16_t address_port(const struct address *address);
void address_set_port(struct address *address, uint16_t port);

/* The same host and, for address_equal(), port. Unix sockets: the same process. */
bool address_equal_host(const struct address *a, const struct address *b);
bool address_equal(const struct address *a, const struct address *b);

/* Whether the same host is in a list. */
bool address_is_among(const struct address *address, const struct address *list,
                      unsigned int count);

/* Adds the text of address_format() to a line. */
void address_add(const struct address *address, struct strbuf *out);

/*
 * Formats an address into `out` of `size` bytes (truncated if too short) and returns it.
 *
 *   address_format       127.0.0.1:5432   [::1]:5432   unix(4711):6432   as in log lines
 *   address_format_host  127.0.0.1        ::1          unix              as in SHOW
 */
const char *address_format(const struct address *address, char *out, size_t size);
const char *address_format_host(const struct address *address, char *out, size_t size);

/*
 * Fills the name of a Unix socket: a path, or with a leading '@' an abstract name. false: too
 * long (*err says how long it may be).
 */
struct sockaddr_un;
bool address_unix_name(struct sockaddr_un *name, socklen_t *size, const char *path,
                       struct err *err);

/* longer than a socket's path may be, so that address_unix_name() sees one that is too long */
#define ADDRESS_UNIX_PATH_SIZE 512

/* Writes PostgreSQL's name of a socket, DIR/.s.PGSQL.PORT; "" if dir is NULL or "". */
const char *address_unix_path(char out[ADDRESS_UNIX_PATH_SIZE], const char *dir, int port);

/* ---- range: all IP addresses that agree with an address in the bits of a mask ---- */

struct range {
	sa_family_t family;                /* as it is written */
	unsigned char first[16], mask[16]; /* an IPv4 address is ::ffff:10.0.0.1 */
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

/* The first address or the mask as it is written. */
struct address range_address(const struct range *range, const unsigned char bits[16]);

/* An IPv4-mapped IPv6 address (::ffff:10.0.0.1) is treated as IPv4, on both sides. */
bool range_has(const struct range *range, const struct address *address);

/* ---- ranges: a list such as that of trusted proxies, with references ---- */

struct ranges;

/*
 * Each text is ADDRESS, ADDRESS/BITS, or the word "unix" for clients of Unix sockets. The caller
 * owns one reference. NULL: *err says which text is invalid.
 */
struct ranges *ranges_new(char *const *texts, size_t count, struct err *err);

struct ranges *ranges_hold(struct ranges *ranges);
void ranges_release(struct ranges **ranges);

/* Whether one of the ranges contains the address. NULL contains none. */
bool ranges_have(const struct ranges *ranges, const struct address *address);

/* ---- the network interfaces of this host, as they are at the time of the call ---- */

enum interfaces_part {
	INTERFACES_HOST, /* the addresses of this host */
	INTERFACES_NET   /* the networks of its interfaces */
};

/* Whether the address is one of ours, or in one of our networks. Does not block. */
bool interfaces_have(const struct address *address, enum interfaces_part part);

#endif
