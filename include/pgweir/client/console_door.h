/* SPDX-License-Identifier: ISC */
/*
 * The door between clients and the console: a client that asked for the
 * console's database is handed to whoever stands behind it.
 */
#ifndef PGWEIR_CLIENT_CONSOLE_DOOR_H
#define PGWEIR_CLIENT_CONSOLE_DOOR_H

#include "pgweir/base/bytes.h"

struct client;
struct console_session; /* the console's own */

enum console_role {
	CONSOLE_NOBODY,
	CONSOLE_STATS, /* may look */
	CONSOLE_ADMIN  /* may do everything */
};

/* The longest message that the console takes. */
#define CONSOLE_MESSAGE_MAX ((uint32_t)1024 * 1024)

/* All come from the loop. */
struct console_door {
	void *arg;

	/* A client is in. It has been told nothing yet: adds its welcome, up to
	 * ReadyForQuery, by client_console_send(). NULL: no memory. */
	struct console_session *(*open)(void *arg, struct client *client, enum console_role role);

	/*
	 * One whole message. false: the session is busy from now on, nothing more is
	 * handed to it until it calls client_console_next().
	 */
	bool (*message)(struct console_session *session, char type, struct bytes body);

	/* All that was sent has gone out, after client_console_send() said that there is no room.
	 */
	void (*on_writable)(struct console_session *session);

	/* A CancelRequest for this client. */
	void (*cancel)(struct console_session *session);

	/* The client is gone; frees the session. */
	void (*close)(struct console_session *session);
};

#endif
