/* SPDX-License-Identifier: ISC */
/*
 * config/value.c: numbers, switches, durations, sizes, lists, quotes.
 */
#include "../../../src/config/config_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

#define NO_UNIT "a duration (a number, or one with us, ms, s, min, h or d)"
#define NO_SIZE "a size (a number of bytes, or one with B, kB, MB or GB)"
#define NO_SWITCH "a switch (1 or 0, on or off, true or false, yes or no)"

static const struct {
	const char *text;
	int base;
	int64_t value;
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
	struct err err = { 0 };
	int64_t value;
	bool ok = value_int(ints[_i].text, ints[_i].base, &value, &err);

	ck_assert_msg(ok == !ints[_i].error, "%s: %s", ints[_i].text, err.text);
	if (ok)
		ck_assert_int_eq(value, ints[_i].value);
	else
		ck_assert_str_eq(err.text, ints[_i].error);
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
	struct err err = { 0 };
	bool value;
	bool ok = value_bool(bools[_i].text, &value, &err);

	ck_assert_msg(ok == !bools[_i].error, "%s: %s", bools[_i].text, err.text);
	if (ok)
		ck_assert_int_eq(value, bools[_i].value);
	else
		ck_assert_str_eq(err.text, bools[_i].error);
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
	struct err err = { 0 };
	usec_t value;
	bool ok = value_time(times[_i].text, times[_i].unit, times[_i].base, &value, &err);

	ck_assert_msg(ok == !times[_i].error, "%s: %s", times[_i].text, err.text);
	if (ok)
		ck_assert_int_eq(value, times[_i].value);
	else
		ck_assert_str_eq(err.text, times[_i].error);
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
	struct err err = { 0 };
	int64_t value;
	bool ok = value_bytes(sizes[_i].text, &value, &err);

	ck_assert_msg(ok == !sizes[_i].error, "%s: %s", sizes[_i].text, err.text);
	if (ok)
		ck_assert_int_eq(value, sizes[_i].value);
	else
		ck_assert_str_eq(err.text, sizes[_i].error);
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
	struct config_list list;
	struct err err = { 0 };
	char joined[128] = "";

	ck_assert(value_list(lists[_i].text, lists[_i].splits_at_blanks, &list, &err));
	for (size_t i = 0; i < list.count; i++) {
		size_t used = strlen(joined);

		snprintf(joined + used, sizeof(joined) - used, "%s|", list.names[i]);
	}
	ck_assert_str_eq(joined, lists[_i].joined);
	ck_assert_str_eq(list.text, lists[_i].text);
	value_list_free(&list);
	ck_assert_ptr_null(list.text);
}
END_TEST

static const struct {
	const char *text;
	const char *bare;
	const char *error;
} quotes[] = {
	{ "20", "20", NULL },
	{ "'20'", "20", NULL },
	{ "\"20\"", "20", NULL },
	{ "'20' ; twenty", "20", NULL },
	{ "'20'# twenty", "20", NULL },
	{ "'20", NULL, "unterminated quote" },
	{ "'20' 30", NULL, "unexpected \"30\" after the quotes" },
};

START_TEST(value_unquote_answers)
{
	char *copy = strdup(quotes[_i].text), *bare = copy;
	struct err err = { 0 };
	bool ok = value_unquote(&bare, &err);

	ck_assert_msg(ok == !quotes[_i].error, "%s", quotes[_i].text);
	if (ok)
		ck_assert_str_eq(bare, quotes[_i].bare);
	else
		ck_assert_str_eq(err.text, quotes[_i].error);
	free(copy);
}
END_TEST

START_TEST(value_word_knows_any_case)
{
	static const char *const words[] = { "one", "two", NULL };

	ck_assert_int_eq(value_word("TWO", words), 1);
	ck_assert_int_eq(value_word("three", words), -1);
}
END_TEST

START_TEST(value_time_text_takes_the_largest_unit)
{
	char room[32];

	value_time_text(0, room, sizeof(room));
	ck_assert_str_eq(room, "0");
	value_time_text(90 * USEC_PER_SEC, room, sizeof(room));
	ck_assert_str_eq(room, "90s");
	value_time_text(1500, room, sizeof(room));
	ck_assert_str_eq(room, "1500us");
	value_time_text(86400 * USEC_PER_SEC, room, sizeof(room));
	ck_assert_str_eq(room, "1d");
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
	tcase_add_loop_test(cases, value_unquote_answers, 0, COUNT_OF(quotes));
	tcase_add_test(cases, value_word_knows_any_case);
	tcase_add_test(cases, value_time_text_takes_the_largest_unit);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
