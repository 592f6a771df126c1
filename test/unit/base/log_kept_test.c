/* SPDX-License-Identifier: ISC */
/*
 * base/log_kept.c
 */
#include "../../../src/base/log_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

static struct log_kept_ring *ring;

static void set_up(void)
{
	ring = calloc(1, sizeof(*ring));
	ck_assert_ptr_nonnull(ring);
}

static void tear_down(void)
{
	log_kept_free(ring);
	free(ring);
}

static const struct log_who nobody;

static void add(const char *kind, const char *text)
{
	log_kept_add(ring, kind, LOG_LEVEL_WARNING, &nobody, bytes_text(text));
}

static void add_number(unsigned int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	add("set", text);
}

START_TEST(log_kept_is_empty)
{
	uint64_t number = 0;
	struct log_kept kept;

	ck_assert(!log_kept_get(ring, &number, &kept));
}
END_TEST

START_TEST(log_kept_has_all_of_a_line)
{
	usec_t before = wall_now();
	uint64_t number = 0;
	struct log_kept kept;

	log_kept_add(ring, "limit", LOG_LEVEL_INFO,
	             &(struct log_who){ .database = "app", .user = "alice" }, bytes_text("many"));
	add("limit", "all");
	ck_assert(log_kept_get(ring, &number, &kept));
	ck_assert_str_eq(kept.kind, "limit");
	ck_assert_str_eq(kept.database, "app");
	ck_assert_str_eq(kept.user, "alice");
	ck_assert_str_eq(kept.text, "many");
	ck_assert_int_eq(kept.level, LOG_LEVEL_INFO);
	ck_assert(kept.at >= before && kept.at <= wall_now());
	ck_assert(log_kept_get(ring, &number, &kept));
	ck_assert_str_eq(kept.database, "");
	ck_assert_str_eq(kept.user, "");
	ck_assert_str_eq(kept.text, "all");
	ck_assert(!log_kept_get(ring, &number, &kept));
}
END_TEST

START_TEST(log_kept_has_the_last_ones)
{
	uint64_t number = 0;
	struct log_kept kept;

	for (unsigned int i = 0; i < LOG_KEPT_MAX + 3; i++)
		add_number(i);
	for (unsigned int i = 3; i < LOG_KEPT_MAX + 3; i++) {
		ck_assert(log_kept_get(ring, &number, &kept));
		ck_assert_int_eq(strtoll(kept.text, NULL, 10), i);
		ck_assert_uint_eq(number, i + 1);
	}
	ck_assert(!log_kept_get(ring, &number, &kept));
	/* who reads slowly misses what has left, and nothing else */
	add_number(LOG_KEPT_MAX + 3);
	ck_assert(log_kept_get(ring, &number, &kept));
	ck_assert_int_eq(strtoll(kept.text, NULL, 10), LOG_KEPT_MAX + 3);
	number = 2;
	ck_assert(log_kept_get(ring, &number, &kept));
	ck_assert_int_eq(strtoll(kept.text, NULL, 10), 4);
}
END_TEST

START_TEST(log_kept_cuts_texts)
{
	char text[LOG_KEPT_TEXT_MAX + 100], name[300];
	uint64_t number = 0;
	struct log_kept kept;

	memset(text, 'x', sizeof(text));
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	log_kept_add(ring, "set", LOG_LEVEL_INFO,
	             &(struct log_who){ .database = name, .user = name },
	             bytes_of(text, sizeof(text)));
	ck_assert(log_kept_get(ring, &number, &kept));
	ck_assert_uint_eq(strlen(kept.text), LOG_KEPT_TEXT_MAX);
	ck_assert_uint_eq(strlen(kept.database), sizeof(kept.database) - 1);
	ck_assert_uint_eq(strlen(kept.user), sizeof(kept.user) - 1);
}
END_TEST

static uint64_t count_of(const char *name)
{
	for (size_t i = 0; i < ring->kind_count; i++) {
		if (strcmp(ring->kinds[i].name, name) == 0)
			return ring->kinds[i].count;
	}
	return UINT64_MAX;
}

START_TEST(log_kept_counts_kinds)
{
	log_kept_begin(ring);
	ck_assert_uint_eq(count_of("pause"), 0);
	ck_assert_uint_eq(count_of("KILL"), UINT64_MAX);
	log_kept_expect(ring, "KILL");
	log_kept_expect(ring, "PAUSE");
	ck_assert_uint_eq(count_of("KILL"), 0);
	ck_assert_uint_eq(count_of("PAUSE"), UINT64_MAX);
	add("PAUSE", "by command");
	add("pause", "by signal");
	add("new", "not expected");
	ck_assert_uint_eq(count_of("pause"), 2);
	ck_assert_uint_eq(count_of("new"), 1);
	for (unsigned int i = 0; i < LOG_KEPT_MAX; i++)
		add_number(i);
	ck_assert_uint_eq(count_of("pause"), 2);
	ck_assert_uint_eq(count_of("set"), LOG_KEPT_MAX);
}
END_TEST

START_TEST(log_kept_bounds_kinds)
{
	static char names[LOG_KINDS_MAX + 1][8];
	uint64_t number = 0;
	struct log_kept kept;

	for (unsigned int i = 0; i <= LOG_KINDS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		add(names[i], "event");
	}
	ck_assert_uint_eq(ring->kind_count, LOG_KINDS_MAX);
	for (unsigned int i = 0; i <= LOG_KINDS_MAX; i++) {
		ck_assert(log_kept_get(ring, &number, &kept));
		ck_assert_str_eq(kept.kind, names[i]);
	}
	ck_assert_uint_eq(count_of("k0"), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/log_kept");
	TCase *tests = tcase_create("log_kept");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, log_kept_is_empty);
	tcase_add_test(tests, log_kept_has_all_of_a_line);
	tcase_add_test(tests, log_kept_has_the_last_ones);
	tcase_add_test(tests, log_kept_cuts_texts);
	tcase_add_test(tests, log_kept_counts_kinds);
	tcase_add_test(tests, log_kept_bounds_kinds);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
