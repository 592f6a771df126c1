/* SPDX-License-Identifier: ISC */
/*
 * client/login/admit.c with two loops of one process: failed logins count for both.
 */
#include "../../../lib/engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../../unit.h"

#define SETTINGS "auth_failure_delay = 600\nauth_failure_limit = %d\nclient_login_timeout = 0"
#define DELAYED_MAX 256 /* as in admit.c */

struct stage {
	struct engine one, other;
};

static void stage_open(struct stage *stage, int limit)
{
	char settings[128];

	snprintf(settings, sizeof(settings), SETTINGS, limit);
	engine_open(&stage->one, settings, "");
	engine_open_beside(&stage->other, &stage->one, settings, "");
}

static void stage_close(struct stage *stage)
{
	engine_turn(&stage->one);
	engine_turn(&stage->other);
	engine_close(&stage->other);
	engine_close(&stage->one);
}

/* A client at 192.0.2.`host` whose user is not known. */
static struct peer refused(struct engine *engine, unsigned char host)
{
	struct address address = { .in = { .sin_family = AF_INET, .sin_port = htons(1) } };
	struct peer peer;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	address.in.sin_addr.s_addr = htonl(0xc0000200U + host);
	clients_accept(engine->clients, pair[0], &address, NULL,
	               pools_next_id(engine->clients->pools));
	peer = (struct peer){ .fd = pair[1] };
	peer_start(&peer, "nobody", "d0");
	engine_turn(engine);
	return peer;
}

static unsigned int delayed_in(const struct engine *engine)
{
	return engine->clients->state_counts[CLIENT_DELAYED];
}

START_TEST(the_limit_of_an_address_counts_in_all_loops)
{
	struct stage stage;
	struct peer first, second, third, elsewhere;

	stage_open(&stage, 2);
	first = refused(&stage.one, 1);
	second = refused(&stage.other, 1);
	third = refused(&stage.other, 1);
	elsewhere = refused(&stage.other, 2);
	ck_assert_str_eq(peer_hear(&stage.one, &first), "");
	ck_assert_str_eq(peer_hear(&stage.other, &second), "");
	ck_assert_str_eq(peer_hear(&stage.other, &elsewhere), "");
	ck_assert_str_eq(peer_hear(&stage.other, &third), "E.");
	ck_assert_str_eq(third.error + 6, "too many failed logins from this address, try again "
	                                  "later");
	peer_close(&third);
	/* One that leaves makes room in the other loop. */
	peer_close(&first);
	engine_turn(&stage.one);
	third = refused(&stage.other, 1);
	ck_assert_str_eq(peer_hear(&stage.other, &third), "");
	peer_close(&second);
	peer_close(&third);
	peer_close(&elsewhere);
	stage_close(&stage);
}
END_TEST

/* So many are delayed in each loop; then its oldest is answered. */
START_TEST(the_oldest_of_a_loop_is_answered_early)
{
	static struct peer peers[DELAYED_MAX];
	struct peer more[2], elsewhere;
	struct stage stage;

	stage_open(&stage, 0);
	elsewhere = refused(&stage.other, 1);
	for (unsigned int i = 0; i < DELAYED_MAX; i++)
		peers[i] = refused(&stage.one, (unsigned char)i);
	ck_assert_uint_eq(delayed_in(&stage.one), DELAYED_MAX);
	more[0] = refused(&stage.one, 1);
	ck_assert_str_eq(peer_hear(&stage.one, &peers[0]), "E.");
	ck_assert_str_eq(peer_hear(&stage.one, &peers[1]), "");
	more[1] = refused(&stage.one, 1);
	ck_assert_str_eq(peer_hear(&stage.one, &peers[1]), "E.");
	ck_assert_str_eq(peer_hear(&stage.one, &peers[2]), "");
	ck_assert_str_eq(peer_hear(&stage.other, &elsewhere), "");
	ck_assert_uint_eq(delayed_in(&stage.one), DELAYED_MAX);
	for (unsigned int i = 0; i < DELAYED_MAX; i++)
		peer_close(&peers[i]);
	for (unsigned int i = 0; i < 2; i++)
		peer_close(&more[i]);
	peer_close(&elsewhere);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/login/throttle");
	TCase *cases = tcase_create("throttle");

	tcase_set_timeout(cases, 30);
	tcase_add_test(cases, the_limit_of_an_address_counts_in_all_loops);
	tcase_add_test(cases, the_oldest_of_a_loop_is_answered_early);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
