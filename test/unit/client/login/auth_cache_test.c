/* SPDX-License-Identifier: ISC */
/*
 * client/login/auth_cache.c: two loops share the answers of auth_query.
 */
#include "../../../../src/client/login/auth_cache_priv.h"

#include <stdio.h>

#include "pgweir/base/container_of.h"

#include "../../unit.h"

#define LONG (3600 * USEC_PER_SEC)

/* Two loops of a process. */
struct scene {
	struct logins *logins;
	struct loop *loops[2];
	struct auth_cache_access one, other;
};

static void open_scene(struct scene *scene)
{
	scene->logins = logins_new(NULL);
	ck_assert_ptr_nonnull(scene->logins);
	for (int i = 0; i < 2; i++)
		scene->loops[i] = loop_new(NULL);
	scene->one = (struct auth_cache_access){ .logins = scene->logins, .loop = scene->loops[0] };
	scene->other =
	    (struct auth_cache_access){ .logins = scene->logins, .loop = scene->loops[1] };
}

static void close_scene(struct scene *scene)
{
	timer_clear(&scene->one.timer);
	timer_clear(&scene->other.timer);
	logins_free(&scene->logins);
	for (int i = 0; i < 2; i++)
		loop_free(&scene->loops[i]);
}

static struct auth_answer *make_question(const char *user)
{
	struct auth_answer *question = auth_answer_new("app", "asker", "SELECT 1", user);

	ck_assert_ptr_nonnull(question);
	return question;
}

static void keep(struct auth_cache_access *access, const char *user, const char *secret,
                 usec_t limit)
{
	struct auth_answer *answer = make_question(user);

	ck_assert(auth_answer_set(answer, user, secret));
	auth_cache_keep(access, answer, limit);
	auth_answer_release(&answer);
}

static struct auth_answer *find(struct auth_cache_access *access, const char *user)
{
	struct auth_answer *question = make_question(user);
	struct auth_answer *answer = auth_cache_find(access, question);

	auth_answer_release(&question);
	return answer;
}

static bool has(struct auth_cache_access *access, const char *user, const char *secret)
{
	struct auth_answer *answer = find(access, user);
	bool is_same = answer && strcmp(answer->secret, secret) == 0;

	auth_answer_release(&answer);
	return is_same;
}

START_TEST(an_answer_is_found_in_all_loops)
{
	struct scene scene;

	open_scene(&scene);
	keep(&scene.one, "alice", "secret", LONG);
	keep(&scene.one, "bob", "not kept", 0);
	ck_assert(has(&scene.one, "alice", "secret"));
	ck_assert(has(&scene.other, "alice", "secret"));
	ck_assert_ptr_null(find(&scene.other, "bob"));
	keep(&scene.other, "alice", "new secret", LONG);
	ck_assert(has(&scene.one, "alice", "new secret"));
	close_scene(&scene);
}
END_TEST

START_TEST(it_is_dropped_for_all_loops)
{
	struct auth_answer *answer;
	struct scene scene;

	open_scene(&scene);
	keep(&scene.one, "alice", "secret", LONG);
	answer = find(&scene.other, "alice");
	auth_cache_forget(&scene.other, answer);
	auth_cache_forget(&scene.other, answer); /* it is not there any more */
	ck_assert_ptr_null(find(&scene.one, "alice"));
	ck_assert_str_eq(answer->secret, "secret"); /* the login still has it */
	keep(&scene.one, "alice", "new secret", LONG);
	auth_cache_forget(&scene.other, answer); /* the new one is another answer */
	ck_assert(has(&scene.one, "alice", "new secret"));
	auth_answer_release(&answer);
	auth_cache_forget_all(scene.logins);
	ck_assert_ptr_null(find(&scene.one, "alice"));
	close_scene(&scene);
}
END_TEST

struct end {
	struct timer timer;
	struct loop *loop;
};

static void stop(struct timer *timer) { loop_stop(container_of(timer, struct end, timer)->loop); }

START_TEST(its_time_ends)
{
	struct end end = { .loop = NULL };
	struct scene scene;

	open_scene(&scene);
	keep(&scene.one, "alice", "secret", USEC_PER_MS);
	keep(&scene.one, "bob", "secret", USEC_PER_MS);
	end.loop = scene.loops[0];
	timer_set(&end.timer, loop_timer_queue(end.loop, 20 * USEC_PER_MS, stop),
	          loop_now(end.loop));
	loop_run(end.loop);
	ck_assert(!timer_is_set(&scene.one.timer)); /* it was due, and the cache is empty */
	ck_assert_ptr_null(find(&scene.one, "alice"));
	ck_assert_ptr_null(find(&scene.one, "bob"));
	close_scene(&scene);
}
END_TEST

START_TEST(the_oldest_makes_room)
{
	struct scene scene;
	char name[16];

	open_scene(&scene);
	for (int i = 0; i <= AUTH_CACHE_MAX; i++) {
		snprintf(name, sizeof(name), "u%d", i);
		keep(i % 2 ? &scene.one : &scene.other, name, "secret", LONG);
	}
	ck_assert_ptr_null(find(&scene.one, "u0"));
	ck_assert(has(&scene.one, "u1", "secret"));
	ck_assert(has(&scene.other, name, "secret"));
	close_scene(&scene);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/login/auth_cache");
	TCase *tests = tcase_create("auth_cache");

	tcase_add_test(tests, an_answer_is_found_in_all_loops);
	tcase_add_test(tests, it_is_dropped_for_all_loops);
	tcase_add_test(tests, its_time_ends);
	tcase_add_test(tests, the_oldest_makes_room);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
