/* SPDX-License-Identifier: ISC */
/*
 * base/record.c: a table reads what it writes; what is cut, twisted or unasked for is bad.
 */
#include <string.h>

#include "pgweir/base/record.h"

#include "../unit.h"

/* Bytes in front of those of a field. */
#define HEADER_SIZE ((size_t)5)

struct counts {
	uint64_t apples, pears;
};

struct facts {
	uint64_t number;
	usec_t time;
	bool flag;
	char text[8];
	struct bytes bytes;
	unsigned char block[3];
	uint64_t seldom;
	struct bytes rare;
	struct counts counts;
};

static const struct record_field count_fields[] = {
	RECORD_FIELD('a', struct counts, apples),
	RECORD_FIELD('p', struct counts, pears),
};

static const struct record_table count_table = RECORD_TABLE("counts", count_fields, NULL);

static const struct record_field fact_fields[] = {
	RECORD_FIELD('n', struct facts, number),
	RECORD_FIELD('u', struct facts, time),
	RECORD_FIELD('f', struct facts, flag),
	RECORD_FIELD('t', struct facts, text),
	RECORD_BYTES_FIELD('b', struct facts, bytes, 16),
	RECORD_BLOCK_FIELD('k', struct facts, block),
	RECORD_FIELD('s', struct facts, seldom, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('r', struct facts, rare, 16, RECORD_OPTIONAL),
	RECORD_COUNTERS_FIELD('c', struct facts, counts, &count_table),
};

static bool is_not_13(const void *values)
{
	const struct facts *facts = values;

	return facts->number != 13;
}

static const struct record_table fact_table = RECORD_TABLE("facts", fact_fields, is_not_13);

/* What stands behind it any number of times. */
struct more {
	uint64_t one, other;
};

static const struct record_field more_fields[] = {
	RECORD_FIELD('1', struct more, one),
	RECORD_FIELD('2', struct more, other),
};

static const struct record_table more_table = RECORD_TABLE("more", more_fields, NULL);

static struct facts some_facts(void)
{
	return (struct facts){
		.number = UINT64_C(0x0123456789abcdef),
		.time = 1000000,
		.flag = true,
		.text = "text",
		.bytes = bytes_of("\0\1\2", 3),
		.block = { 7, 8, 9 },
		.seldom = 5,
		.rare = bytes_of("rare", 4),
		.counts = { 11, 12 },
	};
}

static void write_facts(struct buf *record, const struct facts *facts)
{
	record_write(record, &fact_table, facts);
	record_write(record, &more_table, &(struct more){ 1, 2 });
	record_write(record, &more_table, &(struct more){ 3, 4 });
}

/* How many there are of those behind; -1: the record is bad. */
static int read_facts(struct bytes bytes, struct facts *facts)
{
	struct record record = { .rest = bytes };
	struct more more;
	int count = 0;

	memset(facts, 0xa5, sizeof(*facts));
	record_read(&record, &fact_table, facts);
	while (record_has_table(&record, &more_table)) {
		record_read(&record, &more_table, &more);
		count++;
	}
	return record_is_whole(&record) ? count : -1;
}

static void check_same(const struct facts *a, const struct facts *b)
{
	ck_assert(a->number == b->number);
	ck_assert(a->time == b->time);
	ck_assert(a->flag == b->flag);
	ck_assert_str_eq(a->text, b->text);
	ck_assert(bytes_equal(a->bytes, b->bytes));
	ck_assert_mem_eq(a->block, b->block, sizeof(a->block));
	ck_assert(a->seldom == b->seldom);
	ck_assert(bytes_equal(a->rare, b->rare));
	ck_assert_mem_eq(&a->counts, &b->counts, sizeof(a->counts));
}

START_TEST(what_is_written_is_read)
{
	struct buf record = { 0 };
	struct facts facts = some_facts(), read;

	write_facts(&record, &facts);
	ck_assert(buf_ok(&record));
	ck_assert_int_eq(read_facts(buf_bytes(&record), &read), 2);
	check_same(&read, &facts);
	buf_free(&record);
}
END_TEST

/* Another process reads it, of another version: these bytes are for all times. */
START_TEST(the_bytes_are_these)
{
	static const char expected[] = "n\0\0\0\10\x01\x23\x45\x67\x89\xab\xcd\xef"
				       "u\0\0\0\10\0\0\0\0\0\x0f\x42\x40"
				       "f\0\0\0\10\0\0\0\0\0\0\0\1"
				       "t\0\0\0\4text"
				       "b\0\0\0\3\0\1\2"
				       "k\0\0\0\3\7\10\11"
				       "s\0\0\0\10\0\0\0\0\0\0\0\5"
				       "r\0\0\0\4rare"
				       "c\0\0\0\32"
				       "a\0\0\0\10\0\0\0\0\0\0\0\13"
				       "p\0\0\0\10\0\0\0\0\0\0\0\14";
	struct buf record = { 0 };
	struct facts facts = some_facts();

	record_write(&record, &fact_table, &facts);
	ck_assert_uint_eq(record.count, sizeof(expected) - 1);
	ck_assert_mem_eq(record.at, expected, record.count);
	buf_free(&record);
}
END_TEST

START_TEST(optional_ones_of_nothing_are_left_out)
{
	struct buf record = { 0 };
	struct facts facts = some_facts(), read;
	size_t whole;

	record_write(&record, &fact_table, &facts);
	whole = record.count;
	buf_clear(&record);
	facts.seldom = 0;
	facts.rare.count = 0;
	record_write(&record, &fact_table, &facts);
	ck_assert_uint_eq(record.count, whole - 2 * HEADER_SIZE - 8 - 4);
	ck_assert_int_eq(read_facts(buf_bytes(&record), &read), 0);
	check_same(&read, &facts);
	buf_free(&record);
}
END_TEST

/* In memory that ends there. Whole it is only behind the facts, and behind one of the others. */
START_TEST(every_cut_is_bad)
{
	struct buf record = { 0 };
	struct facts facts = some_facts();
	size_t more = 2 * (HEADER_SIZE + 8);

	write_facts(&record, &facts);
	for (size_t cut = 0; cut < record.count; cut++) {
		char *copy = malloc(cut ? cut : 1);
		bool is_between = cut + more == record.count || cut + 2 * more == record.count;

		memcpy(copy, record.at, cut);
		ck_assert_msg((read_facts(bytes_of(copy, cut), &facts) >= 0) == is_between,
		              "cut at %zu", cut);
		free(copy);
	}
	buf_free(&record);
}
END_TEST

START_TEST(what_nobody_asks_for_is_bad)
{
	static const struct record_field fields[] = { RECORD_FIELD('x', struct more, one) };
	static const struct record_table table = RECORD_TABLE("unasked", fields, NULL);
	struct buf record = { 0 };
	struct facts facts = some_facts();

	write_facts(&record, &facts);
	record_write(&record, &table, &(struct more){ 0 });
	ck_assert_int_eq(read_facts(buf_bytes(&record), &facts), -1);
	buf_free(&record);
}
END_TEST

START_TEST(the_order_is_that_of_the_table)
{
	static const struct record_field fields[] = {
		RECORD_FIELD('2', struct more, other),
		RECORD_FIELD('1', struct more, one),
	};
	static const struct record_table table = RECORD_TABLE("turned", fields, NULL);
	struct buf bytes = { 0 };
	struct record record;
	struct more more;

	record_write(&bytes, &table, &(struct more){ 1, 2 });
	record = (struct record){ .rest = buf_bytes(&bytes) };
	record_read(&record, &more_table, &more);
	ck_assert(!record_is_whole(&record));
	ck_assert_str_eq(record.flaw, "one");
	buf_free(&bytes);
}
END_TEST

START_TEST(values_are_judged_together)
{
	struct buf bytes = { 0 };
	struct facts facts = some_facts();
	struct record record;

	facts.number = 13;
	record_write(&bytes, &fact_table, &facts);
	record = (struct record){ .rest = buf_bytes(&bytes) };
	record_read(&record, &fact_table, &facts);
	ck_assert(!record_is_whole(&record));
	ck_assert_str_eq(record.flaw, "facts");
	buf_free(&bytes);
}
END_TEST

/* ---- each kind ---- */

#define ONE(kind_of, bytes_max)                                                 \
	{                                                                       \
		.tag = 'x', .kind = (kind_of), .size = (bytes_max), .name = "x" \
	}

static const struct {
	const char *says;
	struct record_field field;
	const char *at;
	size_t count;
	bool is_good;
} kinds[] = {
	{ "a number", ONE(RECORD_NUMBER, 8), "x\0\0\0\10\377\377\377\377\377\377\377\377", 13,
	  true },
	{ "another tag", ONE(RECORD_NUMBER, 8), "y\0\0\0\10\0\0\0\0\0\0\0\1", 13, false },
	{ "a short number", ONE(RECORD_NUMBER, 8), "x\0\0\0\7\0\0\0\0\0\0\0", 12, false },
	{ "a long number", ONE(RECORD_NUMBER, 8), "x\0\0\0\11\0\0\0\0\0\0\0\0\1", 14, false },
	{ "a length that is not there", ONE(RECORD_NUMBER, 8), "x\377\377\377\377\0\0\0\0\0\0\0\1",
	  13, false },
	{ "a number of nothing", ONE(RECORD_NUMBER, 8), "x\0\0\0\0", 5, false },
	{ "half a header", ONE(RECORD_NUMBER, 8), "x\0\0", 3, false },
	{ "a time", ONE(RECORD_TIME, 8), "x\0\0\0\10\0\7\0\0\0\0\0\1", 13, true },
	{ "a time beyond reason", ONE(RECORD_TIME, 8), "x\0\0\0\10\177\0\0\0\0\0\0\1", 13, false },
	{ "a negative time", ONE(RECORD_TIME, 8), "x\0\0\0\10\377\0\0\0\0\0\0\1", 13, false },
	{ "a flag", ONE(RECORD_FLAG, sizeof(bool)), "x\0\0\0\10\0\0\0\0\0\0\0\1", 13, true },
	{ "a flag of 2", ONE(RECORD_FLAG, sizeof(bool)), "x\0\0\0\10\0\0\0\0\0\0\0\2", 13, false },
	{ "no text", ONE(RECORD_TEXT, 8), "x\0\0\0\0", 5, true },
	{ "a text that just fits", ONE(RECORD_TEXT, 8), "x\0\0\0\0071234567", 12, true },
	{ "a text that is too long", ONE(RECORD_TEXT, 8), "x\0\0\0\01012345678", 13, false },
	{ "a text with a zero in it", ONE(RECORD_TEXT, 8), "x\0\0\0\00412\0004", 9, false },
	{ "a text with a zero behind it", ONE(RECORD_TEXT, 8), "x\0\0\0\00312\0", 8, false },
	{ "bytes that just fit", ONE(RECORD_BYTES, 3), "x\0\0\0\3\0\1\2", 8, true },
	{ "too many bytes", ONE(RECORD_BYTES, 3), "x\0\0\0\4\0\1\2\3", 9, false },
	{ "a block", ONE(RECORD_BLOCK, 3), "x\0\0\0\3\0\1\2", 8, true },
	{ "a block that is too short", ONE(RECORD_BLOCK, 3), "x\0\0\0\2\0\1", 7, false },
	{ "a block that is too long", ONE(RECORD_BLOCK, 3), "x\0\0\0\4\0\1\2\3", 9, false },
};

START_TEST(kinds_are_checked)
{
	struct record_table table = { "one", &kinds[_i].field, 1, NULL };
	struct record record = { .rest = bytes_of(kinds[_i].at, kinds[_i].count) };
	_Alignas(16) char value[32];

	memset(value, 0xa5, sizeof(value));
	record_read(&record, &table, value);
	ck_assert_msg(record_is_whole(&record) == kinds[_i].is_good, "%s", kinds[_i].says);
	if (kinds[_i].is_good)
		return;
	ck_assert_str_eq(record.flaw, "x");
	if (kinds[_i].field.kind == RECORD_TEXT)
		ck_assert_msg(memchr(value, 0, 8), "%s", kinds[_i].says);
	/* It stays so for any further input. */
	ck_assert(!record_has_table(&record, &table));
}
END_TEST

/* ---- counters ---- */

struct more_counts {
	uint64_t plums, pears, nuts;
};

static const struct record_field more_count_fields[] = {
	RECORD_FIELD('P', struct more_counts, plums),
	RECORD_FIELD('p', struct more_counts, pears),
	RECORD_FIELD('n', struct more_counts, nuts),
};

static const struct record_table more_count_table =
    RECORD_TABLE("more counts", more_count_fields, NULL);

static const struct record_field other_fields[] = {
	{ .tag = 'c', .kind = RECORD_COUNTERS, .name = "counts", .counters = &more_count_table },
};

static const struct record_table other_table = RECORD_TABLE("other", other_fields, NULL);

static const struct record_field same_fields[] = {
	{ .tag = 'c', .kind = RECORD_COUNTERS, .name = "counts", .counters = &count_table },
};

static const struct record_table same_table = RECORD_TABLE("same", same_fields, NULL);

START_TEST(unknown_counters_are_left_out_and_missing_ones_are_0)
{
	struct more_counts written = { 1, 2, 3 };
	struct counts counts = { 77, 77 };
	struct buf bytes = { 0 };
	struct record record;

	record_write(&bytes, &other_table, &written);
	record = (struct record){ .rest = buf_bytes(&bytes) };
	record_read(&record, &same_table, &counts);
	ck_assert(record_is_whole(&record));
	ck_assert_uint_eq(counts.apples, 0);
	ck_assert_uint_eq(counts.pears, 2);
	buf_free(&bytes);
}
END_TEST

START_TEST(bad_counters_make_all_of_it_bad)
{
	static const char half[] = "c\0\0\0\20a\0\0\0\10\0\0\0\0\0\0\0\1p\0\0";
	static const char text[] = "c\0\0\0\11a\0\0\0\4four";
	struct record cut = { .rest = bytes_of(half, sizeof(half) - 1) };
	struct record odd = { .rest = bytes_of(text, sizeof(text) - 1) };
	struct counts counts;

	record_read(&cut, &same_table, &counts);
	ck_assert(!record_is_whole(&cut));
	ck_assert_str_eq(cut.flaw, "counts");
	record_read(&odd, &same_table, &counts);
	ck_assert(!record_is_whole(&odd));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/record");
	TCase *tests = tcase_create("record");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, what_is_written_is_read);
	tcase_add_test(tests, the_bytes_are_these);
	tcase_add_test(tests, optional_ones_of_nothing_are_left_out);
	tcase_add_test(tests, every_cut_is_bad);
	tcase_add_test(tests, what_nobody_asks_for_is_bad);
	tcase_add_test(tests, the_order_is_that_of_the_table);
	tcase_add_test(tests, values_are_judged_together);
	tcase_add_loop_test(tests, kinds_are_checked, 0, COUNT_OF(kinds));
	tcase_add_test(tests, unknown_counters_are_left_out_and_missing_ones_are_0);
	tcase_add_test(tests, bad_counters_make_all_of_it_bad);
	return unit_run(suite);
}
