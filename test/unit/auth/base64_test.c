/* SPDX-License-Identifier: ISC */
/*
 * auth/digest.c: what RFC 4648 has, and nothing else.
 */
#include "pgweir/auth/digest.h"

#include "../unit.h"

static const struct {
	const char *plain, *coded;
} coded[] = {
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xff\xfe\xfd\xfb\xef\xbf", "//79+++/" },
};

START_TEST(base64_there_and_back)
{
	char out[BASE64_SIZE(6)], back[6];
	size_t count;

	base64_encode(bytes_text(coded[_i].plain), out);

	ck_assert_str_eq(out, coded[_i].coded);
	ck_assert(base64_decode(bytes_text(out), back, strlen(coded[_i].plain), &count));
	ck_assert(bytes_are(bytes_of(back, count), coded[_i].plain));
	if (*coded[_i].plain)
		ck_assert(!base64_decode(bytes_text(out), back, count - 1, &count));
}
END_TEST

static const char *const not_base64[] = { "Z",        "Zg",   "Zg=",  "Zm9v Zm9",
	                                  "Zm9v\n",   "Z===", "====", "Zg==Zg==",
	                                  "Zm9vZg-_", "=Zg=", "Zm=v" };

START_TEST(base64_is_strict)
{
	unsigned char out[16];
	size_t count;

	ck_assert_msg(!base64_decode(bytes_text(not_base64[_i]), out, sizeof(out), &count), "%s",
	              not_base64[_i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/base64");
	TCase *cases = tcase_create("base64");

	tcase_add_loop_test(cases, base64_there_and_back, 0, COUNT_OF(coded));
	tcase_add_loop_test(cases, base64_is_strict, 0, COUNT_OF(not_base64));
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
