/* SPDX-License-Identifier: ISC */
/*
 * pool/catalog.c: what is read from the answer to the question about a database's catalog.
 */
#include "pgweir/pool/catalog.h"

#include "pgweir/base/buf.h"

#include "../unit.h"

/* The answer to a question: a row, unless `values` is empty, and its end. */
static void answer(struct catalog *catalog, const char *const values[3], bool has_failed)
{
	struct buf row = { 0 };
	int count = 0;

	while (count < 3 && values[count])
		count++;
	buf_add_be16(&row, (uint16_t)count);
	for (int i = 0; i < count; i++) {
		if (strcmp(values[i], "NULL") == 0) {
			buf_add_be32(&row, UINT32_MAX);
			continue;
		}
		buf_add_be32(&row, (uint32_t)strlen(values[i]));
		buf_add_text(&row, values[i]);
	}
	if (count)
		catalog_row(catalog, buf_bytes(&row));
	catalog_end(catalog, has_failed, USEC_PER_SEC);
	buf_free(&row);
}

static const struct {
	const char *says;
	const char *values[3];
	bool has_failed;
	enum catalog_verdict verdict;
	enum catalog_sequences sequences;
} cases[] = {
	{ "no sequences", { "1 1", "NULL", "none" }, false, CATALOG_QUIET, CATALOG_SEQUENCES_NONE },
	{ "some, for texts that write",
	  { "1 1", "NULL", "written" },
	  false,
	  CATALOG_QUIET,
	  CATALOG_SEQUENCES_WRITTEN },
	{ "some, for functions",
	  { "1 1", "NULL", "called" },
	  false,
	  CATALOG_QUIET,
	  CATALOG_SEQUENCES_CALLED },
	{ "functions that touch more",
	  { "1 1", "function f", "none" },
	  false,
	  CATALOG_TOUCHES,
	  CATALOG_SEQUENCES_NONE },
	{ "another word is no promise",
	  { "1 1", "NULL", "NULL" },
	  false,
	  CATALOG_QUIET,
	  CATALOG_SEQUENCES_CALLED },
	{ "a row too short", { "1 1", "NULL" }, false, CATALOG_UNREAD, CATALOG_SEQUENCES_CALLED },
	{ "no row", { NULL }, false, CATALOG_UNREAD, CATALOG_SEQUENCES_CALLED },
	{ "an error", { NULL }, true, CATALOG_UNREAD, CATALOG_SEQUENCES_CALLED },
};

START_TEST(catalog_is_read)
{
	struct catalog catalog = { .reads_all = true };

	answer(&catalog, cases[_i].values, cases[_i].has_failed);
	ck_assert_msg(catalog.verdict == cases[_i].verdict, "%s", cases[_i].says);
	ck_assert_msg(catalog.sequences == cases[_i].sequences, "%s", cases[_i].says);
}
END_TEST

/* The short question says only whether something has changed. */
START_TEST(catalog_is_looked_at_again)
{
	struct catalog catalog = { .reads_all = true };

	answer(&catalog, (const char *const[3]){ "1 1", "NULL", "none" }, false);
	catalog.reads_all = false;
	answer(&catalog, (const char *const[3]){ "1 1", "NULL", "NULL" }, false);
	ck_assert_int_eq(catalog.verdict, CATALOG_QUIET);
	ck_assert_int_eq(catalog.sequences, CATALOG_SEQUENCES_NONE);
	answer(&catalog, (const char *const[3]){ "1 2", "NULL", "NULL" }, false);
	ck_assert_int_eq(catalog.verdict, CATALOG_UNREAD);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/catalog");
	TCase *tests = tcase_create("catalog");

	tcase_add_loop_test(tests, catalog_is_read, 0, COUNT_OF(cases));
	tcase_add_test(tests, catalog_is_looked_at_again);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
