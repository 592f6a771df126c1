/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_digests.h.
 */
#include "pgweir/pgwire/sql_digests.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

#define TEXT_MAX 1100
#define TRIES 3000

static const struct hash_key secret = { { 1, 2 } };
static struct sql_digest_key key;
static struct sql_digests *digests;

static void set_up(void)
{
	key = sql_digest_key(&secret);
	digests = sql_digests_new(&key);
	ck_assert_ptr_nonnull(digests);
}

static void tear_down(void) { sql_digests_free(&digests); }

/* The same text, and whether it is remembered: of others, the digest would now be another one. */
static bool is_remembered(struct bytes text)
{
	uint64_t digest = sql_digest(&key, text);
	struct hash_stream begin = key.begin;
	bool result;

	key.begin.v[0]++;
	result = sql_digests_get(digests, text) == digest;
	key.begin = begin;
	return result;
}

START_TEST(remembers)
{
	ck_assert_uint_eq(sql_digests_get(digests, bytes_text("COMMIT")),
	                  sql_digest(&key, bytes_text("COMMIT")));
	ck_assert(is_remembered(bytes_text("COMMIT")));
	ck_assert(!is_remembered(bytes_text("ROLLBACK")));
}
END_TEST

/* The next one of the same form is known. */
START_TEST(constants_do_not_count)
{
	static const char one[] = "SELECT a FROM t WHERE b = 1 AND c = 'x'";

	sql_digests_get(digests, bytes_text(one));
	ck_assert(is_remembered(bytes_text("SELECT a FROM t WHERE b = 23 AND c = 'yz'")));
	ck_assert(!is_remembered(bytes_text("SELECT a FROM t WHERE b = 23 AND d = 'yz'")));
	ck_assert(!is_remembered(bytes_text("SELECT a FROM t WHERE b2 = 1 AND c = 'x'")));
}
END_TEST

/* Each byte and the size count: one text after the other gets the digest of its own. */
START_TEST(every_byte_counts)
{
	static const size_t sizes[] = { 0,  1,  2,  3,  4,   5,   7,   8,   9,   15,      16,
		                        17, 31, 32, 33, 255, 256, 257, 512, 513, TEXT_MAX };
	char text[TEXT_MAX];

	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct bytes whole = bytes_of(text, sizes[i]);

		ck_assert_uint_eq(sql_digests_get(digests, whole), sql_digest(&key, whole));
		ck_assert(is_remembered(whole));
		for (size_t at = 0; at < sizes[i]; at++) {
			text[at] = ',';
			ck_assert_uint_eq(sql_digests_get(digests, whole), sql_digest(&key, whole));
			text[at] = 'a';
		}
		/* the changed ones were all new, which may have begun a pause */
		sql_digests_free(&digests);
		digests = sql_digests_new(&key);
		ck_assert_ptr_nonnull(digests);
	}
}
END_TEST

/* PostgreSQL refuses such a text, but here it must not be taken for another one. */
START_TEST(zeros_count)
{
	for (size_t size = 0; size < 64; size++) {
		static const char zeros[64];

		ck_assert_uint_eq(sql_digests_get(digests, bytes_of(zeros, size)),
		                  sql_digest(&key, bytes_of(zeros, size)));
	}
}
END_TEST

/* Texts that never come again do not cost much: they are not looked for. Later ones are again. */
START_TEST(pauses)
{
	char text[30];
	int found = 0, tries = 0;

	for (int i = 0; i < TRIES; i++) {
		snprintf(text, sizeof(text), "SELECT %d", i);
		sql_digests_get(digests, bytes_text(text));
		found += is_remembered(bytes_text(text));
	}
	/* each is asked for twice, so half of them at least are found: no pause */
	ck_assert_int_eq(found, TRIES);
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "SELECT a%d", i);
		sql_digests_get(digests, bytes_text(text));
	}
	ck_assert(!is_remembered(bytes_text(text)));
	while (!is_remembered(bytes_text("COMMIT")) && tries < TRIES) {
		sql_digests_get(digests, bytes_text("COMMIT"));
		tries++;
	}
	ck_assert_int_gt(tries, 100);
	ck_assert_int_lt(tries, TRIES);
}
END_TEST

/* Longer than what is remembered, and than what counts of a text. */
START_TEST(longest_texts)
{
	static char text[SQL_DIGEST_MAX + 2];

	memset(text, 'a', sizeof(text));
	for (size_t size = sizeof(text) - 4; size <= sizeof(text); size++)
		ck_assert_uint_eq(sql_digests_get(digests, bytes_of(text, size)),
		                  sql_digest(&key, bytes_of(text, size)));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_digests");
	TCase *tests = tcase_create("sql_digests");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, remembers);
	tcase_add_test(tests, constants_do_not_count);
	tcase_add_test(tests, every_byte_counts);
	tcase_add_test(tests, zeros_count);
	tcase_add_test(tests, pauses);
	tcase_add_test(tests, longest_texts);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
