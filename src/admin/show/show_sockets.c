/* SPDX-License-Identifier: ISC */
/*
 * SHOW of connections: CLIENTS, SERVERS, and both as SOCKETS and ACTIVE_SOCKETS.
 *
 * They walk the connections of each lane in the order of ids. A walk moves on when the
 * connection that it points at is freed.
 */
#include "show_priv.h"

#include "pgweir/net/tls.h"

struct socket_row {
	const char *type, *user, *database, *replication, *state, *local_addr;
	const char *tls, *application_name;
	const struct address *addr;
	const void *ptr, *link;
	usec_t connect_time, request_time;
	int64_t port, local_port, wait, wait_us, close_needed, remote_pid;
	int64_t prepared_statements, id;
	int64_t recv_pos, pkt_pos, pkt_remain, send_pos, send_remain, pkt_avail, send_avail;
	char local_addr_buffer[ADDRESS_TEXT_SIZE];
	char tls_buffer[TLS_TEXT_SIZE];
};

#define ROW struct socket_row

/* SOCKETS shows all of these columns; CLIENTS and SERVERS have only the first ones. */
#define CONNECTION_COLUMNS 21

static const struct column socket_columns[] = {
	TEXT(type, "C: client connection; S: server connection."),
	TEXT(user, "User that logged in."),
	TEXT(database, "Name of the database."),
	TEXT(replication, "Kind of replication connection: none, logical or physical."),
	TEXT(state, "State of the connection."),
	HOST(addr, "Remote IP address, or unix."),
	INT4(port, "Remote port."),
	TEXT(local_addr, "Local IP address."),
	INT4(local_port, "Local port."),
	TIME(connect_time, "When the connection was established."),
	TIME(request_time, "When the current request began; if there is none, when the connection "
	                   "was established or last used."),
	INT4(wait, "Seconds since the current query began."),
	INT4(wait_us, "Microsecond part of the waiting time (column wait has the seconds)."),
	INT4(close_needed, "1: the connection is closed as soon as it is free."),
	POINTER(ptr, "Identifier of the connection in the log."),
	POINTER(link, "ptr of the linked client or server; empty: none."),
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
#undef ROW

/* ---- what clients and servers have in common ---- */

static void fill_times(struct socket_row *row, usec_t connected, usec_t request, usec_t now)
{
	usec_t wait = request ? now - request : 0;

	row->connect_time = show_wall(connected, now);
	row->request_time = show_wall(request ? request : connected, now);
	row->wait = wait / USEC_PER_SEC;
	row->wait_us = wait % USEC_PER_SEC;
}

static void fill_stream(struct socket_row *row, const struct stream *stream,
                        const struct address *peer, const struct config *config)
{
	struct address self;

	row->addr = peer;
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
	row->ptr = client;
	row->link = client->borrower.server;
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
	if (server->state == SERVER_LENT && !server->lease.borrower)
		return "idle";
	return server_state_name(server->state);
}

static void fill_server(struct socket_row *row, const struct server *server,
                        const struct show_source *source)
{
	usec_t now = loop_now(server->pool->pools->with.loop);
	const char *name = params_find(server->session.params, "application_name");
	const void *client =
	    server->lease.borrower ? client_of_borrower(server->lease.borrower) : NULL;

	row->type = "S";
	row->user = server->pool->role->name;
	row->database = server->pool->database->name;
	row->replication = replication_text(server->replication);
	row->state = state_text(server);
	fill_stream(row, &server->wire.stream, &server->place.peer, show_source_config(source));
	fill_times(row, server->connected_at, server->lease.request_at, now);
	if (!server->lease.request_at && server->used_at)
		row->request_time = show_wall(server->used_at, now);
	row->close_needed = server->close_reason;
	row->ptr = server;
	row->link = client;
	row->remote_pid = server_backend_pid(server);
	row->application_name =
	    text_or_empty(name ? name : params_find(server->session.baseline, "application_name"));
	row->prepared_statements = server_statements_count(&server->session.statements);
	row->id = (int64_t)server->id;
	row->pkt_remain = server->wire.frame_left;
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

SHOW(sockets, "SOCKETS", next_socket, socket_columns,
     "Client and server connections, with their buffers.", .argument = SHOW_OF_DATABASE);

static bool next_active_socket(struct cursor *cursor, void *at)
{
	struct socket_row *row = at;

	while (next_socket(cursor, row)) {
		if (row->pkt_avail || row->send_avail || row->pkt_remain)
			return true;
	}
	return false;
}

SHOW(active_sockets, "ACTIVE_SOCKETS", next_active_socket, socket_columns,
     "Client and server connections with buffered data or an incomplete message.",
     .argument = SHOW_OF_DATABASE);

/*
 * ---- show fds ----
 *
 * SHOW FDS: the sockets as another process would need them. Encrypted connections are left
 * out, because another process cannot continue them.
 *
 * Cancel keys and secrets are shown only to the system user that pgweir runs as, over the
 * Unix socket: that user could read our files and memory anyway.
 */

struct fd_row {
	const char *task, *user, *database, *addr;
	const char *client_encoding, *std_strings, *datestyle, *timezone, *password;
	int64_t fd, port, cancel, link;
	struct bytes scram_client_key, scram_server_key;
	char addr_buffer[ADDRESS_TEXT_SIZE];
};

#define ROW struct fd_row
static const struct column fd_columns[] = {
	INT4(fd, "File descriptor of the socket in this process."),
	TEXT(task, "Kind of socket: pooler (a listening socket), client or server."),
	TEXT(user, "User that logged in."),
	TEXT(database, "Name of the database."),
	TEXT(addr, "Remote address, or the address of a listening socket; unix for a Unix "
	           "socket."),
	INT4(port, "Remote port, or the port of a listening socket."),
	INT8(cancel, "First eight bytes of the cancel key; 0: hidden from this user."),
	INT4(link, "File descriptor of the linked client or server; 0: none."),
	TEXT(client_encoding, "Value of client_encoding on this connection."),
	TEXT(std_strings, "Value of standard_conforming_strings on this connection."),
	TEXT(datestyle, "Value of DateStyle on this connection."),
	TEXT(timezone, "Value of TimeZone on this connection."),
	TEXT(password, "Secret of the user; NULL: none, or hidden from this user."),
	BYTEA(scram_client_key, "SCRAM client key; NULL: none, or hidden from this user."),
	BYTEA(scram_server_key, "SCRAM server key; NULL: none, or hidden from this user."),
};
#undef ROW

static int64_t key_number(struct bytes key)
{
	if (key.count < 8)
		return 0;
	return (int64_t)((uint64_t)load_be32(key.at) << 32 | load_be32(key.at + 4));
}

static const char *find_param(const struct params *own, const struct params *base, const char *name)
{
	const char *value = params_find(own, name);

	return value ? value : params_find(base, name);
}

static void fill_params(struct fd_row *row, const struct params *own, const struct params *base)
{
	row->client_encoding = find_param(own, base, "client_encoding");
	row->std_strings = find_param(own, base, "standard_conforming_strings");
	row->datestyle = find_param(own, base, "DateStyle");
	row->timezone = find_param(own, base, "TimeZone");
}

static void fill_secrets(struct fd_row *row, const struct credentials *credentials)
{
	row->password = credentials->text;
	if (!credentials->keys)
		return;
	row->scram_client_key = bytes_of(credentials->keys->client_key, SCRAM_KEY_SIZE);
	row->scram_server_key = bytes_of(credentials->keys->server_key, SCRAM_KEY_SIZE);
}

static void fill_address(struct fd_row *row, const struct address *address, const char *task,
                         int fd)
{
	row->task = task;
	row->fd = fd;
	row->addr = address->family
	                ? address_format_host(address, row->addr_buffer, sizeof(row->addr_buffer))
	                : "unix";
	row->port = address->family ? address_port(address) : 0;
}

/* ---- one row each ---- */

static bool next_listening(struct cursor *cursor, struct fd_row *row)
{
	const struct console_with *with = cursor->source->with;
	struct address address = { 0 };
	int fd = with->listening(with->arg, cursor->index, &address);

	if (fd < 0)
		return false;
	cursor->index++;
	fill_address(row, &address, "pooler", fd);
	if (!row->port)
		row->port = show_source_config(cursor->source)->listen_port;
	return true;
}

static bool is_for_others(const struct stream *stream)
{
	return stream_is_open(stream) && !stream->tls;
}

static bool next_client_fd(struct cursor *cursor, struct fd_row *row)
{
	const struct client *client;

	while ((client = cursor_next_client(cursor))) {
		const struct server *server = client->borrower.server;
		const struct pool *pool = client->borrower.pool;

		if (!client_state_name(client) || !is_for_others(&client->stream))
			continue;
		fill_address(row, &client->peer, "client", client->stream.watch.fd);
		row->user = client_user(client);
		row->database = client_database(client);
		row->link = server ? server->wire.stream.watch.fd : 0;
		fill_params(row, client->params,
		            pool ? pool->baseline : params_none(client->clients->with.params));
		if (cursor->is_owner)
			row->cancel = key_number(client_key(client));
		if (cursor->is_owner && pool)
			fill_secrets(row, pool_credentials(pool));
		return true;
	}
	return false;
}

static bool next_server_fd(struct cursor *cursor, struct fd_row *row)
{
	const struct server *server;

	while ((server = cursor_next_server(cursor))) {
		const struct client *client =
		    server->lease.borrower ? client_of_borrower(server->lease.borrower) : NULL;

		if (server->state == SERVER_CLOSING || server->login ||
		    !is_for_others(&server->wire.stream))
			continue;
		fill_address(row, &server->place.peer, "server", server->wire.stream.watch.fd);
		row->user = server->pool->role->name;
		row->database = server->pool->database->name;
		row->link = client ? client->stream.watch.fd : 0;
		fill_params(row, server->session.params, server->session.baseline);
		if (cursor->is_owner) {
			row->cancel = key_number(bytes_of(server->key, server->key_size));
			fill_secrets(row, pool_credentials(server->pool));
		}
		return true;
	}
	return false;
}

static bool next_fd(struct cursor *cursor, void *row)
{
	return next_listening(cursor, row) || next_client_fd(cursor, row) ||
	       (!cursor->has_more && next_server_fd(cursor, row));
}

SHOW(fds, "FDS", next_fd, fd_columns,
     "Sockets, with what a new process needs to take them over. For admin_users only.",
     .role = CONSOLE_ADMIN);
