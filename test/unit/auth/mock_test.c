/* SPDX-License-Identifier: ISC */
/*
 * auth/verifiers.c.
 */
#include "pgweir/auth/derived.h"

#include "../../lib/auth_text.h"
#include "../unit.h"

#define SCRAM "SCRAM-SHA-256$5000:c2FsdHNhbHRzYWx0c2FsdHNhbHQ=$" KEY ":" KEY
#define KEY "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define MD5 "md50123456789abcdef0123456789abcdef"

static struct verifiers *verifiers;

static const struct {
	const char *says, *file;
	enum secret_kind kind;
} cases[] = {
	{ "nobody", "", SECRET_PLAIN },
	{ "nobody with a secret", "\"a\" \"\"\n", SECRET_PLAIN },
	{ "plain secrets", "\"a\" \"x\"\n\"b\" \"\"\n", SECRET_PLAIN },
	{ "md5 secrets", "\"a\" \"" MD5 "\"\n", SECRET_MD5 },
	{ "SCRAM secrets", "\"a\" \"" SCRAM "\"\n\"b\" \"\"\n", SECRET_SCRAM },
};

static struct users *parse(const char *file)
{
	struct problems problems = { 0 };
	struct users *users = users_parse(bytes_text(file), "users", &problems);

	ck_assert(!problems_any(&problems));
	return users;
}

static void make(const struct users *users, const char *user, struct buf *out)
{
	buf_free(out);
	ck_assert(mock_secret(verifiers, NULL, users, user, out));
}

START_TEST(mock_is_of_the_kind_of_the_others)
{
	struct users *users = parse(cases[_i].file);
	struct buf first = { 0 }, again = { 0 }, other = { 0 };

	verifiers = verifiers_new(10, NULL);
	make(users, "ghost", &first);
	make(users, "ghost", &again);
	make(users, "spectre", &other);
	ck_assert_msg(users_secret_of(buf_text(&first)).kind == cases[_i].kind, "%s",
	              cases[_i].says);
	ck_assert_str_eq(buf_text(&first), buf_text(&again));
	ck_assert_str_ne(buf_text(&first), buf_text(&other));
	verifiers_free(&verifiers);
	verifiers = verifiers_new(10, NULL); /* another process */
	make(users, "ghost", &again);
	ck_assert_str_ne(buf_text(&first), buf_text(&again));
	verifiers_free(&verifiers);
	buf_free(&first);
	buf_free(&again);
	buf_free(&other);
	users_release(&users);
}
END_TEST

START_TEST(mock_has_the_rounds_and_the_salts_length_of_the_others)
{
	struct users *users = parse("\"a\" \"" SCRAM "\"\n");
	struct scram_verifier verifier;
	struct buf mock = { 0 };

	verifiers = verifiers_new(10, NULL);
	make(users, "ghost", &mock);
	ck_assert(scram_verifier_parse(buf_text(&mock), &verifier));
	ck_assert_uint_eq(verifier.made_for.iterations, 5000);
	ck_assert_uint_eq(verifier.made_for.salt_count, 20);
	ck_assert_mem_ne(verifier.made_for.salt, "saltsaltsaltsaltsalt", 20);
	buf_free(&mock);
	verifiers_free(&verifiers);
	users_release(&users);
}
END_TEST

/* With several kinds of secrets, mock secrets have several kinds too. */
START_TEST(mocks_are_mixed_as_the_others_are)
{
	struct users *users = parse("\"a\" \"x\"\n\"b\" \"" MD5 "\"\n\"c\" \"" SCRAM "\"\n");
	unsigned int counts[SECRET_SCRAM + 1] = { 0 };
	struct buf mock = { 0 };
	char name[2] = "";

	verifiers = verifiers_new(10, NULL);
	for (char letter = 33; letter < 127; letter++) {
		name[0] = letter;
		make(users, name, &mock);
		counts[users_secret_of(buf_text(&mock)).kind]++;
	}
	for (int kind = SECRET_PLAIN; kind <= SECRET_SCRAM; kind++)
		ck_assert_uint_gt(counts[kind], 0);
	buf_free(&mock);
	verifiers_free(&verifiers);
	users_release(&users);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/mock");
	TCase *tests = tcase_create("mock");

	tcase_add_loop_test(tests, mock_is_of_the_kind_of_the_others, 0, COUNT_OF(cases));
	tcase_add_test(tests, mock_has_the_rounds_and_the_salts_length_of_the_others);
	tcase_add_test(tests, mocks_are_mixed_as_the_others_are);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
