/* SPDX-License-Identifier: ISC */
/*
 * The engine in a box.
 */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/net/stream.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"
#include "auth_text.h"
#include "config_text.h"

#define TURNS 8

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "engine: %s\n", what);
	abort();
}

/* ---- the engine ---- */

static struct console_session *open_door(void *arg, struct client *client, enum console_role role)
{
	(void)arg;
	(void)client;
	(void)role;
	return NULL;
}

static void count_turn(struct task *task)
{
	struct engine *engine = (struct engine *)((char *)task - offsetof(struct engine, stop));

	if (engine->turns_left-- > 1)
		loop_defer(engine->loop, task);
	else
		loop_stop(engine->loop);
}

void engine_turn(struct engine *engine)
{
	engine->turns_left = TURNS;
	loop_defer(engine->loop, &engine->stop);
	loop_run(engine->loop);
}

static void listen_on(struct engine *engine)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t size;

	for (int number = 0; number < 1000; number++) {
		snprintf(engine->host, sizeof(engine->host), "@pgweir-engine-%d-%d", (int)getpid(),
		         number);
		size = (socklen_t)snprintf(name.sun_path, sizeof(name.sun_path), "%s/.s.PGSQL.5432",
		                           engine->host) +
		       (socklen_t)offsetof(struct sockaddr_un, sun_path);
		name.sun_path[0] = 0;
		engine->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (bind(engine->listening, (struct sockaddr *)&name, size) == 0)
			break;
		close(engine->listening);
	}
	must(listen(engine->listening, 64) == 0, "cannot listen");
}

static void load(struct engine *engine, const char *settings, const char *entry)
{
	static const char users[] = "\"u0\" \"\"\n\"u1\" \"\"\n\"u2\" \"\"\n";
	struct problems problems = { 0 };
	struct buf text = { 0 };

	buf_printf(&text,
	           "[databases]\nd0 = host=%s port=5432 %s\nd1 = host=%s port=5432 %s\n"
	           "d2 = host=%s port=5432 %s\n"
	           "[pgbouncer]\nauth_type = trust\nlog_connections = 0\nlog_disconnections = 0\n"
	           "auth_file = none\nsession_state = off\nsession_isolation = off\n"
	           "cancel_grace = 0\n%s\n",
	           engine->host, entry, engine->host, entry, engine->host, entry, settings);
	engine->config = config_parse(buf_bytes(&text), "engine", &problems);
	for (size_t i = 0; i < problems.errors.count; i++)
		fprintf(stderr, "%s\n", problems.errors.texts[i]);
	must(engine->config != NULL, "bad configuration");
	problems_done(&problems);
	buf_free(&text);
	engine->users = users_parse(bytes_of(users, sizeof(users) - 1), "users", &problems);
	must(!problems_any(&problems), "bad users");
}

void engine_open(struct engine *engine, const char *settings, const char *entry)
{
	engine_open_beside(engine, NULL, settings, entry);
}

void engine_open_beside(struct engine *engine, const struct engine *first, const char *settings,
                        const char *entry)
{
	static const struct hash_key secret = { { 1, 2 } };
	struct err err;

	*engine = (struct engine){ .stop.run = count_turn,
		                   .door.open = open_door,
		                   .shared = { .digest_key = secret } };
	engine->shared.door = &engine->door;
	listen_on(engine);
	load(engine, settings, entry);
	engine->loop = loop_new(&err);
	stream_pool_init(&engine->streams, engine->config->pkt_buf);
	engine->streams.outbox = outbox_new(engine->loop, NULL);
	must(engine->streams.outbox != NULL, "out of memory");
	engine->params = params_table_new();
	engine->verifiers = verifiers_new(10, &err);
	engine->broker = first ? first->broker : broker_new(ENGINES_MAX, &err);
	engine->shared.logins = first ? first->shared.logins : logins_new(&err);
	engine->is_first = !first;
	must(engine->broker != NULL, "no broker");
	engine->pools = pools_new(
	    &(struct server_shared){
		.loop = engine->loop,
		.streams = &engine->streams,
		.verifiers = engine->verifiers,
		.params = engine->params,
	    },
	    &(struct pools_with){
		.broker = engine->broker,
		.is_main = true,
		.statement_names = first ? &first->pools->statements.names : NULL,
	    },
	    engine->config, engine->users, &err);
	engine->clients =
	    clients_new(&engine->shared, 0, engine->pools, engine->config, engine->users, &err);
	must(engine->clients != NULL, "out of memory");
}

void engine_reload(struct engine *engine, const char *settings, const char *entry)
{
	const struct config *old_config = engine->config;
	struct users *old_users = engine->users;

	load(engine, settings, entry);
	pools_configure(engine->pools, engine->config, engine->users);
	clients_configure(engine->clients, engine->config, engine->users);
	config_unref(&old_config);
	users_release(&old_users);
}

void engine_close(struct engine *engine)
{
	clients_free(&engine->clients);
	pools_free(&engine->pools);
	if (engine->is_first) {
		broker_free(&engine->broker);
		logins_free(&engine->shared.logins);
	}
	verifiers_free(&engine->verifiers);
	must(params_table_count(engine->params) == 0, "a map of parameters was not let go");
	params_table_free(&engine->params);
	must(engine->streams.buffers.used_count == 0, "a buffer was not given back");
	outbox_free(&engine->streams.outbox);
	stream_pool_done(&engine->streams);
	loop_free(&engine->loop);
	config_unref(&engine->config);
	users_release(&engine->users);
	close(engine->listening);
}

struct peer engine_client(struct engine *engine)
{
	struct address address = {
		.un = { .family = AF_UNIX, .pid = 0, .uid = (uid_t)-1, .port = 6432 }
	};
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no socket pair");
	clients_accept(engine->clients, pair[0], &address, NULL,
	               pools_next_id(engine->clients->pools));
	return (struct peer){ .fd = pair[1] };
}

struct peer engine_server(struct engine *engine)
{
	engine_turn(engine);
	return (struct peer){
		.fd = accept4(engine->listening, NULL, NULL, SOCK_NONBLOCK),
		.is_server = true,
	};
}

/* ---- peers ---- */

/* Message bodies that are not all zeroes. */
static void add_server_message(struct buf *out, char type)
{
	static const struct report error = { .severity = "ERROR",
		                             .sqlstate = "42601",
		                             .text = "no" };
	static const struct report fatal = { .severity = "FATAL",
		                             .sqlstate = "57P01",
		                             .text = "bye" };
	static const struct report refused = { .severity = "FATAL",
		                               .sqlstate = "3D000",
		                               .text = "no such thing" };

	switch (type) {
	case 'R':
		message_auth(out, AUTH_OK, bytes_of("", 0));
		return;
	case 'S':
		message_parameter(out, "TimeZone", "UTC");
		return;
	case 'K':
		message_key(out, bytes_of("12345678", 8));
		return;
	case 'Z':
		message_ready(out, 'I');
		return;
	case 'z': /* in a transaction */
		message_ready(out, 'T');
		return;
	case 'y': /* in one that has failed */
		message_ready(out, 'E');
		return;
	case 'C':
		message_complete(out, "SELECT 1");
		return;
	case 'x': /* the response to DISCARD ALL */
		message_complete(out, "DISCARD ALL");
		return;
	case 'E':
		message_error(out, &error);
		return;
	case '!':
		message_error(out, &fatal);
		return;
	case '?':
		message_error(out, &refused);
		return;
	case 'N':
		message_notice(out, &error);
		return;
	default:
		message_end(out, message_begin(out, type));
	}
}

void peer_message(const struct peer *peer, struct buf *out, char type)
{
	size_t at;

	if (peer->is_server) {
		add_server_message(out, type);
	} else if (type == 'Q') {
		message_query(out, "select 1");
	} else {
		at = message_begin(out, type);
		buf_add_cstr(out, "");
		message_end(out, at);
	}
}

bool peer_say_bytes(struct peer *peer, struct bytes bytes)
{
	return send(peer->fd, bytes.at, bytes.count, MSG_NOSIGNAL) == (ssize_t)bytes.count;
}

bool peer_say(struct peer *peer, const char *types)
{
	struct buf out = { 0 };
	bool is_said;

	for (; *types; types++)
		peer_message(peer, &out, *types);
	is_said = peer_say_bytes(peer, buf_bytes(&out));
	buf_free(&out);
	return is_said;
}

void peer_start(struct peer *peer, const char *user, const char *database)
{
	peer_start_replication(peer, user, database, NULL);
}

void peer_start_replication(struct peer *peer, const char *user, const char *database,
                            const char *replication)
{
	struct buf out = { 0 };
	size_t at = message_startup_begin(&out, PROTOCOL_3_0);

	message_startup_pair(&out, "user", user);
	message_startup_pair(&out, "database", database);
	if (replication)
		message_startup_pair(&out, "replication", replication);
	message_startup_end(&out, at);
	peer_say_bytes(peer, buf_bytes(&out));
	buf_free(&out);
}

/* The length of the first message, 0 = not complete yet. */
static size_t next_message(struct peer *peer, char *type)
{
	struct bytes in = buf_bytes(&peer->in);
	struct frame frame;
	size_t count;

	if (peer->is_server && !peer->has_started) {
		count = in.count >= 4 ? load_be32(in.at) : 0;
		*type = '^';
		peer->has_started = count && in.count >= count;
		return peer->has_started ? count : 0;
	}
	if (frame_peek(in, UINT32_MAX, &frame) != WIRE_OK || in.count < frame.length)
		return 0;
	*type = frame.type;
	return frame.length;
}

static void hear_error(struct peer *peer, struct bytes message)
{
	struct report report = { .sqlstate = "", .text = "" };

	fields_report(bytes_skip(message, FRAME_HEADER_SIZE), &report);
	snprintf(peer->error, sizeof(peer->error), "%s %s", report.sqlstate, report.text);
}

/* ParameterStatus messages about the pooler itself. */
static bool is_about_us(char type, struct bytes message)
{
	static const char name[] = "pgbouncer.";

	return type == 'S' && message.count > FRAME_HEADER_SIZE + sizeof(name) &&
	       memcmp(message.at + FRAME_HEADER_SIZE, name, sizeof(name) - 1) == 0;
}

const char *peer_hear(struct engine *engine, struct peer *peer)
{
	size_t heard = 0, count;
	ssize_t done;
	char type;

	engine_turn(engine);
	while ((done = recv(peer->fd, buf_reserve(&peer->in, 65536), 65536, MSG_DONTWAIT)) > 0) {
		peer->in.count += (size_t)done;
		engine_turn(engine);
	}
	while ((count = next_message(peer, &type)) && heard < sizeof(peer->heard) - 2) {
		if (type == 'E' && !peer->is_server)
			hear_error(peer, bytes_of(peer->in.at, count));
		if (!is_about_us(type, bytes_of(peer->in.at, count))) {
			peer->heard[heard++] = type;
			if (peer->see && type != '^')
				peer->see(peer, type, bytes_of(peer->in.at, count));
		}
		buf_drop(&peer->in, count);
	}
	if (done == 0 || (done < 0 && errno != EAGAIN))
		peer->heard[heard++] = '.';
	peer->heard[heard] = 0;
	return peer->heard;
}

void peer_close(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
	buf_free(&peer->in);
}
