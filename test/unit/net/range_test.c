/* SPDX-License-Identifier: ISC */
/*
 * net/address.c: ranges of addresses.
 */
#include "pgweir/net/address.h"

#include <string.h>

#include "../unit.h"

static const struct {
	const char *text;
	enum range_result result;
} texts[] = {
	{ "10.0.0.0/8", RANGE_OK },
	{ "10.0.0.1/32", RANGE_OK },
	{ "0.0.0.0/0", RANGE_OK },
	{ "::/0", RANGE_OK },
	{ "fe80::/10", RANGE_OK },
	{ "::1/128", RANGE_OK },
	{ "10.0.0.1", RANGE_NO_MASK },
	{ "::1", RANGE_NO_MASK },
	{ "", RANGE_NAME },
	{ "/8", RANGE_NAME },
	{ "localhost", RANGE_NAME },
	{ "10.0.0", RANGE_NAME },
	{ "10.0.0/8", RANGE_NAME },
	{ "fe80::1%1/10", RANGE_NAME },
	{ "10.0.0.0/33", RANGE_BAD },
	{ "10.0.0.0/", RANGE_BAD },
	{ "10.0.0.0/8/8", RANGE_BAD },
	{ "10.0.0.0/-0x", RANGE_BAD },
	{ "10.0.0.0/255.0.0.0", RANGE_BAD },
	{ "::1/129", RANGE_BAD },
	{ "10.0.0.1/8", RANGE_LOOSE },
	{ "::1/127", RANGE_LOOSE },
	{ "::ffff:10.0.0.0/104", RANGE_OK },
	{ "::ffff:10.0.0.0/8", RANGE_LOOSE },
	{ "::ffff:10.0.0.1/104", RANGE_LOOSE },
};

START_TEST(parsing)
{
	struct range range;
	struct err err = { 0 };

	ck_assert_msg(range_parse(&range, texts[_i].text, &err) == texts[_i].result, "%s",
	              texts[_i].text);
	ck_assert_int_eq(err.code != ERR_NONE, texts[_i].result >= RANGE_LOOSE);
}
END_TEST

static const struct {
	const char *range, *address;
	bool has;
} cases[] = {
	{ "10.0.0.0/8", "10.0.0.0", true },
	{ "10.0.0.0/8", "10.255.255.255", true },
	{ "10.0.0.0/8", "9.255.255.255", false },
	{ "10.0.0.0/9", "10.127.0.1", true },
	{ "10.0.0.0/9", "10.128.0.1", false },
	{ "10.0.0.1", "10.0.0.1", true },
	{ "10.0.0.1", "10.0.0.2", false },
	{ "10.0.0.0/8", "::ffff:10.0.0.1", true },
	{ "::ffff:10.0.0.0/104", "10.7.0.1", true },
	{ "::ffff:10.0.0.0/104", "11.7.0.1", false },
	{ "::ffff:10.0.0.0/104", "::ffff:10.7.0.1", true },
	{ "::ffff:10.0.0.0/104", "::a00:1", false },
	{ "::ffff:10.0.0.1", "10.0.0.1", true },
	{ "::ffff:0:0/96", "192.0.2.1", true },
	{ "::ffff:0:0/96", "::1", false },
	{ "0.0.0.0/0", "::1", false },
	{ "::/0", "10.0.0.1", false },
	{ "2001:db8::/33", "2001:db8:7fff::1", true },
	{ "2001:db8::/33", "2001:db8:8000::1", false },
	{ "::1", "::1", true },
};

START_TEST(having)
{
	struct range range;
	struct address address;

	ck_assert(range_parse(&range, cases[_i].range, NULL) <= RANGE_NO_MASK);
	ck_assert(address_parse(&address, cases[_i].address, 77));
	ck_assert_msg(range_has(&range, &address) == cases[_i].has, "%s: %s", cases[_i].range,
	              cases[_i].address);
}
END_TEST

START_TEST(nobody_on_a_unix_socket_is_in_a_range)
{
	struct range range;
	struct address address = { .un = { .family = AF_UNIX } };

	range_parse(&range, "0.0.0.0/0", NULL);
	ck_assert(!range_has(&range, &address));
	address = (struct address){ .family = AF_UNSPEC };
	ck_assert(!range_has(&range, &address));
}
END_TEST

START_TEST(masks)
{
	struct address address;
	struct range range;
	struct err err;

	range_parse(&range, "10.0.5.0", NULL);
	ck_assert_int_eq(range_set_mask(&range, "255.0.0.0", &err), RANGE_LOOSE);
	ck_assert_str_eq(err.text, "the address has bits outside of its mask: the range begins at "
	                           "10.0.0.0");
	ck_assert_int_eq(range_set_mask(&range, "ffff::", &err), RANGE_BAD);
	ck_assert_int_eq(range_set_mask(&range, "24", &err), RANGE_BAD);
	ck_assert_int_eq(range_set_mask(&range, "", &err), RANGE_BAD);
	ck_assert_int_eq(range_set_mask(&range, "255.0.255.0", &err), RANGE_OK);
	address_parse(&address, "10.7.5.1", 0);
	ck_assert(range_has(&range, &address));
	address_parse(&address, "10.7.6.1", 0);
	ck_assert(!range_has(&range, &address));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("range");
	TCase *tcase = tcase_create("range");

	tcase_add_loop_test(tcase, parsing, 0, (int)COUNT_OF(texts));
	tcase_add_loop_test(tcase, having, 0, (int)COUNT_OF(cases));
	tcase_add_test(tcase, nobody_on_a_unix_socket_is_in_a_range);
	tcase_add_test(tcase, masks);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
