/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_token.c: which comments name a trace, at every cut.
 */
#include "pgweir/pgwire/sql_token.h"

#include "../unit.h"

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define SAYS "traceparent='" TRACE "'"

static const struct {
	const char *says;
	const char *text;
	bool is_found;
} cases[] = {
	{ "at the end", "SELECT 1 /*" SAYS "*/", true },
	{ "with a semicolon and blanks", "SELECT 1 /*" SAYS "*/ ; \n", true },
	{ "at the beginning", " \n/*" SAYS "*/SELECT 1", true },
	{ "with other keys", "SELECT 1 /*db_driver='x',route='%2Fa'," SAYS ",z='1'*/", true },
	{ "with blanks around it", "SELECT 1 /* " SAYS " */", true },
	{ "nothing else", "/*" SAYS "*/", true },
	{ "another comment at the end", "/*" SAYS "*/ SELECT 1 /* here */", true },
	{ "another version",
	  "/*traceparent='cc"
	  "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/",
	  true },
	{ "nothing", "", false },
	{ "no comment", "SELECT 1", false },
	{ "no comment, but a string", "SELECT '" SAYS, false },
	{ "in the middle", "SELECT /*" SAYS "*/ 1", false },
	{ "a comment that does not end", "/*" SAYS, false },
	{ "a comment that does not begin", SAYS "*/", false },
	{ "the end of another name", "/*x" SAYS "*/", false },
	{ "version ff", "/*traceparent='ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/",
	  false },
	{ "upper case", "/*traceparent='00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/",
	  false },
	{ "no trace id",
	  "/*traceparent='00-00000000000000000000000000000000-b7ad6b7169203331-01'*/", false },
	{ "no parent id",
	  "/*traceparent='00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'*/", false },
	{ "too short", "/*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0'*/",
	  false },
	{ "too long", "/*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011'*/",
	  false },
	{ "another sign",
	  "/*traceparent='00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01'*/", false },
	{ "a half comment", "/*/", false },
	{ "an empty one", "/**/", false },
	{ "a star", "*/", false },
};

START_TEST(trace_is_found)
{
	struct bytes value = { 0 };

	ck_assert_msg(sql_traceparent(bytes_text(cases[_i].text), &value) == cases[_i].is_found,
	              "%s", cases[_i].says);
	if (!cases[_i].is_found)
		return;
	ck_assert_uint_eq(value.count, SQL_TRACEPARENT_SIZE);
	ck_assert(memcmp(value.at + 2, &TRACE[2], SQL_TRACEPARENT_SIZE - 2) == 0);
}
END_TEST

/* A part of a text has the same trace or none, and nothing behind it is read (sanitizers). */
START_TEST(trace_at_every_cut)
{
	size_t size = strlen(cases[_i].text);

	for (size_t count = 0; count <= size; count++) {
		char *copy = malloc(count ? count : 1);
		struct bytes value;

		memcpy(copy, cases[_i].text, count);
		if (sql_traceparent(bytes_of(copy, count), &value))
			unit_expect(memcmp(value.at + 2, &TRACE[2], SQL_TRACEPARENT_SIZE - 2) == 0);
		memcpy(copy, cases[_i].text + size - count, count);
		if (sql_traceparent(bytes_of(copy, count), &value))
			unit_expect(memcmp(value.at + 2, &TRACE[2], SQL_TRACEPARENT_SIZE - 2) == 0);
		free(copy);
	}
}
END_TEST

START_TEST(trace_in_a_long_text)
{
	static char text[100000];
	struct bytes value;
	size_t size = sizeof("/*" SAYS "*/") - 1;

	memset(text, 'x', sizeof(text));
	memcpy(text, "/*" SAYS "*/", size);
	ck_assert(sql_traceparent(bytes_of(text, sizeof(text)), &value));
	memset(text, 'x', sizeof(text));
	memcpy(text + sizeof(text) - size, "/*" SAYS "*/", size);
	ck_assert(sql_traceparent(bytes_of(text, sizeof(text)), &value));
	memset(text + sizeof(text) - size, '*', size);
	text[sizeof(text) - 1] = '/';
	ck_assert(!sql_traceparent(bytes_of(text, sizeof(text)), &value));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_traceparent");
	TCase *tests = tcase_create("sql_traceparent");

	tcase_add_loop_test(tests, trace_is_found, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, trace_at_every_cut, 0, COUNT_OF(cases));
	tcase_add_test(tests, trace_in_a_long_text);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
