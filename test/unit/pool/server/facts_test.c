/* SPDX-License-Identifier: ISC */
/*
 * pool/server/question.c: the rows that answer the question.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/pool/server/question.h"

#include "../../unit.h"

#define COLUMNS_MAX 10
#define NULL_VALUE "(null)"

static void add_hex(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_printf(out, "%02x", (unsigned char)*text);
}

/* Makes a DataRow of these texts: the first as it is, the others in hexadecimal digits. */
static void make_row(struct buf *row, const char *const *columns)
{
	uint16_t count = 0;

	while (count < COLUMNS_MAX && columns[count])
		count++;
	buf_add_be16(row, count);
	for (uint16_t i = 0; i < count; i++) {
		struct buf value = { 0 };

		if (i == 0)
			buf_add_text(&value, columns[i]);
		else
			add_hex(&value, columns[i]);
		if (strcmp(columns[i], NULL_VALUE) == 0)
			buf_add_be32(row, UINT32_MAX);
		else
			buf_add_be32(row, (uint32_t)value.count);
		if (strcmp(columns[i], NULL_VALUE) != 0)
			buf_add(row, value.at, value.count);
		buf_free(&value);
	}
}

static const struct {
	const char *says;
	const char *columns[COLUMNS_MAX];
	const char *params; /* with | instead of zeros */
	const char *role;
	const char *channels;
	const char *exposed;
	const char *held;
	unsigned int cursors, temp, locks, too_long;
	uint64_t position, started;
	bool is_broken;
} rows[] = {
	{ .says = "a parameter", .columns = { "p", "work_mem", "4" }, .params = "work_mem|4|" },
	{ .says = "an empty value", .columns = { "p", "a.b", "" }, .params = "a.b||" },
	{ .says = "a value of any bytes",
	  .columns = { "p", "a.b", "\xff\x01|" },
	  .params = "a.b|\xff\x01||" },
	{ .says = "a value too long",
	  .columns = { "p", "a.b", NULL_VALUE },
	  .too_long = QUESTION_PARAMS },
	{ .says = "what the question sets", .columns = { "p", "statement_timeout", "0" } },
	{ .says = "and this", .columns = { "p", "transaction_isolation", "x" } },
	{ .says = "and this", .columns = { "p", "transaction_read_only", "x" } },
	{ .says = "and this", .columns = { "p", "transaction_deferrable", "x" } },
	{ .says = "a channel", .columns = { "c", "jobs", "" }, .channels = "jobs|" },
	{ .says = "a statement under a client's name",
	  .columns = { "e", "s", "" },
	  .exposed = "s|" },
	{ .says = "such a statement without a name",
	  .columns = { "e", NULL_VALUE, "" },
	  .is_broken = true },
	{ .says = "cursors", .columns = { "u", "", "3" }, .cursors = 3 },
	{ .says = "temporary objects", .columns = { "t", "", "12" }, .temp = 12 },
	{ .says = "one of them",
	  .columns = { "t", "table x", "12" },
	  .temp = 12,
	  .held = "ttable x|" },
	{ .says = "the key of a lock", .columns = { "l", "-7", "1" }, .locks = 1, .held = "l-7|" },
	{ .says = "a position",
	  .columns = { "w", "8192", "16/B374D848 1795409802.5" },
	  .position = UINT64_C(0x16B374D848),
	  .started = UINT64_C(1795409802500000) },
	{ .says = "a position behind the header of a page",
	  .columns = { "w", "8192", "0/3002018 1" },
	  .position = 0x3002000,
	  .started = 1000000 },
	{ .says = "and of a segment",
	  .columns = { "w", "8192", "0/3000028 1" },
	  .position = 0x3000000,
	  .started = 1000000 },
	{ .says = "that is no page there",
	  .columns = { "w", "16384", "0/3002018 1" },
	  .position = 0x3002018,
	  .started = 1000000 },
	{ .says = "how a wait has ended", .columns = { "success" } },
	{ .says = "no position", .columns = { "w", "8192", "x" }, .is_broken = true },
	{ .says = "half a position", .columns = { "w", "8192", "0/" }, .is_broken = true },
	{ .says = "no start", .columns = { "w", "8192", "0/1" }, .is_broken = true },
	{ .says = "no time", .columns = { "w", "8192", "0/1 x" }, .is_broken = true },
	{ .says = "pages of no size", .columns = { "w", "0", "0/1 1" }, .is_broken = true },
	{ .says = "locks", .columns = { "l", "", "999999999" }, .locks = 999999999 },
	{ .says = "all at its default",
	  .columns = { "r", "0", "0", "0", "none", "me", "me", "none", "none" } },
	{ .says = "a role, an authorization and a timeout",
	  .columns = { "r", "5s", "0", "0", "app", "he", "me", "none", "none" },
	  .params = "statement_timeout|5s|role|app|session_authorization|he|" },
	{ .says = "a default role that was given up",
	  .columns = { "r", "0", "0", "0", "none", "me", "me", "app", "none" },
	  .params = "role|none|",
	  .role = "app|" },
	{ .says = "a default role",
	  .columns = { "r", "0", "0", "0", "app", "me", "me", "app", "none" },
	  .role = "app|" },
	{ .says = "a kind unknown", .columns = { "x", "a", "b" }, .is_broken = true },
	{ .says = "too few columns", .columns = { "p", "a" }, .is_broken = true },
	{ .says = "too many columns", .columns = { "c", "a", "", "" }, .is_broken = true },
	{ .says = "far too many",
	  .columns = { "r", "1", "2", "3", "4", "5", "6", "7", "8", "9" },
	  .is_broken = true },
	{ .says = "no name", .columns = { "p", NULL_VALUE, "b" }, .is_broken = true },
	{ .says = "no count", .columns = { "u", "", NULL_VALUE }, .is_broken = true },
	{ .says = "an empty count", .columns = { "u", "", "" }, .is_broken = true },
	{ .says = "a count of letters", .columns = { "l", "", "1a" }, .is_broken = true },
	{ .says = "a count too high", .columns = { "t", "", "1000000000" }, .is_broken = true },
	{ .says = "NULL for a role",
	  .columns = { "r", "0", "0", "0", NULL_VALUE, "me", "me", "none", "none" },
	  .is_broken = true },
	{ .says = "NULL for the default role",
	  .columns = { "r", "0", "0", "0", "none", "me", "me", NULL_VALUE, "none" },
	  .is_broken = true },
};

static void expect_text(const char *says, const struct buf *have, const char *want)
{
	size_t count = want ? strlen(want) : 0;

	ck_assert_msg(have->count == count, "%s: %zu bytes, not %zu", says, have->count, count);
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(have->at[i] == want[i] || (want[i] == '|' && have->at[i] == 0),
		              "%s: byte %zu", says, i);
}

START_TEST(facts_row_takes)
{
	struct buf row = { 0 };
	struct facts facts = { 0 };

	make_row(&row, rows[_i].columns);
	facts_row(&facts, buf_bytes(&row));
	ck_assert_msg(facts.is_broken == rows[_i].is_broken, "%s", rows[_i].says);
	if (!rows[_i].is_broken) {
		expect_text(rows[_i].says, &facts.params, rows[_i].params);
		expect_text(rows[_i].says, &facts.role, rows[_i].role);
		expect_text(rows[_i].says, &facts.channels, rows[_i].channels);
		expect_text(rows[_i].says, &facts.exposed, rows[_i].exposed);
		expect_text(rows[_i].says, &facts.held, rows[_i].held);
	}
	ck_assert_msg(facts.too_long == rows[_i].too_long, "%s", rows[_i].says);
	if (!rows[_i].is_broken) {
		ck_assert_uint_eq(facts.cursor_count, rows[_i].cursors);
		ck_assert_uint_eq(facts.temp_count, rows[_i].temp);
		ck_assert_uint_eq(facts.lock_count, rows[_i].locks);
		ck_assert_uint_eq(facts.position, rows[_i].position);
		ck_assert_uint_eq(facts.started, rows[_i].started);
	}
	facts_done(&facts);
	buf_free(&row);
}
END_TEST

/* Only the whole row is a good one. The copy lets the sanitizer see a byte too far. */
START_TEST(facts_row_at_every_cut)
{
	struct buf row = { 0 };

	make_row(&row, rows[_i].columns);
	for (size_t count = 0; count < row.count; count++) {
		char *copy = malloc(count ? count : 1);
		struct facts facts = { 0 };

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, row.at, count);
		facts_row(&facts, bytes_of(copy, count));
		ck_assert_msg(facts.is_broken, "%s cut at %zu", rows[_i].says, count);
		facts_done(&facts);
		free(copy);
	}
	buf_add_byte(&row, 0);
	{
		struct facts facts = { 0 };

		facts_row(&facts, buf_bytes(&row));
		ck_assert_msg(facts.is_broken, "%s with a byte more", rows[_i].says);
		facts_done(&facts);
	}
	buf_free(&row);
}
END_TEST

static void feed(struct facts *facts, const char *kind, const char *hex, const char *value)
{
	struct buf row = { 0 };

	buf_add_be16(&row, 3);
	buf_add_be32(&row, 1);
	buf_add_text(&row, kind);
	buf_add_be32(&row, (uint32_t)strlen(hex));
	buf_add_text(&row, hex);
	buf_add_be32(&row, (uint32_t)strlen(value));
	buf_add_text(&row, value);
	facts_row(facts, buf_bytes(&row));
	buf_free(&row);
}

static const struct {
	const char *says;
	const char *hex;
} digits[] = {
	{ "half a byte", "616" },
	{ "a byte that is zero", "6100" },
	{ "letters that are no digits", "61zz" },
};

START_TEST(facts_row_refuses_digits)
{
	struct facts facts = { 0 }, name = { 0 };

	feed(&facts, "p", "61", digits[_i].hex);
	ck_assert_msg(facts.is_broken, "%s", digits[_i].says);
	feed(&facts, "p", "61", "62");
	ck_assert_msg(facts.is_broken, "%s: a good row mends nothing", digits[_i].says);
	feed(&name, "c", digits[_i].hex, "");
	ck_assert_msg(name.is_broken, "%s: name", digits[_i].says);
	facts_done(&facts);
	facts_done(&name);
}
END_TEST

/* An answer without end is not kept, and other parts are not concerned. */
START_TEST(facts_row_is_bounded)
{
	struct facts facts = { 0 };
	char value[2 * 1024 + 1];

	memset(value, '6', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	feed(&facts, "c", "61", "");
	for (int i = 0; i < 100; i++)
		feed(&facts, "p", "61", value);
	ck_assert(!facts.is_broken);
	ck_assert_uint_eq(facts.too_long, QUESTION_PARAMS);
	ck_assert_uint_eq(facts.params.count, 0);
	ck_assert_uint_eq(facts.channels.count, 2);
	for (int i = 0; i < 100; i++)
		feed(&facts, "c", value, "");
	ck_assert_uint_eq(facts.too_long, QUESTION_PARAMS | QUESTION_CHANNELS);
	ck_assert_uint_eq(facts.channels.capacity, 0);
	ck_assert_uint_eq(facts.params.capacity, 0);
	facts_done(&facts);
	ck_assert_uint_eq(facts.too_long, 0);
}
END_TEST

START_TEST(facts_row_keeps_the_order)
{
	struct facts facts = { 0 };

	feed(&facts, "p", "61", "31");
	feed(&facts, "c", "62", "");
	feed(&facts, "p", "63", "32");
	feed(&facts, "c", "64", "");
	ck_assert(!facts.is_broken);
	expect_text("parameters", &facts.params, "a|1|c|2|");
	expect_text("channels", &facts.channels, "b|d|");
	facts_done(&facts);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/facts");
	TCase *tcase = tcase_create("facts");

	tcase_add_loop_test(tcase, facts_row_takes, 0, COUNT_OF(rows));
	tcase_add_loop_test(tcase, facts_row_at_every_cut, 0, COUNT_OF(rows));
	tcase_add_loop_test(tcase, facts_row_refuses_digits, 0, COUNT_OF(digits));
	tcase_add_test(tcase, facts_row_is_bounded);
	tcase_add_test(tcase, facts_row_keeps_the_order);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
