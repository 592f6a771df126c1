/* SPDX-License-Identifier: ISC */
/*
 * admin/show/rows.c.
 */
#include "../../../../src/admin/show/show_priv.h"

#include "pgweir/pgwire/fields.h"

#include "../../unit.h"

struct row {
	const char *text;
	int64_t number;
	struct bytes bytes;
};

static struct buf out;

static void set_up(void) { out = (struct buf){ 0 }; }
static void tear_down(void) { buf_free(&out); }

/* The one value of a row of one column. */
static struct bytes value_of(enum value_type type, bool is_binary, const struct row *row)
{
	static const size_t at[VALUE_TYPES] = {
		[VALUE_TEXT] = offsetof(struct row, text),
		[VALUE_VOID] = offsetof(struct row, text),
		[VALUE_INT4] = offsetof(struct row, number),
		[VALUE_INT8] = offsetof(struct row, number),
		[VALUE_NUMERIC] = offsetof(struct row, number),
		[VALUE_BYTEA] = offsetof(struct row, bytes),
	};
	struct column column = { "x", type, at[type], "" };
	struct row_walk walk;
	struct bytes value;
	struct frame frame;

	buf_clear(&out);
	rows_add(&out, (struct columns){ .at = &column, .count = 1 }, is_binary, row);
	ck_assert_int_eq(frame_peek(buf_bytes(&out), 65536, &frame), WIRE_OK);
	ck_assert_int_eq(frame.type, 'D');
	ck_assert_uint_eq(frame.length, out.count);
	ck_assert_int_eq(fields_row(frame_body(buf_bytes(&out), &frame), &walk), WIRE_OK);
	ck_assert_int_eq(fields_value(&walk, &value), WALK_ITEM);
	return value;
}

static const struct {
	const char *says;
	enum value_type type;
	int64_t number;
	const char *text;
	struct bytes binary;
} numbers[] = {
	{ "int4", VALUE_INT4, 258, "258", { "\0\0\1\2", 4 } },
	{ "int4 below zero", VALUE_INT4, -1, "-1", { "\377\377\377\377", 4 } },
	{ "int4 that does not fit",
	  VALUE_INT4,
	  INT64_C(1) << 40,
	  "2147483647",
	  { "\177\377\377\377", 4 } },
	{ "int8", VALUE_INT8, INT64_C(1) << 40, "1099511627776", { "\0\0\1\0\0\0\0\0", 8 } },
	{ "numeric 0", VALUE_NUMERIC, 0, "0", { "\0\0\0\0\0\0\0\0", 8 } },
	{ "numeric 7", VALUE_NUMERIC, 7, "7", { "\0\1\0\0\0\0\0\0\0\7", 10 } },
	{ "numeric -7", VALUE_NUMERIC, -7, "-7", { "\0\1\0\0\100\0\0\0\0\7", 10 } },
	{ "numeric of two digits",
	  VALUE_NUMERIC,
	  12345,
	  "12345",
	  { "\0\2\0\1\0\0\0\0\0\1\011\051", 12 } },
	{ "numeric with zeros at the end",
	  VALUE_NUMERIC,
	  50000000,
	  "50000000",
	  { "\0\1\0\1\0\0\0\0\023\210", 10 } },
	{ "the largest",
	  VALUE_NUMERIC,
	  INT64_MAX,
	  "9223372036854775807",
	  { "\0\5\0\4\0\0\0\0\003\232\015\054\001\160\025\145\026\257", 18 } },
};

START_TEST(numbers_are_written)
{
	struct row row = { .number = numbers[_i].number };

	ck_assert_msg(bytes_are(value_of(numbers[_i].type, false, &row), numbers[_i].text), "%s",
	              numbers[_i].says);
	ck_assert_msg(bytes_equal(value_of(numbers[_i].type, true, &row), numbers[_i].binary), "%s",
	              numbers[_i].says);
}
END_TEST

START_TEST(texts_and_bytes_are_written)
{
	struct row row = { .text = "a b", .bytes = { "\0\xfe", 2 } };

	ck_assert(bytes_are(value_of(VALUE_TEXT, false, &row), "a b"));
	ck_assert(bytes_are(value_of(VALUE_TEXT, true, &row), "a b"));
	ck_assert(bytes_are(value_of(VALUE_BYTEA, false, &row), "\\x00fe"));
	ck_assert(bytes_equal(value_of(VALUE_BYTEA, true, &row), row.bytes));
}
END_TEST

START_TEST(null_is_null)
{
	struct row row = { .number = ROWS_NULL };

	ck_assert_ptr_null(value_of(VALUE_INT4, false, &row).at);
	ck_assert_ptr_null(value_of(VALUE_INT8, true, &row).at);
	ck_assert_ptr_null(value_of(VALUE_TEXT, false, &row).at);
	ck_assert_ptr_null(value_of(VALUE_BYTEA, true, &row).at);
}
END_TEST

START_TEST(the_header_tells_each_columns_format)
{
	static const struct column columns[] = {
		{ "text", VALUE_TEXT, offsetof(struct row, text), "" },
		{ "number", VALUE_NUMERIC, offsetof(struct row, number), "" },
	};
	static const char expected[] =
	    "T\0\0\0\066\0\2"
	    "text\0\0\0\0\0\0\0\0\0\0\031\377\377\377\377\377\377\0\0"
	    "number\0\0\0\0\0\0\0\0\0\006\244\377\377\377\377\377\377\0\1";

	rows_describe(&out, COLUMNS(columns), 2);
	ck_assert(bytes_equal(buf_bytes(&out), bytes_of(expected, sizeof(expected) - 1)));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/show/rows");
	TCase *tests = tcase_create("rows");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, numbers_are_written, 0, COUNT_OF(numbers));
	tcase_add_test(tests, texts_and_bytes_are_written);
	tcase_add_test(tests, null_is_null);
	tcase_add_test(tests, the_header_tells_each_columns_format);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
