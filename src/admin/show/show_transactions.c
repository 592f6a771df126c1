/* SPDX-License-Identifier: ISC */
/*
 * SHOW TRANSACTIONS: clients that are in a transaction, what each of them does, and since
 * when.
 *
 * The clients of each lane are walked in the order of their ids. Those outside a transaction are
 * skipped.
 */
#include "show_priv.h"

#include <stdio.h>

#include "pgweir/base/banned.h"

#define POINTER_SIZE 24

struct transaction_row {
	const char *database, *user, *application_name, *addr, *ptr, *state;
	const char *state_since, *xact_since, *statement;
	int64_t id, port, server_pid, wait, seconds, xact_seconds;
	char addr_buffer[ADDRESS_TEXT_SIZE], ptr_buffer[POINTER_SIZE];
	char state_buffer[TIME_TEXT_SIZE], xact_buffer[TIME_TEXT_SIZE];
};
_Static_assert(sizeof(struct transaction_row) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct transaction_row, VALUE_TEXT, field, help)
#define INT4(field, help) COLUMN(struct transaction_row, VALUE_INT4, field, help)

static const struct column transaction_columns[] = {
	INT4(id, "id of the client, for KILL_CLIENT."),
	TEXT(database, "Database of the client."),
	TEXT(user, "User that the client logged in as."),
	TEXT(application_name, "application_name of the client."),
	TEXT(addr, "IP address of the client, or unix."),
	INT4(port, "Port of the client."),
	TEXT(ptr, "Identifier of the client connection in the log."),
	INT4(server_pid, "Process ID of the PostgreSQL backend that serves the client; 0: none."),
	TEXT(state, "State of the client: running, idle in transaction, or waiting."),
	TEXT(state_since, "When the client entered this state."),
	TEXT(xact_since, "When the transaction began."),
	INT4(wait, "Seconds that the current request has waited for a server."),
	INT4(seconds, "Seconds in this state."),
	INT4(xact_seconds, "Seconds in the transaction."),
	TEXT(statement, "Beginning of the current statement; if idle in transaction, of the last "
	                "one. NULL unless log_min_duration is set and the user is one of "
	                "admin_users."),
};

#undef TEXT
#undef INT4

/* What the client does, and in *since the time when that began. */
static const char *state_of(const struct client *client, usec_t *since)
{
	const struct borrower *borrower = &client->borrower;

	if (client->state == CLIENT_WAITING) {
		*since = borrower->waiting_since;
		return "waiting";
	}
	if (client->request_at) {
		*since = client->request_at + borrower->waited;
		return "running";
	}
	*since = borrower->server ? borrower->server->used_at : client->xact_at;
	return "idle in transaction";
}

static void fill_who(struct transaction_row *row, const struct client *client)
{
	const char *name = params_find(client->params, "application_name");

	snprintf(row->ptr_buffer, sizeof(row->ptr_buffer), "%p", (const void *)client);
	row->id = (int64_t)client->id;
	row->database = client_database(client);
	row->user = client_user(client);
	row->application_name = name ? name : "";
	row->addr = address_format_host(&client->peer, row->addr_buffer, sizeof(row->addr_buffer));
	row->port = address_port(&client->peer);
	row->ptr = row->ptr_buffer;
}

static void fill_transaction(struct cursor *cursor, struct transaction_row *row,
                             const struct client *client)
{
	const struct server *server = client->borrower.server;
	usec_t now = loop_now(client->clients->with.loop), since, wait = client->borrower.waited;

	fill_who(row, client);
	row->server_pid = server_backend_pid(server);
	row->state = state_of(client, &since);
	row->state_since = show_time_text(since, now, row->state_buffer);
	row->xact_since = show_time_text(client->xact_at, now, row->xact_buffer);
	if (client->state == CLIENT_WAITING)
		wait += now - since;
	row->wait = client->request_at ? wait / USEC_PER_SEC : 0;
	row->seconds = (now - since) / USEC_PER_SEC;
	row->xact_seconds = (now - client->xact_at) / USEC_PER_SEC;
	if (show_source_config(cursor->source)->log_min_duration && cursor->role == CONSOLE_ADMIN)
		row->statement = client->slow ? client->slow->text : NULL;
}

static bool next_transaction(struct cursor *cursor, void *row)
{
	const struct client *client;

	while ((client = cursor_next_client(cursor))) {
		if (!client->xact_at || !client->borrower.pool ||
		    !cursor_wants(cursor, client_database(client)))
			continue;
		fill_transaction(cursor, row, client);
		return true;
	}
	return false;
}

const struct show show_transactions = {
	.item = "TRANSACTIONS",
	.next = next_transaction,
	.columns = COLUMNS(transaction_columns),
	.help = "Clients in a transaction, with their state and how long they have been "
		"in it.",
	.argument = SHOW_OF_DATABASE
};
