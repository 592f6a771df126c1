/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_trade.c: two engines as two loops of one process. A server moves from one to the
 * other, and PostgreSQL notices nothing.
 */
#include "../../../src/pool/handover_priv.h"
#include "../../../src/pool/pool_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../lib/engine.h"

#include "pgweir/pgwire/message.h"

#include "../unit.h"
#include "../../../src/pool/server/server_priv.h"

#define SETTINGS "pool_mode = transaction\ndefault_pool_size = 1"

struct stage {
	struct engine here, there;
	struct peer client, other; /* of one each */
	struct peer server;
};

/* A server that has worked for a client of one engine; the other engine has nothing. */
static void stage_open(struct stage *stage, const char *settings)
{
	char entry[128];

	*stage = (struct stage){ 0 };
	engine_open(&stage->here, settings, "");
	snprintf(entry, sizeof(entry), "host=%s", stage->here.host);
	engine_open_beside(&stage->there, &stage->here, settings, entry);
	stage->client = engine_client(&stage->here);
	peer_start(&stage->client, "u0", "d0");
	engine_turn(&stage->here);
	stage->server = engine_server(&stage->here);
	peer_say(&stage->server, "RSKZ");
	ck_assert_str_eq(peer_hear(&stage->here, &stage->client), "RSKZ");
	ck_assert_str_eq(peer_hear(&stage->here, &stage->server), "^");
	stage->other.fd = -1;
}

static void stage_close(struct stage *stage)
{
	peer_close(&stage->client);
	peer_close(&stage->other);
	peer_close(&stage->server);
	engine_turn(&stage->here);
	engine_turn(&stage->there);
	engine_close(&stage->there);
	engine_close(&stage->here);
}

static struct server *server_of(struct engine *engine)
{
	return TAILQ_FIRST(&engine->pools->servers);
}

static struct server_parcel *pack(struct engine *engine)
{
	struct server_parcel *parcel = server_pack(server_of(engine));

	ck_assert_ptr_nonnull(parcel);
	engine_turn(engine);
	ck_assert_ptr_null(server_of(engine));
	ck_assert_uint_eq(engine->pools->server_count, 0);
	return parcel;
}

/* false: it was closed. */
static bool move(struct engine *from, struct engine *to)
{
	struct server_parcel *parcel = pack(from);
	const struct server *server = server_unpack(to->pools, &parcel);

	ck_assert_ptr_null(parcel);
	engine_turn(to);
	return server != NULL;
}

static void open_other(struct stage *stage)
{
	stage->other = engine_client(&stage->there);
	peer_start(&stage->other, "u0", "d0");
	ck_assert_str_eq(peer_hear(&stage->there, &stage->other), "RSKZ");
}

/* One query of the client, at the engine where the server is. */
static void ask(struct engine *engine, struct peer *client, struct peer *server)
{
	peer_say(client, "Q");
	ck_assert_str_eq(peer_hear(engine, server), "Q");
	peer_say(server, "CZ");
	ck_assert_str_eq(peer_hear(engine, client), "CZ");
}

START_TEST(a_server_works_for_clients_of_another_loop)
{
	struct stage stage;
	struct server before, *after;

	stage_open(&stage, SETTINGS);
	ask(&stage.here, &stage.client, &stage.server);
	before = *server_of(&stage.here);
	ck_assert(move(&stage.here, &stage.there));
	after = server_of(&stage.there);
	ck_assert_uint_eq(after->id, before.id);
	ck_assert_int_eq(after->state, SERVER_IDLE);
	ck_assert_int_eq(after->connected_at, before.connected_at);
	ck_assert_int_eq(after->used_at, before.used_at);
	ck_assert_uint_eq(after->key.size, before.key.size);
	ck_assert_mem_eq(after->key.bytes, before.key.bytes, before.key.size);
	ck_assert(!after->close_reason);
	ck_assert(timer_is_set(&after->timer) && timer_is_set(&after->life));
	/* The client is served without a login: the pool has the welcome. */
	open_other(&stage);
	ask(&stage.there, &stage.other, &stage.server);
	ck_assert_uint_eq(stage.there.pools->server_count, 1);
	ck_assert_str_eq(peer_hear(&stage.here, &stage.server), "");
	/* And back. */
	ck_assert(move(&stage.there, &stage.here));
	ask(&stage.here, &stage.client, &stage.server);
	stage_close(&stage);
}
END_TEST

/* The pool has a waiting client, and no permit to open a server. */
START_TEST(a_waiting_client_is_served)
{
	struct stage stage;
	struct server_parcel *parcel;
	struct pool *pool;

	stage_open(&stage, SETTINGS);
	ck_assert(move(&stage.here, &stage.there));
	open_other(&stage);
	ck_assert(move(&stage.there, &stage.here));
	parcel = pack(&stage.here);
	pool = pools_find_pool(stage.there.pools, "d0", "u0");
	pools_pause(stage.there.pools, NULL, "test");
	peer_say(&stage.other, "Q");
	engine_turn(&stage.there);
	ck_assert_uint_eq(pool->queues[BORROWER_WAITING].count, 1);
	stage.there.pools->is_paused = false;
	stage.there.pools->changed_at = 0;
	ck_assert_ptr_nonnull(server_unpack(stage.there.pools, &parcel));
	ck_assert_str_eq(peer_hear(&stage.there, &stage.server), "Q");
	ck_assert_uint_eq(pool->queues[BORROWER_WAITING].count, 0);
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.there, &stage.other), "CZ");
	stage_close(&stage);
}
END_TEST

static void prepare(struct peer *client, const char *name, const char *text)
{
	struct buf out = { 0 };
	size_t at = message_begin(&out, 'P');

	buf_add_cstr(&out, name);
	buf_add_cstr(&out, text);
	buf_add_be16(&out, 0);
	message_end(&out, at);
	message_end(&out, message_begin(&out, 'S'));
	peer_say_bytes(client, buf_bytes(&out));
	buf_free(&out);
}

static struct statement *find_text(struct engine *engine, const char *text)
{
	struct statement *statement, *next;

	HASH_ITER (hh, engine->pools->statements.table, statement, next) {
		if (strcmp(statement_text(statement).at, text) == 0)
			return statement;
	}
	ck_abort_msg("no statement \"%s\"", text);
	return NULL;
}

#define STATEMENTS 30

/* What a client of one loop has prepared there, a client of another does not prepare again. */
START_TEST(statements_come_along)
{
	struct stage stage;
	char name[16], text[32];
	const struct server *server;

	stage_open(&stage, SETTINGS "\nmax_prepared_statements = 100");
	for (int i = 0; i < STATEMENTS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		snprintf(text, sizeof(text), "select %d", i);
		prepare(&stage.client, name, text);
		ck_assert_str_eq(peer_hear(&stage.here, &stage.server), "PS");
		peer_say(&stage.server, "1Z");
		ck_assert_str_eq(peer_hear(&stage.here, &stage.client), "1Z");
	}
	find_text(&stage.here, "select 7")->is_typed = true;
	ck_assert(move(&stage.here, &stage.there));
	server = server_of(&stage.there);
	ck_assert_uint_eq(server_statements_count(&server->session.statements), STATEMENTS);
	open_other(&stage);
	for (int i = 0; i <= STATEMENTS; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		snprintf(text, sizeof(text), "select %d", i);
		prepare(&stage.other, name, text);
		ck_assert_str_eq(peer_hear(&stage.there, &stage.server),
		                 i < STATEMENTS ? "CPS" : "PS"); /* known, but not for how long */
		peer_say(&stage.server, i < STATEMENTS ? "31Z" : "1Z");
		ck_assert_str_eq(peer_hear(&stage.there, &stage.other), "1Z");
	}
	ck_assert_uint_eq(HASH_COUNT(stage.there.pools->statements.table), STATEMENTS + 1);
	ck_assert(find_text(&stage.there, "select 7")->is_typed);
	ck_assert(!find_text(&stage.there, "select 8")->is_typed);
	/* The first loop has the texts of its client only, and finds them there again. */
	ck_assert(move(&stage.there, &stage.here));
	ck_assert_uint_eq(server_statements_count(&server_of(&stage.here)->session.statements),
	                  STATEMENTS + 1);
	ck_assert_uint_eq(HASH_COUNT(stage.here.pools->statements.table), STATEMENTS + 1);
	stage_close(&stage);
}
END_TEST

START_TEST(parameters_come_along)
{
	static const struct bytes set = { "application_name\0mine\0", 22 };
	struct stage stage;
	struct server *server;

	stage_open(&stage, SETTINGS);
	server = server_of(&stage.here);
	params_add_text(stage.here.params, &server->session.params, set);
	server->session.has_defaults = true;
	params_add_text(stage.here.params, &server->session.unreported, set);
	server_hold(server, HELD_UNKNOWN | HELD_REST);
	ck_assert(move(&stage.here, &stage.there));
	server = server_of(&stage.there);
	ck_assert_str_eq(params_find(server->session.params, "application_name"), "mine");
	ck_assert_str_eq(params_find(server->session.unreported, "application_name"), "mine");
	ck_assert(server->session.has_defaults);
	ck_assert(params_find(server->session.baseline, "server_version") != NULL ||
	          params_count(server->session.baseline) > 0);
	ck_assert_uint_eq(server->session.held, HELD_FOREIGN | HELD_REST);
	stage_close(&stage);
}
END_TEST

/* Makes the server such that it stays. NULL: there is no more such state. */
static const char *unsettle(struct server *server, size_t number)
{
	switch (number) {
	case 0:
		server->place.is_written = true;
		return "it was written to the hand-over";
	case 1:
		server->is_listening = true;
		return "it listens for clients";
	case 2:
		server->wire.has_flooded = true;
		return "it reports too much";
	case 3:
		server_hold(server, HELD_STATE);
		return "it has state of a client";
	case 4:
		server->wire.frame_left = 1;
		return "it was within a frame";
	case 5:
		server->wire.farewell = FAREWELL_FATAL;
		return "it has sent a FATAL error";
	default:
		return NULL;
	}
}

static void settle_again(struct server *server)
{
	server->place.is_written = server->is_listening = server->wire.has_flooded = false;
	server_held_after(server, HELD_SETTLED);
	server->wire.frame_left = 0;
	server->wire.farewell = FAREWELL_NONE;
}

START_TEST(who_is_not_at_rest_stays)
{
	struct stage stage;
	struct server *server;
	const char *says;

	stage_open(&stage, SETTINGS);
	server = server_of(&stage.here);
	server->lease.cancel_count = 1;
	ck_assert_ptr_null(server_pack(server));
	server->lease.cancel_count = 0;
	for (size_t i = 0; (says = unsettle(server, i)); i++) {
		ck_assert_msg(!server_pack(server), "%s", says);
		settle_again(server);
	}
	server_need_close(server, CLOSE_RECONNECT);
	ck_assert_ptr_null(server_pack(server));
	server_need_close(server, CLOSE_NONE);
	server->wire.stream.error = 5;
	ck_assert_ptr_null(server_pack(server));
	server->wire.stream.error = 0;
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.here, &stage.server), "Q");
	ck_assert_ptr_null(server_pack(server));
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.here, &stage.client), "CZ");
	ck_assert(move(&stage.here, &stage.there));
	stage_close(&stage);
}
END_TEST

static void pause_there(struct stage *stage)
{
	pools_pause(stage->there.pools, NULL, "test");
	stage->there.pools->changed_at = 0;
}

static void reconnect_there(struct stage *stage) { pools_reconnect(stage->there.pools, NULL); }

static void reload_there(struct stage *stage)
{
	char entry[128];

	snprintf(entry, sizeof(entry), "host=%s", stage->here.host);
	engine_reload(&stage->there, SETTINGS, entry);
}

static void change_host(struct stage *stage)
{
	engine_reload(&stage->there, SETTINGS, "host=/nowhere");
	stage->there.pools->changed_at = 0;
}

static void end_there(struct stage *stage) { stage->there.pools->is_closing = true; }

static const struct {
	const char *says;
	void (*happens)(struct stage *stage);
} events[] = {
	{ "paused", pause_there },
	{ "RECONNECT since it was packed", reconnect_there },
	{ "RELOAD since it was packed", reload_there },
	{ "another host", change_host },
	{ "the loop ends", end_there },
};

/* It is closed as usual, with Terminate. */
START_TEST(what_cannot_be_used_is_closed)
{
	struct stage stage;
	struct server_parcel *parcel;

	stage_open(&stage, SETTINGS);
	parcel = pack(&stage.here);
	events[_i].happens(&stage);
	ck_assert_msg(!server_unpack(stage.there.pools, &parcel), "%s", events[_i].says);
	ck_assert_ptr_null(parcel);
	engine_turn(&stage.there);
	ck_assert_uint_eq(stage.there.pools->server_count, 0);
	ck_assert_str_eq(peer_hear(&stage.there, &stage.server), "X.");
	stage.there.pools->is_closing = false;
	stage_close(&stage);
}
END_TEST

START_TEST(a_parcel_ends_with_terminate)
{
	struct stage stage;
	struct server_parcel *parcel;

	stage_open(&stage, SETTINGS);
	parcel = pack(&stage.here);
	server_parcel_end(&parcel);
	ck_assert_ptr_null(parcel);
	ck_assert_str_eq(peer_hear(&stage.here, &stage.server), "X.");
	stage_close(&stage);
}
END_TEST

/* A SUSPEND keeps it: nothing is read, and it works afterwards. */
START_TEST(a_suspended_loop_keeps_it)
{
	struct stage stage;
	struct server_parcel *parcel;

	stage_open(&stage, SETTINGS);
	parcel = pack(&stage.here);
	pools_suspend(stage.there.pools, "test");
	ck_assert_ptr_nonnull(server_unpack(stage.there.pools, &parcel));
	ck_assert(pools_quiesce(stage.there.pools));
	ck_assert(stream_is_halted(&server_of(&stage.there)->wire.stream));
	pools_go_on(stage.there.pools);
	open_other(&stage);
	ask(&stage.there, &stage.other, &stage.server);
	stage_close(&stage);
}
END_TEST

/* ---- two threads ---- */

#define ROUNDS 300

struct belt {
	pthread_mutex_t lock;
	pthread_cond_t has_come;
	struct server_parcel *parcel;
};

struct side {
	struct engine *engine;
	struct belt *in, *out;
};

static struct server_parcel *take(struct belt *belt)
{
	struct server_parcel *parcel;

	pthread_mutex_lock(&belt->lock);
	while (!belt->parcel)
		pthread_cond_wait(&belt->has_come, &belt->lock);
	parcel = belt->parcel;
	belt->parcel = NULL;
	pthread_mutex_unlock(&belt->lock);
	return parcel;
}

static void put(struct belt *belt, struct server_parcel *parcel)
{
	pthread_mutex_lock(&belt->lock);
	belt->parcel = parcel;
	pthread_cond_signal(&belt->has_come);
	pthread_mutex_unlock(&belt->lock);
}

/* The loop goes on while the server is at the other one. */
static void *play(void *arg)
{
	const struct side *side = arg;
	struct server_parcel *parcel;

	for (int i = 0; i < ROUNDS; i++) {
		parcel = take(side->in);
		unit_expect(server_unpack(side->engine->pools, &parcel));
		engine_turn(side->engine);
		parcel = server_pack(server_of(side->engine));
		unit_expect(parcel);
		put(side->out, parcel);
		engine_turn(side->engine);
	}
	return NULL;
}

START_TEST(it_moves_between_threads)
{
	struct belt belts[2] = {
		{ .lock = PTHREAD_MUTEX_INITIALIZER, .has_come = PTHREAD_COND_INITIALIZER },
		{ .lock = PTHREAD_MUTEX_INITIALIZER, .has_come = PTHREAD_COND_INITIALIZER }
	};
	struct side sides[2];
	pthread_t threads[2];
	struct stage stage;

	stage_open(&stage, SETTINGS "\nmax_prepared_statements = 100");
	prepare(&stage.client, "s", "select 1");
	ck_assert_str_eq(peer_hear(&stage.here, &stage.server), "PS");
	peer_say(&stage.server, "1Z");
	ck_assert_str_eq(peer_hear(&stage.here, &stage.client), "1Z");
	sides[0] = (struct side){ &stage.there, &belts[0], &belts[1] };
	sides[1] = (struct side){ &stage.here, &belts[1], &belts[0] };
	put(&belts[0], pack(&stage.here));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, play, &sides[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_ptr_nonnull(server_unpack(stage.here.pools, &belts[0].parcel));
	ck_assert_uint_eq(server_statements_count(&server_of(&stage.here)->session.statements), 1);
	ask(&stage.here, &stage.client, &stage.server);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server_parcel");
	TCase *tests = tcase_create("server_parcel");

	suite_add_tcase(suite, tests);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_server_works_for_clients_of_another_loop);
	tcase_add_test(tests, a_waiting_client_is_served);
	tcase_add_test(tests, statements_come_along);
	tcase_add_test(tests, parameters_come_along);
	tcase_add_test(tests, who_is_not_at_rest_stays);
	tcase_add_loop_test(tests, what_cannot_be_used_is_closed, 0, COUNT_OF(events));
	tcase_add_test(tests, a_parcel_ends_with_terminate);
	tcase_add_test(tests, a_suspended_loop_keeps_it);
	tcase_add_test(tests, it_moves_between_threads);
	return unit_run(suite);
}
