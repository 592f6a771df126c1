/* SPDX-License-Identifier: ISC */
/*
 * SHOW PINNED: clients whose server stays with them, since when, and why. SHOW SESSION_STATE: the
 * session state that follows each client.
 *
 * The clients of each lane are walked in the order of their ids. Those without session state are
 * skipped.
 */
#include "show_priv.h"

#include <stdio.h>

#include "pgweir/client/session.h"

#include "pgweir/base/banned.h"

#define POINTER_SIZE 24

/* What both tables say of a client. */
struct who {
	const char *database, *user, *application_name, *addr, *ptr;
	int64_t id, port;
	char addr_buffer[ADDRESS_TEXT_SIZE], ptr_buffer[POINTER_SIZE];
};

struct pinned_row {
	struct who who;
	const char *link, *since, *why, *objects, *statement;
	int64_t server_pid, seconds;
	char link_buffer[POINTER_SIZE], since_buffer[TIME_TEXT_SIZE];
};
_Static_assert(sizeof(struct pinned_row) <= ROW_SIZE_MAX, "a row is too large");

struct state_row {
	struct who who;
	const char *parameters, *libraries, *channels, *pins;
};
_Static_assert(sizeof(struct state_row) <= ROW_SIZE_MAX, "a row is too large");

/* The row's struct begins with struct who. */
#define WHO_COLUMNS                                                                              \
	COLUMN(struct who, VALUE_INT4, id, "id of the client, for KILL_CLIENT."),                \
	    COLUMN(struct who, VALUE_TEXT, database, "Database of the client."),                 \
	    COLUMN(struct who, VALUE_TEXT, user, "User that the client logged in as."),          \
	    COLUMN(struct who, VALUE_TEXT, application_name, "application_name of the client."), \
	    COLUMN(struct who, VALUE_TEXT, addr, "IP address of the client, or unix."),          \
	    COLUMN(struct who, VALUE_INT4, port, "Port of the client."),                         \
	    COLUMN(struct who, VALUE_TEXT, ptr, "Identifier of the client connection in the log.")

static const struct column pinned_columns[] = {
	WHO_COLUMNS,
	COLUMN(struct pinned_row, VALUE_TEXT, link,
	       "Identifier of the server connection in the log, and in SHOW SERVERS."),
	COLUMN(struct pinned_row, VALUE_INT4, server_pid,
	       "Process ID of the PostgreSQL backend that stays with the client."),
	COLUMN(struct pinned_row, VALUE_TEXT, since, "Since when it stays."),
	COLUMN(struct pinned_row, VALUE_INT4, seconds, "For how many seconds it has stayed."),
	COLUMN(struct pinned_row, VALUE_TEXT, why,
	       "What is in the session: held cursor, temporary object, session lock, function "
	       "of an extension; or what cannot follow the client: parameters, library, "
	       "prepared statement."),
	COLUMN(struct pinned_row, VALUE_TEXT, objects,
	       "What keeps the server, with names: temporary table cart; session lock 815. At "
	       "most five of a kind."),
	COLUMN(struct pinned_row, VALUE_TEXT, statement,
	       "Beginning of the statement that made the server stay. NULL unless the user is "
	       "one of admin_users."),
};

static const struct column state_columns[] = {
	WHO_COLUMNS,
	COLUMN(struct state_row, VALUE_TEXT, parameters,
	       "Names of the parameters that are not as they were after the login."),
	COLUMN(struct state_row, VALUE_TEXT, libraries, "Libraries that the client has loaded."),
	COLUMN(struct state_row, VALUE_TEXT, channels, "Channels that the client listens to."),
	COLUMN(struct state_row, VALUE_TEXT, pins,
	       "Why its server stays with it, as in SHOW PINNED (objects); empty: it does not."),
};

_Static_assert(offsetof(struct pinned_row, who) == 0 && offsetof(struct state_row, who) == 0,
               "WHO_COLUMNS has the offsets of struct who");

static void fill_who(struct who *who, const struct client *client)
{
	const char *name = params_find(client->params, "application_name");

	snprintf(who->ptr_buffer, sizeof(who->ptr_buffer), "%p", (const void *)client);
	who->id = (int64_t)client->id;
	who->database = client_database(client);
	who->user = client_user(client);
	who->application_name = name ? name : "";
	who->addr = address_format_host(&client->peer, who->addr_buffer, sizeof(who->addr_buffer));
	who->port = address_port(&client->peer);
	who->ptr = who->ptr_buffer;
}

/* The next client of a pool that the SHOW wants. NULL: no more, or has_more. */
static const struct client *take_client(struct cursor *cursor)
{
	const struct client *client;

	while ((client = cursor_next_client(cursor))) {
		if (client->borrower.pool && cursor_wants(cursor, client_database(client)))
			return client;
	}
	return NULL;
}

/* ---- SHOW PINNED ---- */

static void fill_pinned(struct cursor *cursor, struct pinned_row *row, const struct client *client)
{
	const struct server *server = client->borrower.server;
	usec_t now = loop_now(client->clients->with.loop), since = session_pinned_at(client);
	struct buf *text = &cursor->text;
	size_t end;

	fill_who(&row->who, client);
	buf_clear(text);
	session_list_pins(client, text);
	buf_add_byte(text, 0);
	end = text->count;
	session_list_held(client, text);
	snprintf(row->link_buffer, sizeof(row->link_buffer), "%p", (const void *)server);
	row->link = row->link_buffer;
	row->server_pid = server_backend_pid(server);
	row->since = show_time_text(since, now, row->since_buffer);
	row->seconds = (now - since) / USEC_PER_SEC;
	row->why = buf_text(text);
	row->objects = buf_ok(text) ? row->why + end : "";
	if (cursor->role == CONSOLE_ADMIN)
		row->statement = session_pin_text(client);
}

static bool next_pinned(struct cursor *cursor, void *row)
{
	const struct client *client;

	while ((client = take_client(cursor))) {
		if (!client->borrower.server || !session_pinned_at(client))
			continue;
		fill_pinned(cursor, row, client);
		return true;
	}
	return false;
}

const struct show show_pinned = { .item = "PINNED",
	                          .next = next_pinned,
	                          .columns = COLUMNS(pinned_columns),
	                          .help = "Clients whose server stays with them because of session "
	                                  "state, since when, and why.",
	                          .argument = SHOW_OF_DATABASE };

/* ---- SHOW SESSION_STATE ---- */

static bool (*const lists[])(const struct client *client, struct buf *out) = {
	session_list_parameters,
	session_list_libraries,
	session_list_channels,
	session_list_held,
};

#define LISTS (sizeof(lists) / sizeof(lists[0]))

/* The lists as texts, one after the other in cursor->text. false: all are empty. */
static bool list_state(struct cursor *cursor, const struct client *client, const char *texts[LISTS])
{
	size_t at[LISTS];
	bool has_any = false;

	buf_clear(&cursor->text);
	for (size_t i = 0; i < LISTS; i++) {
		at[i] = cursor->text.count;
		has_any |= lists[i](client, &cursor->text);
		buf_add_byte(&cursor->text, 0);
	}
	for (size_t i = 0; i < LISTS; i++)
		texts[i] = buf_ok(&cursor->text) ? buf_text(&cursor->text) + at[i] : NULL;
	return has_any;
}

static bool next_state(struct cursor *cursor, void *at)
{
	const struct client *client;
	struct state_row *row = at;
	const char *texts[LISTS];

	while ((client = take_client(cursor))) {
		if (client->borrower.pool->limits.session_state != SESSION_STATE_FOLLOW ||
		    !list_state(cursor, client, texts))
			continue;
		fill_who(&row->who, client);
		row->parameters = texts[0];
		row->libraries = texts[1];
		row->channels = texts[2];
		row->pins = texts[3];
		return true;
	}
	return false;
}

const struct show show_session_state = {
	.item = "SESSION_STATE",
	.next = next_state,
	.columns = COLUMNS(state_columns),
	.help = "The session state of clients in transaction mode: what follows each of them, and "
		"what makes its server stay.",
	.argument = SHOW_OF_DATABASE
};
