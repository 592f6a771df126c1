/* SPDX-License-Identifier: ISC */
/*
 * base/slab.c: allocation, release and counters.
 */
#include "pgweir/base/slab.h"

#include <stdbool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define OBJECTS 5000

static const struct {
	const char *says;
	size_t size;
} sizes[] = {
	{ "a byte still has room for the free list", 1 },
	{ "a pointer", sizeof(void *) },
	{ "not a multiple of the alignment", 41 },
	{ "larger than a block", 100000 },
};

static bool is_zero(const char *at, size_t count)
{
	return at[0] == 0 && memcmp(at, at + 1, count - 1) == 0;
}

START_TEST(slab_gives_zeroed_and_aligned)
{
	struct slab slab;
	char *objects[64];

	slab_init(&slab, "test", sizes[_i].size);
	ck_assert_str_eq(slab.name, "test");
	ck_assert_msg(slab.size >= sizes[_i].size, "%s", sizes[_i].says);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < COUNT_OF(objects); i++) {
			objects[i] = slab_take(&slab);
			ck_assert_msg((uintptr_t)objects[i] % _Alignof(max_align_t) == 0, "%s",
			              sizes[_i].says);
			ck_assert_msg(is_zero(objects[i], sizes[_i].size), "%s", sizes[_i].says);
			memset(objects[i], 0xff, sizes[_i].size);
		}
		for (size_t i = 0; i < COUNT_OF(objects); i++)
			slab_give(&slab, &objects[i]);
		ck_assert_ptr_null(objects[0]);
	}
	slab_done(&slab);
}
END_TEST

/* Whether smaps says that a core dump has not the pages at `at`. */
static bool is_left_out(const void *at)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	bool is_here = false, is_found = false;
	char line[512];
	uintptr_t begin, end;

	ck_assert_ptr_nonnull(file);
	while (!is_found && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
			is_here = begin <= (uintptr_t)at && (uintptr_t)at < end;
		else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
			is_found = strstr(line, " dd") != NULL;
	}
	fclose(file);
	return is_found;
}

START_TEST(slab_of_secrets)
{
	struct slab slab;
	char *first, *last = NULL, *again;

	slab_init(&slab, "test", 1000);
	slab.is_secret = true;
	first = slab_take(&slab);
	while (slab.free_count)
		last = slab_take(&slab);
	ck_assert(is_left_out(first) && is_left_out(last));
	ck_assert(!is_left_out(&slab) && is_zero(first, 1000));
	memset(first, 0xff, 1000);
	again = first;
	slab_give(&slab, &first);
	first = slab_take(&slab);
	ck_assert_ptr_eq(first, again);
	slab.used_count = 0;
	slab_done(&slab);
	first = malloc(100000);
	ck_assert(!is_left_out(first));
	free(first);
}
END_TEST

START_TEST(slab_objects_do_not_overlap)
{
	struct slab slab;
	static uint64_t *objects[OBJECTS];

	slab_init(&slab, "test", 24);
	for (uint64_t i = 0; i < OBJECTS; i++) {
		objects[i] = slab_take(&slab);
		objects[i][0] = objects[i][1] = objects[i][2] = i;
	}
	ck_assert_uint_eq(slab.used_count, OBJECTS);
	for (uint64_t i = 0; i < OBJECTS; i++) {
		ck_assert(objects[i][0] == i && objects[i][1] == i && objects[i][2] == i);
		slab_put(&slab, objects[i]);
	}
	ck_assert_uint_eq(slab.used_count, 0);
	ck_assert_uint_ge(slab.free_count, OBJECTS);
	slab_done(&slab);
	ck_assert_uint_eq(slab.free_count, 0);
}
END_TEST

START_TEST(slab_uses_again_what_came_back_last)
{
	struct slab slab;
	void *first, *second, *kept;
	size_t free_count;

	slab_init(&slab, "test", 100);
	kept = slab_take(&slab);
	first = slab_take(&slab);
	free_count = slab.free_count;
	slab_put(&slab, first);
	ck_assert_uint_eq(slab.free_count, free_count + 1);
	second = slab_take(&slab);
	ck_assert_ptr_eq(first, second);
	slab_put(&slab, NULL);
	ck_assert_uint_eq(slab.used_count, 2);
	slab_put(&slab, kept);
	slab_put(&slab, second);
	slab_done(&slab);
	slab_done(&slab);                               /* idle */
	ck_assert_ptr_nonnull(kept = slab_take(&slab)); /* and reusable */
	slab_put(&slab, kept);
	slab_done(&slab);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/slab");
	TCase *cases = tcase_create("slab"), *secrets = tcase_create("slab of secrets");

	tcase_add_loop_test(cases, slab_gives_zeroed_and_aligned, 0, COUNT_OF(sizes));
	tcase_set_tags(secrets, "smaps");
	tcase_add_test(secrets, slab_of_secrets);
	tcase_add_test(cases, slab_objects_do_not_overlap);
	tcase_add_test(cases, slab_uses_again_what_came_back_last);
	suite_add_tcase(suite, cases);
	suite_add_tcase(suite, secrets);
	return unit_run(suite);
}
