/* SPDX-License-Identifier: ISC */
/*
 * pool/claim.c with base/heap.c, as pool_limits.c uses them: a simulation of thousands of tenants
 * that share a limit on servers, with a clock of its own. Each always has more work than servers.
 */
#include "pgweir/pool/claim.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/heap.h"

#include "../unit.h"

struct tenant {
	struct claim_pool has;
	struct heap_node node;
	usec_t since;        /* it claims a server since then */
	usec_t held, waited; /* server time; the longest time without any server */
	usec_t last;         /* when it had a server last */
	bool is_claiming;
};

struct server {
	struct tenant *of;
	usec_t since;
};

struct town {
	struct tenant *tenants;
	struct server *servers;
	unsigned int count, limit, used;
	struct heap claims;
	uint64_t number;
	usec_t now;
	unsigned int logins;
};

static struct town town_new(unsigned int count, unsigned int limit)
{
	struct town town = {
		.tenants = calloc(count, sizeof(struct tenant)),
		.servers = calloc(limit, sizeof(struct server)),
		.count = count,
		.limit = limit,
	};

	for (unsigned int i = 0; i < count; i++)
		town.tenants[i].has = (struct claim_pool){ .weight = 1 };
	return town;
}

static void town_free(struct town *town)
{
	free(town->tenants);
	free(town->servers);
	heap_done(&town->claims);
}

static void claim(struct town *town, struct tenant *tenant)
{
	tenant->is_claiming = true;
	tenant->since = town->now;
	tenant->node = (struct heap_node){ claim_rank(&tenant->has), ++town->number, 0 };
	ck_assert(heap_add(&town->claims, &tenant->node));
}

static struct tenant *first_of(const struct town *town)
{
	return container_of(heap_first(&town->claims), struct tenant, node);
}

static void change(struct tenant *tenant, int change)
{
	tenant->has.servers += (unsigned int)change;
	tenant->has.owners[0].servers += (unsigned int)change;
	tenant->has.owners[1].servers += (unsigned int)change;
}

/* The first claim is served with this server, and the tenant wants another one at once. */
static void serve(struct town *town, struct server *server)
{
	struct tenant *first = first_of(town);

	heap_remove(&town->claims, &first->node);
	change(first, 1);
	first->last = town->now;
	*server = (struct server){ first, town->now };
	town->logins++;
	claim(town, first);
}

/* A server comes home: whoever is before its tenant gets it. */
static void come_home(struct town *town, struct server *server)
{
	struct tenant *of = server->of, *first = first_of(town);
	struct claim claim_of_first = { .rank = first->node.key };

	of->last = town->now;
	if (!claim_takes(&claim_of_first, &of->has, town->now - server->since))
		return;
	change(of, -1);
	heap_remove(&town->claims, &of->node);
	claim(town, of);
	serve(town, server);
}

#define STEP (50 * USEC_PER_MS)

/* Each server comes home once in each step. */
static void live(struct town *town, usec_t until)
{
	for (; town->now < until; town->now += STEP) {
		for (unsigned int i = 0; i < town->limit; i++) {
			if (town->servers[i].of)
				come_home(town, &town->servers[i]);
			else
				serve(town, &town->servers[i]);
		}
		for (unsigned int i = 0; i < town->limit; i++)
			town->servers[i].of->held += STEP;
		for (unsigned int i = 0; i < town->count; i++) {
			struct tenant *tenant = &town->tenants[i];

			if (town->now - tenant->last > tenant->waited)
				tenant->waited = town->now - tenant->last;
		}
	}
}

static void open_town(struct town *town)
{
	town->now = STEP;
	for (unsigned int i = 0; i < town->count; i++) {
		town->tenants[i].last = town->now;
		claim(town, &town->tenants[i]);
	}
}

static void forget_times(struct town *town)
{
	for (unsigned int i = 0; i < town->count; i++)
		town->tenants[i].held = town->tenants[i].waited = 0;
	town->logins = 0;
}

/* Weights 1 to 4, and one server for 5 units of weight: each has its part but for less than one. */
START_TEST(parts_of_a_limit)
{
	struct town town = town_new(2000, 20000);

	for (unsigned int i = 0; i < town.count; i++)
		town.tenants[i].has.weight = 1 + i % 4;
	open_town(&town);
	live(&town, 2 * USEC_PER_SEC);
	forget_times(&town);
	live(&town, 6 * USEC_PER_SEC);
	for (unsigned int i = 0; i < town.count; i++) {
		unsigned int part = 4 * town.tenants[i].has.weight;

		ck_assert_uint_eq(town.tenants[i].has.servers, part);
	}
	ck_assert_uint_eq(town.logins, 0); /* what is shared is not moved any more */
	town_free(&town);
}
END_TEST

/* One had all; then come the others. */
START_TEST(who_had_all_gives_it_up)
{
	struct town town = town_new(3, 40);

	town.tenants[2].has.weight = 2;
	town.now = STEP;
	claim(&town, &town.tenants[0]);
	live(&town, 2 * USEC_PER_SEC);
	ck_assert_uint_eq(town.tenants[0].has.servers, 40);
	claim(&town, &town.tenants[1]);
	claim(&town, &town.tenants[2]);
	live(&town, 2 * USEC_PER_SEC + STEP);
	ck_assert_uint_eq(town.tenants[0].has.servers, 10);
	ck_assert_uint_eq(town.tenants[1].has.servers, 10);
	ck_assert_uint_eq(town.tenants[2].has.servers, 20);
	ck_assert_uint_eq(town.logins, 40 + 30);
	town_free(&town);
}
END_TEST

/*
 * Fifty tenants for each server take turns: nobody waits longer than all the turns before, and a
 * turn is as long as the weight says.
 */
START_TEST(turns)
{
	struct town town = town_new(2000, 40);
	usec_t round = 0, longest = 0;

	for (unsigned int i = 0; i < town.count; i++) {
		town.tenants[i].has.weight = 1 + i % 3;
		round += (usec_t)town.tenants[i].has.weight * CLAIM_TURN / town.limit;
	}
	open_town(&town);
	live(&town, 3 * round);
	for (unsigned int i = 0; i < town.count; i++) {
		const struct tenant *tenant = &town.tenants[i];
		usec_t turn = tenant->has.weight * (CLAIM_TURN + STEP);

		longest = tenant->waited > longest ? tenant->waited : longest;
		/* two or three turns have ended in this time */
		ck_assert_int_ge(tenant->held, 2 * (turn - tenant->has.weight * STEP));
		ck_assert_int_le(tenant->held, 4 * turn);
	}
	ck_assert_int_le(longest, round + round / 10 + 4 * CLAIM_TURN);
	town_free(&town);
}
END_TEST

/* Guarantees of 30 of 40 servers, among a thousand tenants: they have them, and the rest the
 * others. */
START_TEST(guarantees)
{
	struct town town = town_new(1000, 40);
	unsigned int others = 0;

	for (unsigned int i = 0; i < 10; i++)
		town.tenants[100 * i].has.owners[i % 2].guaranteed = 3;
	open_town(&town);
	live(&town, 10 * USEC_PER_SEC);
	for (unsigned int i = 0; i < town.count; i++) {
		const struct tenant *tenant = &town.tenants[i];

		if (i % 100 == 0)
			ck_assert_uint_eq(tenant->has.servers, 3);
		others += i % 100 && tenant->held;
	}
	ck_assert_uint_ge(others, 80); /* 10 servers in turns of a second */
	town_free(&town);
}
END_TEST

/* Two users of a database that has just what it is guaranteed: it loses nothing by their turns. */
START_TEST(guarantees_within_an_owner)
{
	struct claim claim = { .owners = { &claim } };
	struct claim_pool pool = { .weight = 1 };
	struct claim_pool from = {
		.servers = 2,
		.weight = 1,
		.owners = { { 2, 2, &claim }, { 2, 0, &from } },
	};

	claim.rank = claim_rank(&pool);
	ck_assert(claim_takes(&claim, &from, CLAIM_TURN));
	claim.owners[0] = &pool; /* another database */
	ck_assert(!claim_takes(&claim, &from, CLAIM_TURN));
	claim.owners[0] = &claim;
	from.owners[0].guaranteed = 3; /* it is owed one itself, and this brings it none */
	ck_assert(!claim_takes(&claim, &from, CLAIM_TURN));
}
END_TEST

/* Nobody waits for it: it comes last, and takes none. */
START_TEST(a_spare_server_comes_last)
{
	struct claim_pool spare = { .weight = 1, .is_spare = true };
	struct claim_pool busy = { .servers = 1000000, .weight = 1 };
	struct claim claim = { .rank = claim_rank(&spare) };

	ck_assert_uint_gt(claim.rank, claim_rank(&busy));
	ck_assert(!claim_takes(&claim, &busy, 100 * CLAIM_TURN));
}
END_TEST

/* What a decision costs: nodes that are touched, as the place changes that are counted. */
START_TEST(costs)
{
	enum { COUNT = 1 << 14, DEPTH = 14 };
	struct heap heap = { 0 };
	struct heap_node *nodes = calloc(COUNT, sizeof(*nodes)), before;
	unsigned int moved = 0;
	uint64_t last = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		nodes[i].key = i * 2654435761u % COUNT;
		nodes[i].order = i;
		ck_assert(heap_add(&heap, &nodes[i]));
	}
	for (unsigned int round = 0; round < 100; round++) {
		size_t *places = calloc(COUNT, sizeof(*places));

		before = *heap_first(&heap);
		ck_assert_uint_ge(before.key, last);
		last = before.key;
		for (unsigned int i = 0; i < COUNT; i++)
			places[i] = nodes[i].place;
		heap_first(&heap)->key += COUNT;
		heap_moved(&heap, heap_first(&heap));
		for (unsigned int i = 0; i < COUNT; i++)
			moved += places[i] != nodes[i].place;
		free(places);
	}
	ck_assert_uint_le(moved, 100 * (DEPTH + 1));
	heap_done(&heap);
	free(nodes);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/claim");
	TCase *tcase = tcase_create("claim");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, parts_of_a_limit);
	tcase_add_test(tcase, who_had_all_gives_it_up);
	tcase_add_test(tcase, turns);
	tcase_add_test(tcase, guarantees);
	tcase_add_test(tcase, guarantees_within_an_owner);
	tcase_add_test(tcase, a_spare_server_comes_last);
	tcase_add_test(tcase, costs);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
