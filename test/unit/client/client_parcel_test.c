/* SPDX-License-Identifier: ISC */
/*
 * client/clients.c: two engines as two loops of one process. A client goes to the loop of the
 * console, of its cancel key, or of its pool, and notices nothing.
 */
#include "pgweir/client/lanes.h"

#include <string.h>

#include "../../lib/engine.h"

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"
#include "pgweir/pool/homes.h"

#include "../unit.h"

#define SETTINGS "pool_mode = transaction\ndefault_pool_size = 1"

struct stage {
	struct engine here, there; /* loops 0 and 1 */
	struct client_parcel *parcel;
	unsigned int asked_count, last_loop;
	enum client_goes last_why;
	struct cancel_keys_shared keys;
	bool refuses, has_old_process;
	unsigned int home_count;
};

static struct stage *stage_of(const struct clients *clients)
{
	struct engine *engine = container_of(clients->shared, struct engine, shared);

	return clients->keys.loop_number == 0 ? container_of(engine, struct stage, here)
	                                      : container_of(engine, struct stage, there);
}

/* What main does, without the letter. */
static bool send_elsewhere(struct client *client, enum client_goes why, unsigned int loop)
{
	struct stage *stage = stage_of(client->clients);

	if (why == CLIENT_GOES_TO_OLD_PROCESS &&
	    (!stage->has_old_process || client->clients->keys.loop_number == 0))
		return false;
	stage->asked_count++;
	stage->last_why = why;
	stage->last_loop = loop;
	if (stage->refuses)
		return false;
	ck_assert_ptr_null(stage->parcel);
	stage->parcel = client_pack(client);
	return true;
}

static void connect_engine(struct stage *stage, struct engine *engine, unsigned int number)
{
	engine->clients->keys.loop_number = number;
	engine->clients->keys.shared = &stage->keys;
	engine->shared.send_elsewhere = send_elsewhere;
}

static void stage_open(struct stage *stage)
{
	*stage = (struct stage){ .keys.loop_count = 2 };
	engine_open(&stage->here, SETTINGS, "");
	engine_open(&stage->there, SETTINGS, "");
	connect_engine(stage, &stage->here, 0);
	connect_engine(stage, &stage->there, 1);
}

static void stage_close(struct stage *stage)
{
	if (stage->parcel)
		client_parcel_end(&stage->parcel);
	engine_turn(&stage->here);
	engine_turn(&stage->there);
	engine_close(&stage->here);
	engine_close(&stage->there);
}

static void unpack(struct stage *stage, struct engine *engine)
{
	ck_assert_ptr_nonnull(stage->parcel);
	client_unpack(engine->clients, &stage->parcel);
	ck_assert_ptr_null(stage->parcel);
	engine_turn(engine);
}

static struct client *client_of(const struct engine *engine)
{
	return TAILQ_FIRST(&engine->clients->list);
}

static void send_packet(struct peer *peer, struct buf *out)
{
	ck_assert(peer_say_bytes(peer, buf_bytes(out)));
	buf_free(out);
}

static void start(struct peer *peer, const char *user, const char *database)
{
	struct buf out = { 0 };
	size_t at = message_startup_begin(&out, PROTOCOL_3_0);

	message_startup_pair(&out, "user", user);
	if (database)
		message_startup_pair(&out, "database", database);
	message_startup_end(&out, at);
	send_packet(peer, &out);
}

static const struct {
	const char *says, *user, *database;
	bool goes;
} packets[] = {
	{ "the console", "u0", "pgbouncer", true },
	{ "the console, as user", "pgbouncer", NULL, true },
	{ "the console's user elsewhere", "pgbouncer", "d0", false },
	{ "another database", "u0", "d0", false },
	{ "a name that begins so", "u0", "pgbouncer2", false },
	{ "no user", "", "d0", false },
};

START_TEST(startup_packets_go_to_the_console)
{
	struct stage stage;
	struct peer peer;
	uint64_t id;
	usec_t at;

	stage_open(&stage);
	peer = engine_client(&stage.there);
	id = client_of(&stage.there)->id;
	at = client_of(&stage.there)->connected_at;
	start(&peer, packets[_i].user, packets[_i].database);
	engine_turn(&stage.there);
	ck_assert_msg((stage.parcel != NULL) == packets[_i].goes, "%s", packets[_i].says);
	ck_assert_uint_eq(stage.asked_count, packets[_i].goes);
	if (packets[_i].goes) {
		ck_assert_int_eq(stage.last_why, CLIENT_GOES_TO_CONSOLE);
		ck_assert_uint_eq(stage.there.clients->count, 0);
		ck_assert_uint_eq(stage.there.clients->state_counts[CLIENT_STARTUP], 0);
		unpack(&stage, &stage.here);
		/* It is not asked for again, and the login went on. */
		ck_assert_uint_eq(stage.asked_count, 1);
		ck_assert_uint_eq(stage.here.clients->count, 1);
		ck_assert_uint_eq(client_of(&stage.here)->id, id);
		ck_assert_int_eq(client_of(&stage.here)->connected_at, at);
		ck_assert_int_ne(client_of(&stage.here)->state, CLIENT_STARTUP);
	}
	peer_close(&peer);
	stage_close(&stage);
}
END_TEST

/* The first one; notes in how many loops the pool is at home. */
static unsigned int pick_home(const struct clients *clients, unsigned int first, unsigned int count)
{
	stage_of(clients)->home_count = count;
	return first;
}

static const struct {
	const char *says, *database;
	unsigned int home; /* of the pool of u0 on d0 */
	bool is_asked, goes;
} homes_cases[] = {
	{ "at home elsewhere", "d0", 0, true, true },
	{ "at home here", "d0", 1, true, false },
	{ "no such database", "nothing", 0, false, false },
};

START_TEST(clients_of_small_pools_go_home)
{
	struct stage stage;
	struct peer peer;

	stage_open(&stage);
	homes_init(&stage.there.shared.homes, 2);
	homes_note(&stage.there.shared.homes, "d0", "u0", homes_cases[_i].home);
	stage.there.shared.pick_home = pick_home;
	peer = engine_client(&stage.there);
	start(&peer, "u0", homes_cases[_i].database);
	engine_turn(&stage.there);
	ck_assert_msg((stage.parcel != NULL) == homes_cases[_i].goes, "%s", homes_cases[_i].says);
	ck_assert_uint_eq(stage.home_count, homes_cases[_i].is_asked ? 1 : 0);
	if (homes_cases[_i].goes) {
		ck_assert_int_eq(stage.last_why, CLIENT_GOES_HOME);
		ck_assert_uint_eq(stage.last_loop, 0);
		unpack(&stage, &stage.here);
		ck_assert_uint_eq(stage.asked_count, 1);
		ck_assert_int_ne(client_of(&stage.here)->state, CLIENT_STARTUP);
	}
	peer_close(&peer);
	stage_close(&stage);
}
END_TEST

/* What follows the packet in the same write comes along. */
START_TEST(input_behind_the_packet_comes_along)
{
	struct stage stage;
	struct peer peer, server;
	struct buf out = { 0 };
	size_t at = message_startup_begin(&out, PROTOCOL_3_0);

	stage_open(&stage);
	peer = engine_client(&stage.there);
	message_startup_pair(&out, "user", "pgbouncer");
	message_startup_end(&out, at);
	peer_message(&peer, &out, 'Q');
	send_packet(&peer, &out);
	engine_turn(&stage.there);
	ck_assert_ptr_nonnull(stage.parcel);
	client_unpack(stage.here.clients, &stage.parcel);
	ck_assert_uint_gt(stream_kept(&client_of(&stage.here)->stream).count, 0);
	engine_turn(&stage.here);
	peer_close(&peer);
	server = engine_server(&stage.here);
	ck_assert_int_lt(server.fd, 0);
	stage_close(&stage);
}
END_TEST

/* The packet arrives byte by byte: it is judged once, when it is complete. */
START_TEST(packet_in_pieces_goes_once)
{
	struct stage stage;
	struct buf out = { 0 };
	struct peer peer;
	size_t at = message_startup_begin(&out, PROTOCOL_3_0);

	stage_open(&stage);
	peer = engine_client(&stage.there);
	message_startup_pair(&out, "user", "u0");
	message_startup_pair(&out, "database", "pgbouncer");
	message_startup_end(&out, at);
	for (size_t i = 0; i < out.count; i++) {
		ck_assert_uint_eq(stage.asked_count, 0);
		ck_assert(peer_say_bytes(&peer, bytes_of(out.at + i, 1)));
		engine_turn(&stage.there);
	}
	buf_free(&out);
	ck_assert_uint_eq(stage.asked_count, 1);
	unpack(&stage, &stage.here);
	ck_assert_int_ne(client_of(&stage.here)->state, CLIENT_STARTUP);
	peer_close(&peer);
	stage_close(&stage);
}
END_TEST

START_TEST(who_may_stay_goes_on_here)
{
	struct stage stage;
	struct peer peer;

	stage_open(&stage);
	stage.refuses = true;
	peer = engine_client(&stage.here);
	start(&peer, "u0", "pgbouncer");
	engine_turn(&stage.here);
	ck_assert_uint_eq(stage.asked_count, 1);
	ck_assert_uint_eq(stage.here.clients->count, 1);
	ck_assert_int_ne(client_of(&stage.here)->state, CLIENT_STARTUP);
	peer_close(&peer);
	stage_close(&stage);
}
END_TEST

/* ---- cancel requests ---- */

/* A client that waits: a cancel request for it ends the wait. *key: its key. */
static struct peer waiting_client(struct engine *engine, unsigned char key[CANCEL_KEY_SIZE])
{
	struct peer peer = engine_client(engine), server;
	const struct client *client;

	peer_start(&peer, "u0", "d0");
	server = engine_server(engine);
	peer_say(&server, "RSKZ");
	ck_assert_str_eq(peer_hear(engine, &peer), "RSKZ");
	peer_close(&server);
	engine_turn(engine);
	client = client_of(engine);
	ck_assert_uint_eq(client_key(client).count, CANCEL_KEY_SIZE);
	memcpy(key, client_key(client).at, CANCEL_KEY_SIZE);
	peer_say(&peer, "Q");
	engine_turn(engine);
	ck_assert_int_eq(client->state, CLIENT_WAITING);
	return peer;
}

static struct peer cancel(struct engine *engine, const unsigned char *key, size_t count)
{
	struct peer peer = engine_client(engine);
	struct buf out = { 0 };

	message_cancel(&out, bytes_of(key, count));
	send_packet(&peer, &out);
	engine_turn(engine);
	return peer;
}

START_TEST(cancel_requests_go_to_their_loop)
{
	unsigned char key[CANCEL_KEY_SIZE];
	struct stage stage;
	struct peer client, asker;

	stage_open(&stage);
	client = waiting_client(&stage.there, key);
	ck_assert_uint_eq(cancel_key_loop(bytes_of(key, sizeof(key)), 2), 1);
	asker = cancel(&stage.here, key, sizeof(key));
	ck_assert_uint_eq(stage.asked_count, 1);
	ck_assert_int_eq(stage.last_why, CLIENT_GOES_TO_CANCEL);
	ck_assert_uint_eq(stage.last_loop, 1);
	ck_assert_int_eq(client_of(&stage.there)->state, CLIENT_WAITING);
	unpack(&stage, &stage.there);
	ck_assert_str_eq(peer_hear(&stage.there, &client), "EZ");
	ck_assert(strncmp(client.error, "57014", 5) == 0);
	ck_assert_str_eq(peer_hear(&stage.there, &asker), ".");
	peer_close(&asker);
	/* In its own loop it goes nowhere. */
	peer_say(&client, "Q");
	engine_turn(&stage.there);
	asker = cancel(&stage.there, key, sizeof(key));
	ck_assert_str_eq(peer_hear(&stage.there, &client), "EZ");
	ck_assert_uint_eq(stage.asked_count, 1);
	peer_close(&asker);
	peer_close(&client);
	stage_close(&stage);
}
END_TEST

/* A take-over has put it where its key does not lead. */
START_TEST(a_client_in_another_loop_than_its_key_says_is_found)
{
	unsigned char key[CANCEL_KEY_SIZE];
	struct stage stage;
	struct peer client, asker;
	struct cancel_keys *keys;

	stage_open(&stage);
	keys = &stage.here.clients->keys;
	client = waiting_client(&stage.here, key);
	ck_assert_uint_eq(stage.keys.stray_count, 0);
	cancel_keys_remove(keys, client_of(&stage.here));
	key[6] = 1;
	ck_assert(cancel_keys_add(keys, client_of(&stage.here), bytes_of(key, sizeof(key))));
	ck_assert_uint_eq(stage.keys.stray_count, 1);
	asker = cancel(&stage.there, key, sizeof(key));
	ck_assert_uint_eq(stage.asked_count, 1);
	ck_assert_uint_eq(stage.last_loop, 0);
	unpack(&stage, &stage.here);
	ck_assert_str_eq(peer_hear(&stage.here, &client), "EZ");
	ck_assert(strncmp(client.error, "57014", 5) == 0);
	ck_assert_str_eq(peer_hear(&stage.here, &asker), ".");
	peer_close(&asker);
	peer_close(&client);
	engine_turn(&stage.here);
	ck_assert_uint_eq(stage.keys.stray_count, 0);
	stage_close(&stage);
}
END_TEST

/* One that no loop knows ends after each has been asked. */
START_TEST(unknown_keys_go_to_each_loop_while_one_client_is_astray)
{
	unsigned char key[CANCEL_KEY_SIZE] = { 1, 2, 3, 4, 5, 6, 0, 8 };
	struct stage stage;
	struct peer asker;

	stage_open(&stage);
	stage.keys.stray_count = 1;
	asker = cancel(&stage.there, key, sizeof(key));
	ck_assert_uint_eq(stage.last_loop, 0);
	client_unpack(stage.here.clients, &stage.parcel); /* it goes on at once */
	engine_turn(&stage.here);
	ck_assert_uint_eq(stage.asked_count, 2);
	ck_assert_uint_eq(stage.last_loop, 1);
	unpack(&stage, &stage.there);
	ck_assert_uint_eq(stage.asked_count, 2);
	ck_assert_str_eq(peer_hear(&stage.there, &asker), ".");
	peer_close(&asker);
	stage_close(&stage);
}
END_TEST

/* From the first loop, to which it comes back then: there is no second round. */
START_TEST(unknown_keys_go_to_the_old_process_at_last)
{
	unsigned char key[CANCEL_KEY_SIZE] = { 1, 2, 3, 4, 5, 6, 0, 8 };
	struct stage stage;
	struct peer asker;

	stage_open(&stage);
	key[6] = (unsigned char)_i;
	stage.keys.stray_count = 1;
	stage.has_old_process = true;
	asker = cancel(&stage.here, key, sizeof(key));
	ck_assert_int_eq(stage.last_why, CLIENT_GOES_TO_CANCEL);
	ck_assert_uint_eq(stage.last_loop, 1);
	client_unpack(stage.there.clients, &stage.parcel);
	engine_turn(&stage.there);
	ck_assert_int_eq(stage.last_why, _i ? CLIENT_GOES_TO_CANCEL : CLIENT_GOES_TO_OLD_PROCESS);
	ck_assert_uint_eq(stage.last_loop, 0);
	unpack(&stage, &stage.here);
	ck_assert_uint_eq(stage.asked_count, 2);
	ck_assert_str_eq(peer_hear(&stage.here, &asker), ".");
	peer_close(&asker);
	stage_close(&stage);
}
END_TEST

START_TEST(unknown_keys_go_once)
{
	unsigned char key[CANCEL_KEY_SIZE] = { 1, 2, 3, 4, 5, 6, 0, 8 };
	struct stage stage;
	struct peer asker;

	stage_open(&stage);
	key[6] = (unsigned char)_i;
	asker = cancel(&stage.here, key, sizeof(key));
	ck_assert_uint_eq(stage.asked_count, _i % 2);
	if (stage.parcel)
		unpack(&stage, &stage.there);
	ck_assert_uint_eq(stage.asked_count, _i % 2);
	ck_assert_str_eq(peer_hear(&stage.here, &asker), ".");
	ck_assert_uint_eq(stage.here.clients->count + stage.there.clients->count, 0);
	peer_close(&asker);
	/* Too short for any client. */
	asker = cancel(&stage.there, key, 5);
	ck_assert_uint_le(stage.asked_count, _i % 2 + 1);
	if (stage.parcel)
		unpack(&stage, &stage.here);
	ck_assert_str_eq(peer_hear(&stage.there, &asker), ".");
	peer_close(&asker);
	stage_close(&stage);
}
END_TEST

/* It moves once, even if it comes to a loop to which its key does not lead. */
START_TEST(a_cancel_request_never_moves_twice)
{
	static const unsigned char key[CANCEL_KEY_SIZE] = { 1, 2, 3, 4, 5, 6, 1, 8 };
	struct stage stage;
	struct peer asker;

	stage_open(&stage);
	asker = cancel(&stage.here, key, sizeof(key));
	ck_assert_uint_eq(stage.asked_count, 1);
	unpack(&stage, &stage.here);
	ck_assert_uint_eq(stage.asked_count, 1);
	ck_assert_str_eq(peer_hear(&stage.here, &asker), ".");
	peer_close(&asker);
	stage_close(&stage);
}
END_TEST

START_TEST(a_parcel_may_end)
{
	struct stage stage;
	struct peer peer;

	stage_open(&stage);
	peer = engine_client(&stage.there);
	start(&peer, "u0", "pgbouncer");
	engine_turn(&stage.there);
	client_parcel_end(&stage.parcel);
	ck_assert_ptr_null(stage.parcel);
	ck_assert_str_eq(peer_hear(&stage.there, &peer), ".");
	peer_close(&peer);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/client_parcel");
	TCase *tests = tcase_create("client_parcel");

	suite_add_tcase(suite, tests);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, startup_packets_go_to_the_console, 0, COUNT_OF(packets));
	tcase_add_loop_test(tests, clients_of_small_pools_go_home, 0, COUNT_OF(homes_cases));
	tcase_add_test(tests, input_behind_the_packet_comes_along);
	tcase_add_test(tests, packet_in_pieces_goes_once);
	tcase_add_test(tests, who_may_stay_goes_on_here);
	tcase_add_test(tests, cancel_requests_go_to_their_loop);
	tcase_add_loop_test(tests, unknown_keys_go_to_the_old_process_at_last, 0, 2);
	tcase_add_loop_test(tests, unknown_keys_go_once, 0, 4);
	tcase_add_test(tests, a_cancel_request_never_moves_twice);
	tcase_add_test(tests, a_client_in_another_loop_than_its_key_says_is_found);
	tcase_add_test(tests, unknown_keys_go_to_each_loop_while_one_client_is_astray);
	tcase_add_test(tests, a_parcel_may_end);
	return unit_run(suite);
}
