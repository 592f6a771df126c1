/* SPDX-License-Identifier: ISC */
/*
 * net/address.c: our addresses and networks. Every host has a loopback.
 */
#include "pgweir/net/address.h"

#include "../unit.h"

static const struct {
	const char *address;
	enum interfaces_part part;
	bool is_ours;
} cases[] = {
	{ "127.0.0.1", INTERFACES_HOST, true },        { "127.0.0.1", INTERFACES_NET, true },
	{ "127.200.3.4", INTERFACES_NET, true },       { "127.200.3.4", INTERFACES_HOST, false },
	{ "::ffff:127.0.0.1", INTERFACES_HOST, true }, { "203.0.113.99", INTERFACES_HOST, false },
	{ "203.0.113.99", INTERFACES_NET, false },     { "2001:db8::99", INTERFACES_HOST, false },
	{ "2001:db8::99", INTERFACES_NET, false },
};

START_TEST(having)
{
	struct address address;

	ck_assert(address_parse(&address, cases[_i].address, 5432));
	ck_assert_msg(interfaces_have(&address, cases[_i].part) == cases[_i].is_ours, "%s",
	              cases[_i].address);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("interfaces");
	TCase *tcase = tcase_create("interfaces");

	tcase_add_loop_test(tcase, having, 0, (int)COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
