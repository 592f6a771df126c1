/* SPDX-License-Identifier: ISC */
/*
 * Launches a server, up to its startup packet.
 *
 *   server_launch --> its host (server_host.c) --> on_connected --> TLS
 *                 --> send_startup --> its login (server_login.c)
 */
#include "server_priv.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

/*
 * ---- securing ----
 *
 * Asks a server for encryption.
 *
 *   SSLRequest -->   <-- 'S' and no further byte    handshake
 *                    <-- 'N'                        plain, if allowed
 *
 * Hard here: nothing that arrives before the end of the handshake can be trusted. Bytes after the
 * 'S' are not encrypted, so an attacker may have inserted them.
 */

static enum securing failed(struct err *err, const char *reason)
{
	err_set(err, ERR_SERVER_CONNECT, "%s", reason);
	return SECURING_FAILED;
}

static enum securing failed_for(struct err *err, enum close_reason reason, const char *words)
{
	err_set(err, ERR_SERVER_CONNECT, "%s", words);
	err_reason(err, reason);
	return SECURING_FAILED;
}

static enum securing shake(struct stream *stream, const struct securing_how *how, struct err *err)
{
	bool begins = how->like
	                  ? stream_secure_like(stream, how->like, err)
	                  : stream_secure(stream, how->tls, how->host, (struct bytes){ 0 }, err);

	return begins ? SECURING_MORE : SECURING_FAILED;
}

enum securing securing_begin(struct stream *stream, const struct securing_how *how, struct err *err)
{
	struct buf out = { 0 };
	bool is_sent;

	if (!how->tls && !how->like)
		return SECURING_PLAIN;
	if (how->is_direct)
		return shake(stream, how, err);
	message_tls_request(&out);
	is_sent =
	    buf_ok(&out) && stream_send(stream, buf_bytes(&out)) && stream_want(stream, WANT_INPUT);
	buf_free(&out);
	return is_sent ? SECURING_MORE : failed(err, "server closed the connection");
}

enum securing securing_answer(struct stream *stream, const struct securing_how *how,
                              struct err *err)
{
	struct bytes in;

	switch (stream_read(stream, &in)) {
	case STREAM_NOTHING:
		return SECURING_MORE;
	case STREAM_END:
		return failed_for(err, CLOSE_SERVER_LOGIN_CLOSED,
		                  "server closed the connection during login");
	default:
		break;
	}
	if (in.count > 1)
		return failed_for(err, CLOSE_EARLY_DATA,
		                  "received unencrypted data after SSL response");
	if (in.at[0] == 'N')
		return how->is_required ? failed(err, "server refused SSL") : SECURING_PLAIN;
	if (in.at[0] != 'S')
		return failed(err, "server gave no answer to the SSL request that makes sense");
	if (!how->tls && !how->like) /* a reload came between the SSLRequest and the reply */
		return failed_for(err, CLOSE_SERVER_TLS_STOPPED, "database configuration changed");
	return shake(stream, how, err);
}

/* ---- TLS as server_tls_sslmode requires; then the login begins ---- */

static struct securing_how server_securing(const struct server *server)
{
	const struct server_shared *shared = server->site->shared;
	const struct hosts *hosts = server->site->hosts;

	return (struct securing_how){
		.tls = address_is_unix(&server->place.peer) ? NULL : shared->tls,
		.host = server->site->tls_host              ? server->site->tls_host
		        : server->place.host < hosts->count ? hosts->list[server->place.host].name
		                                            : "",
		.is_required = shared->config->server_tls_sslmode >= TLS_MODE_REQUIRE,
		.is_direct = shared->config->server_tls_negotiation == TLS_NEGOTIATION_DIRECT,
	};
}

static void act_on_securing(struct server *server, enum securing securing, const struct err *err)
{
	if (securing == SECURING_FAILED)
		server_close(server, err);
	else if (securing == SECURING_PLAIN)
		server->login->steps->on_secured(server);
}

static void on_securing_input(struct stream *stream)
{
	struct server *server = container_of(stream, struct server, wire.stream);
	struct securing_how how = server_securing(server);
	struct err err;

	server_heard(server);
	act_on_securing(server, securing_answer(stream, &how, &err), &err);
}

static void on_securing_flushed(struct stream *stream) { (void)stream; }

static void on_securing_gone(struct stream *stream) { on_securing_input(stream); }

/* Without ALPN, the peer could be a server of another protocol. */
static bool is_postgres(const struct server *server)
{
	const char *name;

	return !server->is_tls_direct || tls_agreed_protocol(&server->wire.stream, &name) > 0;
}

static void on_server_secured(struct stream *stream, const struct err *failure)
{
	struct server *server = container_of(stream, struct server, wire.stream);
	char text[TLS_TEXT_SIZE];
	struct err err;

	if (failure) {
		server_close(server, failure);
		return;
	}
	if (!is_postgres(server)) {
		err_set(&err, ERR_SERVER_CONNECT, "server did not agree on PostgreSQL's protocol");
		server_close(server, &err);
		return;
	}
	if (server->site->shared->config->log_connections)
		log_info(&server->log, "SSL established: %s", tls_text(stream, text, sizeof(text)));
	server->login->steps->on_secured(server);
}

static const struct stream_ops ops = { on_securing_input, on_securing_flushed, on_securing_gone,
	                               on_server_secured };

/* Establishes TLS if configured; then calls login->steps->on_secured(). */
static void server_secure(struct server *server)
{
	struct securing_how how = server_securing(server);
	struct err err;

	server->wire.stream.ops = &ops;
	server->is_tls_direct = how.is_direct;
	act_on_securing(server, securing_begin(&server->wire.stream, &how, &err), &err);
}

/* ---- launch ---- */

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
	const struct server_wish *wish =
	    server->lease.expected_by ? server->lease.expected_by->wish : NULL;
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
	if (address_is_unix(&server->place.peer) ||
	    !address_of_self(&self, server->wire.stream.watch.fd, 0)) {
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
	stream_want(&server->wire.stream, WANT_INPUT);
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
	stream_open(&server->wire.stream, shared->loop, shared->streams, fd, &server_stream_ops);
	if (address_is_unix(&server->place.peer))
		address_of_peer(&server->place.peer, fd, address_port(&server->place.peer));
	log_connected(server);
	server_secure(server);
}

static void send_startup(struct server *server)
{
	struct server_login *login = server->login;
	const struct server_shared *shared = server->site->shared;
	unsigned char binding[TLS_BINDING_MAX];
	size_t binding_count = tls_channel_binding(&server->wire.stream, binding);
	struct buf out = { 0 };

	server->wire.stream.ops = &server_stream_ops;
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
	else if (!stream_send(&server->wire.stream, buf_bytes(&out)) ||
	         !stream_want(&server->wire.stream, WANT_INPUT))
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
