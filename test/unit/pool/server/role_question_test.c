/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_host.c: what a row of the answer means, and rows that mean nothing.
 */
#include "pgweir/pool/server/question.h"

#include <string.h>

#include "pgweir/base/buf.h"

#include "../../unit.h"

#define COLUMNS_MAX 8

/* A DataRow; NULL in the list: SQL's NULL. */
static void make_row(struct buf *row, const char *const *values, size_t count)
{
	buf_add_be16(row, (uint16_t)count);
	for (size_t i = 0; i < count; i++) {
		buf_add_be32(row, values[i] ? (uint32_t)strlen(values[i]) : UINT32_MAX);
		if (values[i])
			buf_add_text(row, values[i]);
	}
}

static const struct {
	const char *says;
	size_t count;
	const char *values[COLUMNS_MAX];
	bool is_good;
	struct host_report report;
} cases[] = {
	{ "a primary",
	  7,
	  { "f", "off", "0000000B0000000100000003", "7711226358250336074", "1795409802.974589",
	    "1/A30106E0", NULL },
	  true,
	  { .role = HOST_PRIMARY,
	    .is_full = true,
	    .timeline = 11,
	    .system = 7711226358250336074,
	    .started = 1795409802974589,
	    .position = 0x1A30106E0 } },
	{ "a standby",
	  7,
	  { "t", "on", "11", "18446744073709551615", "1795409802", "FFFFFFFF/FFFFFFFF",
	    "449.646688" },
	  true,
	  { .role = HOST_STANDBY,
	    .is_read_only = true,
	    .is_full = true,
	    .timeline = 11,
	    .system = UINT64_MAX,
	    .started = 1795409802000000,
	    .position = UINT64_MAX,
	    .replay_age = 449646688 } },
	{ "a clock behind that of the primary",
	  7,
	  { "t", "off", NULL, NULL, NULL, NULL, "-1.5e-05" },
	  true,
	  { .role = HOST_STANDBY, .is_full = true } },
	{ "the short answer",
	  2,
	  { "f", "on" },
	  true,
	  { .role = HOST_PRIMARY, .is_read_only = true } },
	{ "another boolean", 2, { "true", "on" }, false, { 0 } },
	{ "another setting", 2, { "t", "yes" }, false, { 0 } },
	{ "NULL for the role", 2, { NULL, "on" }, false, { 0 } },
	{ "a column too few", 6, { "f", "off", NULL, NULL, NULL, NULL }, false, { 0 } },
	{ "a column too many",
	  8,
	  { "f", "off", NULL, NULL, NULL, NULL, NULL, NULL },
	  false,
	  { 0 } },
	{ "a timeline of a primary without a file name",
	  7,
	  { "f", "off", "00000001", NULL, NULL, NULL, NULL },
	  false,
	  { 0 } },
	{ "a timeline that is no number",
	  7,
	  { "t", "off", "1x", NULL, NULL, NULL, NULL },
	  false,
	  { 0 } },
	{ "a timeline that is too great",
	  7,
	  { "t", "off", "4294967296", NULL, NULL, NULL, NULL },
	  false,
	  { 0 } },
	{ "a system identifier that is too great",
	  7,
	  { "t", "off", NULL, "18446744073709551616", NULL, NULL, NULL },
	  false,
	  { 0 } },
	{ "a position without its second half",
	  7,
	  { "t", "off", NULL, NULL, NULL, "1/", NULL },
	  false,
	  { 0 } },
	{ "a position with something behind",
	  7,
	  { "t", "off", NULL, NULL, NULL, "1/2/3", NULL },
	  false,
	  { 0 } },
	{ "a time that is none",
	  7,
	  { "t", "off", NULL, NULL, "infinity", NULL, NULL },
	  false,
	  { 0 } },
	{ "a time with something behind",
	  7,
	  { "t", "off", NULL, NULL, "1.5 s", NULL, NULL },
	  false,
	  { 0 } },
};

START_TEST(role_question_reads)
{
	const struct host_report *want = &cases[_i].report;
	struct host_report got;
	struct buf row = { 0 };

	make_row(&row, cases[_i].values, cases[_i].count);
	ck_assert(buf_ok(&row));
	ck_assert_msg(role_question_answer(buf_bytes(&row), &got) == cases[_i].is_good, "%s",
	              cases[_i].says);
	if (cases[_i].is_good) {
		ck_assert_int_eq(got.role, want->role);
		ck_assert_int_eq(got.is_read_only, want->is_read_only);
		ck_assert_int_eq(got.is_full, want->is_full);
		ck_assert_uint_eq(got.timeline, want->timeline);
		ck_assert_uint_eq(got.system, want->system);
		ck_assert_uint_eq(got.started, want->started);
		ck_assert_uint_eq(got.position, want->position);
		ck_assert_int_eq(got.replay_age, want->replay_age);
	}
	buf_free(&row);
}
END_TEST

/* Every cut of a good row, and a byte behind it, is no answer. */
START_TEST(role_question_is_whole)
{
	struct host_report got;
	struct buf row = { 0 };

	make_row(&row, cases[0].values, cases[0].count);
	for (size_t count = 0; count < row.count; count++)
		ck_assert(!role_question_answer(bytes_of(row.at, count), &got));
	buf_add_byte(&row, 0);
	ck_assert(!role_question_answer(buf_bytes(&row), &got));
	buf_free(&row);
}
END_TEST

/* All names must be qualified. */
START_TEST(role_question_is_qualified)
{
	for (int is_short = 0; is_short < 2; is_short++) {
		const char *text = role_question_text(is_short);

		for (const char *at = strchr(text, '('); at; at = strchr(at + 1, '(')) {
			const char *name = at;

			while (name > text &&
			       (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z')))
				name--;
			if (name != at)
				ck_assert_msg(name[-1] == '.', "%s", name);
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/role_question");
	TCase *tcase = tcase_create("role_question");

	tcase_add_loop_test(tcase, role_question_reads, 0, COUNT_OF(cases));
	tcase_add_test(tcase, role_question_is_whole);
	tcase_add_test(tcase, role_question_is_qualified);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
