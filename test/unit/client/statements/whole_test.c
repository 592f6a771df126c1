/* SPDX-License-Identifier: ISC */
/*
 * client/statements/statements_judge.c: messages that are buffered until complete, and the cost of
 * it.
 */
#include "../../../../src/client/statements/statements_priv.h"

#include <stdlib.h>
#include <string.h>

#include "../../unit.h"

#define MOST ((size_t)100 * 1000)
#define TEXT(text) text, sizeof(text) - 1

/* The beginning of a body, followed by `more` bytes of `fill`; `length` bytes on the wire. */
static const struct {
	const char *says;
	char type;
	const char *front;
	size_t front_size;
	char fill;
	size_t more;
	uint32_t length;
	enum wire_result result;
} cases[] = {
	{ "a query tells by its first word", 'Q', TEXT("SELECT"), 0, 0, 1000000, WIRE_OK },
	{ "one of ours is waited for", 'Q', TEXT("PREPARE s"), 0, 0, 99999, WIRE_MORE },
	{ "the longest", 'Q', TEXT("EXECUTE s"), 0, 0, 100000, WIRE_MORE },
	{ "one too long", 'Q', TEXT("EXECUTE s"), 0, 0, 100001, WIRE_BAD },
	{ "a comment is waited for", 'Q', TEXT("/* "), 'x', 50000, 1000000, WIRE_MORE },
	{ "but not without end", 'Q', TEXT("/* "), 'x', 100000, 1000000, WIRE_OK },
	{ "many comments", 'Q', TEXT(""), '\n', 50000, 1000000, WIRE_MORE },
	{ "too many", 'Q', TEXT(""), '\n', 100000, 1000000, WIRE_OK },
	{ "a Parse whose name is not there", 'P', TEXT(""), 0, 0, 1000000, WIRE_MORE },
	{ "with a name", 'P', TEXT("s"), 0, 0, 100000, WIRE_MORE },
	{ "with a name, too long", 'P', TEXT("s"), 0, 0, 100001, WIRE_BAD },
	{ "without, short", 'P', TEXT("\0SELECT"), 0, 0, WHOLE_TEXT_MAX, WIRE_MORE },
	{ "without, long", 'P', TEXT("\0SELECT"), 0, 0, WHOLE_TEXT_MAX + 1, WIRE_OK },
	{ "without, of ours", 'P', TEXT("\0PREPARE s"), 0, 0, 100000, WIRE_MORE },
	{ "without, of ours, too long", 'P', TEXT("\0PREPARE s"), 0, 0, 100001, WIRE_BAD },
	{ "without, a comment", 'P', TEXT("\0/*"), 'x', 100000, 1000000, WIRE_OK },
	{ "a Bind's names", 'B', TEXT("p\0s\0"), 0, 0, 1000000, WIRE_OK },
	{ "half of them", 'B', TEXT("p\0s"), 0, 0, 1000000, WIRE_MORE },
	{ "a portal's name has no end", 'B', TEXT("p"), 'x', 10000, 1000000, WIRE_MORE },
	{ "and goes on", 'B', TEXT("p"), 'x', WHOLE_NAMES_MAX, 1000000, WIRE_BAD },
	{ "nor a statement's", 'B', TEXT("p\0"), 'x', WHOLE_NAMES_MAX, 1000000, WIRE_BAD },
	{ "Describe", 'D', TEXT("S"), 'x', WHOLE_NAMES_MAX, 1000000, WIRE_BAD },
	{ "Close", 'C', TEXT("P"), 'x', WHOLE_NAMES_MAX, 1000000, WIRE_BAD },
	{ "Close with more than a name", 'C', TEXT("Ss\0"), 'x', 10, 1000000, WIRE_OK },
	{ "Execute", 'E', TEXT(""), 'x', WHOLE_NAMES_MAX + 1, 1000000, WIRE_BAD },
	{ "what is there in full", 'Q', TEXT("PREPARE s"), 0, 0, 14, WIRE_OK },
};

START_TEST(whole_judge_answers)
{
	size_t size = FRAME_HEADER_SIZE + cases[_i].front_size + cases[_i].more;
	char *in = malloc(size);
	struct frame frame = { cases[_i].type, cases[_i].length };

	memset(in, cases[_i].fill, size);
	memcpy(in + FRAME_HEADER_SIZE, cases[_i].front, cases[_i].front_size);
	ck_assert_msg(whole_judge(&frame, bytes_of(in, size), MOST) == cases[_i].result, "%s",
	              cases[_i].says);
	free(in);
}
END_TEST

/* The number of scanned bytes until a frame that arrives in pieces is complete. */
static uint64_t walked(uint32_t length, size_t piece, uint64_t *rests)
{
	uint64_t sum = 0;
	uint32_t seen = 0;

	for (size_t count = FRAME_HEADER_SIZE; count <= length; count += piece) {
		if (statements_can_wait(seen, count, length)) {
			++*rests;
			continue;
		}
		sum += count;
		seen = (uint32_t)count;
	}
	return sum;
}

START_TEST(whole_is_not_walked_through_again_and_again)
{
	static const size_t pieces[] = { 1, 2, 7, 100, 4096, 65536 };
	uint64_t rests = 0;

	ck_assert_uint_le(walked(10000000, pieces[_i], &rests), 4 * 10000000);
	ck_assert_uint_ge(rests, 10000000 / pieces[_i] - 64);
}
END_TEST

START_TEST(whole_looks_when_it_may_be_enough)
{
	ck_assert(!statements_can_wait(0, 5, 100));
	ck_assert(statements_can_wait(10, 19, 100));
	ck_assert(!statements_can_wait(10, 20, 100));
	ck_assert(!statements_can_wait(60, 100, 100));
	ck_assert(!statements_can_wait(60, 1000, 100));
	ck_assert(!statements_can_wait(UINT32_MAX, 2 * (size_t)UINT32_MAX, UINT32_MAX));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/whole");
	TCase *tests = tcase_create("whole");

	tcase_add_loop_test(tests, whole_judge_answers, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, whole_is_not_walked_through_again_and_again, 0, 6);
	tcase_add_test(tests, whole_looks_when_it_may_be_enough);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
