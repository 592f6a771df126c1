/* SPDX-License-Identifier: ISC */
/*
 * show/history.c: seconds, minutes, and how the rings move on. The lanes are made by hand: the
 * timeline reads only their sums.
 */
#include "../../../../src/admin/show/show_priv.h"

#include <string.h>

#include "../../unit.h"

#define LANES 2
#define BEGIN (500 * USEC_PER_SEC)

static struct pools pools[LANES];
static struct clients clients[LANES];
static struct lane lanes_at[LANES];
static struct lanes lanes = { .count = LANES, .at = lanes_at };
static struct latency latency;
static struct timeline made, *timeline = &made;
static usec_t now;

static void set_up(void)
{
	now = BEGIN;
	for (int i = 0; i < LANES; i++) {
		memset(&pools[i], 0, sizeof(pools[i]));
		memset(&clients[i], 0, sizeof(clients[i]));
		TAILQ_INIT(&pools[i].queueing);
		lanes_at[i].pools = &pools[i];
		lanes_at[i].clients = &clients[i];
	}
	made = (struct timeline){ 0 };
	made.rings[TIMELINE_MINUTES].began_at = now;
}

static void tear_down(void) { latency_done(&latency); }

static void note(int lane, enum latency_kind kind, usec_t time)
{
	latency_note(&latency, &pools[lane].latency, kind, time, now);
}

/* As the console's timer does it. */
static void tick(void)
{
	struct latency drained = { 0 };

	now += USEC_PER_SEC;
	timeline_tick(timeline, &lanes, now);
	for (int i = 0; i < LANES; i++)
		latency_drain(&drained, &pools[i].latency, now);
	latency_done(&drained);
}

static const struct timeline_slot *slot(enum timeline_resolution resolution, uint64_t number)
{
	uint64_t found = number;
	const struct timeline_slot *at = timeline_find(timeline, resolution, &found);

	ck_assert(at && found == number);
	return at;
}

START_TEST(a_second_has_what_all_lanes_did)
{
	const struct timeline_slot *at;

	tick();
	for (int i = 0; i < 100; i++) {
		note(i % LANES, LATENCY_STATEMENT_XACT, 10 + i / 50);
		note(0, LATENCY_WAIT, i == 0 ? 50 : 7);
	}
	note(1, LATENCY_STATEMENT, 20);
	note(1, LATENCY_CLIENT_LOGIN, 20);
	pools[0].client_bytes = 1000;
	pools[1].client_bytes = 500;
	pools[1].server_bytes = 70;
	pools[0].sqlstates.total = 3;
	pools[0].busy_count = 4;
	pools[1].home_count = 5;
	clients[0].state_counts[CLIENT_ACTIVE] = 6;
	clients[1].state_counts[CLIENT_IDLE] = 1;
	clients[1].state_counts[CLIENT_WAITING] = 2;
	clients[1].state_counts[CLIENT_STARTUP] = 90;
	tick();
	at = slot(TIMELINE_SECONDS, 1);
	ck_assert_int_eq(at->queries, 101);
	ck_assert_int_eq(at->xacts, 100);
	ck_assert_int_eq(at->logins, 1);
	ck_assert_int_eq(at->received, 1500);
	ck_assert_int_eq(at->sent, 70);
	ck_assert_int_eq(at->errors, 3);
	ck_assert_int_eq(at->statement_p50, 11);
	ck_assert_int_eq(at->statement_p99, 11);
	ck_assert_int_eq(at->wait_p99, 7);
	ck_assert_int_eq(at->cl_active, 7);
	ck_assert_int_eq(at->cl_waiting, 2);
	ck_assert_int_eq(at->sv_active, 4);
	ck_assert_int_eq(at->sv_idle, 5);
	tick();
	at = slot(TIMELINE_SECONDS, 2);
	ck_assert_int_eq(at->queries + at->xacts + at->received + at->sent + at->errors, 0);
	ck_assert_int_eq(at->statement_p99, 0);
	ck_assert_int_eq(at->cl_active, 7);
}
END_TEST

START_TEST(a_minute_has_its_seconds)
{
	const struct timeline_slot *at;
	int64_t queries = 0, received = 0;

	for (int i = 1; i <= 130; i++) {
		for (int j = 0; j < i; j++)
			note(i % LANES, LATENCY_STATEMENT, i);
		pools[0].client_bytes += (uint64_t)i;
		tick();
	}
	at = slot(TIMELINE_MINUTES, 0);
	for (uint64_t i = 0; i < 60; i++) {
		queries += slot(TIMELINE_SECONDS, i)->queries;
		received += slot(TIMELINE_SECONDS, i)->received;
	}
	ck_assert_int_eq(at->queries, 60 * 61 / 2);
	ck_assert_int_eq(at->queries, queries);
	ck_assert_int_eq(at->received, received);
	ck_assert_int_eq(at->at, BEGIN + 60 * USEC_PER_SEC);
	/* of 1830 values, the one with rank 915 */
	ck_assert_int_eq(at->statement_p50, 43);
	ck_assert_int_eq(at->statement_p99, 60);
	at = slot(TIMELINE_MINUTES, 1);
	ck_assert_int_eq(at->queries, 120 * 121 / 2 - 60 * 61 / 2);
}
END_TEST

START_TEST(the_longest_wait_is_of_the_first_in_a_queue)
{
	struct pool pool = { 0 };
	struct borrower first = { .waiting_since = BEGIN - 5 }, second = { .waiting_since = BEGIN };

	for (int state = 0; state <= BORROWER_SERVED; state++)
		TAILQ_INIT(&pool.queues[state].list);
	TAILQ_INSERT_TAIL(&pool.queues[BORROWER_NEWCOMER].list, &first, wait_node);
	TAILQ_INSERT_TAIL(&pool.queues[BORROWER_WAITING].list, &second, wait_node);
	TAILQ_INSERT_TAIL(&pools[1].queueing, &pool, queueing);
	tick();
	ck_assert_int_eq(slot(TIMELINE_SECONDS, 0)->maxwait, USEC_PER_SEC + 5);
	TAILQ_REMOVE(&pools[1].queueing, &pool, queueing);
	for (int i = 0; i < 59; i++)
		tick();
	ck_assert_int_eq(slot(TIMELINE_SECONDS, 59)->maxwait, 0);
	ck_assert_int_eq(slot(TIMELINE_MINUTES, 0)->maxwait, USEC_PER_SEC + 5);
}
END_TEST

START_TEST(old_slots_make_room)
{
	uint64_t number = 0;

	ck_assert_ptr_null(timeline_find(timeline, TIMELINE_SECONDS, &number));
	for (int i = 0; i < 4000; i++)
		tick();
	ck_assert_ptr_nonnull(timeline_find(timeline, TIMELINE_SECONDS, &number));
	ck_assert_uint_eq(number, 3700);
	ck_assert_int_eq(slot(TIMELINE_SECONDS, 3700)->at, BEGIN + 3701 * USEC_PER_SEC);
	number = 4000;
	ck_assert_ptr_null(timeline_find(timeline, TIMELINE_SECONDS, &number));
	number = 0;
	ck_assert_ptr_nonnull(timeline_find(timeline, TIMELINE_MINUTES, &number));
	ck_assert_uint_eq(number, 6);
	number = 66;
	ck_assert_ptr_null(timeline_find(timeline, TIMELINE_MINUTES, &number));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("timeline");
	TCase *cases = tcase_create("timeline");

	tcase_add_checked_fixture(cases, set_up, tear_down);
	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, a_second_has_what_all_lanes_did);
	tcase_add_test(cases, a_minute_has_its_seconds);
	tcase_add_test(cases, the_longest_wait_is_of_the_first_in_a_queue);
	tcase_add_test(cases, old_slots_make_room);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
