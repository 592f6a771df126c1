/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_retry.c: many pools whose only host cannot be reached.
 *
 * The host listens, and closes each connection of a login. When the next attempt is due is decided
 * by the test.
 */
#include "../../lib/engine.h"
#include "../unit.h"

#include "pgweir/pool/pools.h"

#define POOLS 9 /* three users on three databases */

struct scene {
	struct engine engine;
	struct peer clients[POOLS];
};

static struct reach_target *target_of(const struct scene *scene)
{
	const struct pool *pool = TAILQ_FIRST(&scene->engine.pools->list);

	return pool->site.hosts->list[0].self.target;
}

/* No attempt is due for a while, however slow the test is. */
static void hold_time(struct scene *scene)
{
	ck_assert(target_of(scene)->due);
	target_of(scene)->due = loop_now(scene->engine.loop) + 1000 * USEC_PER_SEC;
}

static void let_time_pass(struct scene *scene)
{
	struct pool *pool;

	target_of(scene)->due = 1;
	TAILQ_FOREACH (pool, &scene->engine.pools->list, node)
		pool_wake(pool);
	engine_turn(&scene->engine);
}

/* One attempt fails, with the new protocol and then the old one. false: there was none. */
static bool fails_once(struct scene *scene)
{
	for (int i = 0; i < 2; i++) {
		struct peer server = engine_server(&scene->engine);

		if (server.fd < 0)
			return false;
		peer_close(&server);
		engine_turn(&scene->engine);
	}
	hold_time(scene);
	return true;
}

static void come(struct scene *scene, unsigned int number)
{
	static const char *const users[] = { "u0", "u1", "u2" };
	static const char *const databases[] = { "d0", "d1", "d2" };

	scene->clients[number] = engine_client(&scene->engine);
	peer_start(&scene->clients[number], users[number % 3], databases[number / 3]);
	engine_turn(&scene->engine);
}

static void scene_open(struct scene *scene, const char *settings)
{
	*scene = (struct scene){ 0 };
	engine_open(&scene->engine, settings, "");
	come(scene, 0);
	ck_assert(fails_once(scene));
	for (unsigned int i = 1; i < POOLS; i++)
		come(scene, i);
}

static void scene_close(struct scene *scene)
{
	for (unsigned int i = 0; i < POOLS; i++)
		peer_close(&scene->clients[i]);
	engine_turn(&scene->engine);
	engine_close(&scene->engine);
}

static void all_wait(struct scene *scene)
{
	for (unsigned int i = 0; i < POOLS; i++)
		ck_assert_str_eq(peer_hear(&scene->engine, &scene->clients[i]), "");
}

START_TEST(many_pools_make_one_attempt)
{
	struct scene scene;

	scene_open(&scene, "server_login_retry = 900\n");
	ck_assert(!fails_once(&scene)); /* what the first pool has found out is enough */
	for (int i = 0; i < 5; i++) {
		let_time_pass(&scene);
		ck_assert(fails_once(&scene));
		ck_assert(!fails_once(&scene));
		all_wait(&scene);
	}
	scene_close(&scene);
}
END_TEST

START_TEST(all_pools_try_when_one_has_succeeded)
{
	struct peer server, others[POOLS];
	struct scene scene;

	scene_open(&scene, "server_login_retry = 900\n");
	let_time_pass(&scene);
	server = engine_server(&scene.engine);
	ck_assert(peer_say(&server, "RSKZ"));
	for (int i = 0; i < 3; i++)
		engine_turn(&scene.engine);
	for (unsigned int i = 1; i < POOLS; i++) {
		others[i] = engine_server(&scene.engine);
		ck_assert_int_ge(others[i].fd, 0);
		ck_assert(peer_say(&others[i], "RSKZ"));
	}
	for (unsigned int i = 0; i < POOLS; i++)
		ck_assert_str_eq(peer_hear(&scene.engine, &scene.clients[i]), "RSKZ");
	for (unsigned int i = 1; i < POOLS; i++)
		peer_close(&others[i]);
	peer_close(&server);
	scene_close(&scene);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_retry");
	TCase *tcase = tcase_create("pool_retry");

	tcase_add_test(tcase, many_pools_make_one_attempt);
	tcase_add_test(tcase, all_pools_try_when_one_has_succeeded);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
