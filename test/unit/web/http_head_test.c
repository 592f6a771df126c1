/* SPDX-License-Identifier: ISC */
/*
 * web/http_head.c.
 */
#include "../../../src/web/web_priv.h"

#include <stdlib.h>

#include "../unit.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"

static const struct {
	const char *says;
	const char *in;
	enum http_result result;
	int status;
	const char *path, *query, *host;
} cases[] = {
	{ "a plain request", GET "\r\n", HTTP_OK, 0, "/", "", "a" },
	{ "lines that end with LF only", "GET / HTTP/1.1\nHost: a\n\n", HTTP_OK, 0, "/", "", "a" },
	{ "an empty line in front", "\r\n" GET "\r\n", HTTP_OK, 0, "/", "", "a" },
	{ "a query", "GET /x?b=1&c HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OK, 0, "/x", "b=1&c", "a" },
	{ "a host with a port", "GET / HTTP/1.1\r\nHost: a.b:9127\r\n\r\n", HTTP_OK, 0, "/", "",
	  "a.b" },
	{ "an IPv6 host", "GET / HTTP/1.1\r\nhost:\t[::1]:9127 \r\n\r\n", HTTP_OK, 0, "/", "",
	  "::1" },
	{ "a proxy's target", "GET HTTP://x:1/y HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OK, 0, "/y", "",
	  "a" },
	{ "a proxy's target without path", "GET http://x HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OK, 0,
	  "/", "", "a" },
	{ "HTTP/1.0 without a host", "GET / HTTP/1.0\r\n\r\n", HTTP_OK, 0, "/", "", NULL },
	{ "no body", GET "Content-Length: 0\r\n\r\n", HTTP_OK, 0, "/", "", "a" },
	{ "another method", "PUT / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_OK, 0, "/", "", "a" },
	{ "a path without slash", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a target of another method", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD, 405, 0,
	  0, 0 },
	{ "two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a byte that is no ASCII in the path", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
	  HTTP_BAD, 400, 0, 0, 0 },
	{ "no version", "GET /\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "another version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", HTTP_BAD, 505, 0, 0, 0 },
	{ "no host", "GET / HTTP/1.1\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "two hosts", GET "Host: b\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "an open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "something after a bracket", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", HTTP_BAD, 400, 0,
	  0, 0 },
	{ "a line without colon", GET "nonsense\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a blank before the colon", GET "A : b\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a continued line", GET "A: b\r\n c\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a control character", GET "A: \x01\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "a CR within a line", GET "A: b\rc\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "an empty name", GET ": b\r\n\r\n", HTTP_BAD, 400, 0, 0, 0 },
	{ "two secrets", GET "Authorization: a\r\nAuthorization: b\r\n\r\n", HTTP_BAD, 400, 0, 0,
	  0 },
	{ "a body", GET "Content-Length: 1\r\n\r\n", HTTP_BAD, 413, 0, 0, 0 },
	{ "a body in chunks", GET "Transfer-Encoding: chunked\r\n\r\n", HTTP_BAD, 413, 0, 0, 0 },
	{ "a body of another method", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd",
	  HTTP_BAD, 405, 0, 0, 0 },
	{ "nothing yet", "", HTTP_MORE, 0, 0, 0, 0 },
	{ "half a line", "GET / HT", HTTP_MORE, 0, 0, 0, 0 },
	{ "no end yet", GET, HTTP_MORE, 0, 0, 0, 0 },
	{ "half an end", GET "\r", HTTP_MORE, 0, 0, 0, 0 },
};

static void expect_text(struct bytes found, const char *expected, const char *says)
{
	if (expected)
		ck_assert_msg(bytes_are(found, expected), "%s: %.*s", says, (int)found.count,
		              found.at);
	else
		ck_assert_msg(!found.at, "%s", says);
}

static void check_case(size_t index, const struct http_head *head, enum http_result result)
{
	ck_assert_msg(result == cases[index].result, "%s", cases[index].says);
	if (result == HTTP_BAD)
		ck_assert_msg(head->status == cases[index].status && head->closes, "%s: %d",
		              cases[index].says, head->status);
	if (result != HTTP_OK)
		return;
	expect_text(head->path, cases[index].path, cases[index].says);
	expect_text(head->query, cases[index].query, cases[index].says);
	expect_text(head->host, cases[index].host, cases[index].says);
}

START_TEST(a_head_at_once)
{
	struct http_head head;
	size_t seen = 0;
	enum http_result result = http_head_read(bytes_text(cases[_i].in), &seen, &head);

	check_case((size_t)_i, &head, result);
}
END_TEST

/* Each byte is in memory of its own size, so that the sanitizer sees a byte read too much. */
START_TEST(a_head_byte_by_byte)
{
	size_t size = strlen(cases[_i].in), seen = 0;
	enum http_result result = HTTP_MORE;
	struct http_head head;
	char *copy = NULL;

	for (size_t count = 1; count <= size && result == HTTP_MORE; count++) {
		free(copy);
		copy = malloc(count);
		memcpy(copy, cases[_i].in, count);
		result = http_head_read(bytes_of(copy, count), &seen, &head);
	}
	check_case((size_t)_i, &head, result);
	free(copy);
}
END_TEST

START_TEST(what_follows_is_not_taken)
{
	struct http_head head;
	size_t seen = 0;
	char in[] = GET "\r\n" GET "\r\n";

	ck_assert_int_eq(http_head_read(bytes_text(in), &seen, &head), HTTP_OK);
	ck_assert_uint_eq(head.size, strlen(in) / 2);
}
END_TEST

START_TEST(a_head_has_a_maximum)
{
	struct buf in = { 0 };
	struct http_head head;
	size_t seen = 0;

	buf_add_text(&in, GET "A: ");
	while (in.count < HTTP_HEAD_MAX - 4)
		buf_add_byte(&in, 'x');
	ck_assert_int_eq(http_head_read(buf_bytes(&in), &seen, &head), HTTP_MORE);
	buf_add_text(&in, "\r\n\r\n");
	ck_assert_int_eq(http_head_read(buf_bytes(&in), &seen, &head), HTTP_OK);
	in.count -= 4;
	buf_add_text(&in, "x\r\n\r\n");
	ck_assert_int_eq(http_head_read(buf_bytes(&in), &seen, &head), HTTP_BAD);
	ck_assert_int_eq(head.status, 431);
	in.count = 0;
	seen = 0;
	while (in.count < HTTP_HEAD_MAX)
		buf_add_byte(&in, 'x');
	ck_assert_int_eq(http_head_read(buf_bytes(&in), &seen, &head), HTTP_BAD);
	ck_assert_int_eq(head.status, 431);
	buf_free(&in);
}
END_TEST

START_TEST(connections_end_when_they_are_asked_to)
{
	static const struct {
		const char *in;
		bool closes;
	} rows[] = {
		{ GET "\r\n", false },
		{ GET "Connection: keep-alive, Close\r\n\r\n", true },
		{ "GET / HTTP/1.0\r\n\r\n", true },
		{ "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_head head;
		size_t seen = 0;

		ck_assert_int_eq(http_head_read(bytes_text(rows[i].in), &seen, &head), HTTP_OK);
		ck_assert_msg(head.closes == rows[i].closes, "%s", rows[i].in);
	}
}
END_TEST

START_TEST(texts_are_decoded)
{
	static const struct {
		const char *in;
		bool is_form;
		const char *out; /* NULL: invalid */
	} rows[] = {
		{ "", false, "" },
		{ "a+b%20c", false, "a+b c" },
		{ "a+b%2Bc", true, "a b+c" },
		{ "%C3%a4", false, "\xc3\xa4" },
		{ "%", false, NULL },
		{ "%4", false, NULL },
		{ "%4g", false, NULL },
		{ "a%00", false, NULL },
		{ "%41", false, "A" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = { 0 };
		bool is_valid = http_decode(bytes_text(rows[i].in), rows[i].is_form, &out);

		ck_assert_msg(is_valid == (rows[i].out != NULL), "%s", rows[i].in);
		if (is_valid)
			ck_assert_str_eq(buf_text(&out), rows[i].out);
		buf_free(&out);
	}
}
END_TEST

START_TEST(a_query_has_pairs)
{
	struct bytes query = bytes_text("a=1&&b&=x&aa=4&c==2&A=%33+");
	struct buf words = { 0 };

	ck_assert(http_read_arguments(query, "a", &words));
	ck_assert_str_eq(buf_text(&words), " 1 3 ");
	buf_clear(&words);
	ck_assert(http_read_arguments(query, "b", &words));
	ck_assert(http_read_arguments(query, "c", &words));
	ck_assert(http_read_arguments(query, "d", &words));
	ck_assert_str_eq(buf_text(&words), "  =2");
	ck_assert(!http_read_arguments(bytes_text("a=%3"), "a", &words));
	buf_free(&words);
}
END_TEST

START_TEST(a_list_has_types)
{
	const char *list = "text/html;q=0.5, Application/openmetrics-text; version=1.0.0";

	ck_assert(http_list_has(bytes_text(list), "application/openmetrics-text"));
	ck_assert(http_list_has(bytes_text(list), "text/html"));
	ck_assert(!http_list_has(bytes_text(list), "text/plain"));
	ck_assert(!http_list_has(bytes_text(""), "text/plain"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("web/http_head");
	TCase *tests = tcase_create("http_head");

	tcase_add_loop_test(tests, a_head_at_once, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, a_head_byte_by_byte, 0, COUNT_OF(cases));
	tcase_add_test(tests, what_follows_is_not_taken);
	tcase_add_test(tests, a_head_has_a_maximum);
	tcase_add_test(tests, connections_end_when_they_are_asked_to);
	tcase_add_test(tests, texts_are_decoded);
	tcase_add_test(tests, a_query_has_pairs);
	tcase_add_test(tests, a_list_has_types);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
