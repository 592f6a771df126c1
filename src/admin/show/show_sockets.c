/* SPDX-License-Identifier: ISC */
/*
 * SHOW of connections: CLIENTS, SERVERS, and both as SOCKETS and ACTIVE_SOCKETS.
 *
 * They walk the connections of each lane in the order of ids. A walk moves on when the
 * connection that it points at is freed.
 */
#include "show_priv.h"

#include "pgweir/config/settings.h"
#include "pgweir/net/listener.h"
#include "pgweir/net/tls.h"

/* SOCKETS shows more columns than CLIENTS and SERVERS. */
#define CONNECTION_ROW(COLUMN)                                                                     \
	COLUMN(TEXT, type, 0, "C: client connection; S: server connection.")                       \
	COLUMN(TEXT, user, 0, "User that logged in.")                                              \
	COLUMN(TEXT, database, 0, "Name of the database.")                                         \
	COLUMN(TEXT, replication, 0, "Kind of replication connection: none, logical or physical.") \
	COLUMN(TEXT, state, 0, "State of the connection.")                                         \
	COLUMN(HOST, addr, 0, "Remote IP address, or unix.")                                       \
	COLUMN(INT4, port, 0, "Remote port.")                                                      \
	COLUMN(TEXT, local_addr, 0, "Local IP address.")                                           \
	COLUMN(INT4, local_port, 0, "Local port.")                                                 \
	COLUMN(TIME, connect_time, 0, "When the connection was established.")                      \
	COLUMN(TIME, request_time, 0,                                                              \
	       "When the current request began; if there is none, when the connection was "        \
	       "established or last used.")                                                        \
	COLUMN(INT4, wait, 0, "Seconds since the current query began.")                            \
	COLUMN(INT4, wait_us, 0,                                                                   \
	       "Microsecond part of the waiting time (column wait has the seconds).")              \
	COLUMN(INT4, close_needed, 0, "1: the connection is closed as soon as it is free.")        \
	COLUMN(POINTER, ptr, 0, "Identifier of the connection in the log.")                        \
	COLUMN(POINTER, link, 0, "ptr of the linked client or server; empty: none.")               \
	COLUMN(INT4, remote_pid, 0,                                                                \
	       "Process ID of the PostgreSQL backend, or of the client at a Unix socket; 0: "      \
	       "unknown.")                                                                         \
	COLUMN(TEXT, tls, 0,                                                                       \
	       "TLS version, cipher, and who encrypts (tls_records); empty: no TLS.")              \
	COLUMN(TEXT, application_name, 0,                                                          \
	       "application_name of the client or of the server connection.")                      \
	COLUMN(INT4, prepared_statements, 0,                                                       \
	       "Number of prepared statements that are tracked on the connection.")                \
	COLUMN(INT4, id, 0, "Unique number of the connection; it is never reused.")

#define SOCKET_ROW(COLUMN)                                                                     \
	CONNECTION_ROW(COLUMN)                                                                 \
	COLUMN(INT4, recv_pos, 0, "Bytes in the receive buffer.")                              \
	COLUMN(INT4, pkt_pos, 0, "Bytes in the receive buffer that have been processed.")      \
	COLUMN(INT4, pkt_remain, 0, "Bytes of the current message that have not arrived yet.") \
	COLUMN(INT4, send_pos, 0, "Bytes in the send buffer that have been sent.")             \
	COLUMN(INT4, send_remain, 0, "Always 0.")                                              \
	COLUMN(INT4, pkt_avail, 0,                                                             \
	       "Bytes in the receive buffer that have not been processed yet.")                \
	COLUMN(INT4, send_avail, 0, "Bytes in the send buffer that have not been sent yet.")

ROW_DECLARE(struct socket_row, socket_columns, SOCKET_ROW);
static const struct column connection_columns[] = { CONNECTION_ROW(ROW_COLUMN) };

/* ---- what clients and servers have in common ---- */

static void fill_times(struct socket_row *row, usec_t connected, usec_t request, usec_t now)
{
	usec_t wait = request ? now - request : 0;

	row->connect_time = show_wall(connected, now);
	row->request_time = show_wall(request ? request : connected, now);
	row->wait = wait / USEC_PER_SEC;
	row->wait_us = wait % USEC_PER_SEC;
}

static void fill_stream(struct cursor *cursor, struct socket_row *row, const struct stream *stream,
                        const struct address *peer)
{
	const struct config *config = show_source_config(cursor->source);
	char text[TLS_TEXT_SIZE];
	struct address self;

	row->addr = peer;
	row->port = address_port(peer);
	row->local_addr = "";
	if (stream_is_open(stream) &&
	    address_of_self(&self, stream->watch.fd, (uint16_t)config->listen_port)) {
		row->local_addr = cursor_host(cursor, &self);
		row->local_port = address_port(&self);
	}
	row->recv_pos = row->pkt_avail = (int64_t)stream_kept(stream).count;
	tls_text(stream, text, sizeof(text));
	row->tls = *text ? cursor_print(cursor, "%s/%s", text, tls_records_text(stream)) : "";
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

/* ---- clients ---- */

static void fill_client(struct cursor *cursor, struct socket_row *row)
{
	const struct client *client = cursor->client;

	row->type = "C";
	row->user = client_user(client);
	row->database = client_database(client);
	row->replication = replication_text((enum replication)client->replication);
	row->state = client_state_name(client);
	fill_stream(cursor, row, &client->stream, &client->peer);
	fill_times(row, client->connected_at, client->request_at, loop_now(client->clients->loop));
	row->ptr = client;
	row->link = client->borrower.server;
	row->remote_pid = address_is_unix(&client->peer) ? client->peer.un.pid : 0;
	row->application_name = show_application(client);
	row->prepared_statements = client_statement_count(client);
	row->id = (int64_t)client->id;
	row->pkt_remain = client->frame_left;
}

static bool next_connection(struct cursor *cursor, void *row);

SHOW(clients, "CLIENTS", next_connection, connection_columns, "Client connections.",
     .is_of_clients = true, .role = CONSOLE_STATS, .argument = SHOW_OF_DATABASE);

/* ---- servers ---- */

static void fill_server(struct cursor *cursor, struct socket_row *row)
{
	const struct server *server = cursor->server;
	usec_t now = loop_now(server->pool->pools->shared.loop);
	const char *name = params_find(server->session.params, "application_name");
	const void *client =
	    server->lease.borrower ? client_of_borrower(server->lease.borrower) : NULL;

	row->type = "S";
	row->user = server->pool->role->name;
	row->database = server->pool->database->name;
	row->replication = replication_text(server->replication);
	row->state = server_state_name(server);
	if (server->state == SERVER_LENT && server->is_listening)
		row->state = "listening";
	else if (server->state == SERVER_LENT && !server->lease.borrower)
		row->state = "idle";
	fill_stream(cursor, row, &server->wire.stream, &server->place.peer);
	fill_times(row, server->connected_at, server->lease.request_at, now);
	if (!server->lease.request_at && server->used_at)
		row->request_time = show_wall(server->used_at, now);
	row->close_needed = server->close_reason != CLOSE_NONE;
	row->ptr = server;
	row->link = client;
	row->remote_pid = server_backend_pid(server);
	if (!name)
		name = params_find(server->session.baseline, "application_name");
	row->application_name = name ? name : "";
	row->prepared_statements = server_statements_count(&server->session.statements);
	row->id = (int64_t)server->id;
	row->pkt_remain = server->wire.frame_left;
}

SHOW(servers, "SERVERS", next_connection, connection_columns, "Server connections.",
     .is_of_servers = true, .role = CONSOLE_STATS, .argument = SHOW_OF_DATABASE);

/* ---- both ---- */

/* NULL: cancel requests, and clients that are being closed. */
static const char *const client_states[CLIENT_STATES] = {
	[CLIENT_STARTUP] = "cl_login",       [CLIENT_AUTHENTICATION] = "cl_login",
	[CLIENT_LOOKING] = "cl_login",       [CLIENT_DELAYED] = "cl_login",
	[CLIENT_NEWCOMER] = "cl_waiting",    [CLIENT_WAITING] = "cl_waiting",
	[CLIENT_CATCHING_UP] = "cl_waiting", [CLIENT_IDLE] = "cl_active",
	[CLIENT_LATE] = "cl_active",         [CLIENT_PREPARING] = "cl_active",
	[CLIENT_ACTIVE] = "cl_active",       [CLIENT_SETTLING] = "cl_active",
	[CLIENT_CONSOLE] = "cl_active",
};

/* NULL: sv_active. */
static const char *const server_states[SERVER_STATES] = {
	[SERVER_CONNECTING] = "sv_login", [SERVER_LOGIN] = "sv_login",
	[SERVER_IDLE] = "sv_idle",        [SERVER_USED] = "sv_used",
	[SERVER_CHECKING] = "sv_tested",  [SERVER_RESETTING] = "sv_tested",
};

static bool next_connection(struct cursor *cursor, void *at)
{
	bool is_socket = cursor->show->columns.at == socket_columns;
	struct socket_row *row = at;

	if (cursor->client) {
		fill_client(cursor, row);
		if (is_socket)
			row->state = client_states[cursor->client->state];
		return row->state;
	}
	fill_server(cursor, row);
	if (is_socket)
		row->state = server_states[cursor->server->state];
	if (!row->state)
		row->state = "sv_active";
	return true;
}

SHOW(sockets, "SOCKETS", next_connection, socket_columns,
     "Client and server connections, with their buffers.", .is_of_clients = true,
     .is_of_servers = true, .argument = SHOW_OF_DATABASE);

static bool next_active_socket(struct cursor *cursor, void *at)
{
	const struct socket_row *row = at;

	return next_connection(cursor, at) &&
	       (row->pkt_avail || row->send_avail || row->pkt_remain);
}

SHOW(active_sockets, "ACTIVE_SOCKETS", next_active_socket, socket_columns,
     "Client and server connections with buffered data or an incomplete message.",
     .is_of_clients = true, .is_of_servers = true, .argument = SHOW_OF_DATABASE);

/*
 * ---- FDS ----
 *
 * Encrypted connections are left out, because another process cannot continue them. Cancel keys and
 * secrets are shown only to the system user that pgweir runs as, over the Unix socket: that user
 * could read our files and memory anyway.
 */

#define FD_ROW(COLUMN)                                                                            \
	COLUMN(INT4, fd, 0, "File descriptor of the socket in this process.")                     \
	COLUMN(TEXT, task, 0, "Kind of socket: pooler (a listening socket), client or server.")   \
	COLUMN(TEXT, user, 0, "User that logged in.")                                             \
	COLUMN(TEXT, database, 0, "Name of the database.")                                        \
	COLUMN(TEXT, addr, 0,                                                                     \
	       "Remote address, or the address of a listening socket; unix for a Unix socket.")   \
	COLUMN(INT4, port, 0, "Remote port, or the port of a listening socket.")                  \
	COLUMN(INT8, cancel, 0, "First eight bytes of the cancel key; 0: hidden from this user.") \
	COLUMN(INT4, link, 0, "File descriptor of the linked client or server; 0: none.")         \
	COLUMN(TEXT, client_encoding, 0, "Value of client_encoding on this connection.")          \
	COLUMN(TEXT, std_strings, 0, "Value of standard_conforming_strings on this connection.")  \
	COLUMN(TEXT, datestyle, 0, "Value of DateStyle on this connection.")                      \
	COLUMN(TEXT, timezone, 0, "Value of TimeZone on this connection.")                        \
	COLUMN(TEXT, password, 0, "Secret of the user; NULL: none, or hidden from this user.")    \
	COLUMN(BYTEA, scram_client_key, 0,                                                        \
	       "SCRAM client key; NULL: none, or hidden from this user.")                         \
	COLUMN(BYTEA, scram_server_key, 0,                                                        \
	       "SCRAM server key; NULL: none, or hidden from this user.")

static bool next_listening(struct cursor *cursor, void *row);

SHOW_ROWS(fds, "FDS", FD_ROW,
          "Sockets, with what a new process needs to take them over. For admin_users only.",
          .before = next_listening, .is_of_clients = true, .is_of_servers = true,
          .role = CONSOLE_ADMIN);

static int64_t key_number(struct bytes key)
{
	if (key.count < 8)
		return 0;
	return (int64_t)((uint64_t)load_be32(key.at) << 32 | load_be32(key.at + 4));
}

static void fill_params(struct fds_shown *row, const struct params *own, const struct params *base)
{
	static const char *const names[] = { "client_encoding", "standard_conforming_strings",
		                             "DateStyle", "TimeZone" };
	const char **const values[] = { &row->client_encoding, &row->std_strings, &row->datestyle,
		                        &row->timezone };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*values[i] = params_find(own, names[i]);
		if (!*values[i])
			*values[i] = params_find(base, names[i]);
	}
}

static void fill_secrets(struct fds_shown *row, const struct credentials *credentials)
{
	row->password = credentials ? credentials->text : NULL;
	if (credentials_kind(credentials) != SECRET_SCRAM)
		return;
	row->scram_client_key = bytes_of(credentials->scram->keys.client_key, SCRAM_KEY_SIZE);
	row->scram_server_key = bytes_of(credentials->scram->keys.server_key, SCRAM_KEY_SIZE);
}

static void fill_address(struct cursor *cursor, struct fds_shown *row,
                         const struct address *address, const char *task, int fd)
{
	row->task = task;
	row->fd = fd;
	row->port = address->family ? address_port(address) : 0;
	row->addr = address->family ? cursor_host(cursor, address) : "unix";
}

/* ---- one row each ---- */

/* The index says how many were shown; SIZE_MAX: all, so that no further row looks for more. */
static bool next_listening(struct cursor *cursor, void *at)
{
	const struct console_with *with = cursor->source->with;
	size_t left = cursor->index;
	struct listener_shown shown;
	struct fds_shown *row = at;
	struct address address;
	int fd;

	if (left == SIZE_MAX)
		return false;
	cursor->index++;
	for (size_t i = 0; with->listener(with->daemon, i, &shown); i++) {
		for (size_t j = 0; (fd = listener_fd(shown.listener, j, &address)) >= 0; j++) {
			if (left-- > 0)
				continue;
			fill_address(cursor, row, &address, "pooler", fd);
			if (!row->port)
				row->port = show_source_config(cursor->source)->listen_port;
			return true;
		}
	}
	cursor->index = SIZE_MAX;
	return false;
}

static bool is_for_others(const struct stream *stream)
{
	return stream_is_open(stream) && !stream->tls;
}

static bool fill_client_fd(struct cursor *cursor, struct fds_shown *row,
                           const struct client *client)
{
	const struct server *server = client->borrower.server;
	const struct pool *pool = client->borrower.pool;

	if (!client_state_name(client) || !is_for_others(&client->stream))
		return false;
	fill_address(cursor, row, &client->peer, "client", client->stream.watch.fd);
	row->user = client_user(client);
	row->database = client_database(client);
	row->link = server ? server->wire.stream.watch.fd : 0;
	fill_params(row, client->params,
	            pool ? pool->baseline : params_none(client->clients->pools->shared.params));
	if (cursor->is_owner)
		row->cancel = key_number(client_key(client));
	if (cursor->is_owner && pool)
		fill_secrets(row, pool_credentials(pool));
	return true;
}

static bool fill_server_fd(struct cursor *cursor, struct fds_shown *row,
                           const struct server *server)
{
	const struct client *client =
	    server->lease.borrower ? client_of_borrower(server->lease.borrower) : NULL;

	if (server->login || !is_for_others(&server->wire.stream))
		return false;
	fill_address(cursor, row, &server->place.peer, "server", server->wire.stream.watch.fd);
	row->user = server->pool->role->name;
	row->database = server->pool->database->name;
	row->link = client ? client->stream.watch.fd : 0;
	fill_params(row, server->session.params, server->session.baseline);
	if (cursor->is_owner) {
		row->cancel = key_number(bytes_of(server->key.bytes, server->key.size));
		fill_secrets(row, pool_credentials(server->pool));
	}
	return true;
}

static bool next_fds(struct cursor *cursor, void *row)
{
	return cursor->client ? fill_client_fd(cursor, row, cursor->client)
	                      : fill_server_fd(cursor, row, cursor->server);
}

/* ---- LISTENERS ---- */

#define LISTENER_ROW(COLUMN)                                                                       \
	COLUMN(TEXT, name, entry ? gate->name : NULL,                                              \
	       "Name of the listener; NULL: that of listen_addr and listen_port.")                 \
	COLUMN(TEXT, addr, entry ? entry->addr : main->listen_addr.text,                           \
	       "Addresses that it listens on; NULL or empty: no TCP.")                             \
	COLUMN(INT4, port, entry ? entry->port : main->listen_port, "Port that it listens on.")    \
	COLUMN(TEXT, unix_socket, listener_unix_path(shown.listener),                              \
	       "Name of its Unix socket; NULL: none.")                                             \
	COLUMN(TEXT, state,                                                                        \
	       listener_is_paused(shown.listener)    ? "paused"                                    \
	       : listener_count(shown.listener) == 0 ? "closed"                                    \
	       : listener_is_resting(shown.listener) ? "resting"                                   \
	                                             : "listening",                                \
	       "listening; paused: SUSPEND, or a take-over; resting: no file descriptor is free; " \
	       "closed: DRAIN, or a shutdown.")                                                    \
	COLUMN(TEXT, pool_mode, config_pool_modes[entry ? entry->pool_mode : POOL_MODE_INHERIT],   \
	       "Pool mode of its clients; NULL: that of their user, database or the setting. A "   \
	       "pool has one pool_size for clients of all modes.")                                 \
	COLUMN(TEXT, auth_type, auth_methods[config->auth_type].name, "auth_type of its clients.") \
	COLUMN(TEXT, client_tls_sslmode,                                                           \
	       setting_value(config, setting_find("client_tls_sslmode"), sslmode),                 \
	       "client_tls_sslmode of its clients.")                                               \
	COLUMN(TEXT, databases, entry ? entry->databases.text : NULL,                              \
	       "Databases that its clients may use; NULL: all.")                                   \
	COLUMN(INT4, clients, atomic_load(&gate->client_count),                                    \
	       "Clients that came by it and count for max_client_conn.")                           \
	COLUMN(INT4, max_client_conn, entry ? entry->max_client_conn : main->max_client_conn,      \
	       "Maximum of these clients; 0: no limit but the setting. That of the main "          \
	       "listener is the setting, for the clients of all listeners.")                       \
	COLUMN(INT8, accepted, (int64_t)shown.accepted_count, "Connections accepted.")             \
	COLUMN(INT8, refused, (int64_t)atomic_load(&gate->refused_count),                          \
	       "Clients refused because of its own max_client_conn.")

SHOW_ROWS(listeners, "LISTENERS", LISTENER_ROW,
          "Where clients connect, and what holds for those that came by each listener.");

static bool next_listeners(struct cursor *cursor, void *row)
{
	const struct console_with *with = cursor->source->with;
	const struct config *main = show_source_config(cursor->source), *config = main;
	const struct config_listener *entry = NULL;
	char sslmode[SETTING_VALUE_SIZE];
	struct listener_shown shown;
	const struct gate *gate;

	if (!with->listener(with->daemon, cursor->index, &shown))
		return false;
	cursor->index++;
	gate = shown.gate ? shown.gate : &cursor->lanes->at->clients->shared->gates.main;
	if (shown.gate) {
		entry = gate->rules.entry;
		config = gate->rules.config;
	}
	return ROW_FILL(row, struct listeners_shown, LISTENER_ROW);
}
