/* SPDX-License-Identifier: ISC */
/*
 * pgwire/frame.h.
 */
#include "pgweir/pgwire/frame.h"

#include "../unit.h"

static const struct {
	const char *says;
	struct bytes in;
	enum wire_result result;
	uint32_t length;
} cases[] = {
	{ "nothing yet", { "", 0 }, WIRE_MORE, 0 },
	{ "header cut in two", { "Q\0\0", 3 }, WIRE_MORE, 0 },
	{ "length shorter than itself", { "Q\0\0\0\3", 5 }, WIRE_BAD, 0 },
	{ "no body", { "S\0\0\0\4", 5 }, WIRE_OK, 5 },
	{ "body still on its way", { "Q\0\0\0\5", 5 }, WIRE_OK, 6 },
	{ "as long as may be", { "Q\0\0\3\377", 5 }, WIRE_OK, 1024 },
	{ "too long", { "Q\0\0\4\0", 5 }, WIRE_BAD, 0 },
	{ "a negative length", { "Q\377\377\377\377", 5 }, WIRE_BAD, 0 },
};

START_TEST(frame_peek_answers)
{
	struct frame frame;

	ck_assert_msg(frame_peek(cases[_i].in, 1024, &frame) == cases[_i].result, "%s",
	              cases[_i].says);
	if (cases[_i].result == WIRE_OK) {
		ck_assert_int_eq(frame.type, cases[_i].in.at[0]);
		ck_assert_uint_eq(frame.length, cases[_i].length);
	}
}
END_TEST

START_TEST(frame_body_is_behind_the_header)
{
	struct bytes in = bytes_of("Q\0\0\0\7ab\0next", 12);
	struct frame frame;

	ck_assert_int_eq(frame_peek(in, 1024, &frame), WIRE_OK);
	ck_assert(bytes_equal(frame_body(in, &frame), bytes_of("ab\0", 3)));
}
END_TEST

START_TEST(five_types_are_extended)
{
	unsigned int count = 0;

	for (int type = 0; type < 256; type++)
		count += frame_is_extended((char)type);
	ck_assert_uint_eq(count, 5);
	for (const char *type = "PBDEC"; *type; type++)
		ck_assert_msg(frame_is_extended(*type), "%c", *type);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/frame");
	TCase *tests = tcase_create("frame");

	tcase_add_test(tests, five_types_are_extended);
	tcase_add_loop_test(tests, frame_peek_answers, 0, COUNT_OF(cases));
	tcase_add_test(tests, frame_body_is_behind_the_header);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
