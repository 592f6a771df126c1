/* SPDX-License-Identifier: ISC */
/*
 * SHOW FDS: the sockets as another process would need them. Encrypted connections are left
 * out, because another process cannot continue them.
 *
 * Cancel keys and secrets are shown only to the system user that pgweir runs as, over the
 * Unix socket: that user could read our files and memory anyway.
 */
#include "show_priv.h"

#include "pgweir/base/banned.h"

struct fd_row {
	const char *task, *user, *database, *addr;
	const char *client_encoding, *std_strings, *datestyle, *timezone, *password;
	int64_t fd, port, cancel, link;
	struct bytes scram_client_key, scram_server_key;
	char addr_buffer[ADDRESS_TEXT_SIZE];
};
_Static_assert(sizeof(struct fd_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct fd_row, VALUE_TEXT, field, help)
#define INT4(field, help) COLUMN(struct fd_row, VALUE_INT4, field, help)

static const struct column fd_columns[] = {
	INT4(fd, "File descriptor of the socket in this process."),
	TEXT(task, "Kind of socket: pooler (a listening socket), client or server."),
	TEXT(user, "User that logged in."),
	TEXT(database, "Name of the database."),
	TEXT(addr, "Remote address, or the address of a listening socket; unix for a Unix "
	           "socket."),
	INT4(port, "Remote port, or the port of a listening socket."),
	COLUMN(struct fd_row, VALUE_INT8, cancel,
	       "First eight bytes of the cancel key; 0: hidden from this user."),
	INT4(link, "File descriptor of the linked client or server; 0: none."),
	TEXT(client_encoding, "Value of client_encoding on this connection."),
	TEXT(std_strings, "Value of standard_conforming_strings on this connection."),
	TEXT(datestyle, "Value of DateStyle on this connection."),
	TEXT(timezone, "Value of TimeZone on this connection."),
	TEXT(password, "Secret of the user; NULL: none, or hidden from this user."),
	COLUMN(struct fd_row, VALUE_BYTEA, scram_client_key,
	       "SCRAM client key; NULL: none, or hidden from this user."),
	COLUMN(struct fd_row, VALUE_BYTEA, scram_server_key,
	       "SCRAM server key; NULL: none, or hidden from this user."),
};

#undef TEXT
#undef INT4

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

static bool next_client(struct cursor *cursor, struct fd_row *row)
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
		row->link = server ? server->stream.watch.fd : 0;
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

static bool next_server(struct cursor *cursor, struct fd_row *row)
{
	const struct server *server;

	while ((server = cursor_next_server(cursor))) {
		const struct client *client =
		    server->borrower ? client_of_borrower(server->borrower) : NULL;

		if (server->state == SERVER_CLOSING || server->login ||
		    !is_for_others(&server->stream))
			continue;
		fill_address(row, &server->peer, "server", server->stream.watch.fd);
		row->user = server->pool->role->name;
		row->database = server->pool->database->name;
		row->link = client ? client->stream.watch.fd : 0;
		fill_params(row, server->params, server->baseline);
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
	return next_listening(cursor, row) || next_client(cursor, row) ||
	       (!cursor->has_more && next_server(cursor, row));
}

const struct show show_fds = { .item = "FDS",
	                       .next = next_fd,
	                       .columns = COLUMNS(fd_columns),
	                       .help =
	                           "Sockets, with what a new process needs to take them over. For "
	                           "admin_users only.",
	                       .role = CONSOLE_ADMIN };
