/* SPDX-License-Identifier: ISC */
/* pool/fair.c: a pool with a clock of its own, whose clients always wait again. */
#include "pgweir/pool/fair.h"
#include "pgweir/pool/server/borrower.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit.h"

/* A client, and how long each of its statements takes. */
struct customer {
	struct borrower member;
	char name[16];
	unsigned int weight;
	enum priority priority;
	usec_t work;
	usec_t until; /* has a server until then; 0: it waits */
	usec_t since; /* and has waited since then */
	usec_t used, longest;
};

struct shop {
	struct fair *fair;
	struct customer *customers;
	unsigned int count;
	unsigned int servers, busy;
	usec_t now;
};

static struct fair_who who_of(const struct customer *customer)
{
	return (struct fair_who){ bytes_text(customer->name), customer->weight,
		                  customer->priority };
}

static void wait_again(struct shop *shop, struct customer *customer)
{
	struct fair_who who = who_of(customer);

	customer->until = 0;
	customer->since = shop->now;
	ck_assert(fair_wait(shop->fair, &customer->member, &who, false, shop->now));
}

static struct shop shop_new(unsigned int count, unsigned int servers)
{
	struct shop shop = { fair_new(),  calloc(count, sizeof(struct customer)), count, servers, 0,
		             USEC_PER_SEC };

	for (unsigned int i = 0; i < count; i++) {
		snprintf(shop.customers[i].name, sizeof(shop.customers[i].name), "u%u", i);
		shop.customers[i].weight = 1;
		shop.customers[i].priority = PRIORITY_NORMAL;
		shop.customers[i].work = 1000;
	}
	return shop;
}

static void open_shop(struct shop *shop)
{
	for (unsigned int i = 0; i < shop->count; i++)
		wait_again(shop, &shop->customers[i]);
}

static void finish(struct shop *shop)
{
	for (unsigned int i = 0; i < shop->count; i++) {
		struct customer *customer = &shop->customers[i];

		if (!customer->until || customer->until > shop->now)
			continue;
		fair_return(shop->fair, &customer->member, customer->work);
		customer->used += customer->work;
		shop->busy--;
		wait_again(shop, customer);
	}
}

static void serve(struct shop *shop)
{
	while (shop->busy < shop->servers) {
		struct borrower *member = fair_next(shop->fair, shop->now);
		struct customer *customer = (struct customer *)member;
		struct fair_who who;

		if (!member)
			return;
		who = who_of(customer);
		if (shop->now - customer->since > customer->longest)
			customer->longest = shop->now - customer->since;
		fair_leave(shop->fair, member);
		fair_lend(shop->fair, member, &who, shop->now);
		customer->until = shop->now + customer->work;
		shop->busy++;
	}
}

static void run(struct shop *shop, usec_t time)
{
	for (usec_t end = shop->now + time; shop->now < end; shop->now += 500) {
		finish(shop);
		serve(shop);
	}
}

static void close_shop(struct shop *shop)
{
	for (unsigned int i = 0; i < shop->count; i++) {
		if (shop->customers[i].until)
			fair_return(shop->fair, &shop->customers[i].member, 0);
		else
			fair_leave(shop->fair, &shop->customers[i].member);
	}
	fair_free(&shop->fair);
	free(shop->customers);
}

static usec_t used_by(const struct shop *shop, unsigned int first, unsigned int count)
{
	usec_t used = 0;

	for (unsigned int i = first; i < first + count; i++)
		used += shop->customers[i].used;
	return used;
}

/* Forty of one user, and one of another: half of the time is his, if he wants it. */
START_TEST(one_beside_forty)
{
	struct shop shop = shop_new(41, 3);

	for (unsigned int i = 1; i < 41; i++) {
		snprintf(shop.customers[i].name, sizeof(shop.customers[i].name), "greedy");
		shop.customers[i].work = 20000;
	}
	open_shop(&shop);
	run(&shop, 10 * USEC_PER_SEC);
	/* Not behind more than one statement of the others. */
	ck_assert_int_le(shop.customers[0].longest, 21000);
	close_shop(&shop);
}
END_TEST

/* Statements of users may take different times: time counts, and not their number. */
START_TEST(weights)
{
	struct shop shop = shop_new(40, 3);
	double part;

	for (unsigned int i = 0; i < 40; i++) {
		snprintf(shop.customers[i].name, sizeof(shop.customers[i].name), "%s",
		         i < 20 ? "three" : "one");
		shop.customers[i].weight = i < 20 ? 3 : 1;
		shop.customers[i].work = i < 20 ? 2000 : 7000;
	}
	open_shop(&shop);
	run(&shop, 30 * USEC_PER_SEC);
	part = (double)used_by(&shop, 0, 20) / (double)used_by(&shop, 20, 20);
	ck_assert(part > 3 * 0.95 && part < 3 * 1.05);
	close_shop(&shop);
}
END_TEST

/* Statements of different lengths: each of many groups gets the same time, and nobody starves. */
START_TEST(thousands)
{
	struct shop shop = shop_new(900, 10);
	usec_t least = INT64_MAX, most = 0;

	for (unsigned int i = 0; i < shop.count; i++)
		shop.customers[i].work = 500 * (1 + i % 8);
	open_shop(&shop);
	run(&shop, 60 * USEC_PER_SEC);
	for (unsigned int i = 0; i < shop.count; i++) {
		usec_t used = shop.customers[i].used;

		least = used < least ? used : least;
		most = used > most ? used : most;
	}
	ck_assert_int_gt(least, most * 95 / 100);
	close_shop(&shop);
}
END_TEST

START_TEST(a_stranger_cannot_make_many_groups)
{
	struct shop shop = shop_new(3000, 10);
	unsigned int groups = 0;

	open_shop(&shop);
	run(&shop, 3 * USEC_PER_SEC);
	for (const char *key = fair_key_after(shop.fair, ""); key;
	     key = fair_key_after(shop.fair, key))
		groups++;
	ck_assert_uint_gt(groups, 1);
	ck_assert_uint_le(groups, FAIR_GROUPS_MAX + 1);
	ck_assert_int_gt(used_by(&shop, FAIR_GROUPS_MAX, 2000), 0);
	close_shop(&shop);
}
END_TEST

/* It waits alone, is served and leaves. */
static void visit(struct fair *fair, const char *name, struct fair_sum *sum)
{
	struct fair_who who = { bytes_text(name), 1, PRIORITY_NORMAL };
	struct borrower member = { 0 };
	char key[32];

	snprintf(key, sizeof(key), "%c%s", '0' + PRIORITY_NORMAL, name);
	ck_assert(fair_wait(fair, &member, &who, false, 0));
	*sum = (struct fair_sum){ 0 };
	fair_add_up(fair, key, sum);
	fair_leave(fair, &member);
	fair_lend(fair, &member, &who, USEC_PER_SEC);
	fair_return(fair, &member, 1000);
	fair_forget(fair, &member);
}

START_TEST(groups_that_were_left_make_way)
{
	struct fair *fair = fair_new();
	struct fair_sum sum;
	char name[16];

	for (unsigned int i = 0; i < FAIR_GROUPS_MAX; i++) {
		snprintf(name, sizeof(name), "u%u", i);
		visit(fair, name, &sum);
		ck_assert_uint_eq(sum.waiting, 1);
	}
	visit(fair, "none has used as much as they", &sum);
	ck_assert_uint_eq(sum.waiting, 0); /* it shares a group */
	visit(fair, "u0", &sum);
	visit(fair, "new", &sum);
	ck_assert_uint_eq(sum.waiting, 1);
	fair_free(&fair);
}
END_TEST

START_TEST(priorities)
{
	struct shop shop = shop_new(30, 2);

	for (unsigned int i = 0; i < 30; i++)
		shop.customers[i].priority = (enum priority)(i / 10);
	open_shop(&shop);
	run(&shop, 10 * USEC_PER_SEC);
	/* The highest class has nearly all, and of each other one somebody is served each second.
	 */
	ck_assert_int_gt(used_by(&shop, 0, 10), 2 * 10 * USEC_PER_SEC * 95 / 100);
	ck_assert_int_ge(used_by(&shop, 10, 10), 9 * 1000);
	ck_assert_int_ge(used_by(&shop, 20, 10), 9 * 1000);
	close_shop(&shop);
}
END_TEST

/* Statements take longer than a class may wait: nobody is served first because he is low. */
START_TEST(priorities_of_long_statements)
{
	struct shop shop = shop_new(6, 1);

	for (unsigned int i = 0; i < 6; i++) {
		shop.customers[i].priority = (enum priority)(i / 2);
		shop.customers[i].work = 2 * USEC_PER_SEC;
	}
	open_shop(&shop);
	run(&shop, 60 * USEC_PER_SEC);
	for (unsigned int i = 0; i < 6; i += 2) {
		ck_assert_int_ge(used_by(&shop, i, 2), 18 * USEC_PER_SEC);
		ck_assert_int_le(used_by(&shop, i, 2), 22 * USEC_PER_SEC);
	}
	close_shop(&shop);
}
END_TEST

/* Somebody of a class that nobody was in for long has waited only since now. */
START_TEST(a_class_that_was_empty)
{
	struct shop shop = shop_new(2, 1);

	shop.customers[1].priority = PRIORITY_LOW;
	wait_again(&shop, &shop.customers[0]);
	serve(&shop);
	shop.now += 10 * USEC_PER_SEC;
	wait_again(&shop, &shop.customers[1]);
	finish(&shop);
	serve(&shop);
	ck_assert_int_eq(shop.customers[1].until, 0);
	close_shop(&shop);
}
END_TEST

/* Who has rested gets no more than others from then on; and who leaves keeps what he has used. */
START_TEST(nobody_saves_up_or_gets_rid)
{
	struct shop shop = shop_new(2, 1);
	usec_t before;

	wait_again(&shop, &shop.customers[0]);
	shop.count = 1;
	run(&shop, 10 * USEC_PER_SEC);
	shop.count = 2;
	wait_again(&shop, &shop.customers[1]);
	before = shop.customers[0].used;
	run(&shop, USEC_PER_SEC);
	ck_assert_int_ge(shop.customers[0].used - before, USEC_PER_SEC * 45 / 100);
	close_shop(&shop);
}
END_TEST

/* With one name for all it is first come, first served. */
START_TEST(in_a_group_the_first_is_served_first)
{
	struct shop shop = shop_new(5, 1);
	struct fair_who who = { bytes_text("all"), 1, PRIORITY_NORMAL };

	for (unsigned int i = 0; i < 5; i++)
		fair_wait(shop.fair, &shop.customers[i].member, &who, i == 4, 0);
	ck_assert_ptr_eq(fair_last(shop.fair), &shop.customers[3].member);
	for (unsigned int i = 0; i < 5; i++) {
		struct borrower *next = fair_next(shop.fair, 0);

		ck_assert_ptr_eq(next, &shop.customers[(i + 4) % 5].member);
		fair_leave(shop.fair, next);
	}
	ck_assert_ptr_null(fair_next(shop.fair, 0));
	close_shop(&shop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/fair");
	TCase *tcase = tcase_create("fair");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, one_beside_forty);
	tcase_add_test(tcase, weights);
	tcase_add_test(tcase, thousands);
	tcase_add_test(tcase, a_stranger_cannot_make_many_groups);
	tcase_add_test(tcase, groups_that_were_left_make_way);
	tcase_add_test(tcase, priorities);
	tcase_add_test(tcase, priorities_of_long_statements);
	tcase_add_test(tcase, a_class_that_was_empty);
	tcase_add_test(tcase, nobody_saves_up_or_gets_rid);
	tcase_add_test(tcase, in_a_group_the_first_is_served_first);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
