/* SPDX-License-Identifier: ISC */
/*
 * client/relay/causal.c: whether a transaction block is open behind a client's messages. A case is
 * a dialogue: Q<text>, P<text> (unnamed), p<text> (named), B (of the unnamed statement), b<text>
 * (of a named one, "-": unknown), E, e (of a named portal), S, and other types as they are.
 */
#include <string.h>

#include "../../../../src/client/relay/relay_priv.h"

#include "../../unit.h"

static const struct {
	const char *says;
	bool is_open; /* at first */
	const char *messages[12];
	enum course_block block;
} cases[] = {
	{ "nothing", false, { NULL }, COURSE_CLOSED },
	{ "nothing in a block", true, { "S" }, COURSE_OPEN },
	{ "a statement", false, { "Qinsert into t values (1)" }, COURSE_CLOSED },
	{ "a statement in a block", true, { "Qselect 1" }, COURSE_OPEN },
	{ "BEGIN", false, { "Qbegin" }, COURSE_OPEN },
	{ "START TRANSACTION", false, { "Qstart transaction read only" }, COURSE_OPEN },
	{ "BEGIN, COMMIT", false, { "Qbegin", "Qcommit" }, COURSE_CLOSED },
	{ "COMMIT", true, { "Qcommit" }, COURSE_CLOSED },
	{ "ROLLBACK", true, { "Qrollback" }, COURSE_CLOSED },
	{ "COMMIT AND CHAIN", true, { "Qcommit and chain" }, COURSE_UNSURE },
	{ "ROLLBACK TO", true, { "Qrollback to a" }, COURSE_UNSURE },
	{ "PREPARE TRANSACTION", true, { "Qprepare transaction 'a'" }, COURSE_UNSURE },
	{ "SET TRANSACTION", true, { "Qset transaction read only" }, COURSE_OPEN },
	{ "COPY", false, { "Qcopy t from stdin" }, COURSE_UNSURE },
	{ "several statements", false, { "Qselect 1; select 2" }, COURSE_UNSURE },
	{ "behind what is not sure", true, { "Qsavepoint a", "Qcommit" }, COURSE_UNSURE },
	{ "a text that is not known", false, { "Q-" }, COURSE_UNSURE },

	{ "extended", false, { "Pinsert into t values ($1)", "B", "D", "E", "S" }, COURSE_CLOSED },
	{ "extended COMMIT", true, { "Pcommit", "B", "E", "S" }, COURSE_CLOSED },
	{ "extended BEGIN", false, { "Pbegin", "B", "E", "S" }, COURSE_OPEN },
	{ "a Parse changes nothing", true, { "Pcommit", "D", "S" }, COURSE_OPEN },
	{ "nor does a Bind", true, { "Pcommit", "B", "S" }, COURSE_OPEN },
	{ "a transaction in a pipeline",
	  false,
	  { "Pbegin", "B", "E", "Pselect 1", "B", "E", "Pcommit", "B", "E", "S" },
	  COURSE_CLOSED },
	{ "which begins another one",
	  false,
	  { "Pcommit", "B", "E", "Pbegin", "B", "E", "S" },
	  COURSE_OPEN },
	{ "the portal is that of the last Bind",
	  true,
	  { "Pcommit", "B", "Pselect 1", "E", "S" },
	  COURSE_CLOSED },
	{ "executed once more", true, { "Pselect 1", "B", "E", "S", "E", "S" }, COURSE_OPEN },
	{ "prepared statements", true, { "bcommit", "E", "S" }, COURSE_CLOSED },
	{ "prepared BEGIN", false, { "pbegin", "bbegin", "E", "S" }, COURSE_OPEN },
	{ "a named Parse is not the unnamed one",
	  true,
	  { "Pselect 1", "pcommit", "B", "E", "S" },
	  COURSE_OPEN },
	{ "an unknown statement", false, { "b-", "E", "S" }, COURSE_UNSURE },
	{ "an unknown unnamed statement", false, { "B", "E", "S" }, COURSE_UNSURE },
	{ "a named portal", false, { "Pselect 1", "B", "e", "S" }, COURSE_UNSURE },
	{ "no Parse that is known", false, { "P-", "B", "E", "S" }, COURSE_UNSURE },
	{ "SQL's EXECUTE", false, { "Pexecute a", "B", "E", "S" }, COURSE_UNSURE },
	{ "a function call", false, { "F" }, COURSE_UNSURE },
	{ "data of a COPY", false, { "d" }, COURSE_UNSURE },
	{ "the end of one", false, { "c" }, COURSE_UNSURE },
	{ "Flush and Close", true, { "Pcommit", "C", "H", "B", "H", "E", "H" }, COURSE_CLOSED },
};

struct sent {
	char bytes[128];
	struct frame frame;
	struct bytes text;
};

/* Makes the message. Names are "" or "x". */
static void make(struct sent *sent, const char *message)
{
	bool is_named = strchr("pbe", *message);
	const char *text = message + 1;
	char type = is_named ? (char)(*message - 'a' + 'A') : *message;
	char *at = sent->bytes + FRAME_HEADER_SIZE;

	sent->text = strcmp(text, "-") == 0 || strchr("BbEe", *message) ? bytes_of(NULL, 0)
	                                                                : bytes_text(text);
	if (*message == 'b' && strcmp(text, "-") != 0)
		sent->text = bytes_text(text);
	memset(sent->bytes, 0, sizeof(sent->bytes));
	if (type == 'B')
		at++; /* no portal */
	if (is_named)
		*at++ = 'x';
	sent->frame = (struct frame){ .type = type, .length = sizeof(sent->bytes) };
}

static void note(struct course *course, const char *message, size_t cut)
{
	struct sent sent;

	make(&sent, message);
	course_note(course, &sent.frame, bytes_of(sent.bytes, sizeof(sent.bytes) - cut), sent.text);
}

START_TEST(course_is_known)
{
	struct course course = { 0 };

	course_begin(&course, cases[_i].is_open);
	for (int i = 0; cases[_i].messages[i]; i++)
		note(&course, cases[_i].messages[i], 0);
	ck_assert_msg(course.block == cases[_i].block, "%s", cases[_i].says);
}
END_TEST

/* A message that has to wait is noted again. */
START_TEST(course_twice_is_the_same)
{
	struct course course = { 0 };

	course_begin(&course, cases[_i].is_open);
	for (int i = 0; cases[_i].messages[i]; i++) {
		note(&course, cases[_i].messages[i], 0);
		note(&course, cases[_i].messages[i], 0);
	}
	ck_assert_msg(course.block == cases[_i].block, "%s", cases[_i].says);
}
END_TEST

START_TEST(course_of_a_part_is_unsure)
{
	struct course course = { 0 };

	course_begin(&course, false);
	note(&course, "Pselect 1", 0);
	note(&course, "B", 1);
	ck_assert_uint_eq(course.block, COURSE_UNSURE);
	course_begin(&course, false);
	note(&course, "B", 0);
	note(&course, "E", 1);
	ck_assert_uint_eq(course.block, COURSE_UNSURE);
}
END_TEST

START_TEST(course_of_a_long_text_is_unsure)
{
	static char text[17 * 1024];
	struct frame frame = { .type = 'Q', .length = 6 };
	struct course course = { 0 };

	memset(text, ' ', sizeof(text));
	memcpy(text, "select 1", 8);
	course_begin(&course, false);
	course_note(&course, &frame, bytes_of("Q\0\0\0\5", 6), bytes_of(text, 1000));
	ck_assert_uint_eq(course.block, COURSE_CLOSED);
	course_note(&course, &frame, bytes_of("Q\0\0\0\5", 6), bytes_of(text, sizeof(text)));
	ck_assert_uint_eq(course.block, COURSE_UNSURE);
}
END_TEST

START_TEST(course_begins_again)
{
	struct course course = { .block = COURSE_UNSURE };

	course_begin(&course, true);
	ck_assert_uint_eq(course.block, COURSE_OPEN);
	course_begin(&course, false);
	ck_assert_uint_eq(course.block, COURSE_CLOSED);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/course");
	TCase *tcase = tcase_create("course");

	tcase_add_loop_test(tcase, course_is_known, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, course_twice_is_the_same, 0, COUNT_OF(cases));
	tcase_add_test(tcase, course_of_a_part_is_unsure);
	tcase_add_test(tcase, course_of_a_long_text_is_unsure);
	tcase_add_test(tcase, course_begins_again);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
