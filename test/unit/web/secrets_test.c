/* SPDX-License-Identifier: ISC */
/*
 * web/web.c: secrets
 */
#include "../../../src/web/web_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/buf.h"

#include "../unit.h"

static char path[] = "/tmp/secrets-XXXXXX";
static struct secrets secrets;

static void set_up(void)
{
	int fd;

	memset(path + strlen(path) - 6, 'X', 6);
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void tear_down(void)
{
	rights_free_secrets(&secrets);
	unlink(path);
}

static bool read_text(const char *text, struct err *err)
{
	FILE *file = fopen(path, "we");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
	return rights_read_secrets(&secrets, path, err);
}

static bool has(const char *authorization)
{
	return rights_have_secret(&secrets, bytes_text(authorization));
}

/* "Basic" with what is encoded. */
static bool has_basic(const char *scheme, const char *plain)
{
	char text[2000], encoded[1500];

	base64_encode(bytes_text(plain), encoded);
	snprintf(text, sizeof(text), "%s%s", scheme, encoded);
	return has(text);
}

START_TEST(secrets_of_a_file)
{
	struct err err;

	ck_assert(read_text(
	    "# people\n\nprometheus:a:b c\n  bearer token-1  \r\nbearer two words\n", &err));
	ck_assert_uint_eq(secrets.count, 3);
	ck_assert(has_basic("Basic ", "prometheus:a:b c"));
	ck_assert(has_basic("bAsIc   ", "prometheus:a:b c"));
	ck_assert(has("Bearer token-1"));
	ck_assert(has("bearer two words"));
	ck_assert(!has_basic("Basic ", "prometheus:a:b"));
	ck_assert(!has_basic("Basic ", "prometheus:a:b c "));
	ck_assert(!has_basic("Basic ", "prometheus"));
	ck_assert(!has("Bearer token-"));
	ck_assert(!has("Bearer token-1 "));
	ck_assert(!has("Bearer"));
	ck_assert(!has("Bearer "));
	ck_assert(!has("token-1"));
	ck_assert(!has("Digest token-1"));
	ck_assert(!has("Basic not-base64!"));
	ck_assert(!has(""));
	ck_assert(!rights_have_secret(&secrets, bytes_of(NULL, 0)));
}
END_TEST

START_TEST(secrets_have_a_kind)
{
	struct err err;

	/* a token that looks like user:password is none, and the other way round */
	ck_assert(read_text("alice:secret\nbearer bob:secret\n", &err));
	ck_assert(has_basic("Basic ", "alice:secret"));
	ck_assert(!has("Bearer alice:secret"));
	ck_assert(has("Bearer bob:secret"));
	ck_assert(!has_basic("Basic ", "bob:secret"));
}
END_TEST

static const struct {
	const char *says, *text, *error;
} bad[] = {
	{ "an empty file", "", " has no secret" },
	{ "comments only", "# nothing\n\n", " has no secret" },
	{ "no colon", "a:b\nalice\n", ":2 is not user:password or bearer TOKEN" },
	{ "no user", ":secret\n", ":1 is not user:password or bearer TOKEN" },
	{ "no token", "\nbearer  \n", ":2 is not user:password or bearer TOKEN" },
};

START_TEST(secrets_that_are_bad)
{
	struct err err;
	char expected[200];

	ck_assert_msg(!read_text(bad[_i].text, &err), "%s", bad[_i].says);
	snprintf(expected, sizeof(expected), "%s%s", path, bad[_i].error);
	ck_assert_str_eq(err.text, expected);
}
END_TEST

START_TEST(secrets_without_a_file)
{
	struct err err;

	unlink(path);
	ck_assert(!rights_read_secrets(&secrets, path, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
}
END_TEST

START_TEST(secrets_have_a_length)
{
	char text[1200];
	struct err err;

	memset(text, 'x', sizeof(text));
	memcpy(text, "u:", 2);
	text[1022] = '\n';
	text[1023] = 0;
	ck_assert_msg(read_text(text, &err), "%s", err.text);
	text[1022] = 0;
	ck_assert(has_basic("Basic ", text));
	text[1022] = text[1023] = 'x';
	text[1100] = 0;
	ck_assert(!has_basic("Basic ", text));
	rights_free_secrets(&secrets);
	ck_assert(!read_text(text, &err));
	ck_assert_ptr_nonnull(strstr(err.text, ":1 is too long"));
}
END_TEST

START_TEST(secrets_have_a_number)
{
	struct buf text = { 0 };
	struct err err;

	for (int i = 0; i < 1000; i++)
		buf_printf(&text, "user%d:secret\n", i);
	ck_assert(read_text(buf_text(&text), &err));
	ck_assert_uint_eq(secrets.count, 1000);
	ck_assert(has_basic("Basic ", "user999:secret"));
	rights_free_secrets(&secrets);
	ck_assert_uint_eq(secrets.count, 0);
	ck_assert(!has_basic("Basic ", "user999:secret"));
	buf_add_text(&text, "one:more\n");
	ck_assert(!read_text(buf_text(&text), &err));
	ck_assert_ptr_nonnull(strstr(err.text, ":1001 is one of more than 1000"));
	buf_free(&text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("web/secrets");
	TCase *tests = tcase_create("secrets");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, secrets_of_a_file);
	tcase_add_test(tests, secrets_have_a_kind);
	tcase_add_loop_test(tests, secrets_that_are_bad, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tests, secrets_without_a_file);
	tcase_add_test(tests, secrets_have_a_length);
	tcase_add_test(tests, secrets_have_a_number);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
