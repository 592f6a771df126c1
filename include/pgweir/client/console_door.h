/* SPDX-License-Identifier: ISC */
/*
 * The interface between clients and the console: a client that asked for the console's database
 * gets a session of the console.
 */
#ifndef PGWEIR_CLIENT_CONSOLE_DOOR_H
#define PGWEIR_CLIENT_CONSOLE_DOOR_H

#include "pgweir/base/bytes.h"

struct client;
struct console_session; /* private to the console */

enum console_role {
	CONSOLE_NOBODY,
	CONSOLE_STATS, /* may read */
	CONSOLE_ADMIN  /* may execute all commands */
};

/* The longest message that the console accepts. */
#define CONSOLE_MESSAGE_MAX ((uint32_t)1024 * 1024)

/* All functions are called from the loop. */
struct console_door {
	void *arg;

	/*
	 * The client is admitted, and nothing was sent to it yet. The callee sends the welcome up
	 * to ReadyForQuery by client_console_send(). NULL: no memory.
	 */
	struct console_session *(*open)(void *arg, struct client *client, enum console_role role);

	/*
	 * One whole message. false: the session is busy, and gets no message until it calls
	 * client_console_next().
	 */
	bool (*message)(struct console_session *session, char type, struct bytes body);

	/* All bytes have been sent, after client_console_send() returned false. */
	void (*on_writable)(struct console_session *session);

	/* A CancelRequest for this client. */
	void (*cancel)(struct console_session *session);

	/* The client is being closed; frees the session. */
	void (*close)(struct console_session *session);
};

#endif
