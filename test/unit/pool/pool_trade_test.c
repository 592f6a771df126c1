/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_trade.c and pool/pool_limits.c with several loops: three engines as three loops of one
 * process, turned one after the other. All connect to the same PostgreSQL, which the test plays.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/engine.h"

#include "pgweir/pool/pools.h"

#include "../unit.h"
#include "../../../src/pool/broker_priv.h"
#include "../../../src/pool/pool_priv.h"
#include "../../../src/pool/server/server_priv.h"

#define LOOPS 3
#define SERVERS_MAX 32
#define LONG (3600 * USEC_PER_SEC)

struct hall {
	struct engine loops[LOOPS];
	struct peer servers[SERVERS_MAX]; /* in the order in which they came; closed ones stay */
	char heard[SERVERS_MAX][64];      /* what each has heard in the last round */
	unsigned int server_count;        /* all that ever connected */
	unsigned int open_count, most_open_count;
};

static void hall_open(struct hall *hall, const char *settings)
{
	char entry[128];

	*hall = (struct hall){ 0 };
	engine_open(&hall->loops[0], settings, "");
	snprintf(entry, sizeof(entry), "host=%s", hall->loops[0].host);
	for (int i = 1; i < LOOPS; i++)
		engine_open_beside(&hall->loops[i], &hall->loops[0], settings, entry);
}

static void hall_reload(struct hall *hall, const char *settings)
{
	char entry[128];

	snprintf(entry, sizeof(entry), "host=%s", hall->loops[0].host);
	for (int i = 0; i < LOOPS; i++)
		engine_reload(&hall->loops[i], settings, entry);
}

static void turn_all(struct hall *hall)
{
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < LOOPS; i++)
			engine_turn(&hall->loops[i]);
	}
}

static void close_server(struct hall *hall, unsigned int number)
{
	peer_close(&hall->servers[number]);
	hall->open_count--;
}

static void accept_servers(struct hall *hall)
{
	struct peer server;

	while ((server = engine_server(&hall->loops[0])).fd >= 0) {
		ck_assert_uint_lt(hall->server_count, SERVERS_MAX);
		hall->servers[hall->server_count++] = server;
		if (++hall->open_count > hall->most_open_count)
			hall->most_open_count = hall->open_count;
	}
}

/* Accepts all connections, and answers nothing. */
static unsigned int accept_silently(struct hall *hall)
{
	unsigned int before = hall->server_count;

	turn_all(hall);
	accept_servers(hall);
	return hall->server_count - before;
}

/* As if the last look at the wants of other loops were long ago. */
static void let_look(struct hall *hall)
{
	struct pool *pool;

	for (int i = 0; i < LOOPS; i++) {
		TAILQ_FOREACH (pool, &hall->loops[i].pools->list, node)
			pool->trade.looked_at = 0;
	}
}

/* As if all idle servers had been idle for a second. false: they are; or used in the future. */
static bool let_rest(struct hall *hall)
{
	struct server *server;
	bool was_used = false;

	let_look(hall);
	for (int i = 0; i < LOOPS; i++) {
		TAILQ_FOREACH (server, &hall->loops[i].pools->servers, place.all_node) {
			usec_t past = clock_now() - server->used_at;

			if (server->state != SERVER_IDLE || past < 0 || past >= USEC_PER_SEC)
				continue;
			was_used = true;
			server->used_at -= USEC_PER_SEC;
			pool_wake(server->pool);
		}
	}
	return was_used;
}

/*
 * Lets all loops work until nothing happens, and idle servers have been idle for a while. A server
 * that logs in is accepted, and one that gets Terminate is closed. What the others hear is in
 * hall->heard.
 */
static void play(struct hall *hall)
{
	bool is_moving = true;

	memset(hall->heard, 0, sizeof(hall->heard));
	while (is_moving) {
		let_look(hall);
		turn_all(hall);
		is_moving = let_rest(hall);
		/* those that have ended first, as PostgreSQL would count them */
		for (unsigned int i = 0; i < hall->server_count; i++) {
			struct peer *server = &hall->servers[i];
			const char *heard;
			size_t end;

			if (server->fd < 0)
				continue;
			heard = peer_hear(&hall->loops[0], server);
			is_moving |= *heard != 0;
			end = strlen(hall->heard[i]);
			snprintf(&hall->heard[i][end], sizeof(hall->heard[i]) - end, "%s", heard);
			if (strchr(heard, '^'))
				peer_say(server, "RSKZ");
			if (strchr(heard, '.'))
				close_server(hall, i);
		}
		accept_servers(hall);
		for (unsigned int i = 0; i < hall->server_count; i++)
			is_moving |= hall->servers[i].fd >= 0 && !hall->servers[i].has_started;
	}
}

static void hall_close(struct hall *hall)
{
	for (unsigned int i = 0; i < hall->server_count; i++)
		peer_close(&hall->servers[i]);
	turn_all(hall);
	for (int i = LOOPS - 1; i >= 0; i--)
		engine_close(&hall->loops[i]);
}

static struct peer enter(struct hall *hall, int loop, const char *user, const char *database)
{
	struct peer client = engine_client(&hall->loops[loop]);

	peer_start(&client, user, database);
	play(hall);
	return client;
}

static bool is_in(struct hall *hall, int loop, struct peer *client)
{
	return strcmp(peer_hear(&hall->loops[loop], client), "RSKZ") == 0;
}

/* A client that has logged in. */
static struct peer client_in(struct hall *hall, int loop, const char *user, const char *database)
{
	struct peer client = enter(hall, loop, user, database);

	ck_assert(is_in(hall, loop, &client));
	return client;
}

static void leave(struct hall *hall, struct peer *client)
{
	peer_close(client);
	play(hall);
}

static struct pool *pool_in(struct hall *hall, int loop, const char *user, const char *database)
{
	struct pool *pool = pools_find_pool(hall->loops[loop].pools, database, user);

	ck_assert_ptr_nonnull(pool);
	return pool;
}

static struct pool *common_pool(struct hall *hall, int loop)
{
	return pool_in(hall, loop, "u0", "d0");
}

static void ask(struct hall *hall, struct peer *client)
{
	ck_assert(peer_say(client, "Q"));
	play(hall);
}

/* The server that has just got a query; -1: none. */
static int asked_server(const struct hall *hall)
{
	for (unsigned int i = 0; i < hall->server_count; i++) {
		if (strchr(hall->heard[i], 'Q'))
			return (int)i;
	}
	return -1;
}

static void answer(struct hall *hall, int server)
{
	ck_assert(peer_say(&hall->servers[server], "CZ"));
	play(hall);
}

static void expect_answer(struct hall *hall, int loop, struct peer *client)
{
	ck_assert_str_eq(peer_hear(&hall->loops[loop], client), "CZ");
}

static void expect_waiting(struct hall *hall, int loop, unsigned int count)
{
	ck_assert_uint_eq(common_pool(hall, loop)->queues[BORROWER_WAITING].count, count);
}

static struct server *server_in(struct hall *hall, int loop)
{
	return TAILQ_FIRST(&hall->loops[loop].pools->servers);
}

/* As if all clients that wait in this loop had come so much earlier. */
static void age(struct hall *hall, int loop, usec_t by)
{
	struct pool *pool = common_pool(hall, loop);
	struct borrower *borrower;

	TAILQ_FOREACH (borrower, &pool->queues[BORROWER_WAITING].list, wait_node)
		borrower->waiting_since -= by;
	pool_wake(pool);
	play(hall);
}

static uint64_t moves(const struct hall *hall)
{
	uint64_t in = 0, out = 0;

	for (int i = 0; i < LOOPS; i++) {
		in += hall->loops[i].pools->moved_in;
		out += hall->loops[i].pools->moved_out;
	}
	ck_assert_uint_eq(in, out);
	return in;
}

#define ONE_SERVER "pool_mode = transaction\ndefault_pool_size = 1\nserver_lifetime = 3600"

/* ---- servers go where clients wait ---- */

START_TEST(an_idle_server_goes_where_a_client_waits)
{
	struct peer here, there;
	struct hall hall;
	int server;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0"); /* the welcome is known: no server is needed */
	ck_assert_uint_eq(hall.server_count, 1);
	ask(&hall, &there);
	server = asked_server(&hall);
	ck_assert_int_eq(server, 0);
	answer(&hall, server);
	expect_answer(&hall, 1, &there);
	ck_assert_uint_eq(hall.server_count, 1);
	ck_assert_uint_eq(moves(&hall), 1);
	ck_assert(!share_is_asked(&common_pool(&hall, 0)->share));
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

START_TEST(a_server_that_has_just_come_stays_for_a_while)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	server_in(&hall, 0)->place.arrived_at = clock_now() + LONG;
	ask(&hall, &there);
	ck_assert_int_eq(asked_server(&hall), -1);
	ck_assert(timer_is_set(&common_pool(&hall, 0)->look));
	/* Its own clients have it. */
	ask(&hall, &here);
	ck_assert_int_eq(asked_server(&hall), 0);
	answer(&hall, 0);
	expect_answer(&hall, 0, &here);
	ck_assert_int_eq(asked_server(&hall), -1);
	server_in(&hall, 0)->place.arrived_at = 0;
	pool_wake(common_pool(&hall, 0));
	play(&hall);
	ck_assert_int_eq(asked_server(&hall), 0);
	ck_assert_int_gt(server_in(&hall, 1)->place.arrived_at, 0);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

START_TEST(a_server_that_was_just_used_stays_for_a_while)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	server_in(&hall, 0)->used_at = clock_now() + LONG;
	ask(&hall, &there);
	ck_assert_int_eq(asked_server(&hall), -1);
	ck_assert(timer_is_set(&common_pool(&hall, 0)->look));
	server_in(&hall, 0)->used_at = clock_now();
	pool_wake(common_pool(&hall, 0));
	play(&hall);
	ck_assert_int_eq(asked_server(&hall), 0);
	ck_assert_uint_eq(moves(&hall), 1);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* It may be served by its own loop soon, and a want wakes the others. */
START_TEST(a_server_with_new_values_of_sequences_goes_last)
{
	struct peer owner, other, there, next;
	struct hall hall;
	struct borrower *borrower;

	hall_open(&hall, "pool_mode = transaction\ndefault_pool_size = 2\nserver_lifetime = 3600");
	owner = client_in(&hall, 0, "u0", "d0");
	other = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	next = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &owner);
	ck_assert_int_eq(asked_server(&hall), 0);
	borrower = server_in(&hall, 0)->lease.borrower;
	pool_own_sequences(borrower);
	ask(&hall, &other);
	ck_assert_int_eq(asked_server(&hall), 1);
	answer(&hall, 0); /* it is the longest unused one */
	answer(&hall, 1);
	ck_assert_ptr_nonnull(borrower->owned);
	borrower->owned->lease.sequences.used_at = clock_now() + LONG;
	ask(&hall, &there);
	ck_assert_int_eq(asked_server(&hall), 1);
	ck_assert_ptr_nonnull(borrower->owned);
	/* There is no other one. */
	ask(&hall, &next);
	age(&hall, 1, USEC_PER_SEC);
	ck_assert_int_eq(asked_server(&hall), 0);
	ck_assert_ptr_null(borrower->owned);
	peer_close(&owner);
	peer_close(&other);
	peer_close(&there);
	peer_close(&next);
	hall_close(&hall);
}
END_TEST

START_TEST(a_client_waits_a_while_for_the_servers_of_its_own_loop)
{
	struct peer busy, here;
	struct share *share;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	busy = client_in(&hall, 0, "u0", "d0");
	here = client_in(&hall, 0, "u0", "d0");
	share = &common_pool(&hall, 0)->share;
	ask(&hall, &busy);
	ck_assert(peer_say(&here, "Q"));
	engine_turn(&hall.loops[0]); /* asks and looks in one turn, so at one time */
	expect_waiting(&hall, 0, 1);
	ck_assert(!share->is_wanting);
	ck_assert(timer_is_set(&common_pool(&hall, 0)->look));
	age(&hall, 0, USEC_PER_SEC);
	ck_assert(share->is_wanting);
	answer(&hall, 0);
	ck_assert(!share->is_wanting);
	peer_close(&busy);
	peer_close(&here);
	hall_close(&hall);
}
END_TEST

static const struct {
	const char *says;
	usec_t longer; /* the client of the other loop has waited so much longer */
	int loop;      /* gets the server */
} turns[] = {
	{ "as long", 0, 0 },
	{ "far longer", LONG, 1 },
	{ "far less", -LONG, 0 },
};

START_TEST(own_clients_come_first_unless_others_have_waited_far_longer)
{
	struct peer busy, here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	busy = client_in(&hall, 0, "u0", "d0");
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &busy);
	ask(&hall, &here);
	ask(&hall, &there);
	expect_waiting(&hall, 0, 1);
	expect_waiting(&hall, 1, 1);
	age(&hall, 1, turns[_i].longer);
	answer(&hall, 0);
	ck_assert_msg(asked_server(&hall) == 0, "%s", turns[_i].says);
	expect_waiting(&hall, turns[_i].loop, 0);
	expect_waiting(&hall, 1 - turns[_i].loop, 1);
	server_in(&hall, turns[_i].loop)->place.arrived_at = 0;
	answer(&hall, 0);
	ck_assert_int_eq(asked_server(&hall), 0);
	expect_waiting(&hall, 1 - turns[_i].loop, 0);
	peer_close(&busy);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* The loop whose client has waited longest is first. */
START_TEST(the_loop_that_has_waited_longest_gets_it)
{
	struct peer busy, second, first;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	busy = client_in(&hall, 0, "u0", "d0");
	second = client_in(&hall, 1, "u0", "d0");
	first = client_in(&hall, 2, "u0", "d0");
	ask(&hall, &busy);
	ask(&hall, &second);
	ask(&hall, &first);
	age(&hall, 2, LONG);
	answer(&hall, 0);
	expect_waiting(&hall, 2, 0);
	expect_waiting(&hall, 1, 1);
	server_in(&hall, 2)->place.arrived_at = 0;
	answer(&hall, 0);
	expect_waiting(&hall, 1, 0);
	ck_assert_uint_eq(moves(&hall), 2);
	peer_close(&busy);
	peer_close(&second);
	peer_close(&first);
	hall_close(&hall);
}
END_TEST

START_TEST(a_client_that_leaves_wants_no_server)
{
	struct peer busy, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	busy = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &busy);
	ask(&hall, &there);
	ck_assert(share_is_asked(&common_pool(&hall, 0)->share));
	leave(&hall, &there);
	ck_assert(!share_is_asked(&common_pool(&hall, 0)->share));
	answer(&hall, 0);
	ck_assert_uint_eq(moves(&hall), 0);
	ck_assert_ptr_nonnull(server_in(&hall, 0));
	peer_close(&busy);
	hall_close(&hall);
}
END_TEST

/* A server that was not used for server_check_delay is checked where it comes to. */
/* Else it would stay in the way until a client of its own loop wants it. */
START_TEST(an_idle_server_that_cannot_be_used_any_more_is_closed_for_others)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	server_need_close(server_in(&hall, 0), CLOSE_BAD_SERVER_PARAMETER);
	ask(&hall, &there);
	ck_assert_int_eq(hall.servers[0].fd, -1);
	ck_assert_uint_eq(hall.server_count, 2);
	expect_waiting(&hall, 1, 0);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

START_TEST(a_used_server_moves)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER "\nserver_check_delay = 3600\nserver_check_query = select 1");
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	server_enter(server_in(&hall, 0), SERVER_USED);
	ask(&hall, &there);
	ck_assert_str_eq(hall.heard[0], "Q"); /* the check */
	ck_assert_int_eq(server_in(&hall, 1)->state, SERVER_CHECKING);
	answer(&hall, 0);
	ck_assert_str_eq(hall.heard[0], "Q");
	answer(&hall, 0);
	expect_answer(&hall, 1, &there);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* ---- a server under way ---- */

/* A server of loop 0 is in a letter to loop 1. */
static void send_server(struct hall *hall, struct peer *client)
{
	ck_assert(peer_say(client, "Q"));
	engine_turn(&hall->loops[1]);
	engine_turn(&hall->loops[0]);
	ck_assert_uint_eq(hall->loops[0].pools->moved_out, 1);
	ck_assert_uint_eq(hall->loops[1].pools->moved_in, 0);
	ck_assert(hall->loops[0].broker->moving_count);
}

static void reconnect_all(struct hall *hall)
{
	for (int i = 0; i < LOOPS; i++)
		pools_reconnect(hall->loops[i].pools, NULL);
}

static void reload_all(struct hall *hall) { hall_reload(hall, ONE_SERVER); }

static void pause_and_resume(struct hall *hall)
{
	for (int i = 0; i < LOOPS; i++) {
		pools_pause(hall->loops[i].pools, NULL, "test");
		pools_resume(hall->loops[i].pools, NULL);
	}
}

static const struct {
	const char *says;
	void (*happens)(struct hall *hall);
} events[] = {
	{ "RECONNECT", reconnect_all },
	{ "RELOAD", reload_all },
	{ "PAUSE and RESUME", pause_and_resume },
};

/* It is closed, as it would have been in a pool, and the client gets another one. */
START_TEST(a_promise_that_cannot_be_kept_costs_nobody_a_server)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	send_server(&hall, &there);
	ck_assert_uint_eq(share_servers(&common_pool(&hall, 0)->share), 1);
	events[_i].happens(&hall);
	play(&hall);
	ck_assert(!hall.loops[0].broker->moving_count);
	ck_assert_msg(asked_server(&hall) == 1, "%s", events[_i].says);
	ck_assert_int_eq(hall.servers[0].fd, -1);
	ck_assert_uint_eq(common_pool(&hall, 1)->share.promised_count, 0);
	ck_assert_uint_eq(share_servers(&common_pool(&hall, 1)->share), 1);
	answer(&hall, 1);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* The client has left: the server stays, and is of use for others. */
START_TEST(a_server_for_a_client_that_has_left_goes_back)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	send_server(&hall, &there);
	leave(&hall, &there);
	ck_assert_ptr_nonnull(server_in(&hall, 1));
	server_in(&hall, 1)->place.arrived_at = 0;
	ask(&hall, &here);
	ck_assert_int_eq(asked_server(&hall), 0);
	ck_assert_uint_eq(hall.server_count, 1);
	peer_close(&here);
	hall_close(&hall);
}
END_TEST

/* ---- limits over loops ---- */

static const struct {
	const char *setting;
	const char *user, *database; /* of the client in the other loop */
} limits[] = {
	{ "max_db_connections = 1", "u1", "d0" },
	{ "max_user_connections = 1", "u0", "d1" },
};

/* An idle server of another pool, in another loop, is closed for the client that waits. */
START_TEST(a_limit_closes_an_idle_server_of_another_loop)
{
	char settings[256];
	struct peer here, there;
	struct hall hall;

	snprintf(settings, sizeof(settings), "pool_mode = transaction\n%s", limits[_i].setting);
	hall_open(&hall, settings);
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, limits[_i].user, limits[_i].database);
	ck_assert_int_eq(hall.servers[0].fd, -1);
	ck_assert_uint_eq(hall.server_count, 2);
	ck_assert_uint_eq(hall.most_open_count, 1);
	/* A busy server is not closed; when it is returned, it is. */
	ask(&hall, &there);
	ask(&hall, &here);
	expect_waiting(&hall, 0, 1);
	ck_assert_uint_eq(hall.server_count, 2);
	answer(&hall, 1);
	ck_assert_int_eq(asked_server(&hall), 2);
	expect_waiting(&hall, 0, 0);
	ck_assert_uint_eq(hall.most_open_count, 1);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

START_TEST(one_idle_server_is_closed_for_one_that_waits)
{
	struct peer here, there, third;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 2");
	here = client_in(&hall, 0, "u0", "d0");
	third = client_in(&hall, 2, "u2", "d0");
	there = client_in(&hall, 1, "u1", "d0");
	ck_assert_uint_eq(hall.server_count, 3);
	ck_assert_uint_eq(hall.open_count, 2);
	ck_assert_uint_eq(hall.most_open_count, 2);
	peer_close(&here);
	peer_close(&there);
	peer_close(&third);
	hall_close(&hall);
}
END_TEST

/* An idle server that was kept for its own pool, and is not needed there, gives way in the end. */
START_TEST(an_idle_server_that_nobody_wants_any_more_gives_way)
{
	struct peer here, there, third, other;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 2");
	here = client_in(&hall, 0, "u0", "d0");
	third = client_in(&hall, 2, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &here);
	ask(&hall, &third);
	ck_assert_uint_eq(hall.open_count, 2);
	server_in(&hall, 0)->place.arrived_at = server_in(&hall, 2)->place.arrived_at =
	    clock_now() + LONG;
	answer(&hall, 0);
	answer(&hall, 1);
	ask(&hall, &there);
	other = enter(&hall, 1, "u1", "d0");
	expect_waiting(&hall, 1, 1);
	ck_assert_uint_eq(hall.server_count, 2);
	server_in(&hall, 0)->place.arrived_at = 0;
	pool_wake(common_pool(&hall, 0));
	play(&hall);
	expect_waiting(&hall, 1, 0);
	ck_assert(is_in(&hall, 1, &other));
	ck_assert_uint_eq(hall.most_open_count, 2);
	peer_close(&here);
	peer_close(&there);
	peer_close(&third);
	peer_close(&other);
	hall_close(&hall);
}
END_TEST

/* A server of the same pool is not closed, it moves. */
START_TEST(an_idle_server_of_the_pool_moves_instead)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 1");
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &there);
	ck_assert_int_eq(asked_server(&hall), 0);
	ck_assert_uint_eq(hall.server_count, 1);
	ck_assert_uint_eq(moves(&hall), 1);
	answer(&hall, 0);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* A permit that is given back is for the loop that has waited longest. */
START_TEST(blocked_loops_are_served_in_order)
{
	struct peer busy, first, second;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 1");
	busy = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &busy);
	first = enter(&hall, 2, "u2", "d0");
	second = enter(&hall, 0, "u1", "d0");
	ck_assert_uint_eq(hall.server_count, 1);
	close_server(&hall, 0);
	play(&hall);
	ck_assert(is_in(&hall, 2, &first));
	ck_assert(is_in(&hall, 0, &second)); /* the idle server of the first was closed for it */
	ck_assert_uint_eq(hall.server_count, 3);
	ck_assert_int_eq(hall.servers[1].fd, -1);
	ck_assert_uint_eq(hall.most_open_count, 1);
	peer_close(&busy);
	peer_close(&first);
	peer_close(&second);
	hall_close(&hall);
}
END_TEST

static void age_servers(struct hall *hall, usec_t by)
{
	struct server *server;

	for (int i = 0; i < LOOPS; i++) {
		TAILQ_FOREACH (server, &hall->loops[i].pools->servers, place.all_node)
			server->connected_at -= by;
	}
}

static void let_servers_be_old(struct hall *hall) { age_servers(hall, 100 * USEC_PER_SEC); }

/* Others would take it back at once, as nobody uses it. */
START_TEST(min_pool_size_takes_no_server_for_which_clients_wait)
{
	struct peer clients[3], idle;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 2\nmin_pool_size = 1");
	for (int i = 0; i < 3; i++)
		clients[i] = client_in(&hall, 0, "u0", "d0");
	idle = client_in(&hall, 1, "u1", "d0");
	for (int i = 0; i < 3; i++)
		ask(&hall, &clients[i]);
	expect_waiting(&hall, 0, 1);
	ck_assert_uint_eq(hall.server_count, 3); /* an idle one was closed for the second client */
	let_servers_be_old(&hall);
	answer(&hall, 0);
	ck_assert_int_eq(asked_server(&hall), 0);
	expect_waiting(&hall, 0, 0);
	ck_assert_uint_eq(hall.server_count, 3);
	/* One that no client gets is for the minimum. */
	close_server(&hall, 2);
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 4);
	ck_assert_ptr_nonnull(server_in(&hall, 1));
	for (int i = 0; i < 3; i++)
		peer_close(&clients[i]);
	peer_close(&idle);
	hall_close(&hall);
}
END_TEST

/* What one gives up stays with the database: what it is guaranteed is no reason to keep it. */
START_TEST(pools_of_a_database_take_turns_within_its_guarantee)
{
	struct peer clients[2], other;
	char entry[128];
	struct hall hall;

	hall_open(&hall, ONE_SERVER "\nmax_db_connections = 1");
	snprintf(entry, sizeof(entry), "host=%s guaranteed_servers=1", hall.loops[0].host);
	for (int i = 0; i < LOOPS; i++)
		engine_reload(&hall.loops[i], ONE_SERVER "\nmax_db_connections = 1", entry);
	for (int i = 0; i < 2; i++)
		clients[i] = client_in(&hall, 0, "u0", "d0");
	for (int i = 0; i < 2; i++)
		ask(&hall, &clients[i]);
	other = enter(&hall, 1, "u1", "d0");
	expect_waiting(&hall, 0, 1);
	let_servers_be_old(&hall);
	answer(&hall, 0);
	ck_assert(is_in(&hall, 1, &other));
	ck_assert_uint_eq(hall.most_open_count, 1);
	for (int i = 0; i < 2; i++)
		peer_close(&clients[i]);
	peer_close(&other);
	hall_close(&hall);
}
END_TEST

/* Two of a pool wait, and one of them leaves: of two servers that come to rest one is closed. */
START_TEST(who_has_left_needs_no_server)
{
	struct peer busy[2], waiting[2];
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 2");
	for (int i = 0; i < 2; i++)
		waiting[i] = client_in(&hall, 1, "u1", "d0");
	for (int i = 0; i < 2; i++)
		busy[i] = client_in(&hall, 0, "u0", "d0");
	for (int i = 0; i < 2; i++)
		ask(&hall, &busy[i]);
	ck_assert_uint_eq(hall.server_count, 3);
	for (int i = 0; i < 2; i++)
		ask(&hall, &waiting[i]);
	leave(&hall, &waiting[1]);
	for (int i = 1; i < 3; i++)
		ck_assert(peer_say(&hall.servers[i], "CZ"));
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 4);
	ck_assert_uint_eq(hall.open_count, 2);
	for (int i = 0; i < 2; i++)
		peer_close(&busy[i]);
	peer_close(&waiting[0]);
	hall_close(&hall);
}
END_TEST

/* A pool whose only client that waits has left claims nothing, so the busy one keeps its server. */
START_TEST(who_has_left_claims_nothing)
{
	struct peer busy[2], left;
	struct cap *cap;
	struct hall hall;

	hall_open(&hall, ONE_SERVER "\nmax_db_connections = 1");
	for (int i = 0; i < 2; i++)
		busy[i] = client_in(&hall, 0, "u0", "d0");
	for (int i = 0; i < 2; i++)
		ask(&hall, &busy[i]);
	left = engine_client(&hall.loops[1]);
	if (_i)
		peer_start_replication(&left, "u1", "d0", "database");
	else
		peer_start(&left, "u1", "d0");
	play(&hall);
	cap = &common_pool(&hall, 0)->database->cap;
	ck_assert_uint_eq(cap->share.tally->blocked_count, 1);
	peer_close(&left);
	play(&hall);
	ck_assert_uint_eq(cap->share.tally->blocked_count, 0);
	let_servers_be_old(&hall);
	answer(&hall, 0);
	ck_assert_int_eq(asked_server(&hall), 0);
	ck_assert_uint_eq(hall.server_count, 1);
	for (int i = 0; i < 2; i++)
		peer_close(&busy[i]);
	hall_close(&hall);
}
END_TEST

/* Of the first claim for a server of the process; a server that is so young is not given up. */
static uint64_t first_rank(struct hall *hall, const struct pool *from)
{
	struct share *share = &hall->loops[1].pools->cap.share;

	ck_assert(!permit_yields(share, &from->block.claim, 0));
	return heap_first(&share->tally->queue)->key;
}

/* With one server u1 has what it is guaranteed: its other pool, in another loop, is owed none. */
START_TEST(a_claim_for_a_guarantee_ends_with_it_in_all_loops)
{
	struct peer busy[2], first, others[2];
	struct pool *pool;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_server_connections = 2\n"
	                 "[users]\nu1 = guaranteed_servers=1");
	for (int i = 0; i < 2; i++)
		busy[i] = client_in(&hall, 0, "u0", "d0");
	for (int i = 0; i < 2; i++)
		ask(&hall, &busy[i]);
	first = enter(&hall, 1, "u1", "d1");
	others[0] = enter(&hall, 2, "u1", "d2");
	others[1] = enter(&hall, 0, "u1", "d0");
	pool = pool_in(&hall, 0, "u0", "d0");
	ck_assert_uint_eq(first_rank(&hall, pool), 0);
	close_server(&hall, 0);
	turn_all(&hall);
	ck_assert_uint_eq(accept_silently(&hall), 1); /* it logs in for the first */
	ck_assert_uint_gt(first_rank(&hall, pool), 0);
	for (int i = 0; i < 2; i++) {
		peer_close(&busy[i]);
		peer_close(&others[i]);
	}
	peer_close(&first);
	hall_close(&hall);
}
END_TEST

/* Each wake, and each loop, would allow four more. */
START_TEST(an_address_that_says_nothing_yet_gets_four_logins)
{
	static const char *const users[] = { "u0", "u1", "u2" }, *const databases[] = { "d0",
		                                                                        "d1" };
	struct peer clients[6];
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_host_connections = auto");
	for (int i = 0; i < 6; i++)
		clients[i] = enter(&hall, i % LOOPS, users[i % 3], databases[i / 3]);
	ck_assert_uint_eq(hall.server_count, 4);
	share_wake_others(&hall.loops[0].pools->host_table->cap.share);
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 4);
	for (int i = 0; i < 6; i++)
		peer_close(&clients[i]);
	hall_close(&hall);
}
END_TEST

#define RESERVE                                                                   \
	"pool_mode = transaction\ndefault_pool_size = 1\nreserve_pool_size = 1\n" \
	"reserve_pool_timeout = 10"

START_TEST(the_reserve_is_one_for_all_loops)
{
	struct peer clients[LOOPS];
	struct hall hall;

	hall_open(&hall, RESERVE);
	for (int i = 0; i < LOOPS; i++) {
		clients[i] = client_in(&hall, i, "u0", "d0");
		ask(&hall, &clients[i]);
	}
	ck_assert_uint_eq(hall.server_count, 1);
	age(&hall, 1, LONG);
	ck_assert_uint_eq(hall.server_count, 2);
	age(&hall, 2, LONG);
	ck_assert_uint_eq(hall.server_count, 2);
	expect_waiting(&hall, 1, 0);
	expect_waiting(&hall, 2, 1);
	answer(&hall, 0);
	expect_waiting(&hall, 2, 0);
	for (int i = 0; i < LOOPS; i++)
		peer_close(&clients[i]);
	hall_close(&hall);
}
END_TEST

#define MINIMUM "pool_mode = transaction\ndefault_pool_size = 5\nmin_pool_size = 3"

START_TEST(min_pool_size_is_the_sum_over_loops)
{
	struct peer clients[LOOPS];
	struct hall hall;

	hall_open(&hall, MINIMUM);
	for (int i = 0; i < LOOPS; i++)
		clients[i] = client_in(&hall, i, "u0", "d0");
	ck_assert_uint_eq(hall.server_count, 3);
	/* The loops that are left with clients keep it. */
	leave(&hall, &clients[0]);
	for (unsigned int i = 0; i < 3; i++)
		close_server(&hall, i);
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 6);
	ck_assert_uint_eq(hall.most_open_count, 3);
	peer_close(&clients[1]);
	peer_close(&clients[2]);
	hall_close(&hall);
}
END_TEST

START_TEST(a_smaller_pool_size_closes_idle_servers_of_all_loops)
{
	struct peer clients[LOOPS];
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\ndefault_pool_size = 3");
	for (int i = 0; i < LOOPS; i++) {
		clients[i] = client_in(&hall, i, "u0", "d0");
		ask(&hall, &clients[i]);
	}
	ck_assert_uint_eq(hall.server_count, 3);
	answer(&hall, 0);
	answer(&hall, 1);
	hall_reload(&hall, "pool_mode = transaction\ndefault_pool_size = 2");
	play(&hall);
	ck_assert_uint_eq(hall.open_count, 2);
	hall_reload(&hall, "pool_mode = transaction\ndefault_pool_size = 1");
	play(&hall);
	ck_assert_uint_eq(hall.open_count, 1);
	ck_assert_int_ge(hall.servers[2].fd, 0);
	answer(&hall, 2);
	for (int i = 0; i < LOOPS; i++)
		peer_close(&clients[i]);
	hall_close(&hall);
}
END_TEST

/* The slot of an idle server in another loop. */
START_TEST(a_replication_client_gets_a_slot_of_another_loop)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	there = engine_client(&hall.loops[1]);
	peer_start_replication(&there, "u0", "d0", "database");
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 2);
	ck_assert_int_eq(hall.servers[0].fd, -1);
	ck_assert_uint_eq(hall.most_open_count, 1);
	ck_assert_str_eq(peer_hear(&hall.loops[1], &there), "RSKZ");
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* ---- logins ---- */

/* A client that has just sent its startup packet. */
static struct peer newcomer(struct hall *hall, int loop)
{
	struct peer client = engine_client(&hall->loops[loop]);

	peer_start(&client, "u0", "d0");
	turn_all(hall);
	return client;
}

START_TEST(one_loop_logs_in_for_the_welcome_of_all)
{
	struct peer clients[LOOPS];
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction");
	for (int i = 0; i < LOOPS; i++)
		clients[i] = newcomer(&hall, i);
	ck_assert_uint_eq(accept_silently(&hall), 1);
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 1);
	for (int i = 0; i < LOOPS; i++) {
		ck_assert(is_in(&hall, i, &clients[i]));
		peer_close(&clients[i]);
	}
	hall_close(&hall);
}
END_TEST

START_TEST(a_refused_login_is_one_attempt_for_all_loops)
{
	struct peer clients[LOOPS], later;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nserver_login_retry = 3600");
	for (int i = 0; i < LOOPS; i++)
		clients[i] = newcomer(&hall, i);
	ck_assert_uint_eq(accept_silently(&hall), 1);
	peer_say(&hall.servers[0], "?");
	turn_all(&hall);
	ck_assert_uint_eq(accept_silently(&hall), 0);
	for (int i = 0; i < LOOPS; i++) {
		ck_assert_str_eq(peer_hear(&hall.loops[i], &clients[i]), "E.");
		ck_assert_msg(strstr(clients[i].error, "3D000"), "%s", clients[i].error);
	}
	later = newcomer(&hall, 1);
	ck_assert_str_eq(peer_hear(&hall.loops[1], &later), "E.");
	ck_assert_uint_eq(accept_silently(&hall), 0);
	/* RECONNECT in all loops: it is tried again, once. */
	reconnect_all(&hall);
	peer_close(&later);
	later = newcomer(&hall, 2);
	ck_assert_uint_eq(accept_silently(&hall), 1);
	play(&hall);
	ck_assert(is_in(&hall, 2, &later));
	ck_assert(!hosts_are_failing(common_pool(&hall, 0)->site.hosts, NULL));
	for (int i = 0; i < LOOPS; i++)
		peer_close(&clients[i]);
	peer_close(&later);
	hall_close(&hall);
}
END_TEST

START_TEST(all_loops_together_have_as_many_logins_as_one)
{
	struct peer clients[4 * LOOPS];
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction");
	for (int i = 0; i < 4 * LOOPS; i++)
		clients[i] = client_in(&hall, i % LOOPS, "u0", "d0");
	for (int i = 0; i < 4 * LOOPS; i++)
		peer_say(&clients[i], "Q");
	accept_silently(&hall);
	ck_assert_uint_eq(hall.server_count, 1 + POOL_LOGINS_MAX);
	play(&hall);
	for (int i = 0; i < LOOPS; i++)
		expect_waiting(&hall, i, 0);
	/* One more for each that has moved to a loop which was about to log in. */
	ck_assert_uint_le(hall.server_count - moves(&hall), 4 * LOOPS);
	for (int i = 0; i < 4 * LOOPS; i++)
		peer_close(&clients[i]);
	hall_close(&hall);
}
END_TEST

/* ---- what is counted for all loops ---- */

START_TEST(pins_are_counted_together)
{
	struct borrower one = { 0 }, other = { 0 };
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_pinned_servers = 1");
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	one.pool = common_pool(&hall, 0);
	other.pool = common_pool(&hall, 1);
	ck_assert(pool_take_place(&one));
	ck_assert(!pool_take_place(&other));
	pool_drop_place(&one);
	ck_assert(pool_take_place(&other));
	pool_drop_place(&other);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

START_TEST(a_reconnect_forgets_the_welcome_in_all_loops)
{
	struct peer here, there;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	here = client_in(&hall, 0, "u0", "d0");
	reconnect_all(&hall);
	play(&hall);
	ck_assert(!common_pool(&hall, 0)->has_welcome);
	there = client_in(&hall, 1, "u0", "d0");
	ck_assert_uint_eq(hall.server_count, 2);
	ck_assert(common_pool(&hall, 0)->has_welcome);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* ---- permits that come back just then ---- */

#define NOT_TOLD UINT64_MAX

static void *turn_second(void *arg)
{
	engine_turn(&((struct hall *)arg)->loops[1]);
	return NULL;
}

/*
 * Plays the turn of the second loop in a thread, up to where it has found no permit and is about to
 * say that it wants a server. Then the permit comes back, and nobody wants it yet.
 */
static void give_meanwhile(struct hall *hall, struct share *share, struct tally *tally)
{
	struct broker *broker = share->member->broker;
	pthread_t thread;

	pthread_mutex_lock(&broker->lock);
	atomic_store(&common_pool(hall, 1)->share.demand, NOT_TOLD);
	ck_assert_int_eq(pthread_create(&thread, NULL, turn_second, hall), 0);
	while (atomic_load(&common_pool(hall, 1)->share.demand) == NOT_TOLD)
		sched_yield(); /* it tells its load before it takes the lock */
	ck_assert_uint_eq(atomic_load(&tally->want_count), 0);
	atomic_fetch_sub(&tally->server_count, 1);
	pthread_mutex_unlock(&broker->lock);
	pthread_join(thread, NULL);
}

START_TEST(a_permit_comes_back_before_the_want_is_known)
{
	struct peer here, there;
	struct share *share;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\ndefault_pool_size = 2");
	here = client_in(&hall, 0, "u0", "d0");
	there = client_in(&hall, 1, "u0", "d0");
	ask(&hall, &here);
	share = &common_pool(&hall, 0)->share;
	atomic_fetch_add(&share->tally->server_count, 1); /* a server that is about to be closed */
	ck_assert(peer_say(&there, "Q"));
	give_meanwhile(&hall, share, share->tally);
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 2);
	expect_waiting(&hall, 1, 0);
	peer_close(&here);
	peer_close(&there);
	hall_close(&hall);
}
END_TEST

/* The first that waits is woken, but has left. */
START_TEST(a_permit_that_the_first_does_not_need_is_for_the_next)
{
	struct peer busy, first, second;
	struct hall hall;

	hall_open(&hall, ONE_SERVER);
	busy = client_in(&hall, 0, "u0", "d0");
	second = client_in(&hall, 1, "u0", "d0");
	first = client_in(&hall, 2, "u0", "d0");
	ask(&hall, &busy);
	ask(&hall, &first);
	ask(&hall, &second);
	close_server(&hall, 0);
	peer_close(&first);
	play(&hall);
	ck_assert_uint_eq(hall.server_count, 2);
	expect_waiting(&hall, 1, 0);
	peer_close(&busy);
	peer_close(&second);
	hall_close(&hall);
}
END_TEST

/* One loop is woken for both, and has taken one of the permits before it hears that. */
START_TEST(two_permits_are_for_two_blocked_loops)
{
	struct peer busy[2], first, second;
	struct pool *pool;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 2");
	for (int i = 0; i < 2; i++)
		busy[i] = client_in(&hall, 0, "u0", "d0");
	for (int i = 0; i < 2; i++)
		ask(&hall, &busy[i]);
	ck_assert_uint_eq(hall.server_count, 2);
	first = enter(&hall, 2, "u2", "d0");
	second = enter(&hall, 1, "u1", "d0");
	close_server(&hall, 0);
	close_server(&hall, 1);
	while (server_in(&hall, 0))
		engine_turn(&hall.loops[0]);
	pool = pool_in(&hall, 2, "u2", "d0");
	pool_serve(&pool->serve_task); /* an event of its own */
	ck_assert_uint_eq(accept_silently(&hall), 2);
	play(&hall);
	ck_assert(is_in(&hall, 2, &first));
	ck_assert(is_in(&hall, 1, &second));
	for (int i = 0; i < 2; i++)
		peer_close(&busy[i]);
	peer_close(&first);
	peer_close(&second);
	hall_close(&hall);
}
END_TEST

/* Each would wake the other without end. */
START_TEST(two_blocked_loops_leave_each_other_alone)
{
	struct peer busy, first, second;
	struct hall hall;

	hall_open(&hall, "pool_mode = transaction\nmax_db_connections = 1");
	busy = client_in(&hall, 0, "u0", "d0");
	ask(&hall, &busy);
	first = enter(&hall, 2, "u2", "d0");
	second = enter(&hall, 1, "u1", "d0");
	turn_all(&hall);
	turn_all(&hall);
	for (int i = 0; i < LOOPS; i++)
		ck_assert(!hall.loops[i].pools->member.letter.is_posted);
	peer_close(&busy);
	peer_close(&first);
	peer_close(&second);
	hall_close(&hall);
}
END_TEST

/*
 * ---- nobody waits for a server that is idle ----
 *
 * Clients of two users come, ask and leave, and servers answer and end, in any order. Whenever all
 * has come to rest by itself, nobody waits for what is there.
 */

#define CROWD 9
#define CROWD_STEPS 150

struct crowd {
	struct hall hall;
	struct peer clients[CROWD];
	bool asks[CROWD];
	bool is_busy[SERVERS_MAX];
	unsigned int seed;
};

static unsigned int draw(struct crowd *crowd, unsigned int below)
{
	return (unsigned int)rand_r(&crowd->seed) % below;
}

static const char *user_of(int client) { return client % 2 ? "u1" : "u0"; }

static void crowd_enter(struct crowd *crowd, int client)
{
	crowd->clients[client] = engine_client(&crowd->hall.loops[client % LOOPS]);
	crowd->asks[client] = true; /* until it is in */
	peer_start(&crowd->clients[client], user_of(client), "d0");
}

static void end_server(struct crowd *crowd, unsigned int number)
{
	close_server(&crowd->hall, number);
	crowd->is_busy[number] = false;
}

/* New ones take the places of those that have ended. */
static void accept_in_places(struct hall *hall)
{
	struct peer server;
	unsigned int place;

	while ((server = engine_server(&hall->loops[0])).fd >= 0) {
		for (place = 0; place < hall->server_count; place++) {
			if (hall->servers[place].fd < 0)
				break;
		}
		ck_assert_uint_lt(place, SERVERS_MAX);
		hall->server_count += place == hall->server_count;
		hall->servers[place] = server;
		hall->open_count++;
	}
}

static bool hear_server(struct crowd *crowd, unsigned int number)
{
	struct peer *server = &crowd->hall.servers[number];
	const char *heard = server->fd < 0 ? "" : peer_hear(&crowd->hall.loops[0], server);

	if (strchr(heard, '^'))
		peer_say(server, "RSKZ");
	crowd->is_busy[number] |= strchr(heard, 'Q') != NULL;
	if (strchr(heard, '.'))
		end_server(crowd, number);
	return *heard;
}

static bool hear_client(struct crowd *crowd, int number)
{
	struct peer *client = &crowd->clients[number];
	const char *heard = peer_hear(&crowd->hall.loops[number % LOOPS], client);

	if (strchr(heard, 'Z'))
		crowd->asks[number] = false;
	if (strchr(heard, '.')) {
		peer_close(client);
		crowd_enter(crowd, number);
	}
	return *heard;
}

/* Until nothing has happened for a few times as long as a server stays in its loop. */
static void settle(struct crowd *crowd)
{
	struct hall *hall = &crowd->hall;

	for (int still = 0; still < 4; still++) {
		bool has_moved = false;

		turn_all(hall);
		accept_in_places(hall);
		for (unsigned int i = 0; i < hall->server_count; i++)
			has_moved |= hear_server(crowd, i);
		for (int i = 0; i < CROWD; i++)
			has_moved |= hear_client(crowd, i);
		if (has_moved)
			still = -1;
		else
			usleep(1000);
	}
}

static unsigned int count_in(struct hall *hall, const char *user, bool waiting)
{
	unsigned int count = 0;

	for (int i = 0; i < LOOPS; i++) {
		const struct pool *pool = pools_find_pool(hall->loops[i].pools, "d0", user);

		if (pool)
			count += waiting ? pool->queues[BORROWER_WAITING].count
			                 : pool->server_counts[SERVER_IDLE];
	}
	return count;
}

static void check_crowd(struct hall *hall)
{
	for (int user = 0; user < 2; user++) {
		const struct share *cap = &common_pool(hall, 0)->database->cap.share;
		const struct pool *pool = pool_in(hall, user, user_of(user), "d0");
		const char *other = user_of(!user);

		if (!count_in(hall, user_of(user), true))
			continue;
		ck_assert_uint_eq(count_in(hall, user_of(user), false), 0);
		if (share_servers(&pool->share) >= (unsigned int)pool->limits.size)
			continue;
		ck_assert_uint_ge(share_servers(cap), share_most(cap));
		ck_assert(!count_in(hall, other, false) || count_in(hall, other, true));
	}
}

static void step(struct crowd *crowd)
{
	struct hall *hall = &crowd->hall;
	unsigned int server = draw(crowd, hall->server_count + 1);
	int client = (int)draw(crowd, CROWD);

	if (draw(crowd, 3) == 0 && !crowd->asks[client]) {
		crowd->asks[client] = peer_say(&crowd->clients[client], "Q");
	} else if (draw(crowd, 3) && server < hall->server_count && crowd->is_busy[server]) {
		crowd->is_busy[server] = false;
		peer_say(&hall->servers[server], "CZ");
	} else if (draw(crowd, 20) == 0) {
		peer_close(&crowd->clients[client]);
		crowd_enter(crowd, client);
	} else if (draw(crowd, 20) == 0 && server < hall->server_count &&
	           hall->servers[server].fd >= 0) {
		end_server(crowd, server);
	}
}

START_TEST(nobody_waits_for_a_server_that_is_idle)
{
	struct crowd crowd = { .seed = (unsigned int)_i };

	hall_open(&crowd.hall, "pool_mode = transaction\ndefault_pool_size = 3\n"
	                       "max_db_connections = 4\nserver_login_retry = 0");
	for (int i = 0; i < CROWD; i++)
		crowd_enter(&crowd, i);
	settle(&crowd);
	for (int i = 0; i < CROWD_STEPS; i++) {
		for (unsigned int more = draw(&crowd, 8); more; more--)
			step(&crowd);
		settle(&crowd);
		check_crowd(&crowd.hall);
	}
	for (int i = 0; i < CROWD; i++)
		peer_close(&crowd.clients[i]);
	hall_close(&crowd.hall);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_trade");
	TCase *tests = tcase_create("pool_trade");

	suite_add_tcase(suite, tests);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, an_idle_server_goes_where_a_client_waits);
	tcase_add_test(tests, a_server_that_has_just_come_stays_for_a_while);
	tcase_add_test(tests, a_server_that_was_just_used_stays_for_a_while);
	tcase_add_test(tests, a_server_with_new_values_of_sequences_goes_last);
	tcase_add_test(tests, a_client_waits_a_while_for_the_servers_of_its_own_loop);
	tcase_add_loop_test(tests, own_clients_come_first_unless_others_have_waited_far_longer, 0,
	                    COUNT_OF(turns));
	tcase_add_test(tests, the_loop_that_has_waited_longest_gets_it);
	tcase_add_test(tests, a_client_that_leaves_wants_no_server);
	tcase_add_test(tests, an_idle_server_that_cannot_be_used_any_more_is_closed_for_others);
	tcase_add_test(tests, a_used_server_moves);
	tcase_add_loop_test(tests, a_promise_that_cannot_be_kept_costs_nobody_a_server, 0,
	                    COUNT_OF(events));
	tcase_add_test(tests, a_server_for_a_client_that_has_left_goes_back);
	tcase_add_loop_test(tests, a_limit_closes_an_idle_server_of_another_loop, 0,
	                    COUNT_OF(limits));
	tcase_add_test(tests, one_idle_server_is_closed_for_one_that_waits);
	tcase_add_test(tests, an_idle_server_that_nobody_wants_any_more_gives_way);
	tcase_add_test(tests, an_idle_server_of_the_pool_moves_instead);
	tcase_add_test(tests, blocked_loops_are_served_in_order);
	tcase_add_test(tests, min_pool_size_takes_no_server_for_which_clients_wait);
	tcase_add_test(tests, pools_of_a_database_take_turns_within_its_guarantee);
	tcase_add_test(tests, who_has_left_needs_no_server);
	tcase_add_loop_test(tests, who_has_left_claims_nothing, 0, 2);
	tcase_add_test(tests, a_claim_for_a_guarantee_ends_with_it_in_all_loops);
	tcase_add_test(tests, an_address_that_says_nothing_yet_gets_four_logins);
	tcase_add_test(tests, the_reserve_is_one_for_all_loops);
	tcase_add_test(tests, min_pool_size_is_the_sum_over_loops);
	tcase_add_test(tests, a_smaller_pool_size_closes_idle_servers_of_all_loops);
	tcase_add_test(tests, a_replication_client_gets_a_slot_of_another_loop);
	tcase_add_test(tests, one_loop_logs_in_for_the_welcome_of_all);
	tcase_add_test(tests, a_refused_login_is_one_attempt_for_all_loops);
	tcase_add_test(tests, all_loops_together_have_as_many_logins_as_one);
	tcase_add_test(tests, pins_are_counted_together);
	tcase_add_test(tests, a_reconnect_forgets_the_welcome_in_all_loops);
	tcase_add_test(tests, a_permit_comes_back_before_the_want_is_known);
	tcase_add_test(tests, a_permit_that_the_first_does_not_need_is_for_the_next);
	tcase_add_test(tests, two_permits_are_for_two_blocked_loops);
	tcase_add_test(tests, two_blocked_loops_leave_each_other_alone);
	tcase_add_loop_test(tests, nobody_waits_for_a_server_that_is_idle, 0, 4);
	return unit_run(suite);
}
