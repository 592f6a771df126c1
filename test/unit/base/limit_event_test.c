/* SPDX-License-Identifier: ISC */
/*
 * base/log.c: limits
 */
#include "pgweir/base/log.h"

#include "../unit.h"

#define BEGIN (100 * USEC_PER_SEC)

START_TEST(limit_event_begins_once)
{
	struct limit_met met = { 0 };
	usec_t now = BEGIN;

	ck_assert(limit_event_begins(&met, now));
	for (int i = 0; i < 10; i++) {
		now += LIMIT_EVENT_PAUSE - 1;
		ck_assert(!limit_event_begins(&met, now));
	}
	ck_assert(!limit_event_begins(&met, now));
	/* another loop may have a clock that is read a little earlier */
	ck_assert(!limit_event_begins(&met, now - 1));
	ck_assert(limit_event_begins(&met, now - 1 + LIMIT_EVENT_PAUSE));
}
END_TEST

static const struct {
	struct limit_event event;
	const char *text;
} cases[] = {
	{ { "max_client_conn", 9, "the clients", NULL, NULL },
	  "max_client_conn = 9 is reached by the clients" },
	{ { "max_db_connections", 5, "the servers", "app", NULL },
	  "max_db_connections = 5 is reached by the servers of database app" },
	{ { "max_user_connections", 5, "the servers", NULL, "alice" },
	  "max_user_connections = 5 is reached by the servers of user alice" },
	{ { "max_pinned_servers", 2, "the pinned servers", "app", "alice" },
	  "max_pinned_servers = 2 is reached by the pinned servers of pool app/alice" },
};

START_TEST(limit_event_has_words)
{
	const struct limit_event *event = &cases[_i].event;
	struct log *log = log_new();
	struct limit_met met = { 0 };
	uint64_t number = 0;
	struct log_kept kept;
	struct err err;

	ck_assert_ptr_nonnull(log);
	ck_assert(log_configure(log, &(struct log_options){ .file = "/dev/null" }, &err));
	limit_event_note(&met, BEGIN, log, event);
	limit_event_note(&met, BEGIN + 1, log, event);
	ck_assert(log_kept_next(log, &number, &kept));
	ck_assert_str_eq(kept.kind, LIMIT_EVENT_KIND);
	ck_assert_str_eq(kept.text, cases[_i].text);
	ck_assert_str_eq(kept.database, event->database ? event->database : "");
	ck_assert_str_eq(kept.user, event->user ? event->user : "");
	ck_assert_int_eq(kept.level, LOG_LEVEL_WARNING);
	ck_assert(!log_kept_next(log, &number, &kept));
	limit_event_note(&met, BEGIN + 1 + LIMIT_EVENT_PAUSE, log, event);
	ck_assert(log_kept_next(log, &number, &kept));
	log_free(&log);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/limit_event");
	TCase *tests = tcase_create("limit_event");

	tcase_add_test(tests, limit_event_begins_once);
	tcase_add_loop_test(tests, limit_event_has_words, 0, sizeof(cases) / sizeof(cases[0]));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
