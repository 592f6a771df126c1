/* SPDX-License-Identifier: ISC */
/*
 * client/cancel_request.c and pool/peer_pool.c with a real loop: the routing of cancel
 * requests. The peers are a Unix socket controlled by the test.
 */
#include "../../lib/engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

#include "../unit.h"
#include "../../lib/config_text.h"

#define OWN_ID 1
#define PEER_ID 2

struct stage {
	struct engine engine;
	int listening; /* the peer's */
	char host[64];
};

static void listen_as_peer(struct stage *stage)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int count;

	snprintf(stage->host, sizeof(stage->host), "@pgweir-peer-%d", (int)getpid());
	count = snprintf(name.sun_path, sizeof(name.sun_path), "%s/.s.PGSQL.6432", stage->host);
	name.sun_path[0] = 0;
	stage->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(stage->listening, (struct sockaddr *)&name,
	                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)count)),
	                 0);
	ck_assert_int_eq(listen(stage->listening, 64), 0);
}

static void open_stage(struct stage *stage, const char *settings)
{
	char text[512];

	listen_as_peer(stage);
	snprintf(text, sizeof(text),
	         "%s\n[peers]\n%d = host=/own/is/never/used\n%d = host=%s pool_size=1\n", settings,
	         OWN_ID, PEER_ID, stage->host);
	engine_open(&stage->engine, text, "");
}

static void close_stage(struct stage *stage)
{
	engine_close(&stage->engine);
	close(stage->listening);
}

/* Applies another configuration; "" for `peers`: there are none. */
static void reload(struct stage *stage, const char *settings, const char *peers)
{
	struct problems problems = { 0 };
	char text[512];
	const struct config *config;

	snprintf(text, sizeof(text),
	         "[databases]\nd0 = host=%s port=5432\n[pgbouncer]\nauth_type = trust\n"
	         "session_isolation = off\n%s\n"
	         "[peers]\n%s\n",
	         stage->engine.host, settings, peers);
	config = config_parse(bytes_text(text), "f", &problems);
	ck_assert_ptr_nonnull(config);
	pools_configure(stage->engine.pools, config, stage->engine.users);
	clients_configure(stage->engine.clients, config, stage->engine.users);
	config_unref(&config);
}

static struct peer request(struct stage *stage, const void *key, size_t count)
{
	struct peer client = engine_client(&stage->engine);
	struct buf out = { 0 };

	message_cancel(&out, bytes_of(key, count));
	ck_assert(peer_say_bytes(&client, buf_bytes(&out)));
	buf_free(&out);
	engine_turn(&stage->engine);
	return client;
}

/* A connection at the peer; -1: none. */
static int at_peer(struct stage *stage)
{
	engine_turn(&stage->engine);
	return accept4(stage->listening, NULL, NULL, SOCK_NONBLOCK);
}

static void check_forwarded(struct stage *stage, int fd, const void *key, size_t count)
{
	struct buf wanted = { 0 };
	char got[512];

	engine_turn(&stage->engine);
	message_cancel(&wanted, bytes_of(key, count));
	ck_assert_int_eq(recv(fd, got, sizeof(got), MSG_DONTWAIT), (ssize_t)wanted.count);
	ck_assert(memcmp(got, wanted.at, wanted.count) == 0);
	buf_free(&wanted);
}

static bool is_closed(struct stage *stage, struct peer *client)
{
	return strcmp(peer_hear(&stage->engine, client), ".") == 0;
}

static const struct {
	const char *says;
	const char *settings;
	size_t count;
	const char *key, *forwarded; /* NULL: it is dropped at once */
} requests[] = {
	{ "the peer's", "peer_id = 1", 8, "\0\2\0abcd\3", "\0\2\0abcd\2" },
	{ "passed on twice", "peer_id = 1", 8, "x\2\0abcd\xf9", "x\2\0abcd\xf8" },
	{ "passed on too often", "peer_id = 1", 8, "x\2\0abcd\xf8", NULL },
	{ "a longer key", "peer_id = 1", 12, "x\2\0abcd\xffzzzz", "x\2\0abcd\xfezzzz" },
	{ "one of protocol 3.2", "peer_id = 1", 36, "x\2\0abcd\xffzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
	  "x\2\0abcd\xfezzzzzzzzzzzzzzzzzzzzzzzzzzzz" },
	{ "our own id in such a one, and no client", "peer_id = 1", 36,
	  "x\1\0abcd\xffzzzzzzzzzzzzzzzzzzzzzzzzzzzz", NULL },
	{ "a shorter key", "peer_id = 1", 7, "x\2\0abcd", NULL },
	{ "an id that no peer has", "peer_id = 1", 8, "x\2\1abcd\xff", NULL },
	{ "no id", "peer_id = 1", 8, "x\0\0abcd\xff", NULL },
	{ "our own id, and no client", "peer_id = 1", 8, "x\1\0abcd\xff", NULL },
	{ "our own id is the peer's", "peer_id = 2", 8, "x\2\0abcd\xff", NULL },
	{ "we have no id", "peer_id = 0", 8, "x\2\0abcd\xff", NULL },
};

START_TEST(requests_are_routed)
{
	struct stage stage;
	struct peer client;
	int fd;

	open_stage(&stage, requests[_i].settings);
	client = request(&stage, requests[_i].key, requests[_i].count);
	fd = at_peer(&stage);
	ck_assert_msg((fd >= 0) == (requests[_i].forwarded != NULL), "%s", requests[_i].says);
	if (fd >= 0) {
		check_forwarded(&stage, fd, requests[_i].forwarded, requests[_i].count);
		ck_assert_str_eq(peer_hear(&stage.engine, &client), "");
		close(fd);
	}
	ck_assert_msg(is_closed(&stage, &client), "%s", requests[_i].says);
	peer_close(&client);
	close_stage(&stage);
}
END_TEST

/* pool_size is 1: the second one waits until the peer has processed the first. */
START_TEST(requests_wait_for_their_turn)
{
	struct stage stage;
	struct peer clients[3];
	int fd;

	open_stage(&stage, "peer_id = 1");
	for (size_t i = 0; i < 3; i++)
		clients[i] = request(&stage, "x\2\0abcd\3", 8);
	for (size_t i = 0; i < 3; i++) {
		const struct peer_pool *pool = peer_pool_find(stage.engine.pools, PEER_ID);

		fd = at_peer(&stage);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_lt(at_peer(&stage), 0);
		ck_assert_uint_eq(pool->queue.counts[CANCEL_SENT], 1);
		ck_assert_uint_eq(pool->queue.counts[CANCEL_WAITING], 2 - i);
		ck_assert_str_eq(client_state_name(TAILQ_FIRST(&stage.engine.clients->list)),
		                 "active_cancel_req");
		close(fd);
		ck_assert(is_closed(&stage, &clients[i]));
		peer_close(&clients[i]);
	}
	close_stage(&stage);
}
END_TEST

/* The request is delivered even if its client disconnects. */
START_TEST(requests_outlive_their_client)
{
	struct stage stage;
	struct peer first, second;
	int fd;

	open_stage(&stage, "peer_id = 1");
	first = request(&stage, "x\2\0abcd\3", 8);
	second = request(&stage, "x\2\0efgh\3", 8);
	peer_close(&first);
	peer_close(&second);
	fd = at_peer(&stage);
	check_forwarded(&stage, fd, "x\2\0abcd\2", 8);
	close(fd);
	fd = at_peer(&stage);
	check_forwarded(&stage, fd, "x\2\0efgh\2", 8);
	close(fd);
	engine_turn(&stage.engine);
	ck_assert_uint_eq(stage.engine.clients->count, 0);
	close_stage(&stage);
}
END_TEST

/* The sent request continues; the queued one is dropped. */
START_TEST(reload_takes_a_peer_away)
{
	struct stage stage;
	struct peer sent, waiting, late;
	int fd;

	open_stage(&stage, "peer_id = 1");
	sent = request(&stage, "x\2\0abcd\3", 8);
	waiting = request(&stage, "x\2\0abcd\3", 8);
	fd = at_peer(&stage);
	reload(&stage, "peer_id = 1", "");
	ck_assert(is_closed(&stage, &waiting));
	late = request(&stage, "x\2\0abcd\3", 8);
	ck_assert(is_closed(&stage, &late));
	ck_assert_str_eq(peer_hear(&stage.engine, &sent), "");
	ck_assert_uint_eq(HASH_COUNT(stage.engine.pools->peers.table), 1);
	close(fd);
	ck_assert(is_closed(&stage, &sent));
	ck_assert_uint_eq(HASH_COUNT(stage.engine.pools->peers.table), 0);
	ck_assert_int_lt(at_peer(&stage), 0);
	peer_close(&sent);
	peer_close(&waiting);
	peer_close(&late);
	close_stage(&stage);
}
END_TEST

START_TEST(reload_moves_a_peer)
{
	struct stage stage;
	struct peer sent, waiting;
	char peers[128];
	int fd;

	open_stage(&stage, "peer_id = 1");
	sent = request(&stage, "x\2\0abcd\3", 8);
	waiting = request(&stage, "x\2\0efgh\3", 8);
	fd = at_peer(&stage);
	snprintf(peers, sizeof(peers), "2 = host=%s port=5432", stage.engine.host);
	reload(&stage, "peer_id = 1", peers);
	close(fd);
	ck_assert(is_closed(&stage, &sent));
	ck_assert_int_lt(at_peer(&stage), 0);
	fd = accept4(stage.engine.listening, NULL, NULL, SOCK_NONBLOCK);
	check_forwarded(&stage, fd, "x\2\0efgh\2", 8);
	close(fd);
	ck_assert(is_closed(&stage, &waiting));
	peer_close(&sent);
	peer_close(&waiting);
	close_stage(&stage);
}
END_TEST

/* Nothing listens there: the request is dropped, and so are the queued ones. */
START_TEST(peer_is_dead)
{
	struct stage stage;
	struct peer clients[2];

	open_stage(&stage, "peer_id = 1");
	reload(&stage, "peer_id = 1", "2 = host=@pgweir-nobody pool_size=1");
	for (size_t i = 0; i < 2; i++)
		clients[i] = request(&stage, "x\2\0abcd\3", 8);
	for (size_t i = 0; i < 2; i++) {
		ck_assert(is_closed(&stage, &clients[i]));
		peer_close(&clients[i]);
	}
	close_stage(&stage);
}
END_TEST

/* Everything ends during running requests: no leak, and no callback. */
START_TEST(engine_closes_meanwhile)
{
	struct stage stage;
	struct peer first, second;
	int fd;

	open_stage(&stage, "peer_id = 1");
	first = request(&stage, "x\2\0abcd\3", 8);
	second = request(&stage, "x\2\0abcd\3", 8);
	fd = at_peer(&stage);
	ck_assert_int_ge(fd, 0);
	close_stage(&stage);
	close(fd);
	peer_close(&first);
	peer_close(&second);
}
END_TEST

/* KILL_CLIENT of a waiting client. */
START_TEST(request_is_killed)
{
	struct stage stage;
	struct peer client;
	struct client *killed;
	int fd;

	open_stage(&stage, "peer_id = 1");
	client = request(&stage, "x\2\0abcd\3", 8);
	fd = at_peer(&stage);
	killed = TAILQ_FIRST(&stage.engine.clients->list);
	ck_assert_ptr_eq(clients_find(stage.engine.clients, killed->id), killed);
	clients_kill(killed);
	ck_assert(is_closed(&stage, &client));
	close(fd);
	engine_turn(&stage.engine);
	ck_assert_uint_eq(peer_pool_find(stage.engine.pools, PEER_ID)->queue.counts[CANCEL_SENT],
	                  0);
	peer_close(&client);
	close_stage(&stage);
}
END_TEST

/* The key is read from the client itself. */
static struct peer log_in(struct engine *engine, struct peer *server, uint32_t version,
                          unsigned char key[CANCEL_KEY_LONG_SIZE], size_t *key_size)
{
	struct peer client = engine_client(engine);
	struct buf packet = { 0 };
	size_t at = message_startup_begin(&packet, version);
	struct bytes its;

	message_startup_pair(&packet, "user", "u0");
	message_startup_pair(&packet, "database", "d0");
	message_startup_end(&packet, at);
	ck_assert(peer_say_bytes(&client, buf_bytes(&packet)));
	buf_free(&packet);
	if (server->fd < 0) {
		*server = engine_server(engine);
		ck_assert_str_eq(peer_hear(engine, server), "^");
		peer_say(server, "RSKZ");
	}
	ck_assert_str_eq(peer_hear(engine, &client), "RSKZ");
	its = client_key(TAILQ_LAST(&engine->clients->list, client_list));
	memcpy(key, its.at, its.count);
	*key_size = its.count;
	return client;
}

/* Whether a cancel with this key reaches the server that the client works with. */
static bool reaches_server(struct stage *stage, const unsigned char *key, size_t key_size)
{
	struct peer canceler = request(stage, key, key_size);
	int fd;

	engine_turn(&stage->engine);
	fd = accept4(stage->engine.listening, NULL, NULL, SOCK_NONBLOCK);
	if (fd >= 0)
		close(fd);
	ck_assert(is_closed(stage, &canceler));
	peer_close(&canceler);
	return fd >= 0;
}

static const struct {
	uint32_t version;
	size_t key_size;
} keys[] = { { PROTOCOL_3_0, CANCEL_KEY_SIZE }, { PROTOCOL_3_2, CANCEL_KEY_LONG_SIZE } };

/* Each byte of it is compared, and all of them are required. */
static void check_key_is_whole(struct stage *stage, const unsigned char *key, size_t size)
{
	unsigned char other[CANCEL_KEY_LONG_SIZE + 1] = { 0 };

	ck_assert(reaches_server(stage, key, size));
	for (size_t count = 0; count <= size + 1; count++) {
		memcpy(other, key, size);
		ck_assert(count == size || !reaches_server(stage, other, count));
	}
	for (size_t at = 0; at < size; at++) {
		memcpy(other, key, size);
		other[at] ^= 4;
		ck_assert(!reaches_server(stage, other, size));
	}
}

/* Our own keys are found with any TTL, also those from before a change of peer_id. */
START_TEST(own_keys_are_recognised)
{
	struct stage stage;
	struct peer server = { .fd = -1 }, old, signed_by_us;
	unsigned char old_key[CANCEL_KEY_LONG_SIZE], key[CANCEL_KEY_LONG_SIZE];
	size_t size;

	open_stage(&stage, "");
	old = log_in(&stage.engine, &server, keys[_i].version, old_key, &size);
	reload(&stage, "peer_id = 513", "");
	signed_by_us = log_in(&stage.engine, &server, keys[_i].version, key, &size);
	ck_assert_uint_eq(size, keys[_i].key_size);
	ck_assert_int_eq(cancel_key_peer(bytes_of(key, size)), 513);
	ck_assert_uint_eq(cancel_key_ttl(bytes_of(key, size)), CANCEL_KEY_TTL_MAX);
	ck_assert_uint_eq(key[0] & 0x80, 0);

	peer_say(&old, "Q");
	ck_assert_str_eq(peer_hear(&stage.engine, &server), "Q");
	ck_assert(reaches_server(&stage, old_key, size));
	peer_say(&server, "CZ");
	ck_assert_str_eq(peer_hear(&stage.engine, &old), "CZ");
	peer_close(&old); /* the server is free again, for the other one */
	engine_turn(&stage.engine);
	ck_assert_str_eq(peer_hear(&stage.engine, &server), "Q"); /* the reset query */
	peer_say(&server, "xZ");
	engine_turn(&stage.engine);

	peer_say(&signed_by_us, "Q");
	ck_assert_str_eq(peer_hear(&stage.engine, &server), "Q");
	for (unsigned int ttl = 0; ttl <= CANCEL_KEY_TTL_MAX; ttl++) {
		cancel_key_set_ttl(key, ttl);
		ck_assert(reaches_server(&stage, key, size));
	}
	check_key_is_whole(&stage, key, size);
	reload(&stage, "peer_id = 0", "");
	check_key_is_whole(&stage, key, size);
	cancel_key_set_ttl(key, 0);
	ck_assert(!reaches_server(&stage, key, size));
	peer_close(&signed_by_us);
	peer_close(&server);
	close_stage(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/canceling");
	TCase *tcase = tcase_create("canceling");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, requests_are_routed, 0, COUNT_OF(requests));
	tcase_add_test(tcase, requests_wait_for_their_turn);
	tcase_add_test(tcase, requests_outlive_their_client);
	tcase_add_test(tcase, reload_takes_a_peer_away);
	tcase_add_test(tcase, reload_moves_a_peer);
	tcase_add_test(tcase, peer_is_dead);
	tcase_add_test(tcase, engine_closes_meanwhile);
	tcase_add_test(tcase, request_is_killed);
	tcase_add_loop_test(tcase, own_keys_are_recognised, 0, COUNT_OF(keys));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
