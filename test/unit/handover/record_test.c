/* SPDX-License-Identifier: ISC */
/*
 * handover/record.c: what is written is read; what is cut, twisted or unasked for is bad.
 */
#include <string.h>

#include "pgweir/handover/record.h"

#include "../unit.h"

struct facts {
	uint64_t number;
	bool flag;
	char text[8];
	struct bytes bytes;
	unsigned int count;
};

static void write_facts(struct buf *record)
{
	record_add_number(record, 'n', UINT64_C(0x0123456789abcdef));
	record_add_number(record, 'f', 1);
	record_add_text(record, 't', "text");
	record_add_bytes(record, 'b', bytes_of("\0\1\2", 3));
	record_add_number(record, 'r', 1);
	record_add_number(record, 'r', 2);
}

static bool read_facts(struct bytes bytes, struct facts *facts)
{
	struct record record = { .rest = bytes };

	*facts = (struct facts){ 0 };
	facts->number = record_number(&record, 'n');
	facts->flag = record_flag(&record, 'f');
	record_text(&record, 't', facts->text, sizeof(facts->text));
	facts->bytes = record_bytes(&record, 'b', 16);
	while (record_has(&record, 'r')) {
		record_number(&record, 'r');
		facts->count++;
	}
	return record_is_whole(&record);
}

START_TEST(what_is_written_is_read)
{
	struct buf record = { 0 };
	struct facts facts;

	write_facts(&record);
	ck_assert(read_facts(buf_bytes(&record), &facts));
	ck_assert(facts.number == UINT64_C(0x0123456789abcdef));
	ck_assert(facts.flag);
	ck_assert_str_eq(facts.text, "text");
	ck_assert(bytes_equal(facts.bytes, bytes_of("\0\1\2", 3)));
	ck_assert_uint_eq(facts.count, 2);
	buf_free(&record);
}
END_TEST

/* In memory that ends there. Whole it is only behind a number of the repeated fields. */
START_TEST(every_cut_is_bad)
{
	struct buf record = { 0 };
	size_t field = RECORD_HEADER_SIZE + 8;
	struct facts facts;

	write_facts(&record);
	for (size_t cut = 0; cut < record.count; cut++) {
		char *copy = malloc(cut ? cut : 1);
		bool is_between = cut + field == record.count || cut + 2 * field == record.count;

		memcpy(copy, record.at, cut);
		ck_assert_msg(read_facts(bytes_of(copy, cut), &facts) == is_between, "cut at %zu",
		              cut);
		free(copy);
	}
	buf_free(&record);
}
END_TEST

START_TEST(what_nobody_asks_for_is_bad)
{
	struct buf record = { 0 };
	struct facts facts;

	write_facts(&record);
	record_add_number(&record, 'x', 1);
	ck_assert(!read_facts(buf_bytes(&record), &facts));
	buf_free(&record);
}
END_TEST

static const struct {
	const char *says;
	const char *at;
	size_t count;
} bad[] = {
	{ "another tag", "m\0\0\0\10\0\0\0\0\0\0\0\1", 13 },
	{ "a short number", "n\0\0\0\7\0\0\0\0\0\0\0", 12 },
	{ "a long number", "n\0\0\0\11\0\0\0\0\0\0\0\0\1", 14 },
	{ "a length that is not there", "n\377\377\377\377\0\0\0\0\0\0\0\1", 13 },
	{ "a field of nothing", "n\0\0\0\0", 5 },
	{ "half a header", "n\0\0", 3 },
};

START_TEST(bad_numbers)
{
	struct record record = { .rest = bytes_of(bad[_i].at, bad[_i].count) };

	ck_assert_msg(record_number(&record, 'n') == 0, "%s", bad[_i].says);
	ck_assert_msg(!record_is_whole(&record), "%s", bad[_i].says);
	/* And it stays so, whatever follows. */
	ck_assert(!record_has(&record, 'n'));
	ck_assert(record_bytes(&record, 'n', 100).count == 0);
}
END_TEST

START_TEST(times_are_within_reason)
{
	struct buf record = { 0 };
	struct record read;

	record_add_number(&record, 't', (uint64_t)clock_now());
	record_add_number(&record, 't', UINT64_MAX);
	read = (struct record){ .rest = buf_bytes(&record) };
	ck_assert(record_time(&read, 't') > 0);
	ck_assert(record_time(&read, 't') == 0);
	ck_assert(!record_is_whole(&read));
	buf_free(&record);
}
END_TEST

START_TEST(a_flag_is_0_or_1)
{
	struct buf record = { 0 };
	struct record read;

	record_add_number(&record, 'f', 2);
	read = (struct record){ .rest = buf_bytes(&record) };
	ck_assert(!record_flag(&read, 'f'));
	ck_assert(!record_is_whole(&read));
	buf_free(&record);
}
END_TEST

static const struct {
	const char *says;
	const char *at;
	size_t count;
	bool is_good;
} texts[] = {
	{ "nothing", "", 0, true },
	{ "as long as may be", "1234567", 7, true },
	{ "too long", "12345678", 8, false },
	{ "with a zero in it", "12\0004", 4, false },
	{ "with a zero behind it", "12\0", 3, false },
};

START_TEST(texts_are_bounded)
{
	struct buf record = { 0 };
	struct record read;
	char text[8];

	record_add_bytes(&record, 't', bytes_of(texts[_i].at, texts[_i].count));
	read = (struct record){ .rest = buf_bytes(&record) };
	record_text(&read, 't', text, sizeof(text));
	ck_assert_msg(record_is_whole(&read) == texts[_i].is_good, "%s", texts[_i].says);
	ck_assert(memchr(text, 0, sizeof(text)));
	buf_free(&record);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("handover/record");
	TCase *tests = tcase_create("record");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, what_is_written_is_read);
	tcase_add_test(tests, every_cut_is_bad);
	tcase_add_test(tests, what_nobody_asks_for_is_bad);
	tcase_add_loop_test(tests, bad_numbers, 0, COUNT_OF(bad));
	tcase_add_test(tests, times_are_within_reason);
	tcase_add_test(tests, a_flag_is_0_or_1);
	tcase_add_loop_test(tests, texts_are_bounded, 0, COUNT_OF(texts));
	return unit_run(suite);
}
