/* SPDX-License-Identifier: ISC */
/*
 * base/log.c: the format of a line, reopening, and that nothing is lost at the end.
 */
#include "pgweir/base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit.h"
#include "../../../src/base/log_priv.h"

/* As for a pool; another test has the prefixes of clients and servers. */
static void speak(const struct logger *logger, struct log_who *who)
{
	(void)logger;
	who->kind = "pool";
	who->database = "db";
	who->user = "user";
	strbuf_add(&who->address, "unix");
}

static size_t read_file(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t count;

	ck_assert_ptr_nonnull(file);
	count = fread(out, 1, size - 1, file);
	out[count] = 0;
	fclose(file);
	return count;
}

static void make_path(char *path)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

START_TEST(log_line_has_the_contracts_shape)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[4096];
	struct log *log = log_new();
	struct logger logger = { log, speak };
	int year, ms;
	long pid;
	char zone[32];

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	log_info(&logger, "login attempt: %s\nsecond", "db=x");
	log_debug(&logger, "unseen");
	log_free(&log);
	read_file(path, text, sizeof(text));
	ck_assert_int_eq(
	    sscanf(text, "%d-%*d-%*d %*d:%*d:%*d.%d %31s [%ld] LOG ", &year, &ms, zone, &pid), 4);
	ck_assert_int_eq(pid, getpid());
	ck_assert_ptr_nonnull(strstr(text, "] LOG db/user@unix login attempt: db=x\n\tsecond\n"));
	ck_assert_ptr_null(strstr(text, "unseen"));
	unlink(path);
}
END_TEST

/* A byte must be found at every position. */
START_TEST(log_spells_out_control_bytes_everywhere)
{
	static const char bytes[] = { '\x01', '\x1f', '\x7f', ' ',    '~',   '\t',
		                      '\xa0', '\xff', '\x80', '\x9b', '\x9f' };
	char path[] = "/tmp/pgweir-log-XXXXXX", text[8192], said[32], wanted[64];
	struct log *log = log_new();
	struct logger logger = { log, NULL };

	make_path(path);
	for (size_t at = 0; at < 20; at++) {
		ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
		ck_assert_int_eq(truncate(path, 0), 0);
		for (size_t i = 0; i < sizeof(bytes); i++) {
			memset(said, 'x', 20);
			said[at] = bytes[i];
			said[20] = 0;
			log_info(&logger, "%s", said);
		}
		read_file(path, text, sizeof(text));
		for (size_t i = 0; i < sizeof(bytes); i++) {
			bool is_plain = i >= 3 && i < 8;

			snprintf(wanted, sizeof(wanted),
			         is_plain ? "LOG %.*s%c%.*s\n" : "LOG %.*s\\x%02x%.*s\n", (int)at,
			         "xxxxxxxxxxxxxxxxxxxx", (unsigned char)bytes[i], (int)(19 - at),
			         "xxxxxxxxxxxxxxxxxxxx");
			ck_assert_ptr_nonnull(strstr(text, wanted));
		}
	}
	log_free(&log);
	unlink(path);
}
END_TEST

/* The same terminal commands, as UTF-8; and similar harmless sequences. */
START_TEST(log_spells_out_controls_in_utf8)
{
	static const struct {
		const char *said, *written;
	} lines[] = {
		{ "a \xc2\x9b"
		  "31m b",
		  "LOG a \\xc2\\x9b31m b\n" },
		{ "a \xc2\x80\xc2\x9f", "LOG a \\xc2\\x80\\xc2\\x9f\n" },
		{ "a \xc2\xa0 \xc3\x9b \xe2\x82\xac", "LOG a \xc2\xa0 \xc3\x9b \xe2\x82\xac\n" },
		{ "a \xf0\x9f\x90\x98 b", "LOG a \xf0\x9f\x90\x98 b\n" },
		{ "a \xe2\x9b b", "LOG a \xe2\\x9b b\n" },
		{ "a \xe0\x82\x9b b", "LOG a \xe0\\x82\\x9b b\n" },
	};
	char path[] = "/tmp/pgweir-log-XXXXXX", text[8192];
	struct log *log = log_new();
	struct logger logger = { log, NULL };

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		log_info(&logger, "%s", lines[i].said);
	log_free(&log);
	read_file(path, text, sizeof(text));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		ck_assert_msg(strstr(text, lines[i].written) != NULL, "%s", lines[i].written);
	unlink(path);
}
END_TEST

START_TEST(log_cuts_what_is_too_long)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[8192], said[LOG_TEXT_MAX + 100];
	struct log *log = log_new();
	struct logger logger = { log, speak };

	make_path(path);
	memset(said, 'y', sizeof(said) - 1);
	said[sizeof(said) - 1] = 0;
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	log_info(&logger, "%s", said);
	log_info(&logger, "%s", "next");
	log_free(&log);
	read_file(path, text, sizeof(text));
	ck_assert_uint_eq((size_t)(strchr(text, '\n') - strstr(text, "db/user")), LOG_TEXT_MAX - 1);
	ck_assert_ptr_nonnull(strstr(text, "y\n"));
	ck_assert_ptr_nonnull(strstr(text, "db/user@unix next\n"));
	unlink(path);
}
END_TEST

static void speak_as_client(const struct logger *logger, struct log_who *who)
{
	(void)logger;
	who->kind = "client";
	who->pointer = (const void *)0x1;
	who->id = 7;
	who->database = "d\"b";
	who->user = "u";
	strbuf_add(&who->address, "127.0.0.1:5");
}

START_TEST(log_tells_of_a_client_in_text_and_json)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[4096];
	struct log *log = log_new();
	struct logger client = { log, speak_as_client }, own = { log, NULL };

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	log_info(&client, "hello");
	ck_assert(log_configure(log, &(struct log_options){ .file = path, .is_json = true }, NULL));
	log_warning(&client, "a\nb\xff");
	log_info(&own, "c");
	log_free(&log);
	read_file(path, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "LOG C-0x1: d\"b/u@127.0.0.1:5 hello\n{\"time\":\""));
	ck_assert_ptr_nonnull(
	    strstr(text, ",\"level\":\"WARNING\",\"peer\":\"client\",\"pointer\":\"0x1\","
	                 "\"id\":7,\"database\":\"d\\\"b\",\"user\":\"u\","
	                 "\"address\":\"127.0.0.1:5\",\"addr\":\"127.0.0.1\","
	                 "\"message\":\"a\\nb\xef\xbf\xbd\"}\n"));
	ck_assert_ptr_nonnull(strstr(text, ",\"level\":\"LOG\",\"message\":\"c\"}\n"));
	unlink(path);
}
END_TEST

static void speak_with_a_name(const struct logger *logger, struct log_who *who)
{
	speak_as_client(logger, who);
	who->application_name = who->is_json ? "na\"me" : "never looked at";
}

START_TEST(log_tells_facts_in_json)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[4096];
	const struct log_facts facts = { .event = "slow_statement",
		                         .sqlstate = "57014",
		                         .statement = "SELECT '\n'",
		                         .has_duration = true,
		                         .duration = 1500012,
		                         .has_wait = true,
		                         .wait = 7 };
	struct log *log = log_new();
	struct logger client = { log, speak_with_a_name };

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	log_event(&client, LOG_LEVEL_INFO, &facts, "slow %d", 1);
	log_event(&client, LOG_LEVEL_DEBUG, &facts, "nobody wants it");
	ck_assert(log_configure(log, &(struct log_options){ .file = path, .is_json = true }, NULL));
	log_event(&client, LOG_LEVEL_INFO, &facts, "slow %d", 2);
	log_event(&client, LOG_LEVEL_INFO, &(struct log_facts){ .event = "connect" }, "c");
	log_free(&log);
	read_file(path, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "LOG C-0x1: d\"b/u@127.0.0.1:5 slow 1\n{\"time\":\""));
	ck_assert_ptr_nonnull(strstr(text, "\"application_name\":\"na\\\"me\","
	                                   "\"event\":\"slow_statement\",\"sqlstate\":\"57014\","
	                                   "\"statement\":\"SELECT '\\n'\","
	                                   "\"duration_ms\":1500.012,\"wait_ms\":0.007,"
	                                   "\"message\":\"slow 2\"}\n"));
	ck_assert_ptr_nonnull(strstr(text, ",\"event\":\"connect\",\"message\":\"c\"}\n"));
	unlink(path);
}
END_TEST

static const struct host_case {
	const char *address, *addr;
} hosts[] = {
	{ "127.0.0.1:5", "127.0.0.1" }, { "[::1]:5", "::1" },     { "unix(4711):6432", "unix" },
	{ "unix:6432", "unix" },        { "nothing", "nothing" },
};

struct logger_from {
	struct logger logger;
	const struct host_case *host;
};

static void speak_from(const struct logger *logger, struct log_who *who)
{
	strbuf_add(&who->address, ((const struct logger_from *)logger)->host->address);
}

START_TEST(log_tells_the_host_in_json)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[4096], wanted[64];
	struct log *log = log_new();
	struct logger_from from = { { log, speak_from }, &hosts[_i] };

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path, .is_json = true }, NULL));
	log_info(&from.logger, "here");
	log_free(&log);
	read_file(path, text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "\"addr\":\"%s\",", hosts[_i].addr);
	ck_assert_msg(strstr(text, wanted), "%s: %s", hosts[_i].address, text);
	unlink(path);
}
END_TEST

START_TEST(log_suppresses_what_comes_too_often)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", *text = malloc(1 << 20), *at = text;
	struct log *log = log_new();
	struct logger logger = { log, speak };
	unsigned long suppressed = 0, more;
	int count = 0;

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path, .rate = 10 }, NULL));
	for (int i = 0; i < 1000; i++)
		log_info(&logger, "closing because: tired (age=%ds)", i);
	log_info(&logger, "something else");
	log_free(&log);
	read_file(path, text, 1 << 20);
	for (at = text; (at = strstr(at, " closing because: tired (")); at++)
		count++;
	for (at = text; (at = strstr(at, " more suppressed: closing because: tired ...")); at++) {
		char *begin = at;

		while (begin > text && begin[-1] >= '0' && begin[-1] <= '9')
			begin--;
		ck_assert_int_eq(sscanf(begin, "%lu", &more), 1);
		suppressed += more;
	}
	ck_assert_int_ge(count, 10);
	ck_assert_uint_gt(suppressed, 0);
	ck_assert_uint_eq((unsigned long)count + suppressed, 1000);
	ck_assert_ptr_nonnull(strstr(text, "something else"));
	ck_assert_ptr_null(strstr(text, "suppressed: something else"));
	free(text);
	unlink(path);
}
END_TEST

START_TEST(log_gives_the_journal_its_priorities)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[4096], said[64];
	struct log *log;
	struct logger logger = { NULL, NULL };
	struct stat found;
	int saved = dup(STDERR_FILENO), fd = mkstemp(path);

	dup2(fd, STDERR_FILENO);
	ck_assert_int_eq(fstat(fd, &found), 0);
	snprintf(said, sizeof(said), "%llu:%llu", (unsigned long long)found.st_dev,
	         (unsigned long long)found.st_ino);
	setenv("JOURNAL_STREAM", said, 1);
	logger.log = log = log_new();
	log_warning(&logger, "one\ntwo");
	log_info(&logger, "three");
	setenv("JOURNAL_STREAM", "1:1", 1);
	ck_assert(log_configure(log, &(struct log_options){ .to_stderr = true }, NULL));
	log_info(&logger, "four");
	log_free(&log);
	unsetenv("JOURNAL_STREAM");
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fd);
	read_file(path, text, sizeof(text));
	ck_assert_int_eq(strncmp(text, "<4>one\n<4>\ttwo\n<6>three\n2", 25), 0);
	ck_assert_ptr_nonnull(strstr(text, "] LOG four\n"));
	unlink(path);
}
END_TEST

START_TEST(log_loses_nothing_at_the_end)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", *text = malloc(1 << 20), *at = text;
	struct log *log = log_new();
	struct logger logger = { log, NULL };
	int count = 0;

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path, .verbosity = 1 }, NULL));
	ck_assert(log_start(log, NULL));
	for (int i = 0; i < 5000; i++)
		log_debug(&logger, "line %d", i);
	log_free(&log);
	read_file(path, text, 1 << 20);
	while ((at = strchr(at, '\n'))) {
		at++;
		count++;
	}
	ck_assert_int_eq(count, 5000);
	free(text);
	unlink(path);
}
END_TEST

START_TEST(log_keeps_its_file_when_the_new_one_cannot_be_opened)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[4096];
	struct log *log = log_new();
	struct logger logger = { log, NULL };
	struct err err;

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	ck_assert(!log_configure(log, &(struct log_options){ .file = "/nonexistent/x" }, &err));
	ck_assert_str_eq(err.text, "cannot open logfile /nonexistent/x: No such file or directory");
	log_warning(&logger, "still here");
	log_free(&log);
	read_file(path, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "WARNING still here\n"));
	unlink(path);
}
END_TEST

/* The process may be killed after any call: everything it has logged is in the file. */
START_TEST(log_writes_the_line_before_it_returns)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", text[8192], wanted[32];
	struct log *log = log_new();
	struct logger logger = { log, NULL };

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	ck_assert(log_start(log, NULL));
	for (int i = 0; i < 16; i++) {
		/* which has not yet used any time for direct writes */
		ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
		log_info(&logger, "line %d", i);
		read_file(path, text, sizeof(text));
		snprintf(wanted, sizeof(wanted), "LOG line %d\n", i);
		ck_assert_ptr_nonnull(strstr(text, wanted));
	}
	log_free(&log);
	unlink(path);
}
END_TEST

START_TEST(log_has_a_budget_for_direct_writes)
{
	struct outlets outlets = { .fd = 1, .is_file_near = true };
	usec_t now = 1000 * USEC_PER_SEC;
	unsigned int count = 0;

	ck_assert(!log_outlets_may_write(&outlets, LOG_DIRECT_BYTES + 1, now));
	ck_assert(log_outlets_may_write(&outlets, LOG_DIRECT_BYTES, now));
	for (; log_outlets_may_write(&outlets, 100, now); count++)
		log_outlets_took(&outlets, now, 1);
	ck_assert_uint_eq(count, LOG_DIRECT_AHEAD / LOG_DIRECT_LINE + 1);
	now += LOG_DIRECT_LINE;
	ck_assert(log_outlets_may_write(&outlets, 100, now));
	/* the disk is slow: 19 times as long nothing is written directly */
	now += 10 * USEC_PER_SEC;
	log_outlets_took(&outlets, now, USEC_PER_SEC);
	now += LOG_DIRECT_SHARE * USEC_PER_SEC - LOG_DIRECT_AHEAD;
	ck_assert(!log_outlets_may_write(&outlets, 100, now - 1));
	ck_assert(log_outlets_may_write(&outlets, 100, now));
	outlets.to_syslog = true;
	ck_assert(!log_outlets_may_write(&outlets, 100, now));
}
END_TEST

/* The number of writes of this thread. */
static long count_writes(void)
{
	char text[1024], *at;

	read_file("/proc/thread-self/io", text, sizeof(text));
	at = strstr(text, "syscw: ");
	ck_assert_ptr_nonnull(at);
	return strtol(at + 7, NULL, 10);
}

START_TEST(log_writes_a_storm_in_batches)
{
	char path[] = "/tmp/pgweir-log-XXXXXX";
	struct log *log = log_new();
	struct logger logger = { log, NULL };
	long before = count_writes();

	make_path(path);
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	ck_assert(log_start(log, NULL));
	for (int i = 0; i < 100000; i++)
		log_info(&logger, "line %d", i);
	ck_assert_int_lt(count_writes() - before, 50000);
	log_free(&log);
	unlink(path);
}
END_TEST

/* The other side does not read: logging does not wait for it, and nothing is lost. */
START_TEST(log_does_not_wait_for_a_reader)
{
	char path[] = "/tmp/pgweir-log-XXXXXX", *text = malloc(1 << 20);
	struct log *log = log_new();
	struct logger logger = { log, NULL };
	size_t full = 0, count = 0;
	ssize_t got;
	int fd;

	make_path(path);
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	while (write(fd, "....", 4) == 4)
		full += 4;
	ck_assert(log_configure(log, &(struct log_options){ .file = path }, NULL));
	ck_assert(log_start(log, NULL));
	log_info(&logger, "first");
	log_info(&logger, "second");
	while (!memmem(text, count, "LOG second\n", 11)) {
		got = read(fd, text + count, (1 << 20) - count);
		if (got > 0)
			count += (size_t)got;
	}
	ck_assert_ptr_nonnull(memmem(text, count, "LOG first\n", 10));
	ck_assert_uint_gt(count, full);
	log_free(&log);
	close(fd);
	free(text);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/log");
	TCase *cases = tcase_create("log");

	tcase_add_test(cases, log_tells_of_a_client_in_text_and_json);
	tcase_add_test(cases, log_tells_facts_in_json);
	tcase_add_loop_test(cases, log_tells_the_host_in_json, 0, COUNT_OF(hosts));
	tcase_add_test(cases, log_suppresses_what_comes_too_often);
	tcase_add_test(cases, log_gives_the_journal_its_priorities);
	tcase_add_test(cases, log_line_has_the_contracts_shape);
	tcase_add_test(cases, log_spells_out_control_bytes_everywhere);
	tcase_add_test(cases, log_spells_out_controls_in_utf8);
	tcase_add_test(cases, log_cuts_what_is_too_long);
	tcase_add_test(cases, log_writes_the_line_before_it_returns);
	tcase_add_test(cases, log_has_a_budget_for_direct_writes);
	tcase_add_test(cases, log_writes_a_storm_in_batches);
	tcase_add_test(cases, log_does_not_wait_for_a_reader);
	tcase_add_test(cases, log_loses_nothing_at_the_end);
	tcase_add_test(cases, log_keeps_its_file_when_the_new_one_cannot_be_opened);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
