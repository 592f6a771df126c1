/* SPDX-License-Identifier: ISC */
/*
 * A server alone.
 */
#include "lone_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/pgwire/frame.h"
#include "config_text.h"

#define TURNS 4

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "lone server: %s\n", what);
	abort();
}

static struct lone_server *of_server(const struct server *server)
{
	return (struct lone_server *)((char *)server - offsetof(struct lone_server, server));
}

static struct lone_server *of_borrower(const struct borrower *borrower)
{
	return (struct lone_server *)((char *)borrower - offsetof(struct lone_server, borrower));
}

/* ---- the pool ---- */

static void on_state(struct server *server, enum server_state from)
{
	(void)server;
	(void)from;
}

static void on_released(struct server *server) { (void)server; }

static void on_close_needed(struct server *server)
{
	if (server->close_reason)
		buf_add_text(&of_server(server)->heard, " needed ");
}

static void on_home(struct server *server) { buf_add_text(&of_server(server)->heard, " home "); }

static void on_borrower_lost(struct server *server, struct borrower *borrower)
{
	(void)server;
	(void)borrower;
}

static void on_free(struct server *server) { of_server(server)->is_freed = true; }

static const struct server_ops pool_ops = {
	.on_state = on_state,
	.on_released = on_released,
	.on_close_needed = on_close_needed,
	.on_home = on_home,
	.on_borrower_lost = on_borrower_lost,
	.on_free = on_free,
};

/* ---- the borrower ---- */

static bool on_bytes(struct borrower *borrower, struct bytes bytes)
{
	struct lone_server *lone = of_borrower(borrower);
	struct frame frame;
	struct bytes got;

	buf_add(&lone->got, bytes.at, bytes.count);
	got = buf_bytes(&lone->got);
	while (frame_peek(got, UINT32_MAX, &frame) == WIRE_OK && frame.length <= got.count) {
		buf_add_byte(&lone->heard, frame.type);
		buf_clear(&lone->last);
		buf_add(&lone->last, got.at, frame.length);
		got = bytes_skip(got, frame.length);
	}
	buf_drop(&lone->got, lone->got.count - got.count);
	return true;
}

static void on_ready(struct borrower *borrower, char status, bool is_settled)
{
	buf_add_byte(&of_borrower(borrower)->heard, is_settled ? '+' : '-');
	buf_add_byte(&of_borrower(borrower)->heard, status);
}

static void on_deallocated(struct borrower *borrower)
{
	buf_add_byte(&of_borrower(borrower)->heard, '^');
}

static void on_retry(struct borrower *borrower, struct bytes batch)
{
	(void)batch;
	buf_add_byte(&of_borrower(borrower)->heard, '>');
}

static void on_writable(struct borrower *borrower)
{
	buf_add_byte(&of_borrower(borrower)->heard, '*');
}

static void on_lent(struct borrower *borrower) { buf_add_byte(&of_borrower(borrower)->heard, 'l'); }

static void on_lost(struct borrower *borrower, const struct err *err, bool got_fatal)
{
	buf_printf(&of_borrower(borrower)->heard, "%s(%s)", got_fatal ? "left" : "lost", err->text);
}

static const struct borrower_ops borrower_ops = {
	.on_bytes = on_bytes,
	.on_ready = on_ready,
	.on_deallocated = on_deallocated,
	.on_retry = on_retry,
	.on_writable = on_writable,
	.on_lent = on_lent,
	.on_lost = on_lost,
};

/* ---- both ends ---- */

static void count_turn(struct task *task)
{
	struct lone_server *lone =
	    (struct lone_server *)((char *)task - offsetof(struct lone_server, stop));

	if (lone->turns_left-- > 1)
		loop_defer(lone->loop, task);
	else
		loop_stop(lone->loop);
}

void lone_server_turn(struct lone_server *lone)
{
	lone->turns_left = TURNS;
	loop_defer(lone->loop, &lone->stop);
	loop_run(lone->loop);
}

void lone_server_say(struct lone_server *lone, struct bytes bytes, bool by_bytes)
{
	size_t step = by_bytes ? 1 : bytes.count;

	for (; bytes.count; bytes = bytes_skip(bytes, step)) {
		/* The server may have closed: then nobody hears it. */
		if (send(lone->peer, bytes.at, step, MSG_NOSIGNAL) < 0)
			return;
		lone_server_turn(lone);
	}
}

static void log_in(struct lone_server *lone, int fd)
{
	struct server *server = &lone->server;

	server_init(server, &lone->site, NULL, 1);
	stream_open(&server->wire.stream, lone->loop, &lone->streams, fd, &server_stream_ops);
	server_enter(server, SERVER_LOGIN);
	server_enter(server, SERVER_IDLE);
	server_enter(server, SERVER_LENT);
	server->wire.status = 'I';
	server->wire.is_ready = true;
	server->lease.borrower = &lone->borrower;
	lone->borrower.server = server;
	lone->borrower.state = BORROWER_SERVED;
	must(stream_want(&server->wire.stream, WANT_INPUT), "cannot watch the socket");
}

void lone_server_open(struct lone_server *lone, const char *settings)
{
	struct problems problems = { 0 };
	struct buf text = { 0 };
	struct err err;
	int ends[2];

	*lone = (struct lone_server){ .stop.run = count_turn, .borrower.ops = &borrower_ops };
	buf_printf(&text, "[pgbouncer]\nlog_disconnections = 0\n%s\n", settings);
	lone->config = config_parse(buf_bytes(&text), "lone server", &problems);
	must(lone->config != NULL, "bad configuration");
	problems_done(&problems);
	buf_free(&text);
	lone->loop = loop_new(&err);
	lone->params = params_table_new();
	must(lone->loop && lone->params && statements_init(&lone->statements, NULL),
	     "out of memory");
	stream_pool_init(&lone->streams, lone->config->pkt_buf);
	lone->shared = (struct server_shared){
		.loop = lone->loop,
		.streams = &lone->streams,
		.params = lone->params,
		.closes = &lone->closes,
		.order_message = &lone->order_message,
		.sockets = &lone->sockets,
		.config = lone->config,
	};
	reach_init(&lone->reach);
	lone->hosts = (struct hosts){ .reach = &lone->reach };
	lone->site = (struct server_site){
		.shared = &lone->shared,
		.ops = &pool_ops,
		.database = "d",
		.user = "u",
		.hosts = &lone->hosts,
		.client_bytes = &lone->client_bytes,
		.server_bytes = &lone->server_bytes,
		.all_client_bytes = &lone->all_client_bytes,
		.all_server_bytes = &lone->all_server_bytes,
	};
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "no sockets");
	lone->peer = ends[1];
	log_in(lone, ends[0]);
}

void lone_server_close(struct lone_server *lone)
{
	struct err err;

	lone->server.lease.borrower = NULL;
	err_set(&err, ERR_ADMIN_SHUTDOWN, "the test is over");
	server_close(&lone->server, &err);
	lone_server_turn(lone);
	must(lone->is_freed, "the server was not freed");
	if (lone->peer >= 0)
		close(lone->peer);
	must(params_table_count(lone->params) == 0, "a parameter map is still held");
	params_table_free(&lone->params);
	hosts_done(&lone->hosts);
	reach_done(&lone->reach);
	sparse_sum_free(&lone->closes.of_none);
	stream_pool_done(&lone->streams);
	loop_free(&lone->loop);
	config_unref(&lone->config);
	buf_free(&lone->order_message);
	buf_free(&lone->got);
	buf_free(&lone->last);
	buf_free(&lone->heard);
}
