/* SPDX-License-Identifier: ISC */
/*
 * fail_fast (pool/pool_retry.c), with clients and a server that disconnects during login: how
 * long the pool keeps trying without waiting clients, and what happens after it has given up.
 */
#include "../../lib/engine.h"

#include <string.h>

#include "../unit.h"

#define FAST "57P03 PostgreSQL cannot be reached: server closed the connection during login"

struct stage {
	struct engine engine;
	struct peer client;
};

static struct pool *pool_of(struct stage *stage) { return TAILQ_FIRST(&stage->engine.pools->list); }

static void stage_open(struct stage *stage, const char *settings)
{
	*stage = (struct stage){ 0 };
	engine_open(&stage->engine, settings, "");
}

static void stage_close(struct stage *stage)
{
	peer_close(&stage->client);
	engine_turn(&stage->engine);
	engine_close(&stage->engine);
}

static void come(struct stage *stage)
{
	peer_close(&stage->client);
	stage->client = engine_client(&stage->engine);
	peer_start(&stage->client, "u0", "d0");
	engine_turn(&stage->engine);
}

static bool is_turned_away(struct stage *stage)
{
	return strcmp(peer_hear(&stage->engine, &stage->client), "E.") == 0 &&
	       strncmp(stage->client.error, FAST, strlen(FAST)) == 0;
}

static bool is_waiting(struct stage *stage)
{
	return *peer_hear(&stage->engine, &stage->client) == '\0';
}

/* No attempt is due for a while, however slow the test is. */
static void hold_time(struct stage *stage)
{
	struct reach_target *target = pool_of(stage)->site.hosts->list[0].self.target;

	ck_assert(target->due);
	atomic_store(&target->due, loop_now(stage->engine.loop) + 1000 * USEC_PER_SEC);
}

/* One attempt fails, with the new protocol and then the old one. false: there was none. */
static bool fails_once(struct stage *stage)
{
	for (int i = 0; i < 2; i++) {
		struct peer server = engine_server(&stage->engine);

		if (server.fd < 0)
			return false;
		peer_close(&server);
		engine_turn(&stage->engine);
	}
	hold_time(stage);
	return true;
}

/* The gap after the failure is over. */
static void let_time_pass(struct stage *stage)
{
	atomic_store(&pool_of(stage)->site.hosts->list[0].self.target->due, 1);
	pool_wake(pool_of(stage));
	engine_turn(&stage->engine);
}

START_TEST(nobody_waits)
{
	struct stage stage;

	stage_open(&stage, "fail_fast = 1\nserver_login_retry = 900\n");
	come(&stage);
	ck_assert(is_waiting(&stage)); /* no attempt has failed yet */
	ck_assert(fails_once(&stage));
	ck_assert(is_turned_away(&stage));
	come(&stage);
	ck_assert(is_turned_away(&stage));
	ck_assert(!fails_once(&stage));
	stage_close(&stage);
}
END_TEST

START_TEST(the_pool_tries_by_itself)
{
	struct stage stage;
	usec_t until;

	stage_open(&stage, "fail_fast = 1\nserver_login_retry = 900\n");
	come(&stage);
	fails_once(&stage);
	ck_assert(is_turned_away(&stage));
	until = pool_of(&stage)->probes_until;
	ck_assert_int_gt(until, loop_now(stage.engine.loop));
	let_time_pass(&stage);
	come(&stage); /* during the attempt */
	ck_assert(is_turned_away(&stage));
	ck_assert(fails_once(&stage));
	let_time_pass(&stage);
	ck_assert(fails_once(&stage));
	ck_assert_int_ge(pool_of(&stage)->probes_until, until);
	stage_close(&stage);
}
END_TEST

START_TEST(what_is_known_gets_old)
{
	struct stage stage;
	struct peer server;

	stage_open(&stage, "fail_fast = 1\nserver_login_retry = 900\n");
	come(&stage);
	fails_once(&stage);
	ck_assert(is_turned_away(&stage));
	pool_of(&stage)->probes_until = 0;
	let_time_pass(&stage);
	ck_assert(!fails_once(&stage)); /* it has given up */
	come(&stage);
	ck_assert(is_waiting(&stage));
	ck_assert(fails_once(&stage));
	ck_assert(is_turned_away(&stage));
	pool_of(&stage)->probes_until = 0;
	let_time_pass(&stage);
	come(&stage);
	server = engine_server(&stage.engine);
	ck_assert(is_waiting(&stage));
	peer_say(&server, "RSKZ");
	ck_assert_str_eq(peer_hear(&stage.engine, &stage.client), "RSKZ");
	ck_assert(!hosts_are_failing(pool_of(&stage)->site.hosts, NULL));
	peer_close(&server);
	stage_close(&stage);
}
END_TEST

START_TEST(without_it_all_wait)
{
	struct stage stage;

	stage_open(&stage, "server_login_retry = 900\n");
	come(&stage);
	ck_assert(fails_once(&stage));
	ck_assert(is_waiting(&stage));
	ck_assert_int_eq(pool_of(&stage)->probes_until, 0);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/haste");
	TCase *tcase = tcase_create("haste");

	tcase_add_test(tcase, nobody_waits);
	tcase_add_test(tcase, the_pool_tries_by_itself);
	tcase_add_test(tcase, what_is_known_gets_old);
	tcase_add_test(tcase, without_it_all_wait);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
