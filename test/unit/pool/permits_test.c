/* SPDX-License-Identifier: ISC */
/*
 * pool/permits.c: who gets the next server. A simulation of hundreds of tenants that share a limit
 * on servers, with a clock of its own. Each always has more work than servers.
 */
#include "pgweir/pool/broker.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "../unit.h"

struct tenant {
	struct town *town;
	struct share pool, database, role;
	struct claimant claim;
	usec_t held, waited; /* server time; the longest time without any server */
	usec_t last;         /* when it had a server last */
};

struct server {
	struct tenant *of;
	usec_t since;
};

struct town {
	struct broker *broker;
	struct loop *loop;
	struct broker_member member;
	struct share all;
	struct tenant *tenants;
	struct server *servers;
	unsigned int count, limit, used;
	struct tenant *woken;
	struct server *free; /* the one that was given up; NULL: none */
	usec_t now;
	unsigned int logins;
};

static void on_tenant(struct share *share)
{
	struct tenant *tenant = container_of(share, struct tenant, pool);

	tenant->town->woken = tenant;
}

static void on_all(struct share *share) { (void)share; }

static void open_tenant(struct town *town, struct tenant *tenant, const char *database,
                        const char *role)
{
	*tenant = (struct tenant){ .town = town, .pool.on_woken = on_tenant };
	tenant->database.on_woken = tenant->role.on_woken = on_all;
	ck_assert(share_open(&tenant->pool, &town->member, TALLY_POOL, database, role));
	ck_assert(share_open(&tenant->database, &town->member, TALLY_DATABASE, database, ""));
	ck_assert(share_open(&tenant->role, &town->member, TALLY_ROLE, role, ""));
	tenant->claim = (struct claimant){
		.pool = &tenant->pool,
		.of = { tenant->pool.tally, tenant->database.tally, tenant->role.tally },
		.weight = 1,
	};
}

/* Each of `count` tenants has a database and a role of its own. */
static void town_open(struct town *town, unsigned int count, unsigned int limit)
{
	*town = (struct town){
		.broker = broker_new(1, NULL),
		.loop = loop_new(NULL),
		.all.on_woken = on_all,
		.tenants = calloc(count, sizeof(struct tenant)),
		.servers = calloc(limit, sizeof(struct server)),
		.count = count,
		.limit = limit,
		.now = 1,
	};
	broker_join(town->broker, &town->member, town->loop);
	ck_assert(share_open(&town->all, &town->member, TALLY_ALL, "", ""));
	permit_set_limit(&town->all, (int)limit, 0);
	for (unsigned int i = 0; i < count; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%u", i);
		open_tenant(town, &town->tenants[i], name, name);
	}
}

static struct permit permit_of(const struct tenant *tenant)
{
	return (struct permit){ .of = { [OF_POOL] = tenant->pool.tally,
		                        [OF_DATABASE] = tenant->database.tally,
		                        [OF_ROLE] = tenant->role.tally,
		                        [OF_ALL] = tenant->town->all.tally } };
}

static void give(const struct tenant *tenant)
{
	struct permit permit = permit_of(tenant);

	permit_give(&permit, &tenant->town->member);
}

static void town_close(struct town *town)
{
	for (unsigned int i = 0; i < town->count; i++)
		permit_leave_queue(&town->tenants[i].claim);
	for (unsigned int i = 0; i < town->used; i++)
		give(town->servers[i].of);
	ck_assert_uint_eq(share_servers(&town->all), 0);
	for (unsigned int i = 0; i < town->count; i++) {
		share_close(&town->tenants[i].pool);
		share_close(&town->tenants[i].database);
		share_close(&town->tenants[i].role);
	}
	share_close(&town->all);
	broker_leave(&town->member);
	broker_free(&town->broker);
	loop_free(&town->loop);
	free(town->tenants);
	free(town->servers);
}

static enum permit_answer take(struct tenant *tenant, bool is_spare)
{
	struct permit_ask ask = {
		.permit = permit_of(tenant),
		.most = PERMIT_NO_LIMIT,
		.needed = 1,
		.claimant = &tenant->claim,
		.is_spare = is_spare,
		.waits = true,
	};

	return permit_take(&ask, &tenant->town->member);
}

/* It takes what it can get, and then waits for another one. */
static void claim(struct town *town, struct tenant *tenant)
{
	while (take(tenant, false) == PERMIT_GRANTED) {
		struct server *server = town->free ? town->free : &town->servers[town->used++];

		town->free = NULL;
		*server = (struct server){ tenant, town->now };
		tenant->last = town->now;
		town->logins++;
	}
}

static void serve(struct town *town)
{
	struct tenant *woken;

	while ((woken = town->woken)) {
		town->woken = NULL;
		claim(town, woken);
	}
}

/* A server comes home: a tenant that comes before its own gets it. */
static void come_home(struct town *town, struct server *server)
{
	struct tenant *of = server->of;

	of->last = town->now;
	if (!permit_yields(&town->all, &of->claim, town->now - server->since))
		return;
	permit_leave_queue(&of->claim);
	of->claim.node.order = 0;
	town->free = server;
	give(of);
	serve(town);
	claim(town, of);
}

#define STEP (50 * USEC_PER_MS)

/* Each server comes home once in each step. */
static void live(struct town *town, usec_t until)
{
	for (; town->now < until; town->now += STEP) {
		for (unsigned int i = 0; i < town->used; i++)
			come_home(town, &town->servers[i]);
		for (unsigned int i = 0; i < town->used; i++)
			town->servers[i].of->held += STEP;
		for (unsigned int i = 0; i < town->count; i++) {
			struct tenant *tenant = &town->tenants[i];

			if (town->now - tenant->last > tenant->waited)
				tenant->waited = town->now - tenant->last;
		}
	}
}

/* All claim before there is any server. */
static void all_claim(struct town *town)
{
	const struct permit other = { .of[OF_ALL] = town->all.tally };
	struct permit given = other;

	town->now = STEP;
	permit_set_limit(&town->all, 1, 0);
	permit_add(&other, &town->member);
	for (unsigned int i = 0; i < town->count; i++) {
		town->tenants[i].last = town->now;
		claim(town, &town->tenants[i]);
	}
	ck_assert_uint_eq(town->used, 0);
	permit_set_limit(&town->all, (int)town->limit, 0);
	permit_give(&given, &town->member);
	serve(town);
	ck_assert_uint_eq(town->used, town->limit);
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
	struct town town;

	town_open(&town, 200, 2000);
	for (unsigned int i = 0; i < town.count; i++)
		town.tenants[i].claim.weight = 1 + i % 4;
	all_claim(&town);
	live(&town, 2 * USEC_PER_SEC);
	forget_times(&town);
	live(&town, 6 * USEC_PER_SEC);
	for (unsigned int i = 0; i < town.count; i++) {
		unsigned int part = 4 * town.tenants[i].claim.weight;

		ck_assert_uint_eq(share_servers(&town.tenants[i].pool), part);
	}
	ck_assert_uint_eq(town.logins, 0); /* what is shared is not moved any more */
	town_close(&town);
}
END_TEST

/* 40 servers for three: the one with one more keeps it, or it would be moved without end. */
START_TEST(the_odd_one_stays)
{
	struct town town;

	town_open(&town, 3, 40);
	all_claim(&town);
	live(&town, 6 * USEC_PER_SEC);
	for (unsigned int i = 0; i < town.count; i++)
		ck_assert_uint_ge(share_servers(&town.tenants[i].pool), 13);
	ck_assert_uint_eq(town.logins, 40);
	town_close(&town);
}
END_TEST

/* One had all; then come the others. */
START_TEST(who_had_all_gives_it_up)
{
	struct town town;

	town_open(&town, 3, 40);
	town.tenants[2].claim.weight = 2;
	town.now = STEP;
	claim(&town, &town.tenants[0]);
	live(&town, 2 * USEC_PER_SEC);
	ck_assert_uint_eq(share_servers(&town.tenants[0].pool), 40);
	claim(&town, &town.tenants[1]);
	claim(&town, &town.tenants[2]);
	live(&town, 2 * USEC_PER_SEC + STEP);
	ck_assert_uint_eq(share_servers(&town.tenants[0].pool), 10);
	ck_assert_uint_eq(share_servers(&town.tenants[1].pool), 10);
	ck_assert_uint_eq(share_servers(&town.tenants[2].pool), 20);
	ck_assert_uint_eq(town.logins, 40 + 30);
	town_close(&town);
}
END_TEST

/*
 * Fifty tenants for each server take turns: nobody waits longer than all the turns before, and a
 * turn is as long as the weight says.
 */
START_TEST(turns)
{
	struct town town;
	usec_t round = 0, longest = 0;

	town_open(&town, 1000, 20);
	for (unsigned int i = 0; i < town.count; i++) {
		town.tenants[i].claim.weight = 1 + i % 3;
		round += (usec_t)town.tenants[i].claim.weight * CLAIM_TURN / town.limit;
	}
	all_claim(&town);
	live(&town, 3 * round);
	for (unsigned int i = 0; i < town.count; i++) {
		const struct tenant *tenant = &town.tenants[i];
		usec_t turn = tenant->claim.weight * (CLAIM_TURN + STEP);

		longest = tenant->waited > longest ? tenant->waited : longest;
		/* two or three turns have ended in this time */
		ck_assert_int_ge(tenant->held, 2 * (turn - tenant->claim.weight * STEP));
		ck_assert_int_le(tenant->held, 4 * turn);
	}
	ck_assert_int_le(longest, round + round / 10 + 4 * CLAIM_TURN);
	town_close(&town);
}
END_TEST

/* Guarantees of 30 of 40 servers, among a thousand tenants: they have them, and the rest the
 * others. */
START_TEST(guarantees)
{
	struct town town;
	unsigned int others = 0;

	town_open(&town, 1000, 40);
	for (unsigned int i = 0; i < 10; i++) {
		struct tenant *tenant = &town.tenants[100 * i];

		permit_set_limit(i % 2 ? &tenant->role : &tenant->database, 0, 3);
	}
	all_claim(&town);
	live(&town, 10 * USEC_PER_SEC);
	for (unsigned int i = 0; i < town.count; i++) {
		const struct tenant *tenant = &town.tenants[i];

		if (i % 100 == 0)
			ck_assert_uint_eq(share_servers(&tenant->pool), 3);
		others += i % 100 && tenant->held;
	}
	ck_assert_uint_ge(others, 80); /* 10 servers in turns of a second */
	town_close(&town);
}
END_TEST

static void move_to(struct tenant *tenant, struct share *share, enum tally_kind kind, int owner,
                    const char *name)
{
	ck_assert(share_open(share, &tenant->town->member, kind, name, ""));
	tenant->claim.of[owner] = share->tally;
}

/* Two users of a database that has just what it is guaranteed: it loses nothing by their turns. */
START_TEST(guarantees_within_an_owner)
{
	struct tenant *from, *same, *other;
	struct town town;

	town_open(&town, 3, 2);
	from = &town.tenants[0];
	same = &town.tenants[1];
	other = &town.tenants[2];
	move_to(same, &same->database, TALLY_DATABASE, OF_DATABASE, "t0");
	claim(&town, from);
	permit_set_limit(&from->database, 0, 2);
	claim(&town, other);
	ck_assert(!permit_yields(&town.all, &from->claim, CLAIM_TURN));
	permit_leave_queue(&other->claim);
	permit_leave_queue(&from->claim);
	claim(&town, same);
	ck_assert(permit_yields(&town.all, &from->claim, CLAIM_TURN));
	permit_set_limit(&from->database, 0,
	                 3); /* it is owed one itself, and this brings it none */
	ck_assert(!permit_yields(&town.all, &from->claim, CLAIM_TURN));
	town_close(&town);
}
END_TEST

/* Nobody waits for it: it comes last, and takes none. */
START_TEST(a_spare_server_comes_last)
{
	struct tenant *busy, *spare;
	struct town town;

	town_open(&town, 2, 1000);
	busy = &town.tenants[0];
	spare = &town.tenants[1];
	claim(&town, busy);
	permit_leave_queue(&busy->claim);
	ck_assert_int_eq(take(spare, true), PERMIT_CAP_FULL + CAP_ALL);
	ck_assert(!permit_yields(&town.all, &busy->claim, 100 * CLAIM_TURN));
	claim(&town, busy);
	ck_assert_ptr_eq(heap_first(&town.all.tally->queue), &busy->claim.node);
	town_close(&town);
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
	Suite *suite = suite_create("pool/permits");
	TCase *tcase = tcase_create("permits");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, parts_of_a_limit);
	tcase_add_test(tcase, the_odd_one_stays);
	tcase_add_test(tcase, who_had_all_gives_it_up);
	tcase_add_test(tcase, turns);
	tcase_add_test(tcase, guarantees);
	tcase_add_test(tcase, guarantees_within_an_owner);
	tcase_add_test(tcase, a_spare_server_comes_last);
	tcase_add_test(tcase, costs);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
