/* SPDX-License-Identifier: ISC */
/*
 * client/login/startup_packets.c with a real loop, pools and clients: the first packets,
 * complete and byte by byte, and a client's parameters.
 */
#include "../../../lib/engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

#include "../../compares.h"
#include "../../unit.h"

/* Version 3.0 is prepended and a zero appended to `pairs` ("name\0value\0..."). */
#define PAIRS(text)                  \
	{                            \
		(text), sizeof(text) \
	}
#define RAW(text)                        \
	{                                \
		(text), sizeof(text) - 1 \
	}

static const struct {
	const char *says;
	const char *settings;
	struct bytes pairs;
	const char *heard;
	const char *error;
} startups[] = {
	{ "a user and a database", "", PAIRS("user\0u0\0database\0d0\0"), "RSKZ", "" },
	{ "the database is the user's name", "", PAIRS("user\0u0\0"), "E.",
	  "3D000 no such database: u0" },
	{ "no user", "", PAIRS("database\0d0\0"), "E.", "28000 no username supplied" },
	{ "an empty user", "", PAIRS("user\0\0database\0d0\0"), "E.",
	  "28000 no username supplied" },
	{ "nobody has heard of the user", "", PAIRS("user\0nobody\0database\0d0\0"), "E.",
	  "28000 \"trust\" authentication failed" },
	{ "nor of the database", "", PAIRS("user\0u0\0database\0x\0"), "E.",
	  "3D000 no such database: x" },
	{ "a followed parameter", "", PAIRS("user\0u0\0database\0d0\0TimeZone\0CET\0"), "RSKZ",
	  "" },
	{ "any parameter of PostgreSQL's", "", PAIRS("user\0u0\0database\0d0\0work_mem\0001MB\0"),
	  "RSKZ", "" },
	{ "what cannot be one", "", PAIRS("user\0u0\0database\0d0\0work mem\0001MB\0"), "E.",
	  "42704 unsupported startup parameter: work mem" },
	{ "unless it is ignored", "ignore_startup_parameters = 9x",
	  PAIRS("user\0u0\0database\0d0\09x\0y\0"), "RSKZ", "" },
	{ "options", "", PAIRS("user\0u0\0database\0d0\0options\0-c a=1 --b=2\0"), "RSKZ", "" },
	{ "options that are none", "", PAIRS("user\0u0\0database\0d0\0options\0-x\0"), "E.",
	  "42601 unsupported options startup parameter: only '-c config=val' and '--config=val' "
	  "are "
	  "allowed" },
	{ "unless they are ignored", "ignore_startup_parameters = options",
	  PAIRS("user\0u0\0database\0d0\0options\0-x\0"), "RSKZ", "" },
	{ "no replication", "", PAIRS("user\0u0\0database\0d0\0replication\0off\0"), "RSKZ", "" },
	{ "an option of the protocol is negotiated", "",
	  PAIRS("user\0u0\0database\0d0\0_pq_.x\0y\0"), "vRSKZ", "" },
	{ "the limit of clients", "max_client_conn = 0", PAIRS("user\0u0\0database\0d0\0"), "RSKZ",
	  "" },
	{ "the limit of a database's clients", "max_db_client_connections = 1",
	  PAIRS("user\0u1\0database\0d0\0"), "E.",
	  "53300 client connections exceeded (max_db_client_connections)" },
	{ "the limit of a user's clients", "max_user_client_connections = 1",
	  PAIRS("user\0u0\0database\0d0\0"), "E.",
	  "53300 client connections exceeded (max_user_client_connections)" },
};

static void add_startup(struct buf *out, struct bytes pairs)
{
	buf_add_be32(out, (uint32_t)pairs.count + 8);
	buf_add_be32(out, 3 << 16);
	buf_add(out, pairs.at, pairs.count);
}

/*
 * Logs one client in, so that the pool has a server and a welcome. It keeps the server: a login
 * asks one at rest what it makes of the client's parameters.
 */
static void warm_up(struct engine *engine, struct peer *client, struct peer *server)
{
	*client = engine_client(engine);
	peer_start(client, "u0", "d0");
	*server = engine_server(engine);
	ck_assert_str_eq(peer_hear(engine, server), "^");
	peer_say(server, "RSKZ");
	ck_assert_str_eq(peer_hear(engine, client), "RSKZ");
	peer_say(client, "Q");
	ck_assert_str_eq(peer_hear(engine, server), "Q");
}

static void check(struct engine *engine, struct bytes packet, size_t piece, const char *says,
                  const char *heard, const char *error)
{
	struct peer client = engine_client(engine);
	const char *got;

	for (size_t at = 0; at < packet.count; at += piece) {
		size_t count = packet.count - at < piece ? packet.count - at : piece;

		if (!peer_say_bytes(&client, bytes_of(packet.at + at, count)))
			break;
		if (piece < packet.count)
			engine_turn(engine);
	}
	got = peer_hear(engine, &client);
	ck_assert_msg(strcmp(got, heard) == 0, "%s: heard \"%s\" %s", says, got, client.error);
	ck_assert_msg(strcmp(client.error, error) == 0, "%s: \"%s\"", says, client.error);
	peer_close(&client);
	engine_turn(engine);
}

START_TEST(startup_is_judged)
{
	struct engine engine;
	struct peer client, server;
	struct buf packet = { 0 };

	engine_open(&engine, startups[_i].settings, "");
	warm_up(&engine, &client, &server);
	add_startup(&packet, startups[_i].pairs);
	check(&engine, buf_bytes(&packet), packet.count, startups[_i].says, startups[_i].heard,
	      startups[_i].error);
	check(&engine, buf_bytes(&packet), 1, startups[_i].says, startups[_i].heard,
	      startups[_i].error);
	buf_free(&packet);
	peer_close(&client);
	peer_close(&server);
	engine_close(&engine);
}
END_TEST

/* ---- versions ---- */

static const struct {
	const char *says;
	unsigned int minor;
	const char *option; /* "": none */
	const char *heard;
	uint32_t told; /* in NegotiateProtocolVersion; 0: no such message */
	size_t key_size;
} versions[] = {
	{ "3.0", 0, "", "RSKZ", 0, CANCEL_KEY_SIZE },
	{ "3.0 with an option", 0, "_pq_.x", "vRSKZ", PROTOCOL_3_0, CANCEL_KEY_SIZE },
	{ "3.1, which is nobody's", 1, "", "vRSKZ", PROTOCOL_3_0, CANCEL_KEY_SIZE },
	{ "3.2", 2, "", "RSKZ", 0, CANCEL_KEY_LONG_SIZE },
	{ "3.2 with an option", 2, "_pq_.x", "vRSKZ", PROTOCOL_3_2, CANCEL_KEY_LONG_SIZE },
	{ "3.3", 3, "", "vRSKZ", PROTOCOL_3_2, CANCEL_KEY_LONG_SIZE },
	{ "3.9999, a probe of libpq's", 9999, "_pq_.test_protocol_negotiation", "vRSKZ",
	  PROTOCOL_3_2, CANCEL_KEY_LONG_SIZE },
};

/* Everything received so far, in one piece. */
static struct bytes receive(struct engine *engine, struct peer *client, char *at,
                            size_t engine_size)
{
	ssize_t count;

	engine_turn(engine);
	count = recv(client->fd, at, engine_size, MSG_DONTWAIT | MSG_PEEK);
	return bytes_of(at, count > 0 ? (size_t)count : 0);
}

static void check_messages(struct bytes in, size_t version)
{
	struct negotiation told = { 0 };
	struct bytes key = { 0 };
	struct frame frame;

	for (; frame_peek(in, UINT32_MAX, &frame) == WIRE_OK; in = bytes_skip(in, frame.length)) {
		if (frame.type == 'v')
			ck_assert_int_eq(fields_negotiation(frame_body(in, &frame), &told),
			                 WIRE_OK);
		if (frame.type == 'K')
			ck_assert_int_eq(fields_key(frame_body(in, &frame), &key), WIRE_OK);
	}
	ck_assert_uint_eq(told.version, versions[version].told);
	ck_assert_uint_eq(told.count, *versions[version].option != 0);
	ck_assert(bytes_equal(told.names,
	                      bytes_of(versions[version].option,
	                               told.count ? strlen(versions[version].option) + 1 : 0)));
	ck_assert_uint_eq(key.count, versions[version].key_size);
}

START_TEST(version_is_negotiated)
{
	struct engine engine;
	struct peer client, server, other;
	struct buf packet = { 0 };
	char got[4096];
	size_t at;

	engine_open(&engine, "", "");
	warm_up(&engine, &client, &server);
	at = message_startup_begin(&packet, PROTOCOL_3_0 + versions[_i].minor);
	message_startup_pair(&packet, "user", "u0");
	message_startup_pair(&packet, "database", "d0");
	if (*versions[_i].option)
		message_startup_pair(&packet, versions[_i].option, "");
	message_startup_end(&packet, at);
	other = engine_client(&engine);
	ck_assert(peer_say_bytes(&other, buf_bytes(&packet)));
	check_messages(receive(&engine, &other, got, sizeof(got)), (size_t)_i);
	ck_assert_str_eq(peer_hear(&engine, &other), versions[_i].heard);
	buf_free(&packet);
	peer_close(&other);
	peer_close(&client);
	peer_close(&server);
	engine_close(&engine);
}
END_TEST

/* As many options as fit: each is reported. */
START_TEST(options_are_all_told)
{
	struct engine engine;
	struct peer client;
	struct buf packet = { 0 };
	char got[FRAME_HEADER_SIZE + 8];
	size_t at, count = 900;

	engine_open(&engine, "", "");
	at = message_startup_begin(&packet, PROTOCOL_3_2);
	message_startup_pair(&packet, "user", "u0");
	for (size_t i = 0; i < count; i++)
		message_startup_pair(&packet, "_pq_.abc", "");
	message_startup_end(&packet, at);
	client = engine_client(&engine);
	ck_assert(peer_say_bytes(&client, buf_bytes(&packet)));
	ck_assert_uint_eq(receive(&engine, &client, got, sizeof(got)).count, sizeof(got));
	ck_assert_int_eq(got[0], 'v');
	ck_assert_uint_eq(load_be32(got + 1), 4 + 8 + count * sizeof("_pq_.abc"));
	ck_assert_uint_eq(load_be32(got + 9), count);
	buf_free(&packet);
	peer_close(&client);
	engine_close(&engine);
}
END_TEST

/* ---- many parameters ---- */

static void add_parameters(struct buf *packet, const char *user, unsigned int count)
{
	size_t at = message_startup_begin(packet, PROTOCOL_3_0);
	char name[16];

	message_startup_pair(packet, "user", user);
	message_startup_pair(packet, "database", "d0");
	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "x.%u", count - i);
		message_startup_pair(packet, name, "");
	}
	message_startup_end(packet, at);
}

/*
 * The packet of an unauthenticated client is scanned once, without creating a map; for an accepted
 * client one map is created.
 */
START_TEST(startup_parameters_are_little_work)
{
	struct engine engine;
	struct peer client, server, other;
	struct buf packet = { 0 };
	bool is_known = _i;
	size_t before;

	engine_open(&engine, "", "");
	warm_up(&engine, &client, &server);
	add_parameters(&packet, is_known ? "u0" : "nobody", PARAMS_NAMES_MAX);
	before = params_table_count(engine.params);
	other = engine_client(&engine);
	compare_count = 0;
	ck_assert(peer_say_bytes(&other, buf_bytes(&packet)));
	ck_assert_str_eq(peer_hear(&engine, &other), is_known ? "RSKZ" : "E.");
	/* Ten tracked names for each, plus sorting and the welcome for an accepted client. */
	ck_assert_uint_lt(compare_count, PARAMS_NAMES_MAX * (is_known ? 40 : 15));
	ck_assert_uint_eq(params_table_count(engine.params) - before, is_known);
	peer_close(&other);
	engine_turn(&engine);
	peer_close(&client);
	peer_close(&server);
	buf_free(&packet);
	engine_close(&engine);
}
END_TEST

START_TEST(startup_parameters_are_so_many)
{
	struct engine engine;
	struct peer client, server;
	struct buf packet = { 0 };

	engine_open(&engine, "", "");
	warm_up(&engine, &client, &server);
	add_parameters(&packet, "u0", PARAMS_NAMES_MAX + 1);
	check(&engine, buf_bytes(&packet), packet.count, "too many names", "E.",
	      "53300 too many startup parameters: at most 500 are accepted");
	buf_free(&packet);
	peer_close(&client);
	peer_close(&server);
	engine_close(&engine);
}
END_TEST

/* ---- other first packets ---- */

static const struct {
	const char *says;
	struct bytes packet;
	const char *heard; /* message types; "N" is the single byte */
	const char *error;
} packets[] = {
	{ "version 2", RAW("\0\0\0\11\0\2\0\0x"), "E.", "08P01 old V2 protocol not supported" },
	{ "nonsense", RAW("GET / HTTP/1.1\r\n\r\n"), "E.",
	  "08P01 bad packet header: '474554202f20485454502f312e310d0a'" },
	{ "too short to be a packet", RAW("\0\0\0\4\0\3\0\0"), "E.",
	  "08P01 bad packet header: '0000000400030000'" },
	{ "a cancel of nobody", RAW("\0\0\0\20\4\322\26\056abcdefgh"), ".", "" },
	{ "plain words behind SSLRequest", RAW("\0\0\0\10\4\322\26\057x"), "E.",
	  "08P01 received unencrypted data after SSL request" },
	{ "plain words behind GSSENCRequest", RAW("\0\0\0\10\4\322\26\060x"), "E.",
	  "08P01 received unencrypted data after GSSAPI encryption request" },
	{ "no zero at the end", RAW("\0\0\0\14\0\3\0\0user"), "E.", NULL },
	{ "the last pair has no value", RAW("\0\0\0\16\0\3\0\0user\0\0"), "E.", NULL },
	{ "longer than PostgreSQL takes", RAW("\0\0\47\25\0\3\0\0"), "E.",
	  "08P01 startup packet of 10005 bytes is too long: at most 10004 are "
	  "accepted" },
	{ "something behind the end", RAW("\0\0\0\22\0\3\0\0user\0u0\0\0x"), "E.", NULL },
};

START_TEST(first_packet_is_judged)
{
	struct engine engine;
	struct peer client;
	const char *heard;

	engine_open(&engine, "", "");
	client = engine_client(&engine);
	peer_say_bytes(&client, packets[_i].packet);
	heard = peer_hear(&engine, &client);
	ck_assert_msg(strcmp(heard, packets[_i].heard) == 0, "%s: \"%s\"", packets[_i].says, heard);
	if (packets[_i].error)
		ck_assert_msg(strcmp(client.error, packets[_i].error) == 0, "%s: \"%s\"",
		              packets[_i].says, client.error);
	peer_close(&client);
	engine_close(&engine);
}
END_TEST

/* Each kind of encryption is refused once, then the startup packet is sent in plain text. */
START_TEST(encryption_is_refused_once)
{
	static const char tls[] = "\0\0\0\10\4\322\26\057", gss[] = "\0\0\0\10\4\322\26\060";
	struct engine engine;
	struct peer client, server, other;
	char answer;

	engine_open(&engine, "", "");
	warm_up(&engine, &client, &server);
	other = engine_client(&engine);
	peer_say_bytes(&other, bytes_of(gss, 8));
	engine_turn(&engine);
	ck_assert_int_eq(recv(other.fd, &answer, 1, MSG_DONTWAIT), 1);
	ck_assert_int_eq(answer, 'N');
	peer_say_bytes(&other, bytes_of(tls, 8));
	engine_turn(&engine);
	ck_assert_int_eq(recv(other.fd, &answer, 1, MSG_DONTWAIT), 1);
	ck_assert_int_eq(answer, 'N');
	if (_i)
		peer_say_bytes(&other, bytes_of(tls, 8));
	else
		peer_start(&other, "u0", "d0");
	ck_assert_str_eq(peer_hear(&engine, &other), _i ? "." : "RSKZ");
	peer_close(&other);
	peer_close(&client);
	peer_close(&server);
	engine_close(&engine);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/startup");
	TCase *tcase = tcase_create("startup");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, startup_is_judged, 0, COUNT_OF(startups));
	tcase_add_loop_test(tcase, version_is_negotiated, 0, COUNT_OF(versions));
	tcase_add_test(tcase, options_are_all_told);
	tcase_add_loop_test(tcase, startup_parameters_are_little_work, 0, 2);
	tcase_add_test(tcase, startup_parameters_are_so_many);
	tcase_add_loop_test(tcase, first_packet_is_judged, 0, COUNT_OF(packets));
	tcase_add_loop_test(tcase, encryption_is_refused_once, 0, 2);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
