/* SPDX-License-Identifier: ISC */
/*
 * config/field.c: numbers, switches, durations, sizes, lists, quotes.
 */
#include "../../../src/config/config_priv.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

#define NO_UNIT "a duration (a number, or one with us, ms, s, min, h or d)"
#define NO_SIZE "a size (a number of bytes, or one with B, kB, MB or GB)"
#define NO_SWITCH "a switch (1 or 0, on or off, true or false, yes or no)"

/* The rows of the tests are of this. */
union value {
	bool is_on;
	int number;
	unsigned int word;
	size_t bytes;
	usec_t time;
	struct config_list list;
};

/* Reads a value, which must be refused with this error, if there is one. */
static union value read_value(const struct setting *row, const char *text, const char *error)
{
	union value value = { 0 };
	struct err err = { 0 };
	bool ok = field_put(&value, row, text, NULL, &err);

	ck_assert_msg(ok == !error, "%s: %s", text, err.text);
	if (!ok)
		ck_assert_str_eq(err.text, error);
	return value;
}

static const struct {
	const char *text;
	int base; /* 10: of an entry */
	int value;
	const char *error;
} ints[] = {
	{ "20", 0, 20, NULL },
	{ "-3", 0, -3, NULL },
	{ "+3", 0, 3, NULL },
	{ "0x10", 0, 16, NULL },
	{ "0777", 0, 511, NULL },
	{ "0777", 10, 777, NULL },
	{ "0x10", 10, 0, "\"0x10\" is not a whole number" },
	{ "", 0, 0, "the value is missing: a whole number is needed" },
	{ " 1", 0, 0, "\" 1\" is not a whole number" },
	{ "12abc", 0, 0, "\"12abc\" is not a whole number" },
	{ "1.5", 0, 0, "\"1.5\" is not a whole number" },
	{ "99999999999999999999", 0, 0, "\"99999999999999999999\" is not a whole number" },
	{ "20 ; all", 0, 0,
	  "\"20 ; all\" is not a whole number (a comment needs a line of its own, or the value in "
	  "quotes)" },
};

START_TEST(value_int_answers)
{
	struct setting row = { .type = SETTING_INT, .min = -9, .is_of_entry = ints[_i].base == 10 };

	ck_assert_int_eq(read_value(&row, ints[_i].text, ints[_i].error).number, ints[_i].value);
}
END_TEST

static const struct {
	const char *text;
	bool value;
	const char *error;
} bools[] = {
	{ "1", true, NULL },
	{ "0", false, NULL },
	{ "-7", true, NULL },
	{ "0x0", false, NULL },
	{ "on", true, NULL },
	{ "Off", false, NULL },
	{ "TRUE", true, NULL },
	{ "false", false, NULL },
	{ "yes", true, NULL },
	{ "no", false, NULL },
	{ "y", false, "\"y\" is not " NO_SWITCH },
	{ "", false, "the value is missing: " NO_SWITCH " is needed" },
};

START_TEST(value_bool_answers)
{
	struct setting row = { .type = SETTING_BOOL };

	ck_assert_int_eq(read_value(&row, bools[_i].text, bools[_i].error).is_on, bools[_i].value);
}
END_TEST

static const struct {
	const char *text;
	usec_t unit;
	int base;
	usec_t value;
	const char *error;
} times[] = {
	{ "5", USEC_PER_SEC, 10, 5000000, NULL },
	{ "0.25", USEC_PER_SEC, 10, 250000, NULL },
	{ ".5", USEC_PER_SEC, 10, 500000, NULL },
	{ "1e3", USEC_PER_SEC, 10, 1000000000, NULL },
	{ "010", USEC_PER_SEC, 10, 10000000, NULL },
	{ "010", USEC_PER_SEC, 0, 8000000, NULL },
	{ "0x10", USEC_PER_SEC, 0, 16000000, NULL },
	{ "0x10", USEC_PER_SEC, 10, 0, "\"0x10\" is not " NO_UNIT },
	{ "0x10s", USEC_PER_SEC, 0, 0, "\"0x10s\" is not " NO_UNIT },
	{ "7", USEC_PER_MS, 0, 7000, NULL },
	{ "7s", USEC_PER_MS, 0, 7000000, NULL },
	{ "3us", USEC_PER_SEC, 10, 3, NULL },
	{ "500ms", USEC_PER_SEC, 10, 500000, NULL },
	{ "2 min", USEC_PER_SEC, 10, 120000000, NULL },
	{ "1.5h", USEC_PER_SEC, 10, 5400000000, NULL },
	{ "1d", USEC_PER_SEC, 10, 86400000000, NULL },
	{ "-1", USEC_PER_SEC, 10, -1000000, NULL },
	{ "", USEC_PER_SEC, 10, 0, "the value is missing: " NO_UNIT " is needed" },
	{ ".", USEC_PER_SEC, 10, 0, "\".\" is not " NO_UNIT },
	{ "+-1", USEC_PER_SEC, 10, 0, "\"+-1\" is not " NO_UNIT },
	{ "inf", USEC_PER_SEC, 10, 0, "\"inf\" is not " NO_UNIT },
	{ "nan", USEC_PER_SEC, 10, 0, "\"nan\" is not " NO_UNIT },
	{ "5 weeks", USEC_PER_SEC, 10, 0, "\"5 weeks\" is not " NO_UNIT },
	{ "1e300", USEC_PER_SEC, 10, 0, "\"1e300\" is too long a time" },
	{ "1e999", USEC_PER_SEC, 10, 0, "\"1e999\" is too long a time" },
	{ "-1e999", USEC_PER_SEC, 10, 0, "\"-1e999\" is too long a time" },
};

START_TEST(value_time_answers)
{
	/* decimal only if no unit is set */
	struct setting row = { .type = SETTING_TIME,
		               .unit = times[_i].base == 10 ? 0 : times[_i].unit,
		               .min = -VALUE_TIME_MAX };

	ck_assert_int_eq(read_value(&row, times[_i].text, times[_i].error).time, times[_i].value);
}
END_TEST

static const struct {
	const char *text;
	int64_t value;
	const char *error;
} sizes[] = {
	{ "4096", 4096, NULL },
	{ "0x1000", 4096, NULL },
	{ "64kB", 65536, NULL },
	{ "1 MB", 1048576, NULL },
	{ "2gb", 2147483648, NULL },
	{ "9B", 9, NULL },
	{ "-1", -1, NULL },
	{ "1TB", 0, "\"1TB\" is not " NO_SIZE },
	{ "kB", 0, "\"kB\" is not " NO_SIZE },
	{ "", 0, "the value is missing: " NO_SIZE " is needed" },
	{ "9999999999GB", 0, "\"9999999999GB\" is too large a size" },
	{ "-9999999999GB", 0, "\"-9999999999GB\" is too large a size" },
	{ "99999999999999999999", 0, "\"99999999999999999999\" is too large a size" },
};

START_TEST(value_bytes_answers)
{
	struct setting row = { .type = SETTING_BYTES, .min = -9 };

	ck_assert_int_eq((int64_t)read_value(&row, sizes[_i].text, sizes[_i].error).bytes,
	                 sizes[_i].value);
}
END_TEST

static const struct {
	const char *text;
	bool splits_at_blanks;
	const char *joined; /* the names, each followed by | */
} lists[] = {
	{ "", false, "" },
	{ " , ,", false, "" },
	{ "*", false, "*|" },
	{ "127.0.0.1, ::1 ,db one", false, "127.0.0.1|::1|db one|" },
	{ "a b,c\td , e", true, "a|b|c|d|e|" },
};

START_TEST(value_list_answers)
{
	struct setting row = { .type = SETTING_LIST,
		               .splits_at_blanks = lists[_i].splits_at_blanks };
	union value value = read_value(&row, lists[_i].text, NULL);
	char joined[128] = "";

	for (size_t i = 0; i < value.list.count; i++) {
		size_t used = strlen(joined);

		snprintf(joined + used, sizeof(joined) - used, "%s|", value.list.names[i]);
	}
	ck_assert_str_eq(joined, lists[_i].joined);
	ck_assert_str_eq(value.list.text, lists[_i].text);
	field_free(&value, &row);
	ck_assert_ptr_null(value.list.text);
}
END_TEST

static const struct {
	const char *text;
	int value;
	const char *error;
} quotes[] = {
	{ "20", 20, NULL },
	{ "'20'", 20, NULL },
	{ "\"20\"", 20, NULL },
	{ "'20' ; twenty", 20, NULL },
	{ "'20'# twenty", 20, NULL },
	{ "'20", 0, "unterminated quote" },
	{ "'20' 30", 0, "unexpected \"30\" after the quotes" },
};

START_TEST(value_may_be_in_quotes)
{
	struct setting row = { .type = SETTING_INT };

	ck_assert_int_eq(read_value(&row, quotes[_i].text, quotes[_i].error).number,
	                 quotes[_i].value);
}
END_TEST

START_TEST(value_word_knows_any_case)
{
	static const char *const words[] = { "one", "two", NULL };
	struct setting row = { .type = SETTING_WORD, .words = words };

	ck_assert_int_eq(read_value(&row, "TWO", NULL).word, 1);
	read_value(&row, "three", "\"three\" is not one of its values: one or two");
}
END_TEST

START_TEST(field_number_text_takes_the_largest_unit)
{
	static const struct {
		usec_t time;
		const char *text;
	} rows[] = { { 0, "0" },
		     { 90 * USEC_PER_SEC, "90s" },
		     { 1500, "1500us" },
		     { 86400 * USEC_PER_SEC, "1d" } };
	struct setting row = { .type = SETTING_TIME };
	char room[32];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		field_number_text(&row, rows[i].time, room, sizeof(room));
		ck_assert_str_eq(room, rows[i].text);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/value");
	TCase *cases = tcase_create("value");

	tcase_add_loop_test(cases, value_int_answers, 0, COUNT_OF(ints));
	tcase_add_loop_test(cases, value_bool_answers, 0, COUNT_OF(bools));
	tcase_add_loop_test(cases, value_time_answers, 0, COUNT_OF(times));
	tcase_add_loop_test(cases, value_bytes_answers, 0, COUNT_OF(sizes));
	tcase_add_loop_test(cases, value_list_answers, 0, COUNT_OF(lists));
	tcase_add_loop_test(cases, value_may_be_in_quotes, 0, COUNT_OF(quotes));
	tcase_add_test(cases, value_word_knows_any_case);
	tcase_add_test(cases, field_number_text_takes_the_largest_unit);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
