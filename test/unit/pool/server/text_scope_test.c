/* SPDX-License-Identifier: ISC */
/*
 * pool/server/params.c: parameters of a session that change the meaning of a text, and no
 * others.
 */
#include "pgweir/pool/server/params.h"

#include <stdio.h>
#include <string.h>

#include "../../unit.h"

#define NAMES_MAX 4

static const struct {
	const char *says;
	const char *names[2 * NAMES_MAX]; /* name, value, ... */
	const char *scope;                /* "name=value;" */
} cases[] = {
	{ "nothing", { NULL }, "" },
	{ "what changes no text", { "application_name", "x", "statement_timeout", "1" }, "" },
	{ "where names are looked up", { "search_path", "a, b" }, "search_path=a, b;" },
	{ "in whatever letters", { "timezone", "UTC" }, "timezone=UTC;" },
	{ "as whom", { "role", "r", "application_name", "x" }, "role=r;" },
	{ "what is of an application", { "app.tenant", "x", "lock_timeout", "1" }, "" },
	{ "what nobody knows",
	  { "bytea_output", "escape", "new_one", "1" },
	  "bytea_output=escape;new_one=1;" },
	{ "in one order",
	  { "TimeZone", "UTC", "DateStyle", "ISO" },
	  "DateStyle=ISO;TimeZone=UTC;" },
	{ "what decides over a plan", { "work_mem", "1MB" }, "work_mem=1MB;" },
	{ "each way of a plan", { "Enable_sort", "off" }, "Enable_sort=off;" },
	{ "an empty value", { "search_path", "" }, "search_path=;" },
};

static void expect(struct bytes scope, const char *expected, const char *says)
{
	char have[256];
	size_t count = 0;
	const char *name, *value;

	have[0] = 0;
	while (scope.count) {
		ck_assert(bytes_take_text(&scope, &name) && bytes_take_text(&scope, &value));
		count +=
		    (size_t)snprintf(have + count, sizeof(have) - count, "%s=%s;", name, value);
	}
	ck_assert_msg(strcmp(have, expected) == 0, "%s: \"%s\"", says, have);
}

START_TEST(text_scope_of_maps)
{
	struct params_table *table = params_table_new();

	/* Twice in a row: the last one must not be taken for the next. */
	for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
		const struct params *params = params_none(table);
		size_t which = i % COUNT_OF(cases);
		struct bytes text;

		for (int at = 0; at < 2 * NAMES_MAX && cases[which].names[at]; at += 2)
			params_change(table, &params, cases[which].names[at],
			              cases[which].names[at + 1]);
		for (int again = 0; again < 2; again++) {
			ck_assert(params_scope(table, params, &text));
			expect(text, cases[which].scope, cases[which].says);
		}
		params_release(table, &params);
	}
	ck_assert_uint_eq(params_table_count(table), 0);
	params_table_free(&table);
}
END_TEST

static const struct {
	const char *says;
	const char *text;
	const char *result;
} merges[] = {
	{ "what is plain is read as it would be now", "SELECT 'a'",
	  "client_encoding=UTF8;search_path=b;standard_conforming_strings=off;TimeZone=UTC;" },
	{ "backslashes as at first", "SELECT 'a\\n'",
	  "backslash_quote=on;client_encoding=UTF8;search_path=b;"
	  "standard_conforming_strings=on;TimeZone=UTC;" },
	{ "other characters too", "SELECT '\xe4'",
	  "client_encoding=LATIN1;search_path=b;standard_conforming_strings=off;TimeZone=UTC;" },
	{ "both", "SELECT '\\\xe4'",
	  "backslash_quote=on;client_encoding=LATIN1;search_path=b;"
	  "standard_conforming_strings=on;TimeZone=UTC;" },
};

START_TEST(text_scope_merge_says)
{
	static const char first[] = "backslash_quote\0on\0client_encoding\0LATIN1\0search_path\0a\0"
				    "standard_conforming_strings\0on";
	static const char now[] = "client_encoding\0UTF8\0search_path\0b\0"
				  "standard_conforming_strings\0off\0TimeZone\0UTC";
	struct buf out = { 0 };

	ck_assert(text_scope_merge(bytes_text(merges[_i].text), bytes_of(first, sizeof(first)),
	                           bytes_of(now, sizeof(now)), &out));
	expect(buf_bytes(&out), merges[_i].result, merges[_i].says);
	buf_free(&out);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/text_scope");
	TCase *tcase = tcase_create("text_scope");

	tcase_add_test(tcase, text_scope_of_maps);
	tcase_add_loop_test(tcase, text_scope_merge_says, 0, COUNT_OF(merges));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
