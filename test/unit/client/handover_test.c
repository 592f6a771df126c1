/* SPDX-License-Identifier: ISC */
/*
 * client/clients_handover.c and pool/handover*.c: two engines in one process; the second takes
 * over from the first, and the peers notice nothing.
 */
#include "../../lib/engine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/client/handover.h"
#include "pgweir/pgwire/message.h"

#include "../unit.h"

#define SETTINGS "pool_mode = transaction\ndefault_pool_size = 1"
#define MESSAGES_MAX 64
#define LIMIT (10 * USEC_PER_SEC)

struct stage {
	struct engine old, fresh;
	struct pools_arrival arrival;
	struct channel_message messages[MESSAGES_MAX];
	size_t count;
	struct peer client, server, other;
};

/* One client with its server, and another that is idle. */
static void stage_open(struct stage *stage)
{
	char entry[128];

	*stage = (struct stage){ 0 };
	engine_open(&stage->old, SETTINGS, "");
	snprintf(entry, sizeof(entry), "host=%s", stage->old.host);
	engine_open(&stage->fresh, SETTINGS, entry);
	stage->arrival.first = stage->fresh.pools;
	stage->client = engine_client(&stage->old);
	peer_start(&stage->client, "u0", "d0");
	engine_turn(&stage->old);
	stage->server = engine_server(&stage->old);
	peer_say(&stage->server, "RSKZ");
	ck_assert_str_eq(peer_hear(&stage->old, &stage->client), "RSKZ");
	ck_assert_str_eq(peer_hear(&stage->old, &stage->server), "^");
	stage->other = engine_client(&stage->old);
	peer_start(&stage->other, "u0", "d0");
	ck_assert_str_eq(peer_hear(&stage->old, &stage->other), "RSKZ");
}

static void stage_close(struct stage *stage)
{
	while (stage->count)
		channel_message_done(&stage->messages[--stage->count]);
	peer_close(&stage->client);
	peer_close(&stage->other);
	peer_close(&stage->server);
	engine_turn(&stage->old);
	engine_turn(&stage->fresh);
	pools_arrival_done(&stage->arrival);
	engine_close(&stage->old);
	engine_close(&stage->fresh);
}

/* Everything that can be handed over is written, and read on the other side. */
static void write_all(struct stage *stage)
{
	struct channel out = { .deadline = clock_now() + LIMIT }, in = out;
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	out.fd = fds[0];
	in.fd = fds[1];
	ck_assert(pools_write(stage->old.pools, &out, true));
	ck_assert(handover_write_idle_servers(stage->old.pools, &out, true));
	ck_assert(clients_write(stage->old.clients, &out));
	ck_assert(channel_send(&out, HANDOVER_END, bytes_of("", 0), -1));
	do {
		ck_assert_uint_lt(stage->count, MESSAGES_MAX);
		ck_assert(channel_receive(&in, &stage->messages[stage->count]));
	} while (stage->messages[stage->count++].kind != HANDOVER_END);
	channel_message_done(&stage->messages[--stage->count]);
	close(fds[0]);
	close(fds[1]);
}

static bool judge(const struct stage *stage, char kind, struct bytes body)
{
	struct err err;

	return kind == HANDOVER_CLIENT ? client_judge(stage->fresh.clients, body, &err)
	                               : pools_judge(stage->fresh.pools, kind, body, &err);
}

static void let_go(struct stage *stage)
{
	pools_let_go(stage->old.pools);
	clients_let_go(stage->old.clients);
	engine_turn(&stage->old);
	engine_turn(&stage->old);
}

static void take_all(struct stage *stage)
{
	for (size_t i = 0; i < stage->count; i++) {
		struct channel_message *message = &stage->messages[i];
		struct bytes body = buf_bytes(&message->body);

		ck_assert_msg(judge(stage, message->kind, body), "a record '%c'", message->kind);
		if (message->kind == HANDOVER_CLIENT)
			client_take(stage->fresh.clients, &stage->arrival, body, &message->fd);
		else
			pools_take(stage->fresh.pools, &stage->arrival, message->kind, body,
			           &message->fd);
	}
	pools_take_end(stage->fresh.pools, &stage->arrival);
	clients_start(stage->fresh.clients);
}

static void move(struct stage *stage)
{
	write_all(stage);
	let_go(stage);
	take_all(stage);
}

START_TEST(an_open_transaction_goes_on)
{
	struct stage stage;

	stage_open(&stage);
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "Q");
	peer_say(&stage.server, "Cz");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "CZ");
	move(&stage);
	ck_assert_uint_eq(stage.old.clients->count, 0);
	ck_assert_uint_eq(stage.old.pools->server_count, 0);
	ck_assert_uint_eq(stage.fresh.clients->count, 2);
	ck_assert_uint_eq(stage.fresh.pools->server_count, 1);
	/* No peer got any message about it. */
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.client), "");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.server), "");
	/* The other client must wait for the only server. */
	peer_say(&stage.other, "Q");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.server), "");
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.server), "Q");
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.client), "CZ");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.server), "Q");
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.other), "CZ");
	stage_close(&stage);
}
END_TEST

START_TEST(who_waits_is_served_later)
{
	struct stage stage;

	stage_open(&stage);
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "Q");
	peer_say(&stage.server, "Cz");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "CZ");
	peer_say(&stage.other, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.other), "");
	move(&stage);
	ck_assert_uint_eq(stage.fresh.clients->state_counts[CLIENT_WAITING], 1);
	peer_say(&stage.client, "Q");
	peer_hear(&stage.fresh, &stage.server);
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.client), "CZ");
	ck_assert_str_eq(peer_hear(&stage.fresh, &stage.server), "Q");
	stage_close(&stage);
}
END_TEST

/* Its server owes a response: both stay until it has arrived. */
START_TEST(who_is_at_work_stays)
{
	struct stage stage;

	stage_open(&stage);
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "Q");
	move(&stage);
	ck_assert_uint_eq(stage.old.clients->count, 1);
	ck_assert_uint_eq(stage.fresh.clients->count, 1);
	clients_look(stage.old.clients);
	/* It is not read any more, so that it becomes idle. */
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "");
	ck_assert(!clients_look(stage.old.clients));
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "CZ");
	ck_assert(clients_look(stage.old.clients));
	stage_close(&stage);
}
END_TEST

START_TEST(who_must_say_more_is_read_on)
{
	struct stage stage;

	stage_open(&stage);
	peer_say(&stage.client, "PB");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "PB");
	clients_look(stage.old.clients);
	peer_say(&stage.client, "ES");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "ES");
	peer_say(&stage.server, "12CZ");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "12CZ");
	clients_go_on(stage.old.clients);
	stage_close(&stage);
}
END_TEST

/* Written, but not handed over: nothing has changed. */
START_TEST(it_may_stay_after_all)
{
	struct stage stage;

	stage_open(&stage);
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "Q");
	peer_say(&stage.server, "Cz");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "CZ");
	write_all(&stage);
	while (stage.count)
		channel_message_done(&stage.messages[--stage.count]);
	pools_keep(stage.old.pools, true);
	peer_say(&stage.client, "Q");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "Q");
	peer_say(&stage.server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "CZ");
	stage_close(&stage);
}
END_TEST

START_TEST(what_was_counted_is_counted_once)
{
	struct stage stage;
	struct pool *pool;

	stage_open(&stage);
	peer_say(&stage.client, "Q");
	peer_hear(&stage.old, &stage.server);
	peer_say(&stage.server, "CZ");
	peer_hear(&stage.old, &stage.client);
	move(&stage);
	pool = pools_find_pool(stage.fresh.pools, "d0", "u0");
	ck_assert_uint_eq(pool->stats.query_count, 1);
	ck_assert_uint_eq(pool->stats.client_login_count, 2);
	ck_assert(pool->has_welcome);
	pool = pools_find_pool(stage.old.pools, "d0", "u0");
	ck_assert_uint_eq(pool->stats.query_count, 0);
	stage_close(&stage);
}
END_TEST

static void prepare(struct stage *stage, const char *name)
{
	struct buf out = { 0 };
	size_t at = message_begin(&out, 'P');

	buf_add_cstr(&out, name);
	buf_add_cstr(&out, "select 1");
	buf_add_be16(&out, 0);
	message_end(&out, at);
	message_end(&out, message_begin(&out, 'S'));
	peer_say_bytes(&stage->client, buf_bytes(&out));
	buf_free(&out);
}

/* At every length, in memory that ends there; complete only behind what may be left out. */
START_TEST(records_that_are_cut_are_refused)
{
	struct stage stage;

	stage_open(&stage);
	prepare(&stage, "named");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.server), "PS");
	peer_say(&stage.server, "1z");
	ck_assert_str_eq(peer_hear(&stage.old, &stage.client), "1Z");
	write_all(&stage);
	for (size_t i = 0; i < stage.count; i++) {
		const struct channel_message *message = &stage.messages[i];
		unsigned int good = 0;

		for (size_t cut = 0; cut < message->body.count; cut++) {
			char *copy = malloc(cut ? cut : 1);

			memcpy(copy, message->body.at, cut);
			good += judge(&stage, message->kind, bytes_of(copy, cut));
			free(copy);
		}
		ck_assert(judge(&stage, message->kind, buf_bytes(&message->body)));
		ck_assert_msg(good <= 3, "a record '%c' is whole at %u cuts", message->kind, good);
	}
	pools_keep(stage.old.pools, true);
	stage_close(&stage);
}
END_TEST

/* A statement keeps its name on the server, and new names cannot collide with old ones. */
START_TEST(names_on_servers_are_kept)
{
	struct stage stage;
	const struct server *server;

	stage_open(&stage);
	prepare(&stage, "named");
	peer_hear(&stage.old, &stage.server);
	peer_say(&stage.server, "1z");
	peer_hear(&stage.old, &stage.client);
	move(&stage);
	server = TAILQ_FIRST(&stage.fresh.pools->servers);
	ck_assert_uint_eq(server_statements_count(&server->session.statements), 1);
	ck_assert_uint_eq(client_statement_count(TAILQ_FIRST(&stage.fresh.clients->list)), 1);
	ck_assert(stage.fresh.pools->statements.last_number > 1000);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/handover");
	TCase *tests = tcase_create("handover");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, an_open_transaction_goes_on);
	tcase_add_test(tests, who_waits_is_served_later);
	tcase_add_test(tests, who_is_at_work_stays);
	tcase_add_test(tests, who_must_say_more_is_read_on);
	tcase_add_test(tests, it_may_stay_after_all);
	tcase_add_test(tests, what_was_counted_is_counted_once);
	tcase_add_test(tests, records_that_are_cut_are_refused);
	tcase_add_test(tests, names_on_servers_are_kept);
	return unit_run(suite);
}
