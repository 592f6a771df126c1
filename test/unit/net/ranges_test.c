/* SPDX-License-Identifier: ISC */
/*
 * net/address.c.
 */
#include "pgweir/net/address.h"

#include "../unit.h"

static bool has(const struct ranges *ranges, const char *text)
{
	struct address address;

	ck_assert(address_parse(&address, text, 1234));
	return ranges_have(ranges, &address);
}

START_TEST(ranges_have_what_any_of_them_has)
{
	char *texts[] = { "10.0.0.0/8", "192.0.2.1", "2001:db8::/32" };
	const struct address local = { .un = { .family = AF_UNIX } };
	struct ranges *ranges = ranges_new(texts, COUNT_OF(texts), NULL);

	ck_assert(has(ranges, "10.1.2.3") && has(ranges, "192.0.2.1"));
	ck_assert(has(ranges, "2001:db8::1") && has(ranges, "::ffff:10.1.2.3"));
	ck_assert(!has(ranges, "192.0.2.2") && !has(ranges, "11.0.0.0") && !has(ranges, "::1"));
	ck_assert(!ranges_have(ranges, &local));
	ranges_release(&ranges);
	ck_assert(!has(ranges, "10.1.2.3"));
}
END_TEST

START_TEST(ranges_have_unix_sockets_only_by_name)
{
	char *texts[] = { "unix" };
	const struct address local = { .un = { .family = AF_UNIX } }, nowhere = { 0 };
	struct ranges *ranges = ranges_new(texts, 1, NULL);

	ck_assert(ranges_have(ranges, &local));
	ck_assert(!ranges_have(ranges, &nowhere) && !has(ranges, "127.0.0.1"));
	ranges_release(&ranges);
	ranges = ranges_new(NULL, 0, NULL);
	ck_assert(ranges && !ranges_have(ranges, &local));
	ranges_release(&ranges);
}
END_TEST

START_TEST(ranges_are_there_until_the_last_release)
{
	char *texts[] = { "10.0.0.0/8" };
	struct ranges *ranges = ranges_new(texts, 1, NULL), *held = ranges_hold(ranges);

	ranges_release(&ranges);
	ck_assert_ptr_null(ranges);
	ranges_release(&ranges);
	ck_assert(has(held, "10.1.2.3"));
	ranges_release(&held);
}
END_TEST

START_TEST(ranges_refuse_what_is_none)
{
	static const char *const bad[] = { "proxy.example", "10.0.0.0/33", "10.0.0.1/8", "*",
		                           "UNIX" };
	struct err err;

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		char *texts[] = { "10.0.0.0/8", (char *)bad[i] };

		err.text[0] = 0;
		ck_assert_msg(!ranges_new(texts, 2, &err) && err.text[0], "%s", bad[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/ranges");
	TCase *tests = tcase_create("ranges");

	tcase_add_test(tests, ranges_have_what_any_of_them_has);
	tcase_add_test(tests, ranges_have_unix_sockets_only_by_name);
	tcase_add_test(tests, ranges_are_there_until_the_last_release);
	tcase_add_test(tests, ranges_refuse_what_is_none);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
