/* SPDX-License-Identifier: ISC */
/*
 * Launches a server, up to its startup packet.
 *
 *   server_launch --> its host (server_host.c) --> on_connected --> TLS (server_tls.c)
 *                 --> send_startup --> its login (server_login.c)
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

#include "server_priv.h"

/* ---- connecting ---- */

/* The startup parameters of a dedicated server's borrower are sent unchanged. */
static void add_wish(struct buf *out, const struct server_wish *wish)
{
	const char *at = NULL, *name, *value;

	if (wish->replication)
		message_startup_pair(out, "replication",
		                     wish->replication == REPLICATION_LOGICAL ? "database"
		                                                              : "true");
	if (wish->options)
		message_startup_pair(out, "options", wish->options);
	while (params_next(wish->params, &at, &name, &value))
		message_startup_pair(out, name, value);
}

static void add_startup(struct buf *out, const struct server *server, uint32_t version)
{
	const struct server_site *site = server->site;
	const struct server_wish *wish = server->expected_by ? server->expected_by->wish : NULL;
	const struct config_database *entry = site->entry;
	size_t at = message_startup_begin(out, version);
	const struct {
		const char *name, *value;
	} pairs[] = {
		{ "user", site->user },
		{ "database", config_database_dbname(entry, site->database) },
		{ "client_encoding", entry->client_encoding },
		{ "DateStyle", entry->datestyle },
		{ "TimeZone", entry->timezone },
		{ "application_name", entry->application_name },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (pairs[i].value && !(wish && params_find(wish->params, pairs[i].name)))
			message_startup_pair(out, pairs[i].name, pairs[i].value);
	}
	if (wish)
		add_wish(out, wish);
	message_startup_end(out, at);
}

static void log_connected(struct server *server)
{
	static const struct log_facts facts = { .event = "connect" };
	struct address self;
	char text[ADDRESS_TEXT_SIZE];

	if (!server->site->shared->config->log_connections || server->site->is_watch)
		return;
	if (address_is_unix(&server->peer) || !address_of_self(&self, server->stream.watch.fd, 0)) {
		log_event(&server->log, LOG_LEVEL_INFO, &facts, "new connection to server");
		return;
	}
	log_event(&server->log, LOG_LEVEL_INFO, &facts, "new connection to server (from %s)",
	          address_format(&self, text, sizeof(text)));
}

static uint32_t version_for(const struct server *server)
{
	bool is_old = server->login->is_again || server_protocol(server) == HOST_OLD;

	return is_old ? PROTOCOL_3_0 : PROTOCOL_3_2;
}

/* A key was derived. */
static void on_work(void *arg)
{
	struct server *server = arg;

	if (!server_login_resume(server))
		return;
	stream_want(&server->stream, WANT_INPUT);
	server_judge_kept(server);
}

static void on_server_connected(struct dial *dial, int fd, const struct err *err)
{
	struct server_login *login = container_of(dial, struct server_login, dial);
	struct server *server = login->server;
	const struct server_shared *shared = server->site->shared;

	if (fd < 0) {
		server_close(server, err);
		return;
	}
	stream_open(&server->stream, shared->loop, shared->streams, fd, &server_stream_ops);
	if (address_is_unix(&server->peer))
		address_of_peer(&server->peer, fd, address_port(&server->peer));
	log_connected(server);
	server_secure(server);
}

static void send_startup(struct server *server)
{
	struct server_login *login = server->login;
	const struct server_shared *shared = server->site->shared;
	unsigned char binding[TLS_BINDING_MAX];
	size_t binding_count = tls_channel_binding(&server->stream, binding);
	struct buf out = { 0 };

	server->stream.ops = &server_stream_ops;
	login->asked = version_for(server);
	add_startup(&out, server, login->asked);
	login->auth = auth_client_new(&(struct auth_client_who){
	    .user = server->site->user,
	    .credentials = server->site->ops->credentials(server),
	    .require = &shared->config->server_require_auth,
	    .binding = bytes_of(binding, binding_count),
	    .verifiers = shared->verifiers,
	    .on_work = on_work,
	    .arg = server,
	});
	server_enter(server, SERVER_LOGIN);
	if (!login->auth || !buf_ok(&out))
		server_close_with(server, ERR_MEMORY, "out of memory");
	else if (!stream_send(&server->stream, buf_bytes(&out)) ||
	         !stream_want(&server->stream, WANT_INPUT))
		server_close_for(server, CLOSE_SERVER_LOGIN_CLOSED);
	buf_free(&out);
}

static const struct server_login_steps steps = { on_server_connected, send_startup };

bool server_launch(struct server *server)
{
	struct loop *loop = server->site->shared->loop;
	struct err err;

	server->login = calloc(1, sizeof(*server->login));
	server->connected_at = server->used_at = loop_now(loop);
	server->connect_wall = wall_now();
	timer_set(&server->timer, server->site->limits.connect, server->connected_at);
	if (!server->login) {
		server_close_with(server, ERR_MEMORY, "out of memory");
		return false;
	}
	server->login->server = server;
	server->login->steps = &steps;
	if (!server_find_host(server, &err)) {
		server_close(server, &err);
		return false;
	}
	return true;
}
