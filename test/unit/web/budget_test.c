/* SPDX-License-Identifier: ISC */
/*
 * web/web_priv.h: the budget, and readers that have one of their own
 */
#include "../../../src/web/web_priv.h"

#include "../unit.h"

#define START (100 * USEC_PER_SEC)
#define LONG (2 * USEC_PER_SEC)

/* The loop's clock, and what was spent. */
struct worker {
	struct budget budget;
	usec_t now, spent;
};

/* Makes a piece as soon as that is allowed. */
static void work(struct worker *worker, usec_t took)
{
	usec_t next = budget_next_at(&worker->budget);

	if (next > worker->now)
		worker->now = next;
	budget_spend(&worker->budget, worker->now, took);
	worker->now += took;
	worker->spent += took;
}

/* How long pieces take, one after the other and then from the first again. */
static const struct {
	const char *says;
	usec_t pieces[3];
} loads[] = {
	{ "short pieces", { 10, 10, 10 } },
	{ "pieces as they are", { 250, 250, 250 } },
	{ "a long one among them", { 250, 20000, 10 } },
	{ "long pieces", { 50000, 50000, 50000 } },
	{ "pieces of no time", { 0, 300, 0 } },
};

static usec_t longest(int load)
{
	usec_t most = 0;

	for (size_t i = 0; i < COUNT_OF(loads[load].pieces); i++) {
		if (loads[load].pieces[i] > most)
			most = loads[load].pieces[i];
	}
	return most;
}

START_TEST(a_fifth_of_the_time_and_no_less)
{
	struct worker worker = { .now = START };
	usec_t elapsed;

	for (size_t i = 0; worker.now < START + LONG; i++) {
		work(&worker, loads[_i].pieces[i % COUNT_OF(loads[_i].pieces)]);
		elapsed = worker.now - START;
		ck_assert_msg(worker.spent * BUDGET_SHARE <=
		                  elapsed + BUDGET_AT_ONCE + BUDGET_SHARE * longest(_i),
		              "%s: %lld of %lld us", loads[_i].says, (long long)worker.spent,
		              (long long)elapsed);
	}
	ck_assert_msg(worker.spent * BUDGET_SHARE >= LONG, "%s: too little, %lld us",
	              loads[_i].says, (long long)worker.spent);
}
END_TEST

START_TEST(small_tables_are_made_at_once)
{
	struct worker worker = { .now = START };

	for (usec_t second = 0; second < 10; second++) {
		worker.now = START + second * USEC_PER_SEC;
		for (int piece = 0; piece < 4; piece++)
			work(&worker, 250);
		ck_assert_int_eq(worker.now, START + second * USEC_PER_SEC + 1000);
	}
}
END_TEST

/* After an hour of rest there is not an hour's share. */
START_TEST(rest_is_not_kept)
{
	struct worker worker = { .now = START };
	usec_t begin;

	work(&worker, 250);
	begin = worker.now += 3600 * USEC_PER_SEC;
	worker.spent = 0;
	while (worker.now < begin + USEC_PER_SEC)
		work(&worker, 250);
	ck_assert_int_le(worker.spent * BUDGET_SHARE,
	                 worker.now - begin + BUDGET_AT_ONCE + BUDGET_SHARE * 250);
}
END_TEST

/* ---- readers ---- */

static void on_piece(void *arg) { loop_stop(arg); }

static void on_no_piece(void *arg)
{
	(void)arg;
	ck_abort_msg("a piece that was not paid for");
}

START_TEST(a_probe_waits_for_no_table)
{
	struct loop *loop = loop_new(NULL);
	struct reader *table, *probe;
	struct readers readers = { 0 };

	readers_init(&readers, NULL, loop, loop);
	budget_spend(&readers.tables, loop_now(loop), 3600 * USEC_PER_SEC);
	table = reader_new(&readers, "NOTHING", on_no_piece, NULL);
	probe = reader_new(&readers, "NOTHING", on_piece, loop);
	probe->budget = &readers.probes;
	reader_next(table);
	reader_next(probe);
	loop_run(loop);
	ck_assert(table->state == READER_AWAY && probe->state == READER_BACK);
	readers_done(&readers);
	loop_free(&loop);
}
END_TEST

/* Those that were given up are kept until the main thread has sent them back. */
START_TEST(readers_have_a_number)
{
	struct loop *loop = loop_new(NULL);
	struct readers readers = { 0 };
	struct reader *reader;

	readers_init(&readers, NULL, loop, loop);
	for (int i = 0; i < READERS_MAX; i++) {
		reader = reader_new(&readers, "NOTHING", on_no_piece, NULL);
		reader_next(reader);
		reader_end(&reader);
	}
	ck_assert_ptr_null(reader_new(&readers, "NOTHING", on_no_piece, NULL));
	readers_done(&readers);
	loop_free(&loop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("web/budget");
	TCase *tests = tcase_create("budget");

	tcase_add_loop_test(tests, a_fifth_of_the_time_and_no_less, 0, COUNT_OF(loads));
	tcase_add_test(tests, small_tables_are_made_at_once);
	tcase_add_test(tests, rest_is_not_kept);
	tcase_add_test(tests, a_probe_waits_for_no_table);
	tcase_add_test(tests, readers_have_a_number);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
