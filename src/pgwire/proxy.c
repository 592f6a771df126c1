/* SPDX-License-Identifier: ISC */
/*
 * PROXY headers.
 *
 *   PROXY TCP4 192.0.2.7 192.0.2.1 56324 6432 \r \n            version 1
 *
 *   signature (12) | version, command | family | length (2)    version 2
 *   addresses | type, length (2), value | ...
 *
 * Hard here: if we accepted a header that the proxy did not write in this form, an attacker
 * could make us see another client address than the proxy saw. So exactly one form of each
 * value is accepted, and everything else is refused.
 */
#include "pgweir/pgwire/proxy.h"

#include <arpa/inet.h>

#define V1_BEGIN "PROXY "
#define V2_BEGIN "\r\n\r\n\0\r\nQUIT\n"
#define V2_BEGIN_SIZE 12

#define V2_LOCAL 0x20
#define V2_PROXY 0x21

#define TLV_HEADER_SIZE 3
#define TLV_CRC32C 0x03

static enum wire_result bad(struct err *err, const char *words)
{
	err_set(err, ERR_PROTOCOL, "bad PROXY header: %s", words);
	return WIRE_BAD;
}

/* Whether `in` and `begin` are equal up to the end of the shorter one. */
static bool agree(struct bytes in, const char *begin, size_t count)
{
	return memcmp(in.at, begin, in.count < count ? in.count : count) == 0;
}

bool proxy_begins(struct bytes in)
{
	return in.count > 0 &&
	       (agree(in, V1_BEGIN, sizeof(V1_BEGIN) - 1) || agree(in, V2_BEGIN, V2_BEGIN_SIZE));
}

/* ---- version 1 ---- */

/* Parses the next word. One blank follows each word except the last, which ends with the line. */
static bool take_header_word(struct bytes *line, bool is_last, char *out, size_t size)
{
	const char *blank = memchr(line->at, ' ', line->count);
	size_t count = blank ? (size_t)(blank - line->at) : line->count;

	if (is_last != !blank || count == 0 || count >= size)
		return false;
	memcpy(out, line->at, count);
	out[count] = 0;
	*line = bytes_skip(*line, count + (blank ? 1 : 0));
	return true;
}

static bool read_port(const char *text, uint16_t *port)
{
	unsigned int value = 0;

	if (text[0] == '0' && text[1])
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (unsigned int)(*text - '0');
		if (value > UINT16_MAX)
			return false;
	}
	*port = (uint16_t)value;
	return true;
}

/* The format is "source target source-port target-port". */
static bool read_v1_addresses(struct bytes line, int family, struct proxy *proxy)
{
	char source[INET6_ADDRSTRLEN], target[INET6_ADDRSTRLEN], port[6], target_port[6];
	unsigned char ignored[16];
	uint16_t ignored_port;

	return take_header_word(&line, false, source, sizeof(source)) &&
	       take_header_word(&line, false, target, sizeof(target)) &&
	       take_header_word(&line, false, port, sizeof(port)) &&
	       take_header_word(&line, true, target_port, sizeof(target_port)) &&
	       inet_pton(family, source, proxy->host) == 1 &&
	       inet_pton(family, target, ignored) == 1 && read_port(port, &proxy->port) &&
	       read_port(target_port, &ignored_port);
}

/* `line` is what follows "PROXY ", without the line's end. */
static enum wire_result read_v1_line(struct bytes line, struct proxy *proxy, struct err *err)
{
	static const struct {
		const char *begin;
		enum proxy_source source;
		int family;
	} kinds[] = {
		{ "TCP4 ", PROXY_IPV4, AF_INET },
		{ "TCP6 ", PROXY_IPV6, AF_INET6 },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t count = strlen(kinds[i].begin);

		if (line.count < count || !agree(line, kinds[i].begin, count))
			continue;
		proxy->source = kinds[i].source;
		return read_v1_addresses(bytes_skip(line, count), kinds[i].family, proxy)
		           ? WIRE_OK
		           : bad(err, "addresses or ports that are none");
	}
	if (!bytes_are(line, "UNKNOWN") && !(line.count > 8 && agree(line, "UNKNOWN ", 8)))
		return bad(err, "a protocol that is not TCP4, TCP6 or UNKNOWN");
	proxy->source = PROXY_UNKNOWN;
	return WIRE_OK;
}

static enum wire_result read_v1(struct bytes in, struct proxy *proxy, struct err *err)
{
	const size_t begin = sizeof(V1_BEGIN) - 1;
	size_t count = in.count < PROXY_V1_MAX ? in.count : PROXY_V1_MAX;

	for (size_t i = 0; i < count; i++) {
		bool is_end = i > 0 && in.at[i - 1] == '\r';

		if (is_end && in.at[i] == '\n') {
			proxy->length = (uint32_t)i + 1;
			return read_v1_line(bytes_of(in.at + begin, i - 1 - begin), proxy, err);
		}
		if (is_end || (in.at[i] != '\r' && (in.at[i] < ' ' || in.at[i] > '~')))
			return bad(err, "a byte that is no text");
	}
	return count < PROXY_V1_MAX ? WIRE_MORE : bad(err, "the line has no end");
}

/* ---- version 2 ---- */

/* CRC-32C (Castagnoli), bit by bit: it runs once per connection, over few bytes. */
static uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
	const unsigned char *in = bytes;

	for (size_t i = 0; i < count; i++) {
		crc ^= in[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return crc;
}

/*
 * Whether the checksum at `at` within the header is the checksum of the header. It is computed
 * with its own four bytes set to zero.
 */
static bool is_checksum_right(struct bytes header, const char *at)
{
	static const char zeros[4];
	size_t before = (size_t)(at - header.at);
	uint32_t crc = crc32c(UINT32_MAX, header.at, before);

	crc = crc32c(crc, zeros, sizeof(zeros));
	crc = crc32c(crc, at + 4, header.count - before - 4);
	return ~crc == load_be32(at);
}

/* Checks the extensions (type, length, value) that follow the addresses. */
static enum wire_result judge_more(struct bytes header, struct bytes rest, struct err *err)
{
	bool has_checksum = false;

	while (rest.count) {
		size_t count = rest.count < TLV_HEADER_SIZE ? 0 : load_be16(rest.at + 1);

		if (rest.count < TLV_HEADER_SIZE || rest.count - TLV_HEADER_SIZE < count)
			return bad(err, "an extension that is longer than the header");
		if (rest.at[0] == TLV_CRC32C) {
			if (count != 4 || has_checksum)
				return bad(err, "a checksum that is none");
			if (!is_checksum_right(header, rest.at + TLV_HEADER_SIZE))
				return bad(err, "the checksum is wrong");
			has_checksum = true;
		}
		rest = bytes_skip(rest, TLV_HEADER_SIZE + count);
	}
	return WIRE_OK;
}

/* The address families of stream connections. */
static const struct family {
	unsigned char code;
	enum proxy_source source;
	uint32_t size; /* bytes of both addresses and, for IP, both ports */
	uint32_t host_size;
} families[] = {
	{ 0x00, PROXY_UNKNOWN, 0, 0 }, /* unspecified */
	{ 0x11, PROXY_IPV4, 12, 4 },
	{ 0x21, PROXY_IPV6, 36, 16 },
	{ 0x31, PROXY_UNKNOWN, 216, 0 }, /* Unix sockets */
};

/* Parses a complete header whose command is PROXY. */
static enum wire_result read_v2_addresses(struct bytes header, const struct family *family,
                                          struct proxy *proxy, struct err *err)
{
	struct bytes rest = bytes_skip(header, PROXY_V2_SIZE);

	proxy->source = family->source;
	if (family->size == 0)
		return WIRE_OK;
	memcpy(proxy->host, rest.at, family->host_size);
	if (family->host_size)
		proxy->port = load_be16(rest.at + (size_t)2 * family->host_size);
	return judge_more(header, bytes_skip(rest, family->size), err);
}

static enum wire_result read_v2(struct bytes in, struct proxy *proxy, struct err *err)
{
	const struct family *family = NULL;
	unsigned char command;

	if (in.count <= V2_BEGIN_SIZE)
		return WIRE_MORE;
	command = (unsigned char)in.at[V2_BEGIN_SIZE];
	if (command != V2_LOCAL && command != V2_PROXY)
		return bad(err, "unknown version or command");
	if (command == V2_PROXY && in.count > V2_BEGIN_SIZE + 1) {
		family = families;
		while (family->code != (unsigned char)in.at[V2_BEGIN_SIZE + 1])
			if (++family == families + sizeof(families) / sizeof(families[0]))
				return bad(err, "unknown address family");
	}
	if (in.count < PROXY_V2_SIZE)
		return WIRE_MORE;
	proxy->length = PROXY_V2_SIZE + load_be16(in.at + PROXY_V2_SIZE - 2);
	if (family && proxy->length < PROXY_V2_SIZE + family->size)
		return bad(err, "it is too short for its addresses");
	if (in.count < proxy->length)
		return WIRE_MORE;
	proxy->source = PROXY_ITSELF;
	return family ? read_v2_addresses(bytes_of(in.at, proxy->length), family, proxy, err)
	              : WIRE_OK;
}

enum wire_result proxy_read(struct bytes in, struct proxy *proxy, struct err *err)
{
	*proxy = (struct proxy){ .source = PROXY_UNKNOWN };
	if (in.at[0] == V1_BEGIN[0])
		return read_v1(in, proxy, err);
	return read_v2(in, proxy, err);
}
