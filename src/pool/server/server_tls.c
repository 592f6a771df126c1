/* SPDX-License-Identifier: ISC */
/*
 * Establishes TLS with a connected server as server_tls_sslmode requires; then its login begins.
 */
#include "securing_priv.h"
#include "pgweir/base/container_of.h"

#include "server_priv.h"

static struct securing_how server_securing(const struct server *server)
{
	const struct server_shared *shared = server->site->shared;
	const struct hosts *hosts = server->site->hosts;

	return (struct securing_how){
		.tls = address_is_unix(&server->peer) ? NULL : shared->tls,
		.host = server->site->tls_host        ? server->site->tls_host
		        : server->host < hosts->count ? hosts->list[server->host].name
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
	struct server *server = container_of(stream, struct server, stream);
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

	return !server->is_tls_direct || tls_agreed_protocol(&server->stream, &name) > 0;
}

static void on_server_secured(struct stream *stream, const struct err *failure)
{
	struct server *server = container_of(stream, struct server, stream);
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

void server_secure(struct server *server)
{
	struct securing_how how = server_securing(server);
	struct err err;

	server->stream.ops = &ops;
	server->is_tls_direct = how.is_direct;
	act_on_securing(server, securing_begin(&server->stream, &how, &err), &err);
}
