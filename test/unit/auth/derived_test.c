/* SPDX-License-Identifier: ISC */
/*
 * auth/verifiers.c: which keys are cached, for which user and how long. The test runs the
 * jobs.
 */
#include "pgweir/auth/derived.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit.h"

#define SALT bytes_text("0123456789abcdef")

static void count_call(void *arg) { ++*(int *)arg; }

static void run_job(struct job *job)
{
	job->run(job);
	job->done(job);
}

/* Requests a derivation and runs its job if needed; returns whether it was needed. */
static bool ask(struct verifiers *verifiers, const char *user, const char *password,
                enum derived_keep keep)
{
	struct derived *derived = verifiers_ask(verifiers, user, password, SALT, 2, keep);
	bool is_new = !derived_keys(derived);
	struct scram_keys keys;
	struct job *job = NULL;
	int calls = 0;

	if (is_new) {
		ck_assert(derived_job(derived, password, &job, count_call, &calls));
		run_job(job);
		ck_assert_int_eq(calls, 1);
		ck_assert_ptr_null(job);
	}
	ck_assert(scram_derive(password, SALT, 2, &keys));
	ck_assert_int_eq(memcmp(derived_keys(derived), &keys, sizeof(keys)), 0);
	derived_release(&derived);
	return is_new;
}

START_TEST(derived_once_when_shared)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);

	ck_assert(ask(verifiers, "bo", "secret", DERIVED_SHARED));
	ck_assert(!ask(verifiers, "bo", "secret", DERIVED_SHARED));
	ck_assert(ask(verifiers, "bo", "other", DERIVED_SHARED));
	ck_assert_uint_eq(verifiers_count(verifiers), 2);
	verifiers_free(&verifiers);
	ck_assert_ptr_null(verifiers);
}
END_TEST

START_TEST(derived_private_until_kept)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct derived *derived;

	ck_assert(ask(verifiers, "bo", "secret", DERIVED_PRIVATE));
	ck_assert_uint_eq(verifiers_count(verifiers), 0);
	derived = verifiers_ask(verifiers, "bo", "secret", SALT, 2, DERIVED_PRIVATE);
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

	ask(verifiers, NULL, "a", DERIVED_SHARED);
	ask(verifiers, NULL, "b", DERIVED_SHARED);
	ck_assert(!ask(verifiers, NULL, "a", DERIVED_SHARED));
	ask(verifiers, NULL, "c", DERIVED_SHARED);
	ck_assert_uint_eq(verifiers_count(verifiers), 2);
	ck_assert(!ask(verifiers, NULL, "a", DERIVED_SHARED));
	ck_assert(ask(verifiers, NULL, "b", DERIVED_SHARED));
	verifiers_free(&verifiers);
}
END_TEST

/* "scram" has a SCRAM secret of the password "pw". */
static struct users *make_users(const char *plain)
{
	struct scram_verifier verifier = { .iterations = 2, .salt_count = 16 };
	struct scram_keys keys;
	struct buf text = { 0 };
	struct users *users;

	ck_assert(scram_derive("pw", SALT, 2, &keys));
	memcpy(verifier.salt, SALT.at, 16);
	memcpy(verifier.stored_key, keys.stored_key, SCRAM_KEY_SIZE);
	memcpy(verifier.server_key, keys.server_key, SCRAM_KEY_SIZE);
	buf_printf(&text, "\"plain\" \"%s\"\n\"scram\" \"", plain);
	scram_verifier_text(&verifier, &text);
	buf_add_text(&text, "\"\n");
	users = users_parse(buf_bytes(&text), "f", NULL);
	ck_assert_ptr_nonnull(users);
	buf_free(&text);
	return users;
}

START_TEST(derived_is_trimmed_after_a_reload)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct users *users = make_users("one");

	ask(verifiers, "plain", "one", DERIVED_SHARED);
	ask(verifiers, "scram", "pw", DERIVED_SHARED);
	ask(verifiers, "scram", "not his", DERIVED_SHARED);
	ask(verifiers, "gone", "x", DERIVED_SHARED);
	ask(verifiers, NULL, "nobody's", DERIVED_SHARED);
	verifiers_trim(verifiers, users);
	ck_assert_uint_eq(verifiers_count(verifiers), 3);
	ck_assert(!ask(verifiers, "plain", "one", DERIVED_SHARED));
	ck_assert(!ask(verifiers, "scram", "pw", DERIVED_SHARED));
	users_release(&users);

	users = make_users("two");
	verifiers_trim(verifiers, users);
	ck_assert_uint_eq(verifiers_count(verifiers), 2);
	ck_assert(ask(verifiers, "plain", "one", DERIVED_PRIVATE));
	users_release(&users);
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
	struct job *job = arg;

	job->run(job);
	return NULL;
}

/* Two simultaneous jobs of one derivation: both owners get the same keys. */
START_TEST(derived_by_two_threads)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct derived *derived = verifiers_ask(verifiers, "bo", "pw", SALT, 5000, DERIVED_SHARED);
	struct job *jobs[2] = { NULL };
	struct scram_keys keys;
	pthread_t threads[2];
	int calls = 0;

	for (int i = 0; i < 2; i++) {
		ck_assert(derived_job(derived, "pw", &jobs[i], count_call, &calls));
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_on_thread, jobs[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	jobs[0]->done(jobs[0]);
	jobs[1]->done(jobs[1]);
	ck_assert_int_eq(calls, 2);
	ck_assert(scram_derive("pw", SALT, 5000, &keys));
	ck_assert_int_eq(memcmp(derived_keys(derived), &keys, sizeof(keys)), 0);
	derived_release(&derived);
	verifiers_free(&verifiers);
}
END_TEST

START_TEST(derived_jobs_are_dropped)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct derived *derived = verifiers_ask(verifiers, "bo", "pw", SALT, 2, DERIVED_SHARED);
	struct job *refused = NULL, *taken = NULL, *ended = NULL, *job;
	int calls = 0;

	ck_assert(derived_job(derived, "pw", &refused, count_call, &calls));
	ck_assert(derived_job(derived, "pw", &taken, count_call, &calls));
	ck_assert(derived_job(derived, "pw", &ended, count_call, &calls));
	derived_job_drop(&refused, false);
	derived_job_drop(&refused, false);
	job = taken;
	derived_job_drop(&taken, true);
	ck_assert_ptr_null(taken);
	ck_assert(job->is_abandoned);
	derived_release(&derived);
	verifiers_free(&verifiers); /* the job may outlive all of them */
	run_job(job);
	ended->is_abandoned = true; /* as workers_free() does, while the owner lives */
	ended->done(ended);
	ck_assert_ptr_null(ended);
	ck_assert_int_eq(calls, 0);
}
END_TEST

/* ---- several loops ---- */

#define LOOPS 4
#define ROUNDS 300

struct logins {
	struct verifiers *verifiers;
	struct users *users;
	pthread_barrier_t begin;
	struct derived *got[LOOPS];
};

struct login {
	struct logins *logins;
	unsigned int number;
};

static void do_nothing(void *arg) { (void)arg; }

/* As a client's login does, with its job run at once. */
static struct derived *log_in(struct logins *logins, const char *user, const char *password)
{
	struct users *users = users_hold(logins->users);
	struct derived *derived =
	    verifiers_ask(logins->verifiers, user, password, SALT, 2, DERIVED_SHARED);
	struct job *job = NULL;

	unit_expect(users_find(users, "plain") != NULL);
	unit_expect(derived_job(derived, password, &job, do_nothing, NULL));
	run_job(job);
	unit_expect(derived_keys(derived) != NULL);
	users_release(&users);
	return derived;
}

static void *log_in_often(void *arg)
{
	struct login *login = arg;
	struct logins *logins = login->logins;
	char password[32];

	for (unsigned int round = 0; round < ROUNDS; round++) {
		/* All ask for the same one at the same time, ... */
		snprintf(password, sizeof(password), "round %u", round);
		pthread_barrier_wait(&logins->begin);
		logins->got[login->number] = log_in(logins, NULL, password);
		pthread_barrier_wait(&logins->begin);
		unit_expect(logins->got[login->number] == logins->got[0]);
		pthread_barrier_wait(&logins->begin);
		derived_release(&logins->got[login->number]);
		/* ... and then for those of a user, which the main thread trims. */
		logins->got[login->number] = log_in(logins, "gone", password);
		derived_release(&logins->got[login->number]);
	}
	return NULL;
}

START_TEST(derived_in_several_loops_is_one)
{
	struct logins logins = { .verifiers = verifiers_new(5, NULL), .users = make_users("a") };
	struct login login[LOOPS];
	pthread_t threads[LOOPS];

	pthread_barrier_init(&logins.begin, NULL, LOOPS);
	for (unsigned int i = 0; i < LOOPS; i++) {
		login[i] = (struct login){ &logins, i };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, log_in_often, &login[i]), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		verifiers_trim(logins.verifiers, logins.users);
		unit_expect(verifiers_count(logins.verifiers) <= 5);
	}
	for (int i = 0; i < LOOPS; i++)
		pthread_join(threads[i], NULL);
	verifiers_trim(logins.verifiers, logins.users);
	for (int i = 0; i < 5; i++)
		ask(logins.verifiers, NULL, (const char *[]){ "a", "b", "c", "d", "e" }[i],
		    DERIVED_SHARED);
	ck_assert_uint_eq(verifiers_count(logins.verifiers), 5);
	pthread_barrier_destroy(&logins.begin);
	users_release(&logins.users);
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
	tcase_add_test(cases, derived_is_trimmed_after_a_reload);
	tcase_add_test(cases, derived_salts_are_stable);
	tcase_add_test(cases, derived_by_two_threads);
	tcase_add_test(cases, derived_jobs_are_dropped);
	tcase_add_test(cases, derived_in_several_loops_is_one);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
