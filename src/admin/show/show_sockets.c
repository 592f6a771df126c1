/* SPDX-License-Identifier: ISC */
/*
 * SHOW of connections: CLIENTS, SERVERS, and both as SOCKETS and ACTIVE_SOCKETS.
 *
 * They walk the connections of each lane in the order of ids. A walk moves on when the
 * connection that it points at is freed.
 */
#include "show_priv.h"

#include <stdio.h>
#include <time.h>

#include "pgweir/net/tls.h"

#include "pgweir/base/banned.h"

#define POINTER_SIZE 24

struct socket_row {
	const char *type, *user, *database, *replication, *state, *addr, *local_addr;
	const char *connect_time, *request_time, *ptr, *link, *tls, *application_name;
	int64_t port, local_port, wait, wait_us, close_needed, remote_pid;
	int64_t prepared_statements, id;
	int64_t recv_pos, pkt_pos, pkt_remain, send_pos, send_remain, pkt_avail, send_avail;
	char addr_buffer[ADDRESS_TEXT_SIZE], local_addr_buffer[ADDRESS_TEXT_SIZE];
	char connect_buffer[TIME_TEXT_SIZE], request_buffer[TIME_TEXT_SIZE];
	char tls_buffer[TLS_TEXT_SIZE];
	char ptr_buffer[POINTER_SIZE], link_buffer[POINTER_SIZE];
};
_Static_assert(sizeof(struct socket_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct socket_row, VALUE_TEXT, field, help)
#define INT4(field, help) COLUMN(struct socket_row, VALUE_INT4, field, help)

/* SOCKETS shows all of these columns; CLIENTS and SERVERS have only the first ones. */
#define CONNECTION_COLUMNS 21

static const struct column socket_columns[] = {
	TEXT(type, "C: client connection; S: server connection."),
	TEXT(user, "User that logged in."),
	TEXT(database, "Name of the database."),
	TEXT(replication, "Kind of replication connection: none, logical or physical."),
	TEXT(state, "State of the connection."),
	TEXT(addr, "Remote IP address, or unix."),
	INT4(port, "Remote port."),
	TEXT(local_addr, "Local IP address."),
	INT4(local_port, "Local port."),
	TEXT(connect_time, "When the connection was established."),
	TEXT(request_time, "When the current request began; if there is none, when the connection "
	                   "was established or last used."),
	INT4(wait, "Seconds since the current query began."),
	INT4(wait_us, "Microsecond part of the waiting time (column wait has the seconds)."),
	INT4(close_needed, "1: the connection is closed as soon as it is free."),
	TEXT(ptr, "Identifier of the connection in the log."),
	TEXT(link, "ptr of the linked client or server; empty: none."),
	INT4(remote_pid, "Process ID of the PostgreSQL backend, or of the client at a Unix "
	                 "socket; 0: unknown."),
	TEXT(tls, "TLS version and cipher; empty: no TLS."),
	TEXT(application_name, "application_name of the client or of the server connection."),
	INT4(prepared_statements,
	     "Number of prepared statements that are tracked on the connection."),
	INT4(id, "Unique number of the connection; it is never reused."),
	INT4(recv_pos, "Bytes in the receive buffer."),
	INT4(pkt_pos, "Bytes in the receive buffer that have been processed."),
	INT4(pkt_remain, "Bytes of the current message that have not arrived yet."),
	INT4(send_pos, "Bytes in the send buffer that have been sent."),
	INT4(send_remain, "Always 0."),
	INT4(pkt_avail, "Bytes in the receive buffer that have not been processed yet."),
	INT4(send_avail, "Bytes in the send buffer that have not been sent yet."),
};

#undef TEXT
#undef INT4

/* ---- what clients and servers have in common ---- */

/*
 * A stored time is monotonic. It is converted by its distance from now, so it moves when
 * the wall clock is set.
 */
const char *show_time_text(usec_t at, usec_t now, char buffer[TIME_TEXT_SIZE])
{
	time_t seconds = (time_t)((wall_now() - (now - at)) / USEC_PER_SEC);
	struct tm parts;

	buffer[0] = 0;
	if (localtime_r(&seconds, &parts))
		strftime(buffer, TIME_TEXT_SIZE, "%Y-%m-%d %H:%M:%S %Z", &parts);
	return buffer;
}

static const char *pointer_text(const void *pointer, char buffer[POINTER_SIZE])
{
	buffer[0] = 0;
	if (pointer)
		snprintf(buffer, POINTER_SIZE, "%p", pointer);
	return buffer;
}

static void fill_times(struct socket_row *row, usec_t connected, usec_t request, usec_t now)
{
	usec_t wait = request ? now - request : 0;

	row->connect_time = show_time_text(connected, now, row->connect_buffer);
	row->request_time = show_time_text(request ? request : connected, now, row->request_buffer);
	row->wait = wait / USEC_PER_SEC;
	row->wait_us = wait % USEC_PER_SEC;
}

static void fill_stream(struct socket_row *row, const struct stream *stream,
                        const struct address *peer, const struct config *config)
{
	struct address self;

	row->addr = address_format_host(peer, row->addr_buffer, sizeof(row->addr_buffer));
	row->port = address_port(peer);
	row->local_addr = row->local_addr_buffer;
	if (stream_is_open(stream) &&
	    address_of_self(&self, stream->watch.fd, (uint16_t)config->listen_port)) {
		address_format_host(&self, row->local_addr_buffer, sizeof(row->local_addr_buffer));
		row->local_port = address_port(&self);
	}
	row->recv_pos = row->pkt_avail = (int64_t)stream_kept(stream).count;
	row->tls = tls_text(stream, row->tls_buffer, sizeof(row->tls_buffer));
	row->send_avail = stream_is_open(stream) ? (int64_t)stream_unsent(stream) : 0;
}

static const char *replication_text(enum replication replication)
{
	static const char *const words[] = {
		[REPLICATION_NONE] = "none",
		[REPLICATION_PHYSICAL] = "physical",
		[REPLICATION_LOGICAL] = "logical",
	};

	return words[replication];
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

/* ---- clients ---- */

static void fill_client(struct socket_row *row, const struct client *client,
                        const struct show_source *source)
{
	usec_t now = loop_now(client->clients->with.loop);

	row->type = "C";
	row->user = client_user(client);
	row->database = client_database(client);
	row->replication = replication_text((enum replication)client->replication);
	fill_stream(row, &client->stream, &client->peer, show_source_config(source));
	fill_times(row, client->connected_at, client->request_at, now);
	row->ptr = pointer_text(client, row->ptr_buffer);
	row->link = pointer_text(client->borrower.server, row->link_buffer);
	row->remote_pid = address_is_unix(&client->peer) ? client->peer.un.pid : 0;
	row->application_name = text_or_empty(params_find(client->params, "application_name"));
	row->prepared_statements = client_statement_count(client);
	row->id = (int64_t)client->id;
	row->pkt_remain = client->frame_left;
}

/* The next client that the SHOW wants. NULL: no more, or has_more. */
static const struct client *take_client(struct cursor *cursor)
{
	const struct client *client;

	while ((client = cursor_next_client(cursor))) {
		if (cursor_wants(cursor, client_database(client)))
			return client;
	}
	return NULL;
}

static bool next_client(struct cursor *cursor, void *at)
{
	const struct client *client;
	struct socket_row *row = at;

	do
		client = take_client(cursor);
	while (client && !client_state_name(client));
	if (!client)
		return false;
	fill_client(row, client, cursor->source);
	row->state = client_state_name(client);
	return true;
}

const struct show show_clients = { "CLIENTS",
	                           next_client,
	                           { socket_columns, CONNECTION_COLUMNS },
	                           "Client connections.",
	                           CONSOLE_STATS,
	                           SHOW_OF_DATABASE };

/* ---- servers ---- */

static const char *state_text(const struct server *server)
{
	if (server->state == SERVER_LENT && server->is_listening)
		return "listening";
	if (server->state == SERVER_LENT && !server->borrower)
		return "idle";
	return server_state_name(server->state);
}

static void fill_server(struct socket_row *row, const struct server *server,
                        const struct show_source *source)
{
	usec_t now = loop_now(server->pool->pools->with.loop);
	const char *name = params_find(server->params, "application_name");
	const void *client = server->borrower ? client_of_borrower(server->borrower) : NULL;

	row->type = "S";
	row->user = server->pool->role->name;
	row->database = server->pool->database->name;
	row->replication = replication_text(server->replication);
	row->state = state_text(server);
	fill_stream(row, &server->stream, &server->peer, show_source_config(source));
	fill_times(row, server->connected_at, server->request_at, now);
	if (!server->request_at && server->used_at)
		row->request_time = show_time_text(server->used_at, now, row->request_buffer);
	row->close_needed = server->is_close_needed;
	row->ptr = pointer_text(server, row->ptr_buffer);
	row->link = pointer_text(client, row->link_buffer);
	row->remote_pid = server_backend_pid(server);
	row->application_name =
	    text_or_empty(name ? name : params_find(server->baseline, "application_name"));
	row->prepared_statements = server_statements_count(&server->statements);
	row->id = (int64_t)server->id;
	row->pkt_remain = server->frame_left;
}

static const struct server *take_server(struct cursor *cursor)
{
	const struct server *server;

	while ((server = cursor_next_server(cursor))) {
		if (server->state != SERVER_CLOSING &&
		    cursor_wants(cursor, server->pool->database->name))
			return server;
	}
	return NULL;
}

static bool next_server(struct cursor *cursor, void *row)
{
	const struct server *server = take_server(cursor);

	if (server)
		fill_server(row, server, cursor->source);
	return server != NULL;
}

const struct show show_servers = { "SERVERS",
	                           next_server,
	                           { socket_columns, CONNECTION_COLUMNS },
	                           "Server connections.",
	                           CONSOLE_STATS,
	                           SHOW_OF_DATABASE };

/* ---- both ---- */

static const char *client_socket_state(const struct client *client)
{
	switch (client->state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTHENTICATION:
	case CLIENT_DERIVING:
	case CLIENT_DELAYED:
		return "cl_login";
	case CLIENT_NEWCOMER:
	case CLIENT_WAITING:
	case CLIENT_CATCHING_UP:
		return "cl_waiting";
	case CLIENT_IDLE:
	case CLIENT_LATE:
	case CLIENT_PREPARING:
	case CLIENT_ACTIVE:
	case CLIENT_SETTLING:
	case CLIENT_CONSOLE:
		return "cl_active";
	default:
		return NULL; /* cancel requests, and clients that are being closed */
	}
}

static const char *server_socket_state(const struct server *server)
{
	switch (server->state) {
	case SERVER_CONNECTING:
	case SERVER_LOGIN:
		return "sv_login";
	case SERVER_IDLE:
		return "sv_idle";
	case SERVER_USED:
		return "sv_used";
	case SERVER_CHECKING:
	case SERVER_RESETTING:
		return "sv_tested";
	default:
		return "sv_active";
	}
}

static bool next_socket(struct cursor *cursor, void *at)
{
	const struct client *client;
	const struct server *server;
	struct socket_row *row = at;

	while ((client = take_client(cursor))) {
		row->state = client_socket_state(client);
		if (!row->state)
			continue;
		fill_client(row, client, cursor->source);
		return true;
	}
	server = cursor->has_more ? NULL : take_server(cursor);
	if (!server)
		return false;
	fill_server(row, server, cursor->source);
	row->state = server_socket_state(server);
	return true;
}

const struct show show_sockets = { "SOCKETS",
	                           next_socket,
	                           COLUMNS(socket_columns),
	                           "Client and server connections, with their buffers.",
	                           CONSOLE_STATS,
	                           SHOW_OF_DATABASE };

static bool next_active_socket(struct cursor *cursor, void *at)
{
	struct socket_row *row = at;

	while (next_socket(cursor, row)) {
		if (row->pkt_avail || row->send_avail || row->pkt_remain)
			return true;
	}
	return false;
}

const struct show show_active_sockets = {
	"ACTIVE_SOCKETS",
	next_active_socket,
	COLUMNS(socket_columns),
	"Client and server connections with buffered data or an incomplete "
	"message.",
	CONSOLE_STATS,
	SHOW_OF_DATABASE
};
