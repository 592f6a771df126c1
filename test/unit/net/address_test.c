/* SPDX-License-Identifier: ISC */
/*
 * net/address.c
 */
#include "pgweir/net/address.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/base/err.h"

#include "../unit.h"

static const struct {
	const char *text;
	bool ok;
	const char *host;
	const char *whole;
} parses[] = {
	{ "127.0.0.1", true, "127.0.0.1", "127.0.0.1:6432" },
	{ "0.0.0.0", true, "0.0.0.0", "0.0.0.0:6432" },
	{ "::1", true, "::1", "[::1]:6432" },
	{ "::ffff:10.0.0.1", true, "::ffff:10.0.0.1", "[::ffff:10.0.0.1]:6432" },
	{ "2001:DB8::1", true, "2001:db8::1", "[2001:db8::1]:6432" },
	{ "fe80::1%1", true, "fe80::1%1", "[fe80::1%1]:6432" },
	{ "fe80::1%", false, "nowhere", "nowhere:0" },
	{ "fe80::1%nosuchinterface", false, "nowhere", "nowhere:0" },
	{ "127.0.0.256", false, "nowhere", "nowhere:0" },
	{ "127.1", false, "nowhere", "nowhere:0" },
	{ "localhost", false, "nowhere", "nowhere:0" },
	{ "[::1]", false, "nowhere", "nowhere:0" },
	{ "", false, "nowhere", "nowhere:0" },
};

START_TEST(address_from_text_and_back)
{
	struct address address;
	char text[ADDRESS_TEXT_SIZE];

	ck_assert_int_eq(address_parse(&address, parses[_i].text, 6432), parses[_i].ok);
	ck_assert_str_eq(address_format_host(&address, text, sizeof(text)), parses[_i].host);
	ck_assert_str_eq(address_format(&address, text, sizeof(text)), parses[_i].whole);
}
END_TEST

START_TEST(address_text_is_cut_and_ended)
{
	struct address address;
	char text[8];

	ck_assert(address_parse(&address, "2001:db8::1", 1));
	ck_assert_str_eq(address_format(&address, text, sizeof(text)), "[2001:d");
}
END_TEST

START_TEST(address_equality)
{
	struct address a, b;

	ck_assert(address_parse(&a, "10.0.0.1", 1) && address_parse(&b, "10.0.0.1", 2));
	ck_assert(address_equal_host(&a, &b) && !address_equal(&a, &b));
	address_set_port(&b, 1);
	ck_assert(address_equal(&a, &b));
	ck_assert(address_parse(&b, "10.0.0.2", 1) && !address_equal_host(&a, &b));
	ck_assert(address_parse(&a, "::1", 1) && !address_equal_host(&a, &b));
	ck_assert(address_parse(&b, "::1", 1) && address_equal(&a, &b));
	address_set_port(&b, 9);
	ck_assert_uint_eq(address_port(&b), 9);
	ck_assert(!address_equal(&a, &b));
}
END_TEST

START_TEST(address_of_a_unix_peer_is_its_process)
{
	struct address peer, self;
	char text[ADDRESS_TEXT_SIZE], expected[ADDRESS_TEXT_SIZE];
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert(address_of_peer(&peer, pair[0], 6432));
	ck_assert(address_is_unix(&peer));
	ck_assert_int_eq(peer.un.pid, getpid());
	ck_assert_uint_eq(peer.un.uid, getuid());
	snprintf(expected, sizeof(expected), "unix(%d):6432", (int)getpid());
	ck_assert_str_eq(address_format(&peer, text, sizeof(text)), expected);
	ck_assert_str_eq(address_format_host(&peer, text, sizeof(text)), "unix");
	ck_assert(address_of_self(&self, pair[1], 6432) && address_equal(&peer, &self));
	close(pair[0]);
	close(pair[1]);
	ck_assert(!address_of_peer(&peer, -1, 6432));
}
END_TEST

START_TEST(address_of_the_kernel_is_judged)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct address address;

	ck_assert(address_from_sockaddr(&address, (struct sockaddr *)&in, sizeof(in)));
	ck_assert(!address_from_sockaddr(&address, (struct sockaddr *)&in, 4));
	in.sin_family = AF_PACKET;
	ck_assert(!address_from_sockaddr(&address, (struct sockaddr *)&in, sizeof(in)));
	ck_assert_uint_eq(address.family, AF_UNSPEC);
}
END_TEST

START_TEST(unix_names_have_a_limit)
{
	struct sockaddr_un name;
	socklen_t size;
	char path[sizeof(name.sun_path) + 2];
	struct err err;

	memset(path, 'x', sizeof(path));
	path[sizeof(name.sun_path) - 1] = 0;
	ck_assert(address_unix_name(&name, &size, path, NULL));
	ck_assert_uint_eq(size, sizeof(name));
	path[sizeof(name.sun_path) - 1] = 'x';
	path[sizeof(name.sun_path)] = 0;
	ck_assert(!address_unix_name(&name, &size, path, &err));
	ck_assert_int_eq(err.code, ERR_CONFIG);
	path[0] = '@';
	ck_assert(address_unix_name(&name, &size, path, NULL));
	ck_assert_int_eq(name.sun_path[0], 0);
	ck_assert(!address_unix_name(&name, &size, "", NULL));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/address");
	TCase *cases = tcase_create("address");

	tcase_add_loop_test(cases, address_from_text_and_back, 0, COUNT_OF(parses));
	tcase_add_test(cases, address_text_is_cut_and_ended);
	tcase_add_test(cases, address_equality);
	tcase_add_test(cases, address_of_a_unix_peer_is_its_process);
	tcase_add_test(cases, address_of_the_kernel_is_judged);
	tcase_add_test(cases, unix_names_have_a_limit);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
