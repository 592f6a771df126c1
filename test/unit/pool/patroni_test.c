/* SPDX-License-Identifier: ISC */
/* pool/patroni.c, base/json.c, and net/fetch.c without its socket: answers of a REST interface. */
#include "../../../src/pool/patroni_priv.h"

#include <stdlib.h>

#include "pgweir/net/fetch.h"

#include "../unit.h"

#define TWO                                                                 \
	"{\"members\": [{\"name\": \"n2\", \"host\": \"b\", \"port\": 2}, " \
	"{\"port\":1,\"tags\":{\"x\":[{}, \"]\"]},\"host\":\"a\",\"name\":\"n1\"}]"

static const struct {
	const char *text;
	const char *hosts; /* NULL: it is bad */
	int64_t leaves_at;
	const char *leaving;
} cases[] = {
	{ TWO "}", "a:1,b:2", 0, NULL },
	{ " " TWO ", \"pause\": true } ", "a:1,b:2", 0, NULL },
	{ TWO ", \"scheduled_switchover\": {\"at\": \"2026-11-28T03:00:01+01:00\", "
	      "\"from\": \"n1\"}}",
	  "a:1,b:2", 1795831201, "a:1" },
	{ TWO ", \"scheduled_switchover\": {\"at\": \"2026-11-28T02:00:01.25Z\", "
	      "\"from\": \"n2\"}}",
	  "a:1,b:2", 1795831201, "b:2" },
	{ TWO ", \"scheduled_switchover\": {\"at\": \"soon\", \"from\": \"n1\"}}", "a:1,b:2", 0,
	  NULL },
	{ TWO ", \"scheduled_switchover\": {\"at\": \"2026-11-28T02:00:01Z\", \"from\": \"n3\"}}",
	  "a:1,b:2", 0, NULL },
	{ "{\"members\":[{\"host\":\"::1\",\"port\":5}]}", "[::1]:5", 0, NULL },
	{ "{\"members\":[{\"host\":\"a\",\"port\":5},{\"host\":\"a\",\"port\":5}]}", "a:5", 0,
	  NULL },
	/* a member without a place, or with a bad one, is left out */
	{ "{\"members\":[{\"name\":\"x\"},{\"host\":\"a\",\"port\":5}]}", "a:5", 0, NULL },
	{ "{\"members\":[{\"host\":\"@x\",\"port\":5},{\"host\":\"a\",\"port\":5}]}", "a:5", 0,
	  NULL },
	{ "{\"members\":[{\"host\":\"b\",\"port\":65536},{\"host\":\"a\",\"port\":5}]}", "a:5", 0,
	  NULL },
	{ "{\"members\":[{\"host\":\"b\",\"port\":\"5\"},{\"host\":\"a\",\"port\":5}]}", "a:5", 0,
	  NULL },
	{ "", NULL, 0, NULL },
	{ "[]", NULL, 0, NULL },
	{ "{}", NULL, 0, NULL },
	{ "{\"members\":{}}", NULL, 0, NULL },
	{ "{\"members\":[]}", NULL, 0, NULL },
	{ "{\"members\":[{\"host\":\"a\\u0041\",\"port\":5}]}", NULL, 0, NULL },
	{ "{\"members\":[{\"host\":\"a\",\"port\":5},]}", NULL, 0, NULL },
	{ "{\"members\":[{\"host\":\"a\",\"port\":5} {}]}", NULL, 0, NULL },
	{ "{\"members\":[{\"host\":\"a\",\"port\":5}]} x", NULL, 0, NULL },
	{ "{\"members\":[{\"host\":\"a\",\"port\":5]}}", NULL, 0, NULL },
	{ "{\"members\":[{\"host\":\"a", NULL, 0, NULL },
	{ "{\"members\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
	  NULL, 0, NULL },
};

START_TEST(clusters_are_read)
{
	struct patroni found = { 0 };
	struct err err;
	bool ok = patroni_read(bytes_text(cases[_i].text), &found, &err);

	ck_assert_int_eq(ok, cases[_i].hosts != NULL);
	if (ok)
		ck_assert_str_eq(buf_text(&found.hosts), cases[_i].hosts);
	ck_assert_int_eq(ok ? found.leaves_at : 0, cases[_i].leaves_at);
	if (cases[_i].leaving)
		ck_assert_str_eq(found.leaving, cases[_i].leaving);
	buf_free(&found.hosts);
}
END_TEST

/* In memory that ends where the text is cut. */
START_TEST(a_part_of_a_cluster_is_bad)
{
	size_t size = strlen(TWO "}");

	for (size_t count = 0; count < size; count++) {
		char *copy = malloc(count + 1);
		struct patroni found = { 0 };
		struct err err;

		memcpy(copy, TWO, count);
		ck_assert(!patroni_read(bytes_of(copy, count), &found, &err));
		free(copy);
		buf_free(&found.hosts);
	}
}
END_TEST

#define NO_HTTP "its answer is no HTTP"

static const struct {
	const char *text;
	enum fetch_answer is, at_end;
	const char *says; /* the body, or why there is none */
} answers[] = {
	{ "HTTP/1.0 200 OK\r\n\r\nbody", FETCH_MORE, FETCH_WHOLE, "body" },
	{ "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody", FETCH_WHOLE, FETCH_WHOLE, "body" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nbody", FETCH_WHOLE, FETCH_WHOLE, "bo" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", FETCH_MORE, FETCH_BAD,
	  "its answer was cut" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nbody", FETCH_MORE,
	  FETCH_BAD, "its answer was cut" },
	{ "HTTP/1.1 200 OK\r\n", FETCH_MORE, FETCH_BAD, NO_HTTP },
	{ "HTTP/1.1 503 No\r\n\r\n", FETCH_BAD, FETCH_BAD, "it answers with status 503" },
	{ "HTTP/1.1 \033[2J\r\n\r\n", FETCH_BAD, FETCH_BAD, NO_HTTP },
	{ "HTTP/1.1 50\r\n\r\n", FETCH_BAD, FETCH_BAD, NO_HTTP },
	{ "HTTP/1.1\r\n\r\n", FETCH_BAD, FETCH_BAD, NO_HTTP },
	{ "HTTP/1.1\r\n\r\n1", FETCH_BAD, FETCH_BAD, NO_HTTP },
	{ "", FETCH_MORE, FETCH_BAD, NO_HTTP },
};

START_TEST(answers_are_read)
{
	struct bytes whole = bytes_text(answers[_i].text), body;
	size_t seen = 0;
	struct err err;

	/* byte by byte as it comes */
	for (size_t count = 0; count < whole.count; count++) {
		enum fetch_answer is =
		    fetch_read(bytes_of(whole.at, count), &seen, false, &body, &err);

		if (is != FETCH_MORE)
			break;
	}
	ck_assert_int_eq(fetch_read(whole, &seen, false, &body, &err), answers[_i].is);
	ck_assert_int_eq(fetch_read(whole, &seen, true, &body, &err), answers[_i].at_end);
	if (answers[_i].at_end == FETCH_WHOLE)
		ck_assert(bytes_are(body, answers[_i].says));
	else
		ck_assert_str_eq(err.text, answers[_i].says);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/patroni");
	TCase *tcase = tcase_create("patroni");

	tcase_add_loop_test(tcase, clusters_are_read, 0, sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tcase, a_part_of_a_cluster_is_bad);
	tcase_add_loop_test(tcase, answers_are_read, 0, sizeof(answers) / sizeof(answers[0]));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
