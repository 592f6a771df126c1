/* SPDX-License-Identifier: ISC */
/*
 * The engine for tests and fuzzing: a loop, pools and clients as in the daemon, with both
 * peers controlled by the test. Clients connect by socket pairs; servers are accepted from
 * an abstract Unix socket that the pools connect to. Nothing here waits: ready events are
 * handled in a few turns of the loop.
 *
 * Every failure ends the program.
 */
#ifndef PGWEIR_TEST_ENGINE_H
#define PGWEIR_TEST_ENGINE_H

#include "pgweir/auth/derived.h"
#include "pgweir/client/clients.h"
#include "pgweir/config/config.h"

struct engine {
	struct loop *loop;
	struct stream_pool streams;
	struct params_table *params;
	struct verifiers *verifiers;
	struct broker *broker;
	struct clients_shared shared;
	bool is_first; /* it owns the broker and what logins share */
	struct pools *pools;
	struct clients *clients;
	const struct config *config;
	struct users *users;
	struct console_door door; /* not connected */
	int listening;
	struct task stop;
	unsigned int turns_left;
	char host[64];
};

/* A peer, controlled by the test. */
struct peer {
	int fd; /* -1: none */
	bool is_server;
	bool has_started; /* a server: the startup packet has arrived */
	struct buf in;    /* not a complete message yet */
	char heard[4096]; /* by peer_hear() */
	char error[256];  /* the last ErrorResponse: SQLSTATE and message */
	/* Called for each message that peer_hear() reads, if set, except startup packets. */
	void (*see)(struct peer *peer, char type, struct bytes message);
	void *arg;
};

/*
 * settings: lines of [pgbouncer]. Users u0, u1 and u2 can log in with trust, to the databases
 * d0, d1 and d2. entry: additional keys for their lines.
 */
void engine_open(struct engine *engine, const char *settings, const char *entry);
/*
 * The same for a second loop of the same process: both count for the same limits. It must be closed
 * before the first one.
 */
#define ENGINES_MAX 3
void engine_open_beside(struct engine *engine, const struct engine *first, const char *settings,
                        const char *entry);

void engine_close(struct engine *engine);

/* Other settings are in force from now on, as after a RELOAD. */
void engine_reload(struct engine *engine, const char *settings, const char *entry);

/* Lets the loop handle ready events. */
void engine_turn(struct engine *engine);

/* A new client that has not sent anything. */
struct peer engine_client(struct engine *engine);

/* Accepts the oldest pending server connection; fd -1: there is none. */
struct peer engine_server(struct engine *engine);

/* Says messages by their types; see engine.c for the bodies. false: the far end is gone. */
bool peer_say(struct peer *peer, const char *types);
bool peer_say_bytes(struct peer *peer, struct bytes bytes);

/* Sends the client's startup packet. */
void peer_start(struct peer *peer, const char *user, const char *database);
void peer_start_replication(struct peer *peer, const char *user, const char *database,
                            const char *replication);

/* Adds the bytes of a message to `out`. */
void peer_message(const struct peer *peer, struct buf *out, char type);

/*
 * Runs the loop and reads everything: the types of the messages, '^' a startup packet, '.' the
 * end. ParameterStatus of our own names (pgbouncer.*) is omitted. Valid until the next call.
 */
const char *peer_hear(struct engine *engine, struct peer *peer);

void peer_close(struct peer *peer);

#endif
