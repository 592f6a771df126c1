/* SPDX-License-Identifier: ISC */
/*
 * main/lane.c: which lanes are busy, by clocks that the test sets.
 */
#include "../../../src/main/daemon_priv.h"

#include "../unit.h"

#define START (5 * USEC_PER_SEC)
#define PERIOD (200 * USEC_PER_MS)

/* Processor time of each lane. */
struct spent {
	usec_t cpu[LANES_MAX];
	unsigned int look_count;
	struct lane_load *load; /* asked while it is looked at; or NULL */
};

static struct spent spent;

static usec_t cpu_of(const void *arg, unsigned int number);

static uint64_t busy_of(struct lane_load *load, unsigned int count, usec_t now)
{
	return lane_load_busy(load, count, cpu_of, &spent, now);
}

static usec_t cpu_of(const void *arg, unsigned int number)
{
	struct lane_load *load = spent.load;

	ck_assert_ptr_eq(arg, &spent);
	spent.look_count++;
	if (load) {
		spent.load = NULL;
		ck_assert_uint_eq(busy_of(load, LANES_MAX, START + 100 * PERIOD), 0);
	}
	return spent.cpu[number];
}

static void begin(struct lane_load *load)
{
	spent = (struct spent){ .look_count = 0 };
	*load = (struct lane_load){ .looked_at = START };
}

static const struct {
	const char *says;
	usec_t time, cpu; /* since the start */
	bool is_busy;
} loads[] = {
	{ "nothing to do", PERIOD, 0, false },
	{ "a little less than most of it", PERIOD, 139999, false },
	{ "70 percent", PERIOD, 140000, false },
	{ "a little more", PERIOD, 140001, true },
	{ "all of it", PERIOD, PERIOD, true },
	{ "too early to say", PERIOD - 1, PERIOD - 1, false },
	{ "a longer time", 10 * USEC_PER_SEC, 7 * USEC_PER_SEC, false },
	{ "most of a longer time", 10 * USEC_PER_SEC, 7 * USEC_PER_SEC + 1, true },
	{ "a whole day", 86400 * USEC_PER_SEC, 86400 * USEC_PER_SEC, true },
	{ "a clock that went back, see loop_cpu()", PERIOD, -1000, false },
};

START_TEST(by_its_share_of_the_time)
{
	struct lane_load load;

	begin(&load);
	spent.cpu[0] = loads[_i].cpu;
	ck_assert_msg((busy_of(&load, 1, START + loads[_i].time) == 1) == loads[_i].is_busy, "%s",
	              loads[_i].says);
}
END_TEST

START_TEST(each_has_its_bit)
{
	static const unsigned int some[] = { 0, 1, 31, 32, 62, 63 };
	struct lane_load load;

	for (size_t i = 0; i < COUNT_OF(some); i++) {
		begin(&load);
		spent.cpu[some[i]] = PERIOD;
		ck_assert_uint_eq(busy_of(&load, LANES_MAX, START + PERIOD), UINT64_C(1)
		                                                                 << some[i]);
	}
	begin(&load);
	for (unsigned int i = 0; i < LANES_MAX; i++)
		spent.cpu[i] = PERIOD;
	ck_assert_uint_eq(busy_of(&load, LANES_MAX, START + PERIOD), UINT64_MAX);
	ck_assert_uint_eq(spent.look_count, LANES_MAX);
}
END_TEST

START_TEST(those_that_are_not_there_are_not_looked_at)
{
	struct lane_load load;

	begin(&load);
	for (unsigned int i = 0; i < LANES_MAX; i++)
		spent.cpu[i] = PERIOD;
	ck_assert_uint_eq(busy_of(&load, 3, START + PERIOD), 7);
	ck_assert_uint_eq(spent.look_count, 3);
}
END_TEST

/* Each look says what was used since the one before, and holds until the next one. */
START_TEST(since_the_last_look)
{
	struct lane_load load;
	usec_t now = START + PERIOD;

	begin(&load);
	spent.cpu[0] = PERIOD;
	ck_assert_uint_eq(busy_of(&load, 2, now), 1);
	spent.cpu[1] = PERIOD;
	ck_assert_uint_eq(busy_of(&load, 2, now), 1);
	ck_assert_uint_eq(busy_of(&load, 2, now + PERIOD - 1), 1);
	ck_assert_uint_eq(spent.look_count, 2);
	ck_assert_uint_eq(busy_of(&load, 2, now + PERIOD), 2);
	ck_assert_uint_eq(spent.look_count, 4);
	ck_assert_uint_eq(busy_of(&load, 2, now + 2 * PERIOD), 0);
}
END_TEST

/* The thread that asks was interrupted after it had read its clock. */
START_TEST(a_late_comer_does_not_look)
{
	struct lane_load load;

	begin(&load);
	busy_of(&load, 1, START + 2 * PERIOD);
	spent.cpu[0] = 1;
	ck_assert_uint_eq(busy_of(&load, 1, START + PERIOD), 0);
	ck_assert_uint_eq(busy_of(&load, 1, START + 2 * PERIOD), 0);
	ck_assert_uint_eq(spent.look_count, 1);
	ck_assert_uint_eq(busy_of(&load, 1, START + 3 * PERIOD), 0);
	ck_assert_uint_eq(spent.look_count, 2);
}
END_TEST

START_TEST(who_asks_meanwhile_gets_what_is_known)
{
	struct lane_load load;

	begin(&load);
	spent.load = &load;
	spent.cpu[0] = PERIOD;
	ck_assert_uint_eq(busy_of(&load, 1, START + PERIOD), 1);
	ck_assert_uint_eq(spent.look_count, 1);
	spent.cpu[0] = 2 * PERIOD;
	ck_assert_uint_eq(busy_of(&load, 1, START + 2 * PERIOD), 1);
	ck_assert_uint_eq(spent.look_count, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/lane_load");
	TCase *cases = tcase_create("lane_load");

	tcase_add_loop_test(cases, by_its_share_of_the_time, 0, COUNT_OF(loads));
	tcase_add_test(cases, each_has_its_bit);
	tcase_add_test(cases, those_that_are_not_there_are_not_looked_at);
	tcase_add_test(cases, since_the_last_look);
	tcase_add_test(cases, a_late_comer_does_not_look);
	tcase_add_test(cases, who_asks_meanwhile_gets_what_is_known);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
