/* SPDX-License-Identifier: ISC */
/*
 * auth/verifiers.c: which keys are cached, and how long.
 */
#include "pgweir/auth/derived.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit.h"

#define SALT bytes_text("0123456789abcdef")

/* Requests a derivation and runs it if needed; returns whether it was needed. */
static bool ask(struct verifiers *verifiers, const char *password, enum derived_keep keep)
{
	struct derived *derived = verifiers_ask(verifiers, password, SALT, 2, keep);
	bool is_new = !derived_keys(derived);
	struct scram_keys keys;

	if (is_new)
		derived_run(derived, password);
	ck_assert(scram_derive(password, SALT, 2, &keys));
	ck_assert_int_eq(memcmp(derived_keys(derived), &keys, sizeof(keys)), 0);
	derived_release(&derived);
	return is_new;
}

START_TEST(derived_once_when_shared)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);

	ck_assert(ask(verifiers, "secret", DERIVED_SHARED));
	ck_assert(!ask(verifiers, "secret", DERIVED_SHARED));
	ck_assert(ask(verifiers, "other", DERIVED_SHARED));
	ck_assert_uint_eq(verifiers_count(verifiers), 2);
	verifiers_free(&verifiers);
	ck_assert_ptr_null(verifiers);
}
END_TEST

START_TEST(derived_private_until_kept)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct derived *derived;

	ck_assert(ask(verifiers, "secret", DERIVED_PRIVATE));
	ck_assert_uint_eq(verifiers_count(verifiers), 0);
	derived = verifiers_ask(verifiers, "secret", SALT, 2, DERIVED_PRIVATE);
	verifiers_keep(verifiers, derived);
	verifiers_keep(verifiers, derived);
	ck_assert_uint_eq(verifiers_count(verifiers), 1);
	derived_release(&derived);
	verifiers_free(&verifiers);
}
END_TEST

START_TEST(derived_longest_unused_goes_first)
{
	struct verifiers *verifiers = verifiers_new(2, NULL);

	ask(verifiers, "a", DERIVED_SHARED);
	ask(verifiers, "b", DERIVED_SHARED);
	ck_assert(!ask(verifiers, "a", DERIVED_SHARED));
	ask(verifiers, "c", DERIVED_SHARED);
	ck_assert_uint_eq(verifiers_count(verifiers), 2);
	ck_assert(!ask(verifiers, "a", DERIVED_SHARED));
	ck_assert(ask(verifiers, "b", DERIVED_SHARED));
	verifiers_free(&verifiers);
}
END_TEST

START_TEST(derived_is_forgotten_at_a_reload)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);

	ask(verifiers, "one", DERIVED_SHARED);
	ask(verifiers, "two", DERIVED_SHARED);
	verifiers_forget(verifiers);
	ck_assert_uint_eq(verifiers_count(verifiers), 0);
	ck_assert(ask(verifiers, "one", DERIVED_SHARED));
	verifiers_free(&verifiers);
}
END_TEST

START_TEST(derived_salts_are_stable)
{
	struct verifiers *a = verifiers_new(10, NULL), *b = verifiers_new(10, NULL);
	unsigned char salt[6][SCRAM_SALT_SIZE];

	ck_assert(verifiers_salt(a, "bo", "secret", salt[0]));
	ck_assert(verifiers_salt(a, "bo", "secret", salt[1]));
	ck_assert(verifiers_salt(a, "bo", "other", salt[2]));
	ck_assert(verifiers_salt(a, "bo", NULL, salt[3]));
	ck_assert(verifiers_salt(a, "bo", NULL, salt[4]));
	ck_assert(verifiers_salt(b, "bo", NULL, salt[5]));
	ck_assert_int_eq(memcmp(salt[0], salt[1], SCRAM_SALT_SIZE), 0);
	ck_assert_int_ne(memcmp(salt[0], salt[2], SCRAM_SALT_SIZE), 0);
	ck_assert_int_eq(memcmp(salt[3], salt[4], SCRAM_SALT_SIZE), 0);
	ck_assert_int_ne(memcmp(salt[0], salt[3], SCRAM_SALT_SIZE), 0);
	ck_assert_int_ne(memcmp(salt[3], salt[5], SCRAM_SALT_SIZE), 0);
	verifiers_free(&a);
	verifiers_free(&b);
}
END_TEST

static void *run_on_thread(void *arg)
{
	derived_run(arg, "pw");
	return NULL;
}

/* Two threads derive the same at the same time: one of them does. */
START_TEST(derived_by_two_threads)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct derived *derived = verifiers_ask(verifiers, "pw", SALT, 5000, DERIVED_SHARED);
	struct scram_keys keys;
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_on_thread, derived), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert(scram_derive("pw", SALT, 5000, &keys));
	ck_assert_int_eq(memcmp(derived_keys(derived), &keys, sizeof(keys)), 0);
	derived_release(&derived);
	verifiers_free(&verifiers);
}
END_TEST

/* ---- several loops ---- */

#define LOOPS 4
#define ROUNDS 300

struct logins {
	struct verifiers *verifiers;
	pthread_barrier_t begin;
	struct derived *got[LOOPS];
};

struct login {
	struct logins *logins;
	unsigned int number;
};

/* As a client's login does, with its job run at once. */
static struct derived *log_in(struct logins *logins, const char *password)
{
	struct derived *derived =
	    verifiers_ask(logins->verifiers, password, SALT, 2, DERIVED_SHARED);

	derived_run(derived, password);
	unit_expect(derived_keys(derived) != NULL);
	return derived;
}

/* All ask for the same one at the same time. */
static void *log_in_together(void *arg)
{
	struct login *login = arg;
	struct logins *logins = login->logins;
	char password[32];

	for (unsigned int round = 0; round < ROUNDS; round++) {
		snprintf(password, sizeof(password), "round %u", round);
		pthread_barrier_wait(&logins->begin);
		logins->got[login->number] = log_in(logins, password);
		pthread_barrier_wait(&logins->begin);
		unit_expect(logins->got[login->number] == logins->got[0]);
		pthread_barrier_wait(&logins->begin);
		derived_release(&logins->got[login->number]);
	}
	return NULL;
}

/* Meanwhile the main thread forgets them. */
static void *log_in_often(void *arg)
{
	struct login *login = arg;
	char password[32];

	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct derived *derived;

		snprintf(password, sizeof(password), "round %u", round);
		derived = log_in(login->logins, password);
		derived_release(&derived);
	}
	return NULL;
}

static void run_loops(struct logins *logins, void *(*run)(void *arg), bool forgets)
{
	struct login login[LOOPS];
	pthread_t threads[LOOPS];

	for (unsigned int i = 0; i < LOOPS; i++) {
		login[i] = (struct login){ logins, i };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run, &login[i]), 0);
	}
	for (int i = 0; i < ROUNDS && forgets; i++) {
		verifiers_forget(logins->verifiers);
		unit_expect(verifiers_count(logins->verifiers) <= 5);
	}
	for (int i = 0; i < LOOPS; i++)
		pthread_join(threads[i], NULL);
}

START_TEST(derived_in_several_loops_is_one)
{
	struct logins logins = { .verifiers = verifiers_new(5, NULL) };

	pthread_barrier_init(&logins.begin, NULL, LOOPS);
	run_loops(&logins, log_in_together, false);
	ck_assert_uint_eq(verifiers_count(logins.verifiers), 5);
	run_loops(&logins, log_in_often, true);
	verifiers_forget(logins.verifiers);
	ck_assert_uint_eq(verifiers_count(logins.verifiers), 0);
	pthread_barrier_destroy(&logins.begin);
	verifiers_free(&logins.verifiers);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/derived");
	TCase *cases = tcase_create("derived");

	tcase_add_test(cases, derived_once_when_shared);
	tcase_add_test(cases, derived_private_until_kept);
	tcase_add_test(cases, derived_longest_unused_goes_first);
	tcase_add_test(cases, derived_is_forgotten_at_a_reload);
	tcase_add_test(cases, derived_salts_are_stable);
	tcase_add_test(cases, derived_by_two_threads);
	tcase_add_test(cases, derived_in_several_loops_is_one);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
