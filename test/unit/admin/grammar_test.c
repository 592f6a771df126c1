/* SPDX-License-Identifier: ISC */
/*
 * admin/request.c: statements and their words.
 */
#include "../../../src/admin/admin_priv.h"

#include "../unit.h"

#define W63 "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"
#define W64 W63 "w"
#define W255 W63 W63 W63 W63 "www"

enum words_result { WORDS_OK, WORDS_INVALID, WORDS_TOO_LONG };

static const struct {
	const char *says;
	const char *text;
	enum words_result result;
	unsigned int count;
	const char *argument, *value;
} cases[] = {
	{ "one word", "RELOAD", WORDS_OK, 0, "", "" },
	{ "two words", "SHOW pools", WORDS_OK, 1, "pools", "" },
	{ "blanks anywhere", " \t\nSHOW\n\tpools \r\n; \n", WORDS_OK, 1, "pools", "" },
	{ "comments are blanks", "/* a; /* b */ */SHOW -- ;\n pools;-- x", WORDS_OK, 1, "pools",
	  "" },
	{ "one semicolon", "RELOAD;", WORDS_OK, 0, "", "" },
	{ "two semicolons", "RELOAD;;", WORDS_INVALID, 0, NULL, NULL },
	{ "two statements", "RELOAD; RELOAD", WORDS_INVALID, 0, NULL, NULL },
	{ "three words", "PAUSE a b", WORDS_INVALID, 0, NULL, NULL },
	{ "a host", "DRAIN host 127.0.0.1;", WORDS_OK, 2, "", "127.0.0.1" },
	{ "a quoted host", "enable HOST '/tmp/a b'", WORDS_OK, 2, "", "/tmp/a b" },
	{ "a database named host", "DISABLE host;", WORDS_OK, 1, "host", "" },
	{ "two hosts", "DISABLE HOST a b", WORDS_INVALID, 0, NULL, NULL },
	{ "a host for another command", "PAUSE HOST a", WORDS_INVALID, 0, NULL, NULL },
	{ "three of a SHOW", "show pools \"My-Db\" ;", WORDS_OK, 2, "pools", "My-Db" },
	{ "four of them", "SHOW pools a b", WORDS_INVALID, 0, NULL, NULL },
	{ "two third ones of 63", "SHOW a bb " W63, WORDS_TOO_LONG, 0, NULL, NULL },
	{ "too many", "SHOW a " W63 " b c d", WORDS_TOO_LONG, 0, NULL, NULL },
	{ "words and a sign", "SHOW a b c +", WORDS_INVALID, 0, NULL, NULL },
	{ "a third one of 63", "SHOW pools " W63, WORDS_OK, 2, "pools", W63 },
	{ "a third one of 64", "SHOW a " W64, WORDS_TOO_LONG, 0, NULL, NULL },
	{ "a third one behind a long one", "SHOW " W64 " a", WORDS_INVALID, 0, NULL, NULL },
	{ "a quoted name", "PAUSE \"My-Db\"", WORDS_OK, 1, "My-Db", "" },
	{ "a quote in quotes", "PAUSE \"a\"\"b\"", WORDS_OK, 1, "a\"b", "" },
	{ "quotes that do not end", "PAUSE \"a", WORDS_INVALID, 0, NULL, NULL },
	{ "a comment that does not end", "PAUSE /* a", WORDS_INVALID, 0, NULL, NULL },
	{ "a name that needs quotes", "PAUSE my-db", WORDS_INVALID, 0, NULL, NULL },
	{ "a string is no name", "PAUSE 'a'", WORDS_INVALID, 0, NULL, NULL },
	{ "a sign", "SELECT 1 + 1", WORDS_INVALID, 0, NULL, NULL },
	{ "set", "SET a = b", WORDS_OK, 2, "a", "b" },
	{ "set without blanks", "set a=b;", WORDS_OK, 2, "a", "b" },
	{ "set to", "SET a TO b", WORDS_OK, 2, "a", "b" },
	{ "a string", "SET a = 'b '' c;'", WORDS_OK, 2, "a", "b ' c;" },
	{ "an empty string", "SET a = ''", WORDS_OK, 2, "a", "" },
	{ "a number below zero", "SET a = -1", WORDS_OK, 2, "a", "-1" },
	{ "a fraction", "SET a TO 1.5;", WORDS_OK, 2, "a", "1.5" },
	{ "no value", "SET a =", WORDS_INVALID, 0, NULL, NULL },
	{ "no key", "SET = b", WORDS_INVALID, 0, NULL, NULL },
	{ "no sign", "SET a b", WORDS_INVALID, 0, NULL, NULL },
	{ "two values", "SET a = b c", WORDS_INVALID, 0, NULL, NULL },
	{ "a string that does not end", "SET a = 'b", WORDS_INVALID, 0, NULL, NULL },
	{ "set alone", "SET", WORDS_INVALID, 0, NULL, NULL },
	{ "a command of 15", "ccccccccccccccc", WORDS_INVALID, 0, NULL, NULL },
	{ "a command of 16", "cccccccccccccccc", WORDS_TOO_LONG, 0, NULL, NULL },
	{ "an argument of 63", "PAUSE " W63, WORDS_OK, 1, W63, "" },
	{ "an argument of 64", "PAUSE " W64, WORDS_TOO_LONG, 0, NULL, NULL },
	{ "a value of 255", "SET a = " W255, WORDS_OK, 2, "a", W255 },
	{ "a value of 256", "SET a = '" W255 "w'", WORDS_TOO_LONG, 0, NULL, NULL },
};

static enum words_result read_words(struct bytes text, struct words *words)
{
	struct request request;
	struct err err;
	bool is_read = request_read(text, commands, &request, 1, &err);

	*words = request.words;
	return is_read                                  ? WORDS_OK
	       : strcmp(err.text, "bad arguments") == 0 ? WORDS_TOO_LONG
	                                                : WORDS_INVALID;
}

START_TEST(words_are_read)
{
	struct words words;

	ck_assert_msg(read_words(bytes_text(cases[_i].text), &words) == cases[_i].result, "%s",
	              cases[_i].says);
	if (cases[_i].result != WORDS_OK)
		return;
	ck_assert_uint_eq(words.count, cases[_i].count);
	ck_assert_str_eq(words.argument, cases[_i].argument);
	ck_assert_str_eq(words.value, cases[_i].value);
}
END_TEST

/* At every cut, nothing after the end is read (checked by the sanitizers). */
START_TEST(words_are_read_at_every_cut)
{
	size_t length = strlen(cases[_i].text);

	for (size_t count = 0; count <= length; count++) {
		char *text = malloc(count ? count : 1);
		struct words words;

		memcpy(text, cases[_i].text, count);
		ck_assert_int_le(read_words(bytes_of(text, count), &words), WORDS_TOO_LONG);
		free(text);
	}
}
END_TEST

#define TALKS 4

START_TEST(statements_end_at_semicolons_outside_of_quotes)
{
	static const char *const expected[] = { "BEGIN", "SAVEPOINT", "RELEASE" };
	struct request requests[TALKS];
	struct err err;
	unsigned int count =
	    request_read(bytes_text("begin ';' /* ; */;; SAVEPOINT \";\"; release -- ;"), commands,
	                 requests, TALKS, &err);

	ck_assert_uint_eq(count, COUNT_OF(expected));
	for (size_t i = 0; i < COUNT_OF(expected); i++)
		ck_assert_str_eq(requests[i].tag, expected[i]);
}
END_TEST

START_TEST(a_long_statement_is_read_to_its_end)
{
	char text[1000];
	struct request requests[TALKS];
	struct err err;

	memset(text, ',', sizeof(text));
	memcpy(text, "BEGIN ", 6);
	ck_assert(request_read(bytes_of(text, sizeof(text)), commands, requests, 1, &err));
	memcpy(text + sizeof(text) - 5, "; END", 5);
	ck_assert(!request_read(bytes_of(text, sizeof(text)), commands, requests, 1, &err));
	ck_assert_uint_eq(
	    request_read(bytes_of(text, sizeof(text)), commands, requests, TALKS, &err), 2);
	ck_assert_uint_eq(request_read(bytes_of(text, sizeof(text)), commands, requests, 1, &err),
	                  0);
}
END_TEST

START_TEST(a_zero_byte_is_a_sign)
{
	struct request request;
	struct err err;

	ck_assert(!request_read(bytes_of("PAUSE\0a", 7), commands, &request, 1, &err));
	ck_assert(request_read(bytes_of("BEGIN\0a", 7), commands, &request, 1, &err));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin/grammar");
	TCase *tests = tcase_create("grammar");

	tcase_add_loop_test(tests, words_are_read, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, words_are_read_at_every_cut, 0, COUNT_OF(cases));
	tcase_add_test(tests, statements_end_at_semicolons_outside_of_quotes);
	tcase_add_test(tests, a_long_statement_is_read_to_its_end);
	tcase_add_test(tests, a_zero_byte_is_a_sign);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
