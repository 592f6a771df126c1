/* SPDX-License-Identifier: ISC */
/*
 * pgwire/proxy.c.
 */
#include "pgweir/pgwire/proxy.h"

#include <stdio.h>

#include "../unit.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4 "\300\0\2\7\300\0\2\1\xdc\x04\x19\x20" /* 192.0.2.7:56324 to 192.0.2.1:6432 */
#define V6_HOST "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\7"
#define TEXT(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}

/* A header of each kind as a proxy sends it; `in` is the header only. */
static const struct {
	const char *says;
	struct bytes in;
	enum wire_result result;
	enum proxy_source source;
	uint16_t port;
	const char *host; /* its first four bytes */
} cases[] = {
	{ "TCP4", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 56324 6432\r\n"), WIRE_OK, PROXY_IPV4, 56324,
	  "\300\0\2\7" },
	{ "TCP6", TEXT("PROXY TCP6 2001:db8::7 ::1 1 65535\r\n"), WIRE_OK, PROXY_IPV6, 1,
	  "\x20\1\x0d\xb8" },
	{ "the longest of TCP6",
	  TEXT("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
	       "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
	  WIRE_OK, PROXY_IPV6, 65535, "\xff\xff\xff\xff" },
	{ "UNKNOWN", TEXT("PROXY UNKNOWN\r\n"), WIRE_OK, PROXY_UNKNOWN, 0, "\0\0\0\0" },
	{ "UNKNOWN with words", TEXT("PROXY UNKNOWN ffff::1 whatever\r\n"), WIRE_OK, PROXY_UNKNOWN,
	  0, "\0\0\0\0" },
	{ "words that run into UNKNOWN", TEXT("PROXY UNKNOWNS\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "no protocol", TEXT("PROXY \r\n"), WIRE_BAD, 0, 0, NULL },
	{ "another protocol", TEXT("PROXY UDP4 192.0.2.7 192.0.2.1 1 2\r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "small letters", TEXT("PROXY tcp4 192.0.2.7 192.0.2.1 1 2\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "IPv6 under TCP4", TEXT("PROXY TCP4 ::1 192.0.2.1 1 2\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "IPv4 under TCP6", TEXT("PROXY TCP6 192.0.2.7 ::1 1 2\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "an octal address", TEXT("PROXY TCP4 0300.0.2.7 192.0.2.1 1 2\r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "a short address", TEXT("PROXY TCP4 192.2 192.0.2.1 1 2\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "a scope", TEXT("PROXY TCP6 fe80::1%lo ::1 1 2\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "two blanks", TEXT("PROXY TCP4  192.0.2.7 192.0.2.1 1 2\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "a blank at the end", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 \r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "a word too many", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3\r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "a port missing", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "a port too large", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "a port with a zero", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "a port with a sign", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 +1 2\r\n"), WIRE_BAD, 0, 0,
	  NULL },
	{ "a line feed alone", TEXT("PROXY TCP4 192.0.2.7 192.0.2.1 1 2\n"), WIRE_BAD, 0, 0, NULL },
	{ "a return alone", TEXT("PROXY UNKNOWN\rx\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "two returns", TEXT("PROXY UNKNOWN\r\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "a zero byte", TEXT("PROXY UNKNOWN \0\r\n"), WIRE_BAD, 0, 0, NULL },
	{ "a line without end",
	  TEXT("PROXY UNKNOWN "
	       "0123456789012345678901234567890123456789012345678901234567890123456789"
	       "01234567890123456789012"),
	  WIRE_BAD, 0, 0, NULL },
	{ "LOCAL", TEXT(SIGNATURE "\x20\0\0\0"), WIRE_OK, PROXY_ITSELF, 0, "\0\0\0\0" },
	{ "LOCAL, with whatever", TEXT(SIGNATURE "\x20\xff\0\3abc"), WIRE_OK, PROXY_ITSELF, 0,
	  "\0\0\0\0" },
	{ "unspecified", TEXT(SIGNATURE "\x21\0\0\3abc"), WIRE_OK, PROXY_UNKNOWN, 0, "\0\0\0\0" },
	{ "IPv4", TEXT(SIGNATURE "\x21\x11\0\14" V4), WIRE_OK, PROXY_IPV4, 56324, "\300\0\2\7" },
	{ "IPv6", TEXT(SIGNATURE "\x21\x21\0\44" V6_HOST V6_HOST "\0\1\0\2"), WIRE_OK, PROXY_IPV6,
	  1, "\x20\1\x0d\xb8" },
	{ "extensions", TEXT(SIGNATURE "\x21\x11\0\25" V4 "\4\0\0\2\0\3a.b"), WIRE_OK, PROXY_IPV4,
	  56324, "\300\0\2\7" },
	{ "a right checksum", TEXT(SIGNATURE "\x21\x11\0\23" V4 "\3\0\4\x46\xda\x07\xc2"), WIRE_OK,
	  PROXY_IPV4, 56324, "\300\0\2\7" },
	{ "a wrong checksum", TEXT(SIGNATURE "\x21\x11\0\23" V4 "\3\0\4\x46\xda\x07\xc3"), WIRE_BAD,
	  0, 0, NULL },
	{ "a short checksum", TEXT(SIGNATURE "\x21\x11\0\21" V4 "\3\0\2\0\0"), WIRE_BAD, 0, 0,
	  NULL },
	{ "an extension cut off", TEXT(SIGNATURE "\x21\x11\0\17" V4 "\4\0\1"), WIRE_BAD, 0, 0,
	  NULL },
	{ "half an extension's head", TEXT(SIGNATURE "\x21\x11\0\16" V4 "\4\0"), WIRE_BAD, 0, 0,
	  NULL },
	{ "too short for IPv4", TEXT(SIGNATURE "\x21\x11\0\13"), WIRE_BAD, 0, 0, NULL },
	{ "too short for IPv6", TEXT(SIGNATURE "\x21\x21\0\43"), WIRE_BAD, 0, 0, NULL },
	{ "too short for Unix sockets", TEXT(SIGNATURE "\x21\x31\0\327"), WIRE_BAD, 0, 0, NULL },
	{ "datagrams", TEXT(SIGNATURE "\x21\x12"), WIRE_BAD, 0, 0, NULL },
	{ "another family", TEXT(SIGNATURE "\x21\x41"), WIRE_BAD, 0, 0, NULL },
	{ "another version", TEXT(SIGNATURE "\x31"), WIRE_BAD, 0, 0, NULL },
	{ "another command", TEXT(SIGNATURE "\x22"), WIRE_BAD, 0, 0, NULL },
	{ "on its way", TEXT(SIGNATURE "\x21\x11\0\14\300\0"), WIRE_MORE, 0, 0, NULL },
	{ "a line on its way", TEXT("PROXY TCP4 192."), WIRE_MORE, 0, 0, NULL },
};

START_TEST(proxy_read_answers)
{
	struct proxy proxy;
	struct err err = { .text = "" };

	ck_assert(proxy_begins(cases[_i].in));
	ck_assert_msg(proxy_read(cases[_i].in, &proxy, &err) == cases[_i].result, "%s: %s",
	              cases[_i].says, err.text);
	if (cases[_i].result == WIRE_BAD)
		ck_assert_msg(strncmp(err.text, "bad PROXY header: ", 18) == 0, "%s", err.text);
	if (cases[_i].result != WIRE_OK)
		return;
	ck_assert_msg(proxy.source == cases[_i].source, "%s", cases[_i].says);
	ck_assert_uint_eq(proxy.port, cases[_i].port);
	ck_assert_uint_eq(proxy.length, cases[_i].in.count);
	ck_assert_mem_eq(proxy.host, cases[_i].host, 4);
}
END_TEST

/* No result before it is certain, and no result ever changes. */
START_TEST(proxy_read_at_every_cut)
{
	struct bytes in = cases[_i].in;
	enum wire_result result = WIRE_MORE;
	struct proxy proxy;

	for (size_t count = 1; count <= in.count; count++) {
		char *copy = malloc(count); /* so that a sanitizer detects reads after the end */
		enum wire_result now;

		memcpy(copy, in.at, count);
		ck_assert(proxy_begins(bytes_of(copy, count)));
		now = proxy_read(bytes_of(copy, count), &proxy, NULL);
		free(copy);
		ck_assert_msg(result == WIRE_MORE || now == result, "%s", cases[_i].says);
		ck_assert_msg(now != WIRE_OK || count == in.count, "%s", cases[_i].says);
		result = now;
	}
	ck_assert_int_eq(result, cases[_i].result);
}
END_TEST

/* The following data is not part of the header. */
START_TEST(proxy_read_leaves_the_rest)
{
	struct proxy proxy;
	char more[512];

	if (cases[_i].result != WIRE_OK)
		return;
	memset(more, 'x', sizeof(more));
	memcpy(more, cases[_i].in.at, cases[_i].in.count);
	ck_assert_int_eq(proxy_read(bytes_of(more, sizeof(more)), &proxy, NULL), WIRE_OK);
	ck_assert_uint_eq(proxy.length, cases[_i].in.count);
}
END_TEST

/* 216 bytes of paths. */
START_TEST(proxy_knows_no_address_of_unix_sockets)
{
	char header[PROXY_V2_SIZE + 216] = SIGNATURE "\x21\x31\0\330/run/somewhere";
	struct proxy proxy;

	ck_assert_int_eq(proxy_read(bytes_of(header, sizeof(header)), &proxy, NULL), WIRE_OK);
	ck_assert_int_eq(proxy.source, PROXY_UNKNOWN);
	ck_assert_uint_eq(proxy.length, sizeof(header));
}
END_TEST

START_TEST(proxy_begins_like_nothing_else)
{
	static const struct bytes others[] = {
		TEXT(""),
		TEXT("\0"),
		TEXT("\0\0\0\10"),
		TEXT("\x16\3\1"),
		TEXT("POST / HTTP/1.1"),
		TEXT("PROXYTCP4"),
		TEXT("\r\n\r\nQUIT"),
		TEXT("p"),
	};

	for (size_t i = 0; i < COUNT_OF(others); i++)
		ck_assert_msg(!proxy_begins(others[i]), "%zu", i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/proxy");
	TCase *tests = tcase_create("proxy");

	tcase_add_loop_test(tests, proxy_read_answers, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, proxy_read_at_every_cut, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, proxy_read_leaves_the_rest, 0, COUNT_OF(cases));
	tcase_add_test(tests, proxy_knows_no_address_of_unix_sockets);
	tcase_add_test(tests, proxy_begins_like_nothing_else);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
